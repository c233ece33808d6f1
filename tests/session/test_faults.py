"""What a broken journal, a second opener and a cancellation leave behind: nothing lost, nothing told twice."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import anyio
import attrs
import pytest
from anyio.lowlevel import checkpoint
from session_ground import FaultyJournal, Ground
from session_values import LOOP_A, MAIN, SESSION, Job

from lastword.adapters.testing import ManualClock
from lastword.notifier import (
    Appended,
    AppendResult,
    Collision,
    Disposition,
    Duplicate,
    IdempotencyCollisionError,
    InvalidEventError,
    JournalFencedError,
    JournalUnavailableError,
    LifecycleKind,
    NewRecord,
    ProcessNotificationDeliveryStoppedError,
    ProcessNotificationOwnerMismatchError,
    ProcessState,
    RecordKind,
    SecondTerminal,
    SecondTerminalError,
)
from lastword.session import EventFilter, JournalCorruptError, Loop, LoopClosedError, LoopScope, SessionObserver
from lastword.session.journal import Record

EVERYTHING = EventFilter(enduring=LoopScope.all())


# --- unknown commits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_an_unknown_commit_is_asked_again_by_id(ground: Ground, fault: str) -> None:
    """After a fault the journal is reopened with the same epoch and the batch appended again; it is there once."""
    journal = FaultyJournal(ground.journal())
    job = Job()
    async with ground.open(journal=journal) as session:
        loop = session.open_loop()
        journal.faults.append(fault)
        results = await session.deliver(job.end_unit())
        expected = Appended if fault == "before" else Duplicate
        assert [(type(result), result.seq) for result in results] == [(expected, 2), (expected, 3)]
        assert journal.reopened == [1]
        assert journal.epoch() == 1
        notice = await loop.receive()
        assert notice.notification == job.notification()
        with pytest.raises(anyio.WouldBlock):
            loop.receive_nowait()
        journal.faults.append(fault)
        await notice.ack()
        assert loop.held == 0
    async with ground.open() as session:
        assert await session.loops() == []


async def test_what_an_unknown_commit_left_is_told_although_nobody_calls_again(ground: Ground) -> None:
    """Both tries seemed to fail, and one did not; whoever asked has gone, and the loop is told all the same."""
    journal = FaultyJournal(ground.journal())
    job = Job()
    async with ground.open(journal=journal) as session:
        loop = session.open_loop()
        await session.loops()
        journal.faults.extend(["before", "after"])
        with pytest.raises(JournalUnavailableError):
            await session.deliver(job.end_unit())
        with anyio.fail_after(90):
            notice = await loop.receive()
        assert notice.notification == job.notification()


async def test_what_a_lost_commit_had_written_is_told_after_the_reopening(ground: Ground) -> None:
    """The producer gives up after an unknown commit; the loop and the subscribers learn of it all the same, once."""
    journal = FaultyJournal(ground.journal())
    lost, other = Job(), Job()
    async with ground.open(journal=journal) as session, session.subscribe(EVERYTHING) as deliveries:
        loop = session.open_loop()
        journal.faults += ["after", "before"]
        with pytest.raises(JournalUnavailableError, match="disk is full"):
            await session.deliver(lost.end_unit())
        assert loop.held == 1  # read back at the reopening between the two tries
        await session.deliver(other.end_unit())
        assert await session.deliver(lost.end_unit()) == [Duplicate(2, consumed=False), Duplicate(3, consumed=False)]
        assert [(await loop.receive()).journal_seq for _ in range(2)] == [3, 5]
        assert [(await anext(deliveries)).journal_seq for _ in range(2)] == [2, 4]
        with pytest.raises(anyio.WouldBlock):
            loop.receive_nowait()


async def test_a_journal_that_is_down_fails_typed_and_comes_back(ground: Ground) -> None:
    """While nothing works every call says so; when it works again the same calls do, and nothing was lost."""
    journal = FaultyJournal(ground.journal())
    job = Job()
    async with ground.open(journal=journal) as session:
        loop = session.open_loop()
        await session.deliver(job.end_unit())
        notice = await loop.receive()
        journal.down = True
        for call in (lambda: session.deliver(Job().end_unit()), notice.ack, session.loops, session.unacknowledged):
            with pytest.raises(JournalUnavailableError):
                await call()
        assert loop.held == 1
        journal.down = False
        await notice.ack()
        assert loop.held == 0
        assert journal.epoch() == 1


async def test_a_window_that_cannot_be_read_is_tried_again(ground: Ground) -> None:
    """A receiver waits out a journal that is down, with backoff on the session's clock, and gets its notice."""
    journal, clock = FaultyJournal(ground.journal()), ManualClock()
    job = Job()
    with anyio.fail_after(90):
        async with ground.open(journal=journal, clock=clock, rng=random.Random(1)) as session:
            await session.deliver(job.end_unit())
            journal.down = True
            loop = session.open_loop()
            async with anyio.create_task_group() as tasks:

                @tasks.start_soon
                async def receive() -> None:
                    notice = await loop.receive()
                    assert notice.notification == job.notification()

                while clock.next_deadline is None:
                    await anyio.wait_all_tasks_blocked()
                journal.down = False
                clock.advance(clock.next_deadline - clock.monotonic())


async def test_a_window_that_could_not_be_read_is_filled_by_the_next_commit(ground: Ground) -> None:
    """When something else shows that the journal works again, nobody waits for a backoff."""
    journal = FaultyJournal(ground.journal())
    waiting = Job()
    async with ground.open(journal=journal) as session:
        await session.deliver(waiting.end_unit())
        journal.down = True
        loop = session.open_loop()
        with pytest.raises(JournalUnavailableError):
            await session.loops()
        journal.down = False
        await session.deliver(Job(LOOP_A).end_unit())
        await session.loops()
        assert loop.receive_nowait().notification == waiting.notification()


async def test_an_empty_loop_is_not_full_because_its_first_look_failed(ground: Ground) -> None:
    """The journal was down when the loop was opened: what comes when it is back is accepted, and on offer."""
    journal = FaultyJournal(ground.journal())
    for waiting in (0, 1, 2):
        async with ground.open(journal=journal) as session:
            for _ in range(waiting):
                await session.deliver(Job().end_unit())
            journal.down = True
            loop = session.open_loop(capacity=2)
            with pytest.raises(JournalUnavailableError):
                await session.loops()
            journal.down = False
            job = Job()
            with anyio.fail_after(90):
                if waiting < 2:
                    assert await session.notify_process_completion(job.notification()) is Disposition.ACCEPTED
                else:
                    with pytest.raises(ProcessNotificationDeliveryStoppedError, match="full"):
                        await session.notify_process_completion(job.notification())
            assert loop.held == min(waiting + 1, 2)
            for record in await session.unacknowledged():
                await session.acknowledge(record.record_id)


async def test_a_notification_whose_look_fails_is_durable_and_told_so(ground: Ground) -> None:
    """Written, and then the journal cannot be read: the producer is told what is not known, and the loop gets it."""

    class Unreadable(FaultyJournal):
        blind = True

        def pending(self, loop_id: UUID, after: int, limit: int) -> list[Record]:
            if self.blind and not after:
                raise JournalUnavailableError("the disk failed to read")
            return super().pending(loop_id, after, limit)

    journal = Unreadable(ground.journal())
    job = Job()
    async with ground.open(journal=journal) as session:
        loop = session.open_loop()
        with anyio.fail_after(90), pytest.raises(ProcessNotificationDeliveryStoppedError, match="not known"):
            await session.notify_process_completion(job.notification())
        journal.blind = False
        with anyio.fail_after(90):
            assert (await loop.receive()).notification == job.notification()


async def test_who_only_looks_is_told_when_the_journal_is_back(ground: Ground) -> None:
    """A loop that nobody waits on asks again at each look, although nothing else touches the journal."""
    journal = FaultyJournal(ground.journal())
    job = Job()
    async with ground.open(journal=journal) as session:
        await session.deliver(job.end_unit())
        journal.down = True
        loop = session.open_loop()
        with pytest.raises(JournalUnavailableError):
            await session.loops()
        journal.down = False
        with anyio.fail_after(90):
            while True:
                try:
                    notice = loop.receive_nowait()
                except anyio.WouldBlock:
                    await checkpoint()
                else:
                    break
        assert notice.notification == job.notification()


async def test_observers_are_told_when_the_journal_is_back(ground: Ground) -> None:
    """Whoever waits to try again need not wait for its backoff."""
    told: list[str] = []

    class Observer(SessionObserver):
        def journal_recovered(self) -> None:
            told.append("back")

    journal = FaultyJournal(ground.journal())
    async with ground.open(journal=journal, observer=Observer()) as session:
        journal.down = True
        for _ in range(2):
            with pytest.raises(JournalUnavailableError):
                await session.deliver(Job().end_unit())
        assert told == []
        journal.down = False
        await session.deliver(Job().end_unit())
        assert told == ["back"]


async def test_a_journal_that_can_be_opened_and_not_written_is_not_told_as_back(ground: Ground) -> None:
    """A full disk: each try opens it anew, and telling that would make whoever waits try at once, for ever."""
    told: list[str] = []

    class Observer(SessionObserver):
        def journal_recovered(self) -> None:
            told.append("back")

    class FullDisk(FaultyJournal):
        full = False

        def append_many(self, units: Any) -> Any:
            if self.full:
                raise JournalUnavailableError("the disk is full")
            return super().append_many(units)

    journal = FullDisk(ground.journal())
    async with ground.open(journal=journal, observer=Observer()) as session:
        journal.full = True
        for _ in range(3):
            with pytest.raises(JournalUnavailableError):
                await session.deliver(Job().end_unit())
            await session.loops()
        assert told == []
        journal.full = False
        await session.deliver(Job().end_unit())
        assert told == ["back"]


async def test_a_poisonous_unit_does_not_take_its_batch_with_it(ground: Ground) -> None:
    """A unit on which the backend chokes fails alone."""
    journal = FaultyJournal(ground.journal())
    inner = journal.inner.append_many

    def choking(units: Any) -> Any:
        if any(record.subject == "poison" for unit in units for record in unit):
            raise RuntimeError("nobody foresaw this")
        return inner(units)

    journal.inner.append_many = choking  # type: ignore[method-assign]
    good, poison = [Job() for _ in range(4)], Job(handle="poison")
    failed: list[Exception] = []
    async with ground.open(journal=journal) as session:
        journal.gate = None if ground.inline else threading.Event()

        async def deliver(job: Job) -> None:
            try:
                await session.deliver(job.end_unit())
            except RuntimeError as error:
                failed.append(error)

        async with anyio.create_task_group() as tasks:
            for job in (good[0], good[1], poison, good[2], good[3]):
                tasks.start_soon(deliver, job)
            await anyio.wait_all_tasks_blocked()
            if journal.gate is not None:
                journal.gate.set()
        assert len(failed) == 1
        assert await session.loops() == [(MAIN, 4)]


# --- the fence --------------------------------------------------------------------------------------------------------


async def test_a_notification_that_cannot_be_read_keeps_its_place_and_holds_nobody_up(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else's hand wrote it; it is passed over, stays pending, and can be settled by its id."""
    journal = ground.journal()
    journal.open(SESSION)
    broken = NewRecord(uuid4(), RecordKind.COMMAND, b"not a command", loop_id=MAIN, subject="x")
    journal.append_many([[broken], Job().end_unit()])
    journal.close()
    async with ground.open() as session:
        loop = session.open_loop()
        with anyio.fail_after(90):
            notice = await loop.receive()
        await notice.ack()
        assert "cannot be read" in caplog.text
        assert await session.loops() == [(loop.loop_id, 1)]
        await session.acknowledge(broken.record_id)
        assert await session.loops() == []


async def test_a_window_without_a_bound_is_read_page_by_page(ground: Ground) -> None:
    """A capacity that no database could be asked for at once is as good as any."""
    async with ground.open() as session:
        jobs = [Job() for _ in range(300)]
        for job in jobs:
            await session.deliver(job.end_unit())
        loop = session.open_loop(capacity=sys.maxsize)
        with anyio.fail_after(90):
            told = [(await loop.receive()).notification.process_handle for _ in jobs]
        assert told == [job.notification().process_handle for job in jobs]


class _Fenceless(FaultyJournal):
    """A journal whose answer to the fence of its opening is what the test says."""

    answer: Any = None

    def append_many(self, units: Sequence[Sequence[NewRecord]]) -> list[list[AppendResult]]:
        if any(record.kind is RecordKind.FENCE for unit in units for record in unit):
            answer: list[list[AppendResult]] = self.answer
            return answer
        return super().append_many(units)


@pytest.mark.parametrize(
    "answer", [[[Collision(1)]], [[SecondTerminal(1)]], [[]], [], [[None]], None, [[Appended(1)] * 2]]
)
async def test_an_opening_whose_fence_is_not_there_is_none(ground: Ground, answer: Any) -> None:
    """Where nothing says that this opening has begun, an older one could write on beside it."""
    journal = _Fenceless(ground.journal())
    journal.answer = answer
    with pytest.raises(JournalCorruptError, match="fence"):
        async with ground.open(journal=journal):
            pytest.fail("opened")


@pytest.mark.parametrize("answer", [[[Appended(1)]], [[Duplicate(1, consumed=False)]], [(Appended(1),)]])
async def test_an_opening_whose_fence_is_there_or_goes_there_is_one(ground: Ground, answer: Any) -> None:
    """A backend may write it in `open`, as ours do, or leave it to be appended."""
    journal = _Fenceless(ground.journal())
    journal.answer = answer
    async with ground.open(journal=journal) as session:
        loop = session.open_loop()
        await session.deliver(Job().end_unit())
        with anyio.fail_after(90):
            await loop.receive()


async def test_a_second_opener_fences_the_first(ground: Ground) -> None:
    """The older session can write nothing, tells everybody who waits in it, and leaves its block cleanly."""
    job = Job()
    with anyio.fail_after(90):
        async with ground.open() as old:
            loop = old.open_loop()
            await old.deliver(job.end_unit())
            notice = await loop.receive()
            ended: list[str] = []

            async def receive() -> None:
                with pytest.raises(JournalFencedError):
                    await loop.receive()
                ended.append("loop")

            async def listen() -> None:
                async with old.subscribe(EVERYTHING) as deliveries:
                    with pytest.raises(JournalFencedError):
                        await anext(deliveries)
                ended.append("subscription")

            async with anyio.create_task_group() as tasks, ground.open() as new:
                tasks.start_soon(receive)
                tasks.start_soon(listen)
                await anyio.wait_all_tasks_blocked()
                for call in (
                    notice.ack,
                    lambda: old.deliver(Job().end_unit()),
                    lambda: old.deliver(job.end_unit()),
                    lambda: old.notify_process_completion(Job().notification()),
                    old.loops,
                ):
                    with pytest.raises(JournalFencedError):
                        await call()
                with pytest.raises(JournalFencedError):
                    old.open_loop(LOOP_A)
                taken_over = await new.open_loop().receive()
                assert taken_over.notification == job.notification()
                await taken_over.ack()
            assert sorted(ended) == ["loop", "subscription"]


async def test_a_reopening_after_a_takeover_is_fenced(ground: Ground) -> None:
    """A fault, and by the time of the reopening another opener has come: the old session does not take it back."""
    journal = FaultyJournal(ground.journal())
    async with ground.open(journal=journal) as old:
        old.open_loop()
        async with ground.open() as new:
            journal.faults.append("before")
            with pytest.raises(JournalFencedError):
                await old.deliver(Job().end_unit())
            assert await new.deliver(Job().end_unit()) == [Appended(3), Appended(4)]


# --- cancellation -----------------------------------------------------------------------------------------------------


async def test_a_cancelled_delivery_is_known_by_its_retry(ground: Ground) -> None:
    """Cancelled while the writer is at work: it may be done, the handler tells it, and the retry is a duplicate."""
    journal = FaultyJournal(ground.journal())
    job = Job()
    async with ground.open(journal=journal) as session:
        loop = session.open_loop()
        await _cancelled(ground, journal, lambda: session.deliver(job.end_unit()))
        with anyio.fail_after(90):
            notice = await loop.receive()
        results = await session.deliver(job.end_unit())
        assert results == [Duplicate(2, consumed=False), Duplicate(3, consumed=False)]

        await _cancelled(ground, journal, notice.ack)
        await session.loops()  # the queue's next job: what was cancelled is done before it
        assert loop.held == 0
        await notice.ack()
        assert await session.loops() == []

        told = Job()
        await _cancelled(ground, journal, lambda: session.notify_process_completion(told.notification()))
        assert await session.notify_process_completion(told.notification()) is Disposition.DUPLICATE


async def _cancelled(ground: Ground, journal: FaultyJournal, call: Any) -> None:
    """Cancel `call` while the journal is at work on it (with a thread), or before its checkpoint (without)."""
    with anyio.fail_after(90):
        if ground.inline:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await call()
            assert scope.cancelled_caught
            return
        gate = journal.gate = threading.Event()
        journal.at_gate.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            await anyio.to_thread.run_sync(journal.at_gate.wait, 90)
            tasks.cancel_scope.cancel()
        journal.gate = None
        gate.set()


async def test_a_cancelled_receive_has_received_nothing(ground: Ground) -> None:
    """Every notice goes to somebody who has it, however receivers come and go."""
    jobs = [Job() for _ in range(3)]
    async with ground.open() as session:
        loop = session.open_loop()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(loop.receive)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        for job in jobs:
            await session.deliver(job.end_unit())
        with anyio.CancelScope() as scope:
            scope.cancel()
            await loop.receive()
        assert scope.cancelled_caught
        assert [(await loop.receive()).notification.process_handle for _ in jobs] == [job.handle for job in jobs]


async def test_a_cancelled_block_still_closes(ground: Ground) -> None:
    """Leaving the session while cancelled finishes what is in flight and closes the journal."""
    job = Job()
    with anyio.CancelScope() as scope:
        async with ground.open() as session:
            await session.deliver(job.end_unit())
            scope.cancel()
    async with ground.open() as session:
        assert await session.loops() == [(MAIN, 1)]


async def test_closing_finishes_what_is_in_flight(ground: Ground) -> None:
    """Work that was under way when the block ended is done and told; what comes later is refused."""
    journal = FaultyJournal(ground.journal())
    gate = threading.Event()
    jobs = [Job() for _ in range(3)]
    done: list[Any] = []
    with anyio.fail_after(90):
        async with anyio.create_task_group() as tasks, ground.open(journal=journal) as session:
            journal.gate = None if ground.inline else gate

            async def deliver(job: Job) -> None:
                done.append(await session.deliver(job.end_unit()))

            for job in jobs:
                tasks.start_soon(deliver, job)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(anyio.to_thread.run_sync, gate.set)
    assert len(done) == 3
    async with ground.open() as session:
        assert await session.loops() == [(MAIN, 3)]


async def test_a_journal_that_cannot_be_closed_keeps_nobody_waiting(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """What the block raises leaves as it is, who receives is told of the end, and what was committed stays so."""

    class Unclosable(FaultyJournal):
        def close(self) -> None:
            super().close()
            raise RuntimeError("nobody foresaw this")

    ended: list[str] = []

    async def receive(loop: Loop) -> None:
        with pytest.raises(LoopClosedError):
            await loop.receive()
        ended.append("loop")

    with anyio.fail_after(90):
        async with anyio.create_task_group() as tasks:
            with pytest.raises(ZeroDivisionError):
                async with ground.open(journal=Unclosable(ground.journal())) as session:
                    tasks.start_soon(receive, session.open_loop(LOOP_A))
                    await session.deliver(Job().end_unit())
                    await anyio.wait_all_tasks_blocked()
                    raise ZeroDivisionError
    assert ended == ["loop"]
    assert "closed cleanly" in caplog.text
    async with ground.open() as session:
        assert await session.loops() == [(MAIN, 1)]


# --- what is refused --------------------------------------------------------------------------------------------------


async def test_a_collision_tells_where_the_first_is(ground: Ground) -> None:
    """The same id with another payload is refused with the first one's sequence, which stays valid."""
    job = Job()
    async with ground.open() as session:
        session.open_loop()
        await session.notify_process_completion(job.notification())
        with pytest.raises(IdempotencyCollisionError) as caught:
            await session.notify_process_completion(job.notification(ProcessState.KILLED))
        assert (caught.value.record_id, caught.value.sequence) == (job.ids.command, 2)
        assert caught.value.disposition is Disposition.COLLISION
        assert await session.notify_process_completion(job.notification()) is Disposition.DUPLICATE


async def test_a_second_last_word_is_not_told(ground: Ground) -> None:
    """Completed, then lost: the first stands, nobody hears the second, and its notification goes with it."""
    job = Job()
    async with ground.open() as session, session.subscribe(EVERYTHING) as deliveries:
        loop = session.open_loop()
        await session.publish_process_lifecycle(job.completed())
        with pytest.raises(SecondTerminalError) as caught:
            await session.publish_process_lifecycle(job.event(LifecycleKind.LOST))
        assert caught.value.sequence == 2
        unit = (job.event_record(LifecycleKind.LOST), job.command_record())
        assert await session.deliver(unit) == [SecondTerminal(2), SecondTerminal(2)]
        assert loop.held == 0
        assert (await anext(deliveries)).journal_seq == 2


async def test_a_finished_record_is_held_to_its_bytes(ground: Ground) -> None:
    """A unit of another session, or whose records are not what their bytes say, is refused as a whole."""
    other = Job(session_id=LOOP_A)
    job = Job()
    event, command = job.end_unit()
    async with ground.open() as session:
        with pytest.raises(ProcessNotificationOwnerMismatchError):
            await session.deliver(other.end_unit())
        with pytest.raises(ProcessNotificationOwnerMismatchError):
            await session.deliver([other.command_record()])
        with pytest.raises(InvalidEventError):
            await session.deliver([attrs.evolve(event, record_id=LOOP_A), command])
        with pytest.raises(InvalidEventError):
            await session.deliver([attrs.evolve(event, subject="another"), command])
        with pytest.raises(InvalidEventError):
            await session.deliver([attrs.evolve(event, terminal=False), command])
        with pytest.raises(Exception, match="notification"):
            await session.deliver([event, attrs.evolve(command, subject="another")])
        with pytest.raises(Exception, match="notification"):
            await session.deliver([event, attrs.evolve(command, loop_id=LOOP_A)])
        assert await session.deliver([event, command]) == [Appended(2), Appended(3)]
