"""From the journal to the loop and back: receive, acknowledge, release, restart."""

from __future__ import annotations

from uuid import uuid4

import anyio
import attrs
import pytest
from anyio.lowlevel import checkpoint
from session_ground import Ground
from session_values import LOOP_A, LOOP_B, MAIN, SESSION, Job, activity

from lastword.notifier import (
    Appended,
    Cause,
    CommandValidationError,
    Disposition,
    Duplicate,
    InvalidArgumentError,
    InvalidEventError,
    LifecycleKind,
    LoopNotFoundError,
    NewRecord,
    Owner,
    ProcessNotificationDeliveryStoppedError,
    ProcessNotificationUnsupportedError,
    RecordKind,
    ack_id,
)
from lastword.session import Loop, LoopClosedError, Notice, Session, SessionClosedError, SessionObserver


async def _end(session: Session, *jobs: Job) -> None:
    for job in jobs:
        assert all(isinstance(result, Appended) for result in await session.deliver(job.end_unit()))


async def _receive(loop: Loop, count: int) -> list[Notice]:
    return [await loop.receive() for _ in range(count)]


def _handles(notices: list[Notice]) -> list[str]:
    return [notice.notification.process_handle for notice in notices]


async def test_a_delivered_unit_reaches_its_loop(ground: Ground) -> None:
    """The loop's owner is told what was delivered, at its place in the journal."""
    async with ground.open() as session:
        loop = session.open_loop()
        job = Job()
        assert await session.deliver(job.end_unit()) == [Appended(2), Appended(3)]
        with anyio.fail_after(90):
            notice = await loop.receive()
        assert notice.notification == job.notification()
        assert notice.journal_seq == 3
        assert not notice.redelivered


async def test_a_waiting_receiver_is_woken(ground: Ground) -> None:
    """An idle loop learns of a completion without another message, and each notice goes to one receiver."""
    jobs = [Job() for _ in range(3)]
    got: list[str] = []

    async def receive(loop: Loop) -> None:
        got.append((await loop.receive()).notification.process_handle)

    with anyio.fail_after(90):
        async with ground.open() as session, anyio.create_task_group() as tasks:
            loop = session.open_loop()
            for _ in jobs:
                tasks.start_soon(receive, loop)
            await anyio.wait_all_tasks_blocked()
            await _end(session, *jobs)
    assert sorted(got) == sorted(job.handle for job in jobs)


async def test_acknowledged_is_for_ever(ground: Ground) -> None:
    """What was acknowledged is not pending, not offered, and not told again after a restart; what was not, is."""
    one, two = Job(), Job()
    async with ground.open() as session:
        loop = session.open_loop()
        await _end(session, one, two)
        first, second = await _receive(loop, 2)
        assert _handles([first, second]) == [one.handle, two.handle]
        await first.ack()
        assert loop.held == 1
        assert await session.loops() == [(MAIN, 1)]
    async with ground.open() as session:
        loop = session.open_loop()
        notice = await loop.receive()
        assert notice.notification == two.notification()
        assert notice.redelivered
        with pytest.raises(anyio.WouldBlock):
            loop.receive_nowait()
        await notice.ack()
        assert await session.unacknowledged() == []


async def test_ack_twice_is_harmless(ground: Ground) -> None:
    """A repeated acknowledgement writes nothing, on the same notice and on another of the same notification."""
    async with ground.open() as session:
        loop = session.open_loop()
        job = Job()
        await _end(session, job)
        notice = await loop.receive()
        await loop.aclose()
        again = await session.open_loop().receive()
        await notice.ack()
        await notice.ack()
        await again.ack()
        await session.acknowledge(job.ids.command)
        assert await session.loops() == []


@pytest.mark.parametrize("kind", [RecordKind.CONSUMPTION, RecordKind.FENCE])
async def test_what_only_the_session_writes_cannot_be_delivered(kind: RecordKind, ground: Ground) -> None:
    """A consumption with a routing of its own would make a later ack a duplicate that settles nothing."""
    async with ground.open() as session:
        job = Job()
        loop = session.open_loop()
        await _end(session, job)
        stranger = NewRecord(ack_id(job.ids.command), kind, str(job.ids.command).encode(), loop_id=uuid4())
        with pytest.raises(InvalidArgumentError):
            await session.deliver([attrs.evolve(stranger, consumes=job.ids.command)])
        notice = await loop.receive()
        await notice.ack()
        assert (loop.held, await session.loops()) == (0, [])


async def test_what_a_delivered_record_consumes_is_what_its_bytes_say(ground: Ground) -> None:
    """Neither more nor less, or somebody's notice would be settled by nobody."""
    async with ground.open() as session:
        job = Job()
        event, notification = job.end_unit()
        for wrong in (attrs.evolve(event, consumes=uuid4()), attrs.evolve(notification, consumes=uuid4())):
            with pytest.raises((InvalidEventError, CommandValidationError)):
                await session.deliver([wrong])
        await session.deliver([event, notification])


async def test_an_ack_frees_the_slot_before_it_returns(ground: Ground) -> None:
    """The next waiting notice is on its way when `ack` returns, also where another task acknowledges."""
    jobs = [Job() for _ in range(3)]
    async with ground.open() as session:
        loop = session.open_loop(capacity=1)
        await _end(session, *jobs)
        for job in jobs:
            with anyio.fail_after(90):
                notice = await loop.receive()
            assert notice.notification.process_handle == job.handle
            assert loop.held == 1
            await notice.ack()
        assert loop.held == 0


async def test_a_window_holds_its_capacity_and_the_rest_waits_in_order(ground: Ground) -> None:
    """At most `capacity` notices are on offer; a freed slot takes the next row of the ledger."""
    jobs = [Job() for _ in range(10)]
    async with ground.open() as session:
        loop = session.open_loop(capacity=4)
        await _end(session, *jobs)
        held = await _receive(loop, 4)
        with pytest.raises(anyio.WouldBlock):
            loop.receive_nowait()
        assert loop.held == 4
        await held[2].ack()
        await held[0].ack()
        held += await _receive(loop, 2)
        for notice in held:
            await notice.ack()
        held += await _receive(loop, 4)
        assert _handles(held) == [job.handle for job in jobs]
        for notice in held:
            await notice.ack()
        assert loop.held == 0
        assert await session.loops() == []


async def test_the_live_set_drains(ground: Ground) -> None:
    """Twice the capacity passes one loop: nothing is refused for what was settled before."""
    async with ground.open() as session:
        loop = session.open_loop()
        for _ in range(130):
            assert await session.notify_process_completion(Job().notification()) is Disposition.ACCEPTED
            await (await loop.receive()).ack()


async def test_a_hundred_at_once(ground: Ground) -> None:
    """A hundred completions at the same moment are a hundred notices, each once."""
    jobs = [Job() for _ in range(100)]
    handles: list[str] = []
    with anyio.fail_after(90):
        async with ground.open() as session:
            loop = session.open_loop()
            async with anyio.create_task_group() as tasks:
                for job in jobs:
                    tasks.start_soon(session.deliver, job.end_unit())
                for _ in jobs:
                    notice = await loop.receive()
                    handles.append(notice.notification.process_handle)
                    tasks.start_soon(notice.ack)
            assert sorted(handles) == sorted(job.handle for job in jobs)
            assert await session.loops() == []


async def test_a_loop_opened_later_gets_what_was_waiting(ground: Ground) -> None:
    """Nobody was listening at completion: the notices are pending, visibly, and come at the opening, in order."""
    jobs = [Job(LOOP_A) for _ in range(5)]
    async with ground.open() as session:
        await _end(session, *jobs)
        assert await session.loops() == [(LOOP_A, 5)]
        assert [record.record_id for record in await session.unacknowledged()] == [job.ids.command for job in jobs]
        loop = session.open_loop(LOOP_A, capacity=2)
        for job in jobs:
            notice = await loop.receive()
            assert notice.notification == job.notification()
            assert not notice.redelivered
            await notice.ack()


async def test_two_loops_never_see_each_others_notices(ground: Ground) -> None:
    """Whose a notice is was fixed when its process started."""
    mine, theirs = [Job(LOOP_A) for _ in range(3)], [Job(LOOP_B) for _ in range(3)]
    async with ground.open() as session:
        a, b = session.open_loop(LOOP_A), session.open_loop(LOOP_B)
        for pair in zip(mine, theirs, strict=True):
            await _end(session, *pair)
        for loop, jobs in ((a, mine), (b, theirs)):
            notices = await _receive(loop, 3)
            assert _handles(notices) == [job.handle for job in jobs]
            with pytest.raises(anyio.WouldBlock):
                loop.receive_nowait()


async def test_the_main_loop_keeps_its_id(ground: Ground) -> None:
    """`open_loop()` is the session's main loop, the same over restarts; an id that is open gives the same loop."""
    async with ground.open() as session:
        loop = session.open_loop()
        assert loop.owner == Owner(session_id=SESSION, loop_id=MAIN)
        assert session.open_loop() is loop
        assert session.open_loop(MAIN, capacity=1) is loop
        assert loop.capacity == 64
        await loop.aclose()
        assert session.open_loop() is not loop
    async with ground.open(session_id=None) as session:
        assert session.session_id == SESSION
        assert session.open_loop().loop_id == MAIN


async def test_release_offers_it_again_in_its_place(ground: Ground) -> None:
    """A released notice comes back first, marked as redelivered; one that is not held any more releases nothing."""
    one, two = Job(), Job()
    async with ground.open() as session:
        loop = session.open_loop()
        await _end(session, one, two)
        first = await loop.receive()
        first.release()
        again, other = await _receive(loop, 2)
        assert _handles([again, other]) == [one.handle, two.handle]
        assert (again.redelivered, other.redelivered) == (True, False)
        first.release()  # somebody else has it now
        await other.ack()
        other.release()
        with pytest.raises(anyio.WouldBlock):
            loop.receive_nowait()


@pytest.mark.parametrize("closed", [False, True], ids=["released", "closed"])
async def test_a_cause_on_another_loop_leaves_it_known_that_it_was_handed_out(closed: bool, ground: Ground) -> None:
    """What settles nothing changes nothing: the second hand-out still says that there may have been a first."""
    job, other = Job(LOOP_A), Job(LOOP_B)
    cause = Cause(command_id=job.ids.command)
    async with ground.open() as session:
        loop = session.open_loop(LOOP_A)
        await _end(session, job)
        notice = await loop.receive()
        await session.publish_event(other.event(LifecycleKind.STARTED, cause=cause))
        if closed:
            await loop.aclose()
            loop = session.open_loop(LOOP_A)
        else:
            notice.release()
        with anyio.fail_after(90):
            again = await loop.receive()
        assert again.notification == job.notification()
        assert again.redelivered


async def test_what_was_handed_out_is_forgotten_when_it_is_settled(ground: Ground) -> None:
    """Whoever settles it, and wherever it was handed out: nothing is kept of it for the session's whole life."""
    acked, settled, caused, gone = Job(), Job(), Job(LOOP_A), Job(LOOP_B)
    async with ground.open() as session:
        loops = [session.open_loop(loop_id) for loop_id in (None, LOOP_A, LOOP_B)]
        await _end(session, acked, settled, caused, gone)
        notice = await loops[0].receive()
        for loop in loops:
            await loop.receive()
        handler = session._core.handler  # pyright: ignore[reportPrivateUsage]  # memory has no other face
        assert len(handler._offered) == 4  # pyright: ignore[reportPrivateUsage]
        await loops[2].aclose()
        await notice.ack()
        await session.acknowledge(settled.ids.command)
        for job in (caused, gone):
            cause = Cause(command_id=job.ids.command)
            await session.publish_event(Job(job.loop_id).event(LifecycleKind.STARTED, cause=cause))
        assert not handler._offered  # pyright: ignore[reportPrivateUsage]


async def test_release_wakes_a_receiver(ground: Ground) -> None:
    """Who waits for a notice gets the one that is given back."""
    async with ground.open() as session, anyio.create_task_group() as tasks:
        loop = session.open_loop()
        await _end(session, Job())
        notice = await loop.receive()

        async def receive() -> None:
            with anyio.fail_after(90):
                assert (await loop.receive()).redelivered

        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        notice.release()


async def test_closing_a_loop_offers_its_notices_at_the_next_opening(ground: Ground) -> None:
    """Receivers of a closed loop are told, iteration ends, and nothing that it held is lost."""
    jobs = [Job() for _ in range(3)]
    async with ground.open() as session:
        loop = session.open_loop()
        await _end(session, *jobs)
        held = await anext(loop)
        async for _ in loop:
            await loop.aclose()
        with pytest.raises(LoopClosedError):
            loop.receive_nowait()
        held.release()
        loop = session.open_loop()
        notices = await _receive(loop, 3)
        assert _handles(notices) == [job.handle for job in jobs]
        assert [notice.redelivered for notice in notices] == [True, True, False]
        await held.ack()  # a notice of the closed loop settles it all the same
        assert loop.held == 2


async def test_a_waiting_receiver_is_told_of_the_closing(ground: Ground) -> None:
    """Closing the loop or the session ends a waiting `receive`."""
    async with anyio.create_task_group() as tasks:

        async def receive(loop: Loop) -> None:
            with anyio.fail_after(90), pytest.raises(LoopClosedError):
                await loop.receive()

        async with ground.open() as session:
            loop = session.open_loop(LOOP_A)
            tasks.start_soon(receive, loop)
            tasks.start_soon(receive, session.open_loop())
            await anyio.wait_all_tasks_blocked()
            await loop.aclose()
        await checkpoint()


async def test_acknowledge_settles_what_no_loop_comes_back_for(ground: Ground) -> None:
    """By its command id, wherever it waits: in no window, queued in one, or received."""
    unopened, queued, received, early = Job(LOOP_A), Job(), Job(), Job()
    async with ground.open() as session:
        loop = session.open_loop()
        await _end(session, unopened, received, queued)
        notice = await loop.receive()
        assert notice.notification == received.notification()
        for job in (unopened, queued, received, early):
            await session.acknowledge(job.ids.command)
        assert loop.held == 0
        with pytest.raises(anyio.WouldBlock):
            loop.receive_nowait()
        # It was settled before it came: it is taken, and reaches no loop.
        assert await session.deliver(early.end_unit())
        assert await session.deliver([early.command_record()]) == [Duplicate(13, consumed=True)]
        assert loop.held == 0
        assert await session.unacknowledged() == []
    async with ground.open() as session:
        assert await session.loops() == []


async def test_an_event_caused_by_a_notification_consumes_it_on_its_own_loop(ground: Ground) -> None:
    """The cause settles it on that loop alone; an event of the session has no loop, and settles nothing."""
    job, mine, theirs = Job(LOOP_A), Job(LOOP_A), Job(LOOP_B)
    cause = Cause(command_id=job.ids.command)
    async with ground.open() as session:
        loop = session.open_loop(LOOP_A)
        await _end(session, job)
        await session.publish_event(theirs.event(LifecycleKind.STARTED, cause=cause))
        await session.publish_workflow_activity(activity(cause=cause))
        assert await session.loops() == [(LOOP_A, 1)]
        assert loop.held == 1
        await session.publish_event(mine.event(LifecycleKind.STARTED, cause=cause))
        assert await session.loops() == []
        assert loop.held == 0


async def test_notify_appends_first_and_then_answers(ground: Ground) -> None:
    """Unknown, full, closed or not native: the producer is told so, and the notification waits all the same."""
    async with ground.open() as session:
        unknown = Job(LOOP_A)
        with pytest.raises(LoopNotFoundError):
            await session.notify_process_completion(unknown.notification())
        assert await session.notify_process_completion(unknown.notification()) is Disposition.DUPLICATE
        loop = session.open_loop(capacity=1)
        held, full = Job(), Job()
        assert await session.notify_process_completion(held.notification()) is Disposition.ACCEPTED
        with pytest.raises(ProcessNotificationDeliveryStoppedError) as caught:
            await session.notify_process_completion(full.notification())
        assert caught.value.disposition is Disposition.STOPPED
        assert await session.notify_process_completion(held.notification()) is Disposition.DUPLICATE
        await loop.aclose()
        closed = Job()
        with pytest.raises(ProcessNotificationDeliveryStoppedError):
            await session.notify_process_completion(closed.notification())
        foreign = session.open_loop(LOOP_B, native=False)
        unsupported = Job(LOOP_B)
        with pytest.raises(ProcessNotificationUnsupportedError):
            await session.notify_process_completion(unsupported.notification())
        with pytest.raises(ProcessNotificationUnsupportedError):
            await foreign.receive()
        assert await session.loops() == [*sorted([(MAIN, 3), (LOOP_A, 1), (LOOP_B, 1)])]
        assert _handles(await _receive(session.open_loop(), 3)) == [held.handle, full.handle, closed.handle]
        await foreign.aclose()
        assert _handles([await session.open_loop(LOOP_B).receive()]) == [unsupported.handle]


async def test_a_consumed_notification_is_a_duplicate_and_reaches_no_loop(ground: Ground) -> None:
    """A producer that comes again after the acknowledgement, or for the first time after it, is answered DUPLICATE."""
    settled, early = Job(), Job()
    async with ground.open() as session:
        loop = session.open_loop()
        await session.notify_process_completion(settled.notification())
        await (await loop.receive()).ack()
        await session.acknowledge(early.ids.command)
        for job in (settled, early):
            assert await session.notify_process_completion(job.notification()) is Disposition.DUPLICATE
        assert loop.held == 0


async def test_observers_are_told_of_a_stuck_window(ground: Ground) -> None:
    """A window full of received notices is told; one with room, or with something queued, is not."""

    class Observer(SessionObserver):
        told: list[tuple[object, int]]

        def loop_stuck(self, loop_id: object, capacity: int) -> None:
            self.told.append((loop_id, capacity))
            raise RuntimeError("an observer's own fault")

    observer = Observer()
    observer.told = []
    async with ground.open(observer=observer) as session:
        loop = session.open_loop(capacity=2)
        await _end(session, Job(), Job(), Job())
        notice = await loop.receive()
        assert observer.told == []
        await loop.receive()
        assert observer.told == [(MAIN, 2)]
        await notice.ack()
        await loop.receive()
        assert observer.told == [(MAIN, 2)] * 2


async def test_a_capacity_below_one_is_refused(ground: Ground) -> None:
    """A loop that could hold nothing would never tell anything."""
    async with ground.open() as session:
        with pytest.raises(ValueError, match="at least 1"):
            session.open_loop(capacity=0)


async def test_a_closed_session_takes_nothing(ground: Ground) -> None:
    """After the block every call is refused with a typed error, and what was durable is still there."""
    job = Job()
    async with ground.open() as session:
        loop = session.open_loop()
        await _end(session, job)
        notice = await loop.receive()
    for call in (
        lambda: session.deliver(Job().end_unit()),
        lambda: session.notify_process_completion(Job().notification()),
        lambda: session.publish_process_lifecycle(Job().started()),
        lambda: session.acknowledge(job.ids.command),
        notice.ack,
        session.loops,
    ):
        with pytest.raises(SessionClosedError) as caught:
            await call()
        assert caught.value.disposition is Disposition.STOPPED
    with pytest.raises(SessionClosedError):
        session.open_loop()
    async with ground.open() as session:
        assert await session.loops() == [(MAIN, 1)]


async def test_what_the_block_raises_leaves_as_it_is(ground: Ground) -> None:
    """No group around it, and the journal is closed."""

    async def block() -> None:
        async with ground.open() as session:
            await _end(session, Job())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await block()
    async with ground.open() as session:
        assert await session.loops() == [(MAIN, 1)]
