"""Who hears what: filters, buffers, order, replay and watch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import anyio
import attrs
import pytest
from session_ground import FaultyJournal, Ground
from session_values import CREATED, LOOP_A, LOOP_B, MAIN, SESSION, Job, activity

from lastword.notifier import (
    EventHeader,
    InvalidEventError,
    JournalUnavailableError,
    LifecycleKind,
    NewRecord,
    ProcessNotificationOwnerMismatchError,
    RecordKind,
    SecondTerminalError,
    Visibility,
    WorkflowActivity,
    encode_event,
    new_uuid7,
)
from lastword.session import (
    Delivery,
    EphemeralEvent,
    EventFilter,
    LoopScope,
    Replay,
    Session,
    SessionClosedError,
    Subscription,
    SubscriptionLostError,
    SubscriptionUseError,
    Watch,
)
from lastword.session._records import event_record

EVERYTHING = EventFilter(enduring=LoopScope.all(), ephemeral=LoopScope.all())


@attrs.frozen(kw_only=True)
class Token(EphemeralEvent):
    """A caller's own event."""

    text: str = ""


def _token(text: str, loop_id: UUID | None = MAIN, visibility: Visibility = Visibility.PUBLIC) -> Token:
    header = EventHeader(event_id=new_uuid7(), session_id=SESSION, loop_id=loop_id, visibility=visibility)
    return Token(header=header, text=text)


async def _take(source: Subscription | Replay | Watch, count: int) -> list[Delivery]:
    with anyio.fail_after(90):
        return [await anext(source) for _ in range(count)]


async def _rest(source: Subscription | Replay | Watch) -> list[Delivery]:
    with anyio.fail_after(90):
        return [delivery async for delivery in source]


def _seqs(deliveries: list[Delivery]) -> list[int]:
    return [delivery.journal_seq for delivery in deliveries]


async def test_a_subscriber_hears_each_event_once_in_the_journals_order(ground: Ground) -> None:
    """Events come with their sequence; a retry, a command, a fence and a consumption are not heard."""
    job = Job()
    async with ground.open() as session, session.subscribe(EVERYTHING) as deliveries:
        loop = session.open_loop()
        await session.publish_process_lifecycle(job.started())
        await session.publish_process_lifecycle(job.started())
        await session.deliver(job.end_unit())
        await (await loop.receive()).ack()
        await session.publish_workflow_activity(activity())
        heard = await _take(deliveries, 3)
        assert _seqs(heard) == [2, 3, 6]
        assert heard[0].event == job.started()
        assert heard[1].event == job.completed()
        await deliveries.aclose()
        assert await _rest(deliveries) == []


async def test_filters_choose_loops_by_class(ground: Ground) -> None:
    """A loop's events reach who asked for that loop, in that class; the session's own reach everybody."""
    a, b = Job(LOOP_A), Job(LOOP_B)
    only_a = EventFilter(enduring=LoopScope.of(LOOP_A), ephemeral=LoopScope.of(LOOP_B))
    async with ground.open() as session:
        async with session.subscribe(only_a) as some, session.subscribe(EventFilter()) as none:
            await session.publish_event(a.started())
            await session.publish_event(b.started())
            await session.publish_event(_token("a", LOOP_A))
            await session.publish_event(_token("b", LOOP_B))
            await session.publish_event(_token("everybody", None))
            await session.publish_workflow_activity(activity())
        heard = await _rest(some)
        assert _seqs(heard) == [2, 0, 0, 4]
        assert [delivery.event.text for delivery in heard if isinstance(delivery.event, Token)] == ["b", "everybody"]
        assert _seqs(await _rest(none)) == [0, 4]


@pytest.mark.parametrize("kind", list(LifecycleKind), ids=str)
async def test_internal_events_are_refused(ground: Ground, kind: LifecycleKind) -> None:
    """Nothing internal is published, journaled or heard, whatever it is."""
    async with ground.open() as session, session.subscribe(EVERYTHING) as deliveries:
        event = Job().event(kind, visibility=Visibility.INTERNAL)
        for publish in (session.publish_event, session.publish_process_lifecycle):
            with pytest.raises(InvalidEventError) as caught:
                await publish(event)
            assert (caught.value.field, caught.value.rule) == ("visibility", "is invalid")
        with pytest.raises(InvalidEventError):
            await session.publish_event(_token("secret", visibility=Visibility.INTERNAL))
        await session.publish_workflow_activity(activity())
        assert _seqs(await _take(deliveries, 1)) == [2]


async def test_an_internal_record_of_an_outbox_is_kept_and_not_heard(ground: Ground) -> None:
    """What comes finished and internal is durable; no subscriber, replay or watch shows it."""
    event = Job().event(LifecycleKind.STARTED, visibility=Visibility.INTERNAL)
    handle = event.process.process_handle
    async with ground.open() as session, session.subscribe(EVERYTHING) as deliveries:
        record = NewRecord(event.header.event_id, RecordKind.EVENT, encode_event(event), loop_id=MAIN, subject=handle)
        for public in (True, False):
            await session.deliver([attrs.evolve(record, public=public)])
        await session.publish_workflow_activity(activity())
        assert _seqs(await _take(deliveries, 1)) == [3]
        assert _seqs(await _rest(session.replay())) == [3]
        assert _seqs(await _take(session.watch(EVERYTHING), 1)) == [3]


async def test_an_enduring_overflow_ends_that_subscriber_alone(ground: Ground) -> None:
    """256 stay readable, then the loss is told with where to resume; others go on, and the replay misses nothing."""
    async with ground.open() as session, session.subscribe(EVERYTHING) as idle, session.subscribe(EVERYTHING) as busy:
        heard: list[Delivery] = []
        for _ in range(30):
            await _publish(session, 10)
            heard += await _take(busy, 10)
        assert _seqs(heard) == list(range(2, 302))
        assert _seqs(await _take(idle, 256)) == list(range(2, 258))
        for _ in range(2):
            with pytest.raises(SubscriptionLostError) as caught:
                await anext(idle)
            assert caught.value.resume_after == 257
        assert _seqs(await _rest(session.replay(257))) == list(range(258, 302))


async def test_an_ephemeral_overflow_is_dropped(ground: Ground) -> None:
    """What nobody needs twice is dropped when the buffer is full, and the subscription lives."""
    async with ground.open() as session, session.subscribe(EVERYTHING) as deliveries:
        for number in range(300):
            await session.publish_event(_token(str(number)))
        heard = await _take(deliveries, 256)
        assert _seqs(heard) == [0] * 256
        assert isinstance(heard[-1].event, Token)
        assert heard[-1].event.text == "255"
        await session.publish_workflow_activity(activity())
        assert _seqs(await _take(deliveries, 1)) == [2]
        assert _seqs(await _rest(session.replay())) == [2]


async def test_a_loss_before_the_first_event_resumes_where_the_subscription_began(ground: Ground) -> None:
    """A buffer that ephemeral events had filled names the sequence at which the subscriber came."""
    async with ground.open() as session:
        await session.publish_workflow_activity(activity())
        async with session.subscribe(EVERYTHING) as deliveries:
            for number in range(256):
                await session.publish_event(_token(str(number)))
            await session.publish_workflow_activity(activity())
            await _take(deliveries, 256)
            with pytest.raises(SubscriptionLostError) as caught:
                await anext(deliveries)
            assert caught.value.resume_after == 2


async def test_what_is_not_durable_is_not_heard(ground: Ground) -> None:
    """A publish that fails tells nobody; its retry tells once."""
    journal = FaultyJournal(ground.journal())
    job = Job()
    async with ground.open(journal=journal) as session, session.subscribe(EVERYTHING) as deliveries:
        journal.faults += ["before", "before"]
        with pytest.raises(JournalUnavailableError):
            await session.publish_process_lifecycle(job.started())
        await session.publish_workflow_activity(activity())
        await session.publish_process_lifecycle(job.started())
        assert [type(delivery.event).__name__ for delivery in await _take(deliveries, 2)] == [
            "WorkflowActivity",
            "ProcessStarted",
        ]


async def test_a_publish_answers_as_the_reference(ground: Ground) -> None:
    """Exact retry: nothing more is heard.  Another `created_at`: refused, for it would be a second last word."""
    job = Job()
    later = job.event(LifecycleKind.COMPLETED, created_at=CREATED + timedelta(seconds=1))
    async with ground.open() as session, session.subscribe(EVERYTHING) as deliveries:
        await session.publish_process_lifecycle(job.completed())
        await session.publish_process_lifecycle(job.completed())
        with pytest.raises(SecondTerminalError):
            await session.publish_process_lifecycle(later)
        await deliveries.aclose()
        assert _seqs(await _rest(deliveries)) == [2]


async def test_anothers_events_are_refused(ground: Ground) -> None:
    """Whatever names another session is not published here."""
    stranger = Job(session_id=LOOP_A)
    async with ground.open() as session:
        for publish in (
            lambda: session.publish_process_lifecycle(stranger.started()),
            lambda: session.publish_event(stranger.started()),
            lambda: session.publish_workflow_activity(activity(session_id=LOOP_A)),
            lambda: session.notify_process_completion(stranger.notification()),
        ):
            with pytest.raises(ProcessNotificationOwnerMismatchError):
                await publish()
        assert await _rest(session.replay()) == []


async def test_an_invalid_event_is_refused_before_it_is_written(ground: Ground) -> None:
    """The contract's rules hold for every publish."""
    async with ground.open() as session:
        with pytest.raises(InvalidEventError):
            await session.publish_workflow_activity(attrs.evolve(activity(), workflow_name="Not A Name"))
        assert await _rest(session.replay()) == []


async def test_a_workflow_activity_is_made_when_it_occurred(ground: Ground) -> None:
    """Its retry, with whatever time in its header and over a restart, is the same record."""
    once = activity()
    again = attrs.evolve(once, header=attrs.evolve(once.header, created_at=CREATED + timedelta(days=1)))
    async with ground.open() as session:
        await session.publish_workflow_activity(once)
        await session.publish_workflow_activity(again)
    async with ground.open() as session:
        await session.publish_workflow_activity(once)
        (delivery,) = await _rest(session.replay())
        assert isinstance(delivery.event, WorkflowActivity)
        assert delivery.event.header.created_at == CREATED


async def test_workflow_publishes_in_flight_are_heard_and_later_ones_refused(ground: Ground) -> None:
    """Closing drains what is under way before it ends the subscriptions."""
    journal = FaultyJournal(ground.journal())
    async with anyio.create_task_group() as tasks:
        async with ground.open(journal=journal) as session:
            deliveries = session.subscribe(EVERYTHING)
            await deliveries.__aenter__()
            for _ in range(3):
                tasks.start_soon(session.publish_workflow_activity, activity())
            await anyio.wait_all_tasks_blocked()
        with pytest.raises(SessionClosedError):
            await session.publish_workflow_activity(activity())
        assert _seqs(await _rest(deliveries)) == [2, 3, 4]
        async with session.subscribe(EVERYTHING) as late:
            assert await _rest(late) == []


async def test_a_closed_subscription_hears_no_more(ground: Ground) -> None:
    """Closing twice is harmless, leaves no error, and concerns nobody else."""
    async with ground.open() as session, session.subscribe(EVERYTHING) as other:
        async with session.subscribe(EVERYTHING) as closed:
            await closed.aclose()
            await closed.aclose()
            await session.publish_workflow_activity(activity())
        assert await _rest(closed) == []
        assert _seqs(await _take(other, 1)) == [2]


async def test_a_waiting_subscriber_is_woken_and_can_be_cancelled(ground: Ground) -> None:
    """A cancelled step has taken nothing."""
    async with ground.open() as session, session.subscribe(EVERYTHING) as deliveries:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anext, deliveries)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        await session.publish_event(_token("kept"))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(deliveries)
        assert _seqs(await _take(deliveries, 1)) == [0]
        heard: list[Delivery] = []
        async with anyio.create_task_group() as tasks:

            @tasks.start_soon
            async def listen() -> None:
                heard.extend(await _take(deliveries, 1))

            await anyio.wait_all_tasks_blocked()
            await session.publish_workflow_activity(activity())
        assert _seqs(heard) == [2]


async def test_an_event_that_meets_a_cancellation_is_taken_or_kept(ground: Ground) -> None:
    """Sent and cancelled in the same moment, the event is either returned or still in the buffer."""
    async with ground.open() as session, session.subscribe(EVERYTHING) as deliveries:
        heard: list[Delivery] = []

        async def listen() -> None:
            heard.append(await anext(deliveries))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            with anyio.CancelScope() as scope:
                scope.cancel()
                await session.publish_event(_token("now"))
            tasks.cancel_scope.cancel()
        await deliveries.aclose()
        assert len(heard + await _rest(deliveries)) == 1


# --- replay and watch -------------------------------------------------------------------------------------------------


async def _publish(session: Session, count: int) -> None:
    """So many events, in units of a hundred: each unit is one commit."""
    for start in range(0, count, 100):
        await session.deliver([event_record(_activity()) for _ in range(min(100, count - start))])


def _activity() -> WorkflowActivity:
    once = activity()
    return attrs.evolve(once, header=attrs.evolve(once.header, created_at=once.occurred_at))


async def test_replay_reads_all_pages_to_the_end(ground: Ground) -> None:
    """Every public event after the sequence, exclusive, over page borders; then it ends."""
    async with ground.open() as session:
        await _publish(session, 600)
        assert _seqs(await _rest(session.replay())) == list(range(2, 602))
        assert _seqs(await _rest(session.replay(599))) == [600, 601]
        assert await _rest(session.replay(601)) == []
        early = session.replay()
        assert _seqs(await _take(early, 2)) == [2, 3]
        await early.aclose()
        await early.aclose()
        assert await _rest(early) == []


async def test_watch_goes_from_the_journal_into_what_comes(ground: Ground) -> None:
    """History first, then live, each event once, only what the filter wants; ephemeral ones come with the live part."""
    a, b = Job(LOOP_A), Job(LOOP_B)
    only_a = EventFilter(enduring=LoopScope.of(LOOP_A), ephemeral=LoopScope.all())
    async with ground.open() as session:
        await session.publish_event(a.started())
        await session.publish_event(b.started())
        watch = session.watch(only_a)
        assert _seqs(await _take(watch, 1)) == [2]
        await session.publish_event(b.completed())
        await session.publish_event(a.completed())
        await session.publish_event(_token("live"))
        assert _seqs(await _take(watch, 2)) == [5, 0]
        await watch.aclose()
        await watch.aclose()
        assert await _rest(watch) == []


async def test_watch_has_no_gap_and_no_repetition_under_load(ground: Ground) -> None:
    """A slow watcher among fast publishers hears all of it in order, also when far behind."""
    async with ground.open() as session:
        await _publish(session, 300)
        watch = session.watch(EVERYTHING, 100)
        heard = await _take(watch, 10)
        await _publish(session, 700)  # far more than the buffer, while nobody reads
        heard += await _take(watch, 500)
        await _publish(session, 300)
        async with anyio.create_task_group() as tasks:
            for _ in range(30):
                tasks.start_soon(session.publish_workflow_activity, activity())
            heard += await _take(watch, 1331 - 100 - 510)
        assert _seqs(heard) == list(range(101, 1332))


async def test_watch_tells_once_what_is_both_in_a_page_and_live(ground: Ground) -> None:
    """What is committed while the history is still being read is in the later pages and in the live half, told once."""
    async with ground.open() as session:
        await _publish(session, 600)
        watch = session.watch(EVERYTHING)
        heard = await _take(watch, 1)
        await _publish(session, 10)
        heard += await _take(watch, 609)
        await _publish(session, 1)
        heard += await _take(watch, 1)
        assert _seqs(heard) == list(range(2, 613))


async def test_watch_goes_on_after_a_fault(ground: Ground) -> None:
    """A page that could not be read is told, and the next step goes on where it was."""
    journal = FaultyJournal(ground.journal())
    async with ground.open(journal=journal) as session:
        await _publish(session, 2)
        for source in (session.watch(EVERYTHING), session.replay()):
            journal.down = True
            with pytest.raises(JournalUnavailableError):
                await anext(source)
            journal.down = False
            assert _seqs(await _take(source, 2)) == [2, 3]


async def test_watch_ends_with_the_session(ground: Ground) -> None:
    """A waiting watcher is let go when the session closes; one that begins later ends at once."""
    ended: list[int] = []
    async with anyio.create_task_group() as tasks:
        async with ground.open() as session:
            await _publish(session, 1)

            @tasks.start_soon
            async def watch() -> None:
                ended.extend(_seqs(await _rest(session.watch(EVERYTHING))))

            await anyio.wait_all_tasks_blocked()
            await session.loops()
        assert await _rest(session.watch(EVERYTHING)) == []
    assert ended == [2]


async def test_readers_are_cancellable_anywhere(ground: Ground) -> None:
    """A step that is cancelled at its checkpoint or while it waits loses nothing."""
    async with ground.open() as session:
        await _publish(session, 3)
        make: list[Callable[[], Any]] = [session.replay, lambda: session.watch(EVERYTHING)]
        for source in (maker() for maker in make):
            seqs: list[int] = []
            while len(seqs) < 3:
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await anext(source)
                seqs.append((await anext(source)).journal_seq)
            assert seqs == [2, 3, 4]


async def test_a_subscription_that_was_not_entered_says_so(ground: Ground) -> None:
    """It would wait for what never comes; entered, it takes part for that one block."""
    async with ground.open() as session:
        deliveries = session.subscribe(EVERYTHING)
        with anyio.fail_after(90):
            for _ in range(2):
                with pytest.raises(SubscriptionUseError, match="async with"):
                    await anext(deliveries)
            async with deliveries:
                with pytest.raises(SubscriptionUseError, match="once more"):
                    async with deliveries:
                        pytest.fail("entered")
                await session.publish_workflow_activity(activity())
                assert _seqs(await _take(deliveries, 1)) == [2]
            with pytest.raises(SubscriptionUseError, match="once more"):
                async with deliveries:
                    pytest.fail("entered")
            assert await _rest(deliveries) == []


async def test_a_subscription_that_was_closed_before_it_was_entered_is_at_its_end(ground: Ground) -> None:
    """Nobody is waited for, and nobody keeps it among those who listen."""
    async with ground.open() as session:
        deliveries = session.subscribe(EVERYTHING)
        await deliveries.aclose()
        assert await _rest(deliveries) == []
        async with deliveries:
            await session.publish_workflow_activity(activity())
            assert await _rest(deliveries) == []
            assert not session._core.handler.hub._feeds  # pyright: ignore[reportPrivateUsage]  # memory has no face


@pytest.mark.parametrize("kind", ["replay", "watch"])
async def test_tasks_that_iterate_together_share_what_there_is(ground: Ground, kind: str) -> None:
    """Each event goes to one of them: a page that both have asked for is there once."""
    async with ground.open() as session:
        await _publish(session, 300)
        source = session.replay() if kind == "replay" else session.watch(EVERYTHING)
        heard: list[Delivery] = []

        async def listen() -> None:
            async for delivery in source:
                heard.append(delivery)
                if len(heard) == 300:
                    await source.aclose()

        with anyio.fail_after(90):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(listen)
        assert sorted(_seqs(heard)) == list(range(2, 302))
