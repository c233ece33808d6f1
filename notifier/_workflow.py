"""What happens in a workflow, told to the whole session.

The rules of the body stand in `workflow_breach`, in the order in which they are asked.  There is no rule that pairs
a kind with a status, or a kind with a vertex: `run_completed` may say `failed`, and any kind may name a vertex or none.
Lengths are bytes of UTF-8.  Letters and digits are Unicode's, by the tables of the running Python.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from typing import final
from uuid import UUID

import attrs

from ._enums import Visibility, WorkflowActivityKind, WorkflowRunStatus
from ._fields import (
    is_empty,
    is_id,
    is_integer,
    is_none,
    is_text,
    optional_id,
    plain_text,
    required_id,
    to_activity_kind,
    to_run_status,
)
from ._header import EventHeader
from ._rules import INVALID, UNSET, Breach, required_id_rule
from ._times import is_time, required_time

MAX_WORKFLOW_VERSION_BYTES = 64
"""The longest workflow version, in bytes of UTF-8."""

MAX_VERTEX_LABEL_BYTES = 128
"""The longest vertex label, in bytes of UTF-8."""

MAX_WORKFLOW_MESSAGE_BYTES = 512
"""The longest message, in bytes of UTF-8."""

MAX_WORKFLOW_VERTICES = 1_000_000
"""The most vertices that progress can count."""

_NAME = re.compile(r"[a-z][a-z0-9_]{2,63}")

# Unicode's category Cc: it has not changed since Unicode 1.1 and cannot.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@final
@attrs.frozen(kw_only=True)
class WorkflowActivity:
    """A step in the life of a workflow run; belongs to a session, and to no loop, turn or step of it.

    - `workflow_name`: 3 to 64 of a-z 0-9 _, a letter first.  `workflow_version`: 1 to 64 bytes of letters, decimal
      digits and . _ - +.
    - `vertex_label` (128 bytes) and `message` (512 bytes): optional; no control character, and not blanks alone.  A
      label needs a `vertex_id`.
    - `completed_vertices <= total_vertices <= 1,000,000`.
    """

    header: EventHeader
    run_id: UUID = attrs.field(converter=required_id)
    workflow_name: str
    workflow_version: str
    kind: WorkflowActivityKind = attrs.field(converter=to_activity_kind)
    status: WorkflowRunStatus = attrs.field(converter=to_run_status)
    vertex_id: UUID | None = attrs.field(default=None, converter=optional_id)
    vertex_label: str = ""
    completed_vertices: int = 0
    total_vertices: int = 0
    message: str = ""
    occurred_at: datetime = attrs.field(converter=required_time)


def _is_name(value: object) -> bool:
    text = plain_text(value)
    return text is not None and _NAME.fullmatch(text) is not None


def _is_version(value: object) -> bool:
    text = plain_text(value)
    return is_text(text, MAX_WORKFLOW_VERSION_BYTES) and all(_is_version_character(c) for c in text)


def _is_version_character(character: str) -> bool:
    if character in "._-+":
        return True
    category = unicodedata.category(character)
    return category[0] == "L" or category == "Nd"


def _is_line(value: object, most: int) -> bool:
    """Whether `value` is an optional line of text: absent, or something visible to say without control characters."""
    text = plain_text(value)
    if not is_text(text, most):
        return False
    # `strip` takes what the reference trims, Unicode's White_Space, and U+001C to U+001F, which are controls anyhow.
    return not text or (text.strip() != "" and _CONTROL.search(text) is None)


def workflow_breach(a: WorkflowActivity) -> Breach | None:
    """The rules of the body, in the order of the contract; the header's have been asked before."""
    if a.header.visibility is not Visibility.PUBLIC:
        return Breach("visibility", INVALID)
    if rule := required_id_rule(a.run_id):
        return Breach("run_id", rule)
    if is_empty(a.workflow_name):
        return Breach("workflow_name", UNSET)
    if not _is_name(a.workflow_name):
        return Breach("workflow_name", INVALID)
    if is_empty(a.workflow_version):
        return Breach("workflow_version", UNSET)
    if not _is_version(a.workflow_version):
        return Breach("workflow_version", INVALID)
    if type(a.kind) is not WorkflowActivityKind:
        return Breach("kind", INVALID)
    if type(a.status) is not WorkflowRunStatus:
        return Breach("status", INVALID)
    if a.vertex_id is not None and not is_id(a.vertex_id):
        return Breach("vertex_id", INVALID)
    if a.vertex_id is None and not is_empty(a.vertex_label):
        return Breach("vertex_id", INVALID)
    if not _is_line(a.vertex_label, MAX_VERTEX_LABEL_BYTES):
        return Breach("vertex_label", INVALID)
    if not _is_progress(a):
        return Breach("progress", INVALID)
    if not _is_line(a.message, MAX_WORKFLOW_MESSAGE_BYTES):
        return Breach("message", INVALID)
    if is_none(a.occurred_at):
        return Breach("occurred_at", UNSET)
    if not is_time(a.occurred_at):
        return Breach("occurred_at", INVALID)
    return None


def _is_progress(a: WorkflowActivity) -> bool:
    return (
        is_integer(a.completed_vertices, 0, MAX_WORKFLOW_VERTICES)
        and is_integer(a.total_vertices, 0, MAX_WORKFLOW_VERTICES)
        and a.completed_vertices <= a.total_vertices
    )
