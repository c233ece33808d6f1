"""Making events: whose they are, which id they have, when they were made.

Two ways, and the difference matters to whoever retries:
- An ordinary event is stamped with a fresh id.  Making it again makes another event.
- A workflow activity is stamped with an id that its caller chose, and nothing of chance: doing it again, after a
  restart too, gives the same bytes, which the journal knows for a duplicate.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol
from uuid import UUID

import attrs

from ._errors import InvalidEventError, ProcessLifecycleValidationError
from ._events import PROCESS_EVENT_TYPES, ProcessEvent, WorkflowActivity, validate_event
from ._fields import is_none, optional_id
from ._header import NO_CAUSE, Cause, EventHeader
from ._lifecycle import ProcessLifecycleMetadata
from ._rules import INVALID, UNSET


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
        self._session_id = session_id
        self._clock = clock
        self._new_id = new_id

    def header(
        self,
        *,
        loop_id: UUID | None = None,
        turn_id: UUID | None = None,
        step_id: UUID | None = None,
        agent_name: str = "",
        cause: Cause = NO_CAUSE,
    ) -> EventHeader:
        """A header for an ordinary event of this session: a fresh id, and the clock's time."""
        return EventHeader(
            event_id=self._new_id(),
            session_id=self._session_id,
            loop_id=loop_id,
            turn_id=turn_id,
            step_id=step_id,
            agent_name=agent_name,
            cause=cause,
            created_at=self._clock.now(),
        )

    def stamp_workflow_activity(self, activity: WorkflowActivity, activity_id: UUID) -> WorkflowActivity:
        """`activity` with `activity_id` for its event id, valid.

        Its `created_at` is kept where it has one (publishing sets it to `occurred_at`, so that a retry is the same);
        else the clock's time.  Raises `InvalidEventError`: `event_id` "must be set" for the zero id, "is invalid" where
        the activity already has another one; then whatever `validate_event` finds.
        """
        name = WorkflowActivity.__name__
        if optional_id(activity_id) is None:
            raise InvalidEventError(name, "event_id", UNSET)
        header = activity.header
        if not is_none(header.event_id) and header.event_id != activity_id:
            raise InvalidEventError(name, "event_id", INVALID)
        created_at = self._clock.now() if header.created_at is None else header.created_at
        stamped = attrs.evolve(activity, header=attrs.evolve(header, event_id=activity_id, created_at=created_at))
        validate_event(stamped)
        return stamped


def build_process_event(metadata: ProcessLifecycleMetadata, *, created_at: datetime | None) -> ProcessEvent:
    """The event that tells `metadata`, with the metadata's own id, session and loop.

    Raises `ProcessLifecycleValidationError("kind")` where no event tells that kind.  Nothing else is judged here:
    `encode_event` and publishing do.
    """
    event_type = PROCESS_EVENT_TYPES.get(metadata.kind)
    if event_type is None:
        raise ProcessLifecycleValidationError("kind")
    header = EventHeader(
        event_id=metadata.event_id,
        session_id=metadata.session_id,
        loop_id=metadata.loop_id,
        created_at=created_at,
    )
    return event_type(header=header, process=metadata)
