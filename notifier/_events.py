"""The six events, and when an event is valid.

Five tell a process's life and share one shape: the header and the process's metadata, which must name the same event,
session and loop.  The sixth tells a workflow's.  The rules are asked in one order: the type, the visibility, the
coordinates, what the wire can carry, then the body.  Within a process event the metadata is one field, `process`; which
of its own fields is wrong is told by the error's `__cause__`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, TypeAlias, final

import attrs

from ._enums import LifecycleKind, Visibility
from ._errors import InvalidEventError, ProcessLifecycleValidationError
from ._fields import is_same_id, utf8_length
from ._header import NO_CAUSE, EventHeader, is_cause
from ._lifecycle import ProcessLifecycleMetadata
from ._rules import INVALID, UNKNOWN, Breach, forbidden_id_rule, required_id_rule
from ._times import is_time
from ._workflow import WorkflowActivity as WorkflowActivity
from ._workflow import workflow_breach


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


def validate_event(event: Event) -> None:
    """Raise `InvalidEventError` with the first field that breaks a rule, and the rule; return if none does.

    Takes anything: what is no event, or holds values of the wrong Python type, is refused in the same way.
    """
    name = type(event).__name__
    if EVENT_TYPES.get(name) is not type(event):
        raise InvalidEventError(name, "", UNKNOWN)
    breach = _identity_breach(event)
    if breach is None:
        breach = workflow_breach(event) if isinstance(event, WorkflowActivity) else _process_breach(event)
    if breach is not None:
        raise InvalidEventError(name, breach.field, breach.rule)
    if not isinstance(event, WorkflowActivity):
        try:
            event.process.validate()
        except ProcessLifecycleValidationError as error:
            raise InvalidEventError(name, "process", INVALID) from error


def _identity_breach(event: Event) -> Breach | None:
    """The rules of the header, in the order of the contract; then what is free, but has to fit the wire."""
    header = event.header
    if type(header) is not EventHeader:
        return Breach("header", INVALID)
    if type(header.visibility) is not Visibility:
        return Breach("visibility", INVALID)
    if rule := required_id_rule(header.event_id):
        return Breach("event_id", rule)
    if rule := required_id_rule(header.session_id):
        return Breach("session_id", rule)
    of_a_loop = not isinstance(event, WorkflowActivity)
    if rule := required_id_rule(header.loop_id) if of_a_loop else forbidden_id_rule(header.loop_id):
        return Breach("loop_id", rule)
    if rule := forbidden_id_rule(header.turn_id):
        return Breach("turn_id", rule)
    if rule := forbidden_id_rule(header.step_id):
        return Breach("step_id", rule)
    if utf8_length(header.agent_name) is None:
        return Breach("agent_name", INVALID)
    if header.cause is not NO_CAUSE and not is_cause(header.cause):
        return Breach("cause", INVALID)
    if header.created_at is not None and not is_time(header.created_at):
        return Breach("created_at", INVALID)
    return None


def _process_breach(event: ProcessEvent) -> Breach | None:
    """The rules of the body, in the order of the contract; the metadata's own follow, all under `process`."""
    header, process = event.header, event.process
    if type(process) is not ProcessLifecycleMetadata:
        return Breach("process", INVALID)
    if not is_same_id(process.event_id, header.event_id):
        return Breach("event_id", INVALID)
    if not is_same_id(process.session_id, header.session_id):
        return Breach("session_id", INVALID)
    if not is_same_id(process.loop_id, header.loop_id):
        return Breach("loop_id", INVALID)
    if process.kind is not event.kind:
        return Breach("process", INVALID)
    return None
