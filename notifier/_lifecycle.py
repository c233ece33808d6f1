"""One lifecycle event of one process, without its envelope.

The rules stand in `_first_invalid_field`, in the order in which they are asked: the first that does not hold names the
field.  Which kind goes with which state, reason and fields is the table in `_matrix`.  Equal times are in order.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import final
from uuid import UUID

import attrs

from ._enums import LifecycleKind, ProcessState, TerminalReason
from ._errors import ProcessLifecycleValidationError
from ._fields import (
    MAX_PROCESS_DIAGNOSTIC_BYTES,
    MAX_PROCESS_HANDLE_BYTES,
    is_empty,
    is_id,
    is_integer,
    is_text,
    plain_text,
    required_id,
    to_kind,
    to_reason,
    to_state,
)
from ._matrix import LIFECYCLE_SHAPES, may_carry_diagnostic
from ._times import in_order, is_time, required_time, set_time

_HANDLE = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_PROCESS_HANDLE_BYTES}}}")

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


@final
@attrs.frozen(kw_only=True)
class ProcessLifecycleMetadata:
    """What a lifecycle event says of its process.

    - `process_handle`: 1 to 128 of the characters A-Z a-z 0-9 _ -.
    - `origin_execution_id`: the tool execution that asked for the process.
    - `process_created_at <= process_started_at <= process_finished_at`, as instants; None where there is none.
    - `exit_code`: the process's own, an int32 of any sign; None where it did not exit by itself.
    - `diagnostic`: at most 512 bytes of UTF-8, only with failed and lost; see `build_diagnostic`.

    The constructor refuses nothing; `validate` does.
    """

    event_id: UUID = attrs.field(converter=required_id)
    kind: LifecycleKind = attrs.field(converter=to_kind)
    session_id: UUID = attrs.field(converter=required_id)
    loop_id: UUID = attrs.field(converter=required_id)
    process_handle: str
    origin_execution_id: UUID = attrs.field(converter=required_id)
    state: ProcessState = attrs.field(converter=to_state)
    process_created_at: datetime = attrs.field(converter=required_time)
    process_started_at: datetime | None = attrs.field(default=None, converter=set_time)
    process_finished_at: datetime | None = attrs.field(default=None, converter=set_time)
    exit_code: int | None = None
    reason: TerminalReason = attrs.field(default=TerminalReason.NONE, converter=to_reason)
    diagnostic: str = ""

    def validate(self) -> None:
        """Raise `ProcessLifecycleValidationError` with the first field that breaks a rule; return if none does."""
        field = _first_invalid_field(self)
        if field is not None:
            raise ProcessLifecycleValidationError(field)


def is_handle(value: object) -> bool:
    """Whether `value` can be a process handle."""
    text = plain_text(value)
    return text is not None and _HANDLE.fullmatch(text) is not None


def _first_invalid_field(m: ProcessLifecycleMetadata) -> str | None:
    """The rules, in the order of the contract.  A number that names no member is refused by its type."""
    created, started, finished = m.process_created_at, m.process_started_at, m.process_finished_at
    if not is_id(m.event_id):
        return "event_id"
    if type(m.kind) is not LifecycleKind:
        return "kind"
    if not is_id(m.session_id):
        return "session_id"
    if not is_id(m.loop_id):
        return "loop_id"
    if not is_handle(m.process_handle):
        return "process_handle"
    if not is_id(m.origin_execution_id):
        return "origin_execution_id"
    if type(m.state) is not ProcessState:
        return "state"
    if not is_time(created):
        return "process_created_at"
    if started is not None and not (is_time(started) and in_order(created, started)):
        return "process_started_at"
    if finished is not None and not (is_time(finished) and in_order(started or created, finished)):
        return "process_finished_at"
    if not is_empty(m.diagnostic):
        if not is_text(m.diagnostic, MAX_PROCESS_DIAGNOSTIC_BYTES):
            return "diagnostic"
        if not may_carry_diagnostic(m.kind, m.state):
            return "diagnostic"
    if m.exit_code is not None and not is_integer(m.exit_code, _INT32_MIN, _INT32_MAX):
        return "exit_code"
    # A reason has no range of its own: a number that names none is in no row.
    shape = LIFECYCLE_SHAPES.get((m.kind, m.state))
    if shape is None or type(m.reason) is not TerminalReason or m.reason not in shape.reasons:
        return "state_reason"
    if not (
        shape.started.allows(started is not None)
        and shape.finished.allows(finished is not None)
        and shape.exit_code.allows(m.exit_code is not None)
    ):
        return "lifecycle_fields"
    return None
