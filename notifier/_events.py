"""The six events, and when an event is valid.

Five tell a process's life and share one shape: the header and the process's metadata, which must name the same event,
session and loop.  The sixth tells a workflow's.  The rules are tables, in the order in which they are asked: the type,
the visibility, the coordinates, what the wire can carry, then the body.  Within a process event the metadata is one
field, `process`; which of its own fields is wrong is told by the error's `__cause__`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, TypeAlias, TypeVar, final

import attrs

from ._enums import LifecycleKind
from ._errors import InvalidEventError, ProcessLifecycleValidationError
from ._fields import is_id, is_none, utf8_length
from ._header import EventHeader, is_cause, is_header, is_visibility
from ._lifecycle import ProcessLifecycleMetadata
from ._rules import INVALID, NOT_ZERO, UNKNOWN, UNSET
from ._times import is_time
from ._workflow import WORKFLOW_RULES
from ._workflow import WorkflowActivity as WorkflowActivity


@attrs.frozen(kw_only=True)
class _ProcessEvent:
    """What the five share; `kind` is the one that their metadata must have."""

    kind: ClassVar[LifecycleKind]

    header: EventHeader
    process: ProcessLifecycleMetadata


@final
@attrs.frozen(kw_only=True)
class ProcessStarted(_ProcessEvent):
    """A process runs, and its owner waits for it.  Exactly one of this and `ProcessBackgrounded` comes at the start."""

    kind: ClassVar[LifecycleKind] = LifecycleKind.STARTED


@final
@attrs.frozen(kw_only=True)
class ProcessBackgrounded(_ProcessEvent):
    """A process runs in the background: from its start, or from now on."""

    kind: ClassVar[LifecycleKind] = LifecycleKind.BACKGROUNDED


@final
@attrs.frozen(kw_only=True)
class ProcessCompleted(_ProcessEvent):
    """A process has ended; this is its last word."""

    kind: ClassVar[LifecycleKind] = LifecycleKind.COMPLETED


@final
@attrs.frozen(kw_only=True)
class ProcessStopRequested(_ProcessEvent):
    """Somebody asked for a process to end; told once, for the first request."""

    kind: ClassVar[LifecycleKind] = LifecycleKind.STOP_REQUESTED


@final
@attrs.frozen(kw_only=True)
class ProcessLost(_ProcessEvent):
    """Its host died while a process was unfinished, and nobody can say how it ended; this is its last word."""

    kind: ClassVar[LifecycleKind] = LifecycleKind.LOST


ProcessEvent: TypeAlias = ProcessStarted | ProcessBackgrounded | ProcessCompleted | ProcessStopRequested | ProcessLost
Event: TypeAlias = ProcessEvent | WorkflowActivity

PROCESS_EVENT_TYPES: Mapping[LifecycleKind, type[ProcessEvent]] = {
    cls.kind: cls for cls in (ProcessStarted, ProcessBackgrounded, ProcessCompleted, ProcessStopRequested, ProcessLost)
}
"""The event that tells each kind."""

EVENT_TYPES: Mapping[str, type[Event]] = {
    cls.__name__: cls for cls in (*PROCESS_EVENT_TYPES.values(), WorkflowActivity)
}
"""Every event by its name on the wire."""


# --- rules ------------------------------------------------------------------------------------------------------------

_E = TypeVar("_E", bound=Event)
_Rules: TypeAlias = tuple[tuple[str, str, Callable[[_E], bool]], ...]

IDENTITY_RULES: _Rules[Event] = (
    ("header", INVALID, lambda e: is_header(e.header)),
    ("visibility", INVALID, lambda e: is_visibility(e.header.visibility)),
    ("event_id", UNSET, lambda e: not is_none(e.header.event_id)),
    ("event_id", INVALID, lambda e: is_id(e.header.event_id)),
    ("session_id", UNSET, lambda e: not is_none(e.header.session_id)),
    ("session_id", INVALID, lambda e: is_id(e.header.session_id)),
)
"""Asked first, of every event."""

OWNED_BY_A_LOOP: _Rules[Event] = (
    ("loop_id", UNSET, lambda e: not is_none(e.header.loop_id)),
    ("loop_id", INVALID, lambda e: is_id(e.header.loop_id)),
    ("turn_id", NOT_ZERO, lambda e: is_none(e.header.turn_id)),
    ("step_id", NOT_ZERO, lambda e: is_none(e.header.step_id)),
)
"""Where a process event belongs."""

OWNED_BY_THE_SESSION: _Rules[Event] = (
    ("loop_id", NOT_ZERO, lambda e: is_none(e.header.loop_id)),
    ("turn_id", NOT_ZERO, lambda e: is_none(e.header.turn_id)),
    ("step_id", NOT_ZERO, lambda e: is_none(e.header.step_id)),
)
"""Where a workflow event belongs."""

CARRIED_RULES: _Rules[Event] = (
    ("agent_name", INVALID, lambda e: utf8_length(e.header.agent_name) is not None),
    ("cause", INVALID, lambda e: is_cause(e.header.cause)),
    ("created_at", INVALID, lambda e: is_none(e.header.created_at) or is_time(e.header.created_at)),
)
"""What is free in the header, and yet has to be such that the wire can carry it."""


def _is_metadata(value: object) -> bool:
    return isinstance(value, ProcessLifecycleMetadata)


PROCESS_RULES: _Rules[ProcessEvent] = (
    ("process", INVALID, lambda e: _is_metadata(e.process)),
    ("event_id", INVALID, lambda e: e.process.event_id == e.header.event_id),
    ("session_id", INVALID, lambda e: e.process.session_id == e.header.session_id),
    ("loop_id", INVALID, lambda e: e.process.loop_id == e.header.loop_id),
    ("process", INVALID, lambda e: e.process.kind is e.kind),
)
"""The body of a process event; the metadata's own rules (`LIFECYCLE_RULES`) follow, all under `process`."""

_OF_A_PROCESS: _Rules[ProcessEvent] = (*IDENTITY_RULES, *OWNED_BY_A_LOOP, *CARRIED_RULES, *PROCESS_RULES)
_OF_A_WORKFLOW: _Rules[WorkflowActivity] = (*IDENTITY_RULES, *OWNED_BY_THE_SESSION, *CARRIED_RULES, *WORKFLOW_RULES)


def validate_event(event: Event) -> None:
    """Raise `InvalidEventError` with the first field that breaks a rule, and the rule; return if none does.

    Takes anything: what is no event, or holds values of the wrong Python type, is refused in the same way.
    """
    name = type(event).__name__
    if EVENT_TYPES.get(name) is not type(event):
        raise InvalidEventError(name, "", UNKNOWN)
    if isinstance(event, WorkflowActivity):
        _ask(event, _OF_A_WORKFLOW)
        return
    _ask(event, _OF_A_PROCESS)
    try:
        event.process.validate()
    except ProcessLifecycleValidationError as error:
        raise InvalidEventError(name, "process", INVALID) from error


def _ask(event: _E, rules: _Rules[_E]) -> None:
    for field, rule, holds in rules:
        if not holds(event):
            raise InvalidEventError(type(event).__name__, field, rule)
