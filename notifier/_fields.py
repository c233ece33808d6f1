"""What a field can hold: limits, converters and the questions that validation asks.

Rules
- A converter never refuses.  It turns a zero id into None ("absent") and a number into the member that it names, and
  leaves everything else as it is: constructors take what they are given, `validate` judges it.
- So a field that is declared `UUID` or `LifecycleKind` can hold None, a plain int or a stranger until the value has
  been validated.  The decoders validate; whoever builds values by hand asks `validate()`.
- A question (`is_...`) takes any object and raises nothing.  It asks for the type first, and for the exact one: a
  subclass can answer anything, and next time something else.  `bool` is no number.  Members of an enum are what they
  are made of.
- So a converter turns a UUID of a subclass, as some libraries have them, into a plain one, once and for all.
- Nothing foreign is compared by `==`: what that gives need not be a truth value.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeGuard, cast
from uuid import UUID

from ._enums import (
    LifecycleKind,
    ProcessState,
    TerminalReason,
    Visibility,
    WorkflowActivityKind,
    WorkflowRunStatus,
)

MAX_PROCESS_HANDLE_BYTES = 128
"""The longest process handle, in bytes; ours have 22."""

MAX_PROCESS_DIAGNOSTIC_BYTES = 512
"""The longest diagnostic, in bytes of UTF-8, not in characters."""

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""The largest record that is read or written, in bytes (16 MiB)."""

# --- converters -------------------------------------------------------------------------------------------------------


def optional_id(value: UUID | None) -> UUID | None:
    """`value` as a plain UUID, or None for the zero id."""
    if type(value) is not UUID:
        value = _plain_id(value)
    return None if type(value) is UUID and not value.int else value


def required_id(value: UUID | None) -> UUID:
    """As `optional_id`, for a field that validation wants set: until validated it may hold None all the same."""
    if type(value) is UUID and value.int:
        return value
    return cast("UUID", optional_id(value))


def _plain_id(value: object) -> UUID | None:
    """`value` as a plain UUID where it is one of a subclass."""
    given = cast("UUID | None", value)
    if not issubclass(type(value), UUID):
        return given
    try:
        number: object = cast("UUID", value).int
    except Exception:
        # Foreign code: an id that cannot tell its number is none, and validation refuses it.
        return given
    return UUID(int=number) if type(number) is int and 0 <= number < 2**128 else given


_KINDS: Mapping[int, LifecycleKind] = {int(member): member for member in LifecycleKind}
_STATES: Mapping[int, ProcessState] = {int(member): member for member in ProcessState}
_REASONS: Mapping[int, TerminalReason] = {int(member): member for member in TerminalReason}
_VISIBILITIES: Mapping[int, Visibility] = {int(member): member for member in Visibility}
_ACTIVITY_KINDS: Mapping[str, WorkflowActivityKind] = {str(member): member for member in WorkflowActivityKind}
_RUN_STATUSES: Mapping[str, WorkflowRunStatus] = {str(member): member for member in WorkflowRunStatus}

# Exact types only: True and 1.0 equal 1, and would name a member that nobody wrote.


def to_kind(value: int) -> LifecycleKind:
    """The kind that `value` names, or `value` itself."""
    if type(value) is LifecycleKind:
        return value
    return (_KINDS.get(value) if type(value) is int else None) or cast("LifecycleKind", value)


def to_state(value: int) -> ProcessState:
    """The state that `value` names, or `value` itself."""
    if type(value) is ProcessState:
        return value
    return (_STATES.get(value) if type(value) is int else None) or cast("ProcessState", value)


def to_reason(value: int) -> TerminalReason:
    """The reason that `value` names, or `value` itself."""
    if type(value) is TerminalReason:
        return value
    return _REASONS.get(value, cast("TerminalReason", value)) if type(value) is int else cast("TerminalReason", value)


def to_visibility(value: int) -> Visibility:
    """The visibility that `value` names, or `value` itself."""
    if type(value) is Visibility:
        return value
    return _VISIBILITIES.get(value, cast("Visibility", value)) if type(value) is int else cast("Visibility", value)


def to_activity_kind(value: str) -> WorkflowActivityKind:
    """The activity kind that `value` names, or `value` itself."""
    return (_ACTIVITY_KINDS.get(value) if type(value) is str else None) or cast("WorkflowActivityKind", value)


def to_run_status(value: str) -> WorkflowRunStatus:
    """The run status that `value` names, or `value` itself."""
    return (_RUN_STATUSES.get(value) if type(value) is str else None) or cast("WorkflowRunStatus", value)


# --- questions --------------------------------------------------------------------------------------------------------


def is_id(value: object) -> TypeGuard[UUID]:
    """Whether `value` is a UUID, and not the zero one."""
    return type(value) is UUID and value.int != 0


def is_optional_id(value: object) -> bool:
    """Whether `value` is an id, or absent."""
    return value is None or type(value) is UUID


def is_same_id(one: object, other: object) -> bool:
    """Whether both are ids, and the same."""
    return type(one) is UUID and type(other) is UUID and one.int == other.int


def is_none(value: object) -> bool:
    """Whether nothing is there, also where the field is declared to hold something."""
    return value is None


def is_integer(value: object, least: int, most: int) -> TypeGuard[int]:
    """Whether `value` is a plain int between `least` and `most`, both included."""
    return type(value) is int and least <= value <= most


def is_uint8(value: object) -> bool:
    """Whether `value` is a number from 0 to 255, a member of one of our domains or a plain int."""
    if type(value) is int:
        return 0 <= value <= 255
    return _is_member(value, int) and 0 <= int.__index__(cast("int", value)) <= 255


def _is_member(value: object, of: type) -> bool:
    cls = type(value)
    return issubclass(cls, Enum) and issubclass(cls, of)


def plain_text(value: object) -> str | None:
    """`value` as a plain text; None where it is none."""
    if type(value) is str:
        return value
    return str.__str__(cast("str", value)) if _is_member(value, str) else None


def is_empty(value: object) -> bool:
    """Whether `value` is the text that says nothing."""
    return type(value) is str and not value


def utf8_length(value: object) -> int | None:
    """How many bytes of UTF-8 `value` takes; None where it is no text, or has a lone surrogate, which has no UTF-8."""
    text = value if type(value) is str else plain_text(value)
    if text is None:
        return None
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


def is_text(value: object, most: int) -> TypeGuard[str]:
    """Whether `value` is text of at most `most` bytes of UTF-8."""
    length = utf8_length(value)
    return length is not None and length <= most
