"""Making events: fresh ids for ordinary ones, chosen ids for those that are told again."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from contract_samples import ACTIVITY, SOUND, but
from hypothesis import given
from notifier_strategies import lifecycles, workflow_activities

from lastword.notifier import (
    EventFactory,
    InvalidArgumentError,
    InvalidEventError,
    LifecycleKind,
    ProcessBackgrounded,
    ProcessCompleted,
    ProcessLifecycleMetadata,
    ProcessLifecycleValidationError,
    ProcessLost,
    ProcessStarted,
    ProcessStopRequested,
    WorkflowActivity,
    build_process_event,
    encode_event,
    validate_event,
)

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
SESSION = UUID(int=77)


class Stopped:
    """A clock that shows one time."""

    def now(self) -> datetime:
        return NOW


def a_factory() -> EventFactory:
    numbers = count(1)
    return EventFactory(SESSION, clock=Stopped(), new_id=lambda: UUID(int=next(numbers)))


def test_an_ordinary_event_is_stamped_with_a_fresh_id_each_time() -> None:
    """With the factory's session, the clock's time, a new id; what it has of its own is kept."""
    factory = a_factory()
    bare = but(ACTIVITY, header=but(ACTIVITY.header, event_id=None, session_id=None, agent_name="a"))
    first, second = factory.stamp(bare), factory.stamp(bare)
    assert (UUID(int=1), UUID(int=2)) == (first.header.event_id, second.header.event_id)
    assert (first.header.session_id, first.header.created_at, first.header.agent_name) == (SESSION, NOW, "a")
    again = factory.stamp(first)
    assert again.header.event_id == UUID(int=3)
    earlier = but(bare, header=but(bare.header, created_at=datetime(2020, 1, 1, tzinfo=UTC)))
    assert factory.stamp(earlier).header.created_at == datetime(2020, 1, 1, tzinfo=UTC)


def test_an_ordinary_event_of_another_session_is_refused() -> None:
    """And one that is invalid is, by the rule that it breaks."""
    factory = a_factory()
    with pytest.raises(InvalidEventError, match="session_id is invalid"):
        factory.stamp(ACTIVITY)
    mine = but(ACTIVITY, header=but(ACTIVITY.header, session_id=SESSION), workflow_name="X")
    with pytest.raises(InvalidEventError, match="workflow_name is invalid"):
        factory.stamp(mine)


def test_a_process_event_keeps_the_id_that_was_minted_for_it() -> None:
    """Its metadata names it, and a retry must be the same event."""
    factory = a_factory()
    mine = but(SOUND, session_id=SESSION)
    event = build_process_event(mine, created_at=None)
    stamped = factory.stamp(event)
    assert (mine.event_id, NOW) == (stamped.header.event_id, stamped.header.created_at)
    bare = but(event, header=but(event.header, event_id=None))
    assert stamped == factory.stamp(bare)
    other = but(event, header=but(event.header, event_id=UUID(int=99)))
    with pytest.raises(InvalidEventError, match="event_id is invalid"):
        factory.stamp(other)


@given(workflow_activities())
def test_a_workflow_activity_is_stamped_without_chance(activity: WorkflowActivity) -> None:
    """Twice the same id is twice the same bytes, by two factories that have nothing in common."""
    bare = but(activity, header=but(activity.header, event_id=None, created_at=activity.occurred_at))
    wanted = UUID(int=5)
    first = a_factory().stamp_workflow_activity(bare, wanted)
    second = EventFactory(UUID(int=1), clock=Stopped(), new_id=lambda: UUID(int=9)).stamp_workflow_activity(
        first, wanted
    )
    assert encode_event(first) == encode_event(second)
    assert (wanted, activity.occurred_at) == (first.header.event_id, first.header.created_at)


def test_a_workflow_activity_without_a_time_is_stamped_with_the_clocks() -> None:
    """Only where it has none."""
    assert a_factory().stamp_workflow_activity(ACTIVITY, ACTIVITY.header.event_id).header.created_at == NOW


@pytest.mark.parametrize("wanted", [UUID(int=0), None, "c0ffee00-1234-4abc-9def-0123456789ab"], ids=repr)
def test_a_workflow_activity_is_not_stamped_with_what_is_no_id(wanted: object) -> None:
    """The id is asked for before anything else."""
    broken = but(ACTIVITY, workflow_name="X")
    with pytest.raises(InvalidEventError, match="event_id"):
        a_factory().stamp_workflow_activity(broken, wanted)  # type: ignore[arg-type] # what an untyped caller may pass
    with pytest.raises(InvalidEventError, match="is not a known event type"):
        a_factory().stamp_workflow_activity(SOUND, UUID(int=1))  # type: ignore[arg-type] # the same
    with pytest.raises(InvalidEventError, match="is not a known event type"):
        a_factory().stamp(SOUND)  # type: ignore[type-var] # the same


@pytest.mark.parametrize("metadata", [None, "x", ACTIVITY], ids=type)
def test_no_process_event_is_made_of_what_is_no_metadata(metadata: Any) -> None:
    """By the argument's name."""
    with pytest.raises(InvalidArgumentError, match="metadata: must be a ProcessLifecycleMetadata"):
        build_process_event(metadata, created_at=NOW)


EVENT_OF = {
    LifecycleKind.STARTED: ProcessStarted,
    LifecycleKind.BACKGROUNDED: ProcessBackgrounded,
    LifecycleKind.COMPLETED: ProcessCompleted,
    LifecycleKind.STOP_REQUESTED: ProcessStopRequested,
    LifecycleKind.LOST: ProcessLost,
}


@given(lifecycles())
def test_each_kind_has_its_event(metadata: ProcessLifecycleMetadata) -> None:
    """With the metadata's own id, session and loop; valid where the metadata is."""
    event = build_process_event(metadata, created_at=NOW)
    assert type(event) is EVENT_OF[metadata.kind]
    assert event.header.created_at == NOW
    validate_event(event)


@pytest.mark.parametrize("kind", [0, 6, "started", None, True, []], ids=repr)
def test_no_event_tells_a_kind_that_there_is_not(kind: object) -> None:
    """The field is named, whatever it holds."""
    with pytest.raises(ProcessLifecycleValidationError) as caught:
        build_process_event(but(SOUND, kind=kind), created_at=NOW)
    assert caught.value.field == "kind"
