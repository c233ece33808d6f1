"""The ports in memory answer as a session does (the same tests are run with both), and fail when they are told to."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import TypeAlias
from uuid import UUID

import anyio
import attrs
import pytest
from memory_outbox import MemoryOutbox
from session_values import CREATED, LOOP_A, SESSION, Job
from supervising import HANG_SECONDS

from lastword.adapters.testing import ManualClock, MemoryPorts
from lastword.notifier import (
    Appended,
    Collision,
    CommandDecodeError,
    CompletionNotifier,
    Courier,
    DeliverySink,
    Disposition,
    Duplicate,
    EventDecodeError,
    EventHeader,
    IdempotencyCollisionError,
    InvalidEventError,
    JournalUnavailableError,
    LifecycleKind,
    LifecyclePublisher,
    OutboxUnit,
    ProcessCompleted,
    ProcessLifecycleValidationError,
    ProcessNotificationOwnerMismatchError,
    ProcessStarted,
    SecondTerminal,
    SecondTerminalError,
    WorkflowActivity,
    WorkflowActivityKind,
    WorkflowActivityPublisher,
    WorkflowRunStatus,
    new_uuid7,
)
from lastword.session import Session, open_session
from lastword.session.journal import MemoryJournal

Ports: TypeAlias = "MemoryPorts | Session"


@asynccontextmanager
async def opened(kind: str) -> AsyncGenerator[Ports]:
    with anyio.fail_after(HANG_SECONDS):
        if kind == "memory":
            yield MemoryPorts(SESSION)
            return
        async with open_session(MemoryJournal(), session_id=SESSION) as session:
            session.open_loop()
            yield session


@pytest.fixture(params=["memory", "session"])
def kind(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


def activity(message: str = "", session_id: UUID = SESSION) -> WorkflowActivity:
    return WorkflowActivity(
        header=EventHeader(event_id=UUID(int=7), session_id=session_id),
        run_id=UUID(int=3),
        workflow_name="nightly",
        workflow_version="1",
        kind=WorkflowActivityKind.RUN_STARTED,
        status=WorkflowRunStatus.RUNNING,
        message=message,
        occurred_at=CREATED,
    )


async def test_a_unit_is_taken_whole_or_not_at_all_and_a_retry_is_known(kind: str) -> None:
    async with opened(kind) as ports:
        job = Job()
        started, completed = job.event_record(LifecycleKind.STARTED), job.event_record(LifecycleKind.COMPLETED)
        (first,) = await ports.deliver([started])
        assert isinstance(first, Appended)
        assert await ports.deliver([started]) == [Duplicate(first.seq, consumed=False)]
        other = job.event_record(LifecycleKind.STARTED, created_at=CREATED.replace(year=2027))
        (collision,) = await ports.deliver([other])
        assert collision == Collision(first.seq)
        await ports.deliver([completed])
        another = job.event_record(LifecycleKind.LOST)
        fresh = Job().event_record(LifecycleKind.STARTED)
        _, second = await ports.deliver([fresh, another])
        assert isinstance(second, SecondTerminal)
        (taken,) = await ports.deliver([fresh])
        assert isinstance(taken, Appended)  # it was not, with the other one


async def test_a_record_that_is_not_what_its_bytes_say_is_refused(kind: str) -> None:
    async with opened(kind) as ports:
        record = Job().event_record(LifecycleKind.STARTED)
        with pytest.raises(EventDecodeError):
            await ports.deliver([attrs.evolve(record, payload=b"{")])
        with pytest.raises(InvalidEventError):
            await ports.deliver([attrs.evolve(record, subject="another")])
        with pytest.raises(ProcessNotificationOwnerMismatchError):
            await ports.deliver([Job(session_id=new_uuid7()).event_record(LifecycleKind.STARTED)])


async def test_events_are_taken_once_and_nothing_follows_a_last_word(kind: str) -> None:
    async with opened(kind) as ports:
        job = Job()
        await ports.publish_process_lifecycle(job.started())
        await ports.publish_process_lifecycle(job.started())
        with pytest.raises(IdempotencyCollisionError):
            await ports.publish_process_lifecycle(
                job.event(LifecycleKind.STARTED, created_at=CREATED.replace(year=2027))
            )
        await ports.publish_process_lifecycle(job.completed())
        with pytest.raises(SecondTerminalError):
            await ports.publish_process_lifecycle(job.event(LifecycleKind.LOST))
        with pytest.raises(ProcessNotificationOwnerMismatchError):
            await ports.publish_process_lifecycle(Job(session_id=new_uuid7()).started())
        nameless = attrs.evolve(job.started().header, event_id=UUID(int=0))
        with pytest.raises(InvalidEventError):
            await ports.publish_process_lifecycle(attrs.evolve(job.started(), header=nameless))


async def test_a_notification_is_accepted_once(kind: str) -> None:
    async with opened(kind) as ports:
        notification = Job().notification()
        assert await ports.notify_process_completion(notification) is Disposition.ACCEPTED
        assert await ports.notify_process_completion(notification) is Disposition.DUPLICATE
        with pytest.raises(IdempotencyCollisionError):
            await ports.notify_process_completion(attrs.evolve(notification, process_handle="another"))
        with pytest.raises(ProcessLifecycleValidationError):
            await ports.notify_process_completion(attrs.evolve(notification, process_handle=""))
        with pytest.raises(ProcessNotificationOwnerMismatchError):
            await ports.notify_process_completion(Job(session_id=new_uuid7()).notification())


async def test_an_activity_is_stamped_with_its_own_time(kind: str) -> None:
    async with opened(kind) as ports:
        await ports.publish_workflow_activity(activity())
        await ports.publish_workflow_activity(activity())
        with pytest.raises(IdempotencyCollisionError):
            await ports.publish_workflow_activity(activity("another"))
        with pytest.raises(ProcessNotificationOwnerMismatchError):
            await ports.publish_workflow_activity(activity(session_id=new_uuid7()))
        if isinstance(ports, MemoryPorts):
            times = [event.header.created_at for event in ports.events]
        else:
            times = [delivery.event.header.created_at async for delivery in ports.replay()]
        assert times == [CREATED]


async def test_what_was_taken_is_kept_in_order() -> None:
    ports, job = MemoryPorts(), Job()
    job = Job(session_id=ports.session_id, loop_id=LOOP_A)
    sink: DeliverySink = ports
    publisher: LifecyclePublisher = ports
    notifier: CompletionNotifier = ports
    workflows: WorkflowActivityPublisher = ports
    await sink.deliver([job.event_record(LifecycleKind.STARTED)])
    await workflows.publish_workflow_activity(activity(session_id=ports.session_id))
    await publisher.publish_process_lifecycle(job.completed())
    for _ in range(2):
        await notifier.notify_process_completion(job.notification())
    assert [type(event).__name__ for event in ports.events] == [
        "ProcessStarted",
        "WorkflowActivity",
        "ProcessCompleted",
    ]
    assert ports.events[2] == job.completed()
    assert [told.notification for told in ports.notifications] == [job.notification()]


async def test_it_fails_as_it_is_told_before_or_after_it_has_taken_something() -> None:
    ports, job = MemoryPorts(SESSION), Job()
    ports.fail_next(JournalUnavailableError("the disk is full"))
    ports.fail_next(JournalUnavailableError("the answer was lost"), taken=True)
    with pytest.raises(JournalUnavailableError, match="full"):
        await ports.publish_process_lifecycle(job.started())
    assert ports.events == []
    with pytest.raises(JournalUnavailableError, match="lost"):
        await ports.notify_process_completion(job.notification())
    assert len(ports.notifications) == 1
    assert await ports.notify_process_completion(job.notification()) is Disposition.DUPLICATE
    with pytest.raises(CommandDecodeError):  # what is wrong anyway is told first, and costs no fault
        ports.fail_next(JournalUnavailableError("again"))
        await ports.deliver([attrs.evolve(job.command_record(), payload=b"{")])
    with pytest.raises(JournalUnavailableError, match="again"):
        await ports.deliver([job.command_record()])


async def test_a_courier_brings_everything_home_over_its_faults() -> None:
    ports, outbox, clock = MemoryPorts(SESSION), MemoryOutbox(), ManualClock()
    job = Job()
    for records in (
        (job.event_record(LifecycleKind.STARTED),),
        (job.event_record(LifecycleKind.COMPLETED), job.command_record()),
    ):
        outbox.units.append(OutboxUnit(position=len(outbox.units) + 1, subject=job.handle, records=records))
    for taken in (False, True, False):
        ports.fail_next(JournalUnavailableError("now and then"), taken=taken)
    with anyio.fail_after(HANG_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Courier(outbox, ports, clock=clock, rng=Random(7)).run)
            while outbox.heads():
                await anyio.wait_all_tasks_blocked()
                clock.advance(60.0)
            tasks.cancel_scope.cancel()
    assert [type(event) for event in ports.events] == [ProcessStarted, ProcessCompleted]
    assert len(ports.notifications) == 1
