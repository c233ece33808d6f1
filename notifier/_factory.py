"""Making events: whose they are, which id they have, when they were made.

Two ways, and the difference matters to whoever retries:
- An ordinary event is stamped with a fresh id.  Stamping it again makes another event.
- A workflow activity is stamped with an id that its caller chose, and nothing of chance: doing it again, after a
  restart too, gives the same bytes, which the journal knows for a duplicate.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol, TypeVar
from uuid import UUID

import attrs

from ._enums import LifecycleKind
from ._errors import InvalidArgumentError, InvalidEventError, ProcessLifecycleValidationError
from ._events import EVENT_TYPES, PROCESS_EVENT_TYPES, Event, ProcessEvent, WorkflowActivity, validate_event
from ._fields import is_none, is_same_id, required_id
from ._header import EventHeader
from ._lifecycle import ProcessLifecycleMetadata
from ._rules import INVALID, UNKNOWN, required_id_rule

_E = TypeVar("_E", bound=Event)


class WallClock(Protocol):
    """As much of a `Clock` as stamping needs."""

    def now(self) -> datetime:
        """The wall clock, aware."""
        ...


class EventFactory:
    """Stamps the events of one session.

    `new_id` gives a fresh id each time it is called; `clock.now()` gives the time.
    """

    def __init__(self, session_id: UUID, *, clock: WallClock, new_id: Callable[[], UUID]) -> None:
        self._session_id = required_id(session_id)
        self._clock = clock
        self._new_id = new_id

    def stamp(self, event: _E) -> _E:
        """`event` with a fresh id, valid; a process event keeps the id that was minted for it with its process.

        Session and `created_at` are filled in where they are not set.  Raises `InvalidEventError`: `session_id`
        "is invalid" for an event of another session, `event_id` for a process event whose header names another than its
        metadata; then whatever `validate_event` finds.
        """
        name = _known(event)
        header = event.header
        if not is_none(header.session_id) and not is_same_id(header.session_id, self._session_id):
            raise InvalidEventError(name, "session_id", INVALID)
        if isinstance(event, WorkflowActivity):
            event_id = self._new_id()
        else:
            event_id = event.process.event_id
            if not is_none(header.event_id) and not is_same_id(header.event_id, event_id):
                raise InvalidEventError(name, "event_id", INVALID)
        stamped = attrs.evolve(
            event,
            header=attrs.evolve(
                header,
                event_id=event_id,
                session_id=self._session_id,
                created_at=self._clock.now() if header.created_at is None else header.created_at,
            ),
        )
        validate_event(stamped)
        return stamped

    def stamp_workflow_activity(self, activity: WorkflowActivity, activity_id: UUID) -> WorkflowActivity:
        """`activity` with `activity_id` for its event id, valid.

        Its `created_at` is kept where it has one (publishing sets it to `occurred_at`, so that a retry is the same);
        else the clock's time.  Raises `InvalidEventError`: `event_id` "must be set" for the zero id, "is invalid" where
        the activity already has another one; then whatever `validate_event` finds.
        """
        name = _known(activity)
        wanted = required_id(activity_id)
        if rule := required_id_rule(wanted):
            raise InvalidEventError(name, "event_id", rule)
        header = activity.header
        if not is_none(header.event_id) and not is_same_id(header.event_id, wanted):
            raise InvalidEventError(name, "event_id", INVALID)
        created_at = self._clock.now() if header.created_at is None else header.created_at
        stamped = attrs.evolve(activity, header=attrs.evolve(header, event_id=wanted, created_at=created_at))
        validate_event(stamped)
        return stamped


def _known(event: Event) -> str:
    """The event's name; whatever is no event, or has no header to stamp, is refused as validation refuses it."""
    name = type(event).__name__
    if EVENT_TYPES.get(name) is not type(event):
        raise InvalidEventError(name, "", UNKNOWN)
    if type(event.header) is not EventHeader:
        raise InvalidEventError(name, "header", INVALID)
    if not isinstance(event, WorkflowActivity) and type(event.process) is not ProcessLifecycleMetadata:
        raise InvalidEventError(name, "process", INVALID)
    return name


def build_process_event(metadata: ProcessLifecycleMetadata, *, created_at: datetime | None) -> ProcessEvent:
    """The event that tells `metadata`, with the metadata's own id, session and loop.

    Raises `ProcessLifecycleValidationError("kind")` where no event tells that kind, and `InvalidArgumentError` for what
    is no metadata.  Nothing else is judged here:
    `encode_event` and publishing do.
    """
    if type(metadata) is not ProcessLifecycleMetadata:
        raise InvalidArgumentError("metadata", "must be a ProcessLifecycleMetadata")
    if type(metadata.kind) is not LifecycleKind:
        raise ProcessLifecycleValidationError("kind")
    event_type = PROCESS_EVENT_TYPES[metadata.kind]
    header = EventHeader(
        event_id=metadata.event_id,
        session_id=metadata.session_id,
        loop_id=metadata.loop_id,
        created_at=created_at,
    )
    return event_type(header=header, process=metadata)
