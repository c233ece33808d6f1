"""One lifecycle event of one process, without its envelope.

The rules are a table, `LIFECYCLE_RULES`, in the order in which they are asked: the first that does not hold names the
field.  Times that are equal are in order everywhere.  A reason has no range of its own: a number that names none falls
under `state_reason`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import final
from uuid import UUID

import attrs

from ._enums import LifecycleKind, ProcessState, TerminalReason
from ._errors import ProcessLifecycleValidationError
from ._fields import (
    MAX_PROCESS_DIAGNOSTIC_BYTES,
    MAX_PROCESS_HANDLE_BYTES,
    is_id,
    is_integer,
    is_text,
    required_id,
    to_kind,
    to_reason,
    to_state,
)
from ._matrix import LIFECYCLE_SHAPES, may_carry_diagnostic
from ._times import instant, is_time, required_time, set_time

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
        for field, holds in LIFECYCLE_RULES:
            if not holds(self):
                raise ProcessLifecycleValidationError(field)


def is_handle(value: object) -> bool:
    """Whether `value` can be a process handle."""
    return isinstance(value, str) and _HANDLE.fullmatch(value) is not None


def _started_in_order(m: ProcessLifecycleMetadata) -> bool:
    started = m.process_started_at
    return started is None or (is_time(started) and instant(started) >= instant(m.process_created_at))


def _finished_in_order(m: ProcessLifecycleMetadata) -> bool:
    finished, started = m.process_finished_at, m.process_started_at
    if finished is None:
        return True
    return is_time(finished) and instant(finished) >= instant(m.process_created_at if started is None else started)


def _state_and_reason_agree(m: ProcessLifecycleMetadata) -> bool:
    shape = LIFECYCLE_SHAPES.get((m.kind, m.state))
    return shape is not None and is_reason(m.reason) and m.reason in shape.reasons


def _fields_agree(m: ProcessLifecycleMetadata) -> bool:
    shape = LIFECYCLE_SHAPES[m.kind, m.state]
    return (
        shape.started.allows(m.process_started_at is not None)
        and shape.finished.allows(m.process_finished_at is not None)
        and shape.exit_code.allows(m.exit_code is not None)
    )


def is_kind(value: object) -> bool:
    """Whether `value` is a member, and not merely an int that equals one."""
    return isinstance(value, LifecycleKind)


def is_state(value: object) -> bool:
    """Whether `value` is a member, and not merely an int that equals one."""
    return isinstance(value, ProcessState)


def is_reason(value: object) -> bool:
    """Whether `value` is a member, and not merely an int that equals one."""
    return isinstance(value, TerminalReason)


LIFECYCLE_RULES: tuple[tuple[str, Callable[[ProcessLifecycleMetadata], bool]], ...] = (
    ("event_id", lambda m: is_id(m.event_id)),
    ("kind", lambda m: is_kind(m.kind)),
    ("session_id", lambda m: is_id(m.session_id)),
    ("loop_id", lambda m: is_id(m.loop_id)),
    ("process_handle", lambda m: is_handle(m.process_handle)),
    ("origin_execution_id", lambda m: is_id(m.origin_execution_id)),
    ("state", lambda m: is_state(m.state)),
    ("process_created_at", lambda m: is_time(m.process_created_at)),
    ("process_started_at", _started_in_order),
    ("process_finished_at", _finished_in_order),
    ("diagnostic", lambda m: is_text(m.diagnostic, MAX_PROCESS_DIAGNOSTIC_BYTES)),
    ("diagnostic", lambda m: not m.diagnostic or may_carry_diagnostic(m.kind, m.state)),
    ("exit_code", lambda m: m.exit_code is None or is_integer(m.exit_code, _INT32_MIN, _INT32_MAX)),
    ("state_reason", _state_and_reason_agree),
    ("lifecycle_fields", _fields_agree),
)
"""Each rule with the field that it names, in the order in which they are asked."""
