"""The session against a model of a few lines: whatever is done to it in whatever order, on a real journal file.

Hypothesis chooses the acts.  Two processes' payloads vary, calls are cancelled, repeated and come out of order, commits
fail or are lost, the journal is down, the power goes, and older holders try to write.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast
from unittest.mock import patch
from uuid import UUID

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from proof_host import UNANSWERED, Host, Hosts, OpenLoop, start_hosts
from proof_life import fixed_job
from proof_model import Model
from proof_sizes import EXAMPLES, FULL_EXAMPLES, FULL_STEPS, FULL_TIMEOUT_SECONDS, STEPS, report
from session_values import CREATED, LOOP_A, MAIN, Job

from lastword.notifier import (
    Cause,
    Disposition,
    IdempotencyCollisionError,
    JournalFencedError,
    LifecycleKind,
    LoopNotFoundError,
    NewRecord,
    ProcessNotificationDeliveryStoppedError,
    ProcessState,
    RecordKind,
    SecondTerminalError,
    decode_command,
)
from lastword.session import EventFilter, LoopScope, Session, Subscription, SubscriptionLostError, Watch
from lastword.session._records import consumption_record, event_record, notification_record

EVERYTHING = EventFilter(enduring=LoopScope.all())
LOOPS = (MAIN, LOOP_A)

# Few, so that they meet; each on a loop of its own kind.
JOBS = [fixed_job(number, LOOPS[number % 2]) for number in range(8)]

# A buffer so short that a subscriber lags within an example.
BUFFER = 2

jobs = st.sampled_from(JOBS)
loop_ids = st.sampled_from(LOOPS)
odd = st.booleans()
cancelled = st.sampled_from([False, False, False, True])
units = st.sampled_from(["start", "stop", "end", "lost", "notice"])


def records(job: Job, unit: str, *, odd: bool) -> tuple[NewRecord, ...]:
    """What a producer says of the process; an odd one says it with other bytes."""
    at = CREATED.replace(minute=30 if odd else 9)
    notice = job.command_record(ProcessState.KILLED if odd else ProcessState.EXITED)
    match unit:
        case "start":
            return (job.event_record(LifecycleKind.STARTED, created_at=at),)
        case "stop":
            return (job.event_record(LifecycleKind.STOP_REQUESTED, created_at=at),)
        case "end":
            return (job.event_record(LifecycleKind.COMPLETED, created_at=at), notice)
        case "lost":
            return (job.event_record(LifecycleKind.LOST, created_at=at), notice)
        case _:
            return (notice,)


class Acts(RuleBasedStateMachine):
    """What can be done, and what must be true after each act."""

    portal: BlockingPortal
    backend: str
    done: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.acknowledged: set[UUID] = set()
        self.age = 0
        self.started = 0
        self.hosts: Hosts

    @initialize()
    def begin(self) -> None:
        self.done["examples"] += 1
        self.hosts = start_hosts(self.portal, self.backend)
        self.watched = 0
        self._after_opening()

    def teardown(self) -> None:
        if not hasattr(self, "hosts"):
            return
        try:
            self._bring_everything_home()
        finally:
            self.portal.call(self.hosts.end)

    # --- producers

    @rule(said=st.lists(st.tuples(jobs, units, odd), min_size=1, max_size=4))
    def produce(self, said: list[tuple[Job, str, bool]]) -> None:
        """The outbox has more units; the courier brings them."""
        self._count("produced", len(said))

        async def act() -> None:
            for job, unit, odd in said:
                self.hosts.outbox.add(job.handle, records(job, unit, odd=odd))

        self.portal.call(act)

    @rule(job=jobs, unit=units, odd=odd, cancelled=cancelled)
    def deliver(self, job: Job, unit: str, odd: bool, cancelled: bool) -> None:
        """Somebody else delivers a unit, in whatever order, again or with other bytes."""
        self._count("delivered")
        new = records(job, unit, odd=odd)
        (expected, _), sound = self.model.answer(new), self._untouched()
        answer = self._call(lambda: self.host.session.deliver(new), new, cancelled=cancelled)
        if answer is not UNANSWERED and sound:
            assert isinstance(answer, list), answer
            assert [type(result).__name__ for result in cast("list[object]", answer)] == expected

    @rule(job=jobs, odd=odd, cancelled=cancelled)
    def notify(self, job: Job, odd: bool, cancelled: bool) -> None:
        """A producer without an outbox tells a completion, and is answered what became of it."""
        self._count("notified")
        notification = job.notification(ProcessState.KILLED if odd else ProcessState.EXITED)
        new = notification_record(notification)
        opened = self.host.loops.get(job.loop_id)
        held = 0 if opened is None else opened.loop.held
        ((expected,), _), settled = self.model.answer([new]), self.model.settled(new.record_id, job.loop_id)
        sound = self._untouched()
        answer = self._call(
            lambda: self.host.session.notify_process_completion(notification), [new], cancelled=cancelled
        )
        if answer is UNANSWERED or not sound:
            return
        if expected == "Collision":
            assert isinstance(answer, IdempotencyCollisionError)
        elif expected == "Duplicate" or settled:
            assert answer is Disposition.DUPLICATE
        elif opened is None and job.loop_id not in self.host.closed:
            assert isinstance(answer, LoopNotFoundError)
        elif opened is None or held == opened.loop.capacity:
            assert isinstance(answer, ProcessNotificationDeliveryStoppedError)
        else:
            assert answer is Disposition.ACCEPTED

    @rule(job=jobs, odd=odd, cancelled=cancelled)
    def publish(self, job: Job, odd: bool, cancelled: bool) -> None:
        """A lifecycle event alone, the last one too, early or late."""
        self._count("published")
        event = job.event(LifecycleKind.BACKGROUNDED, created_at=CREATED.replace(minute=30 if odd else 9))
        new = event_record(event)
        ((expected,), _), sound = self.model.answer([new]), self._untouched()
        answer = self._call(lambda: self.host.session.publish_event(event), [new], cancelled=cancelled)
        if answer is not UNANSWERED and sound:
            refusals = {"Collision": IdempotencyCollisionError, "SecondTerminal": SecondTerminalError}
            assert answer is None if expected not in refusals else isinstance(answer, refusals[expected])

    # --- the agent

    @rule(loop_id=loop_ids, capacity=st.sampled_from([1, 2, 64]))
    def open_loop(self, loop_id: UUID, capacity: int) -> None:
        """A loop is opened, or opened again."""
        self._count("loops opened")

        async def act() -> None:
            loop = self.host.session.open_loop(loop_id, capacity=capacity)
            if loop_id not in self.host.loops:
                self.host.loops[loop_id] = OpenLoop(loop)

        self.portal.call(act)

    @precondition(lambda self: self.age > 3 and self.host.loops)
    @rule(data=st.data())
    def close_loop(self, data: st.DataObject) -> None:
        """Its notices are offered at the next opening."""
        self._count("loops closed")
        loop_id = data.draw(st.sampled_from(sorted(self.host.loops)))
        opened = self.host.loops.pop(loop_id)
        self.host.closed.add(loop_id)
        self.portal.call(opened.loop.aclose)

    @precondition(lambda self: not self.host.journal.down)
    @rule(loop_id=loop_ids, count=st.integers(1, 3), then=st.sampled_from(["keep", "keep", "release", "ack", "cancel"]))
    def receive(self, loop_id: UUID, count: int, then: str) -> None:
        """An agent receives some notices, and keeps them, gives the last back, or acknowledges it."""
        self.open_loop(loop_id, 2)
        command = None
        for _ in range(count):
            command = self._receive(loop_id)
        if command is not None and then == "release":
            self._release(loop_id, command)
        elif command is not None and then != "keep":
            self._ack(loop_id, command, cancelled=then == "cancel")

    def _receive(self, loop_id: UUID) -> UUID | None:
        """The first pending notice of the window that nobody has, said to be told again exactly if it may have been."""
        opened = self.host.loops[loop_id]
        notice = self.portal.call(self.hosts.receive, opened.loop)
        self._explain()
        window = self.model.pending(loop_id)[: opened.loop.capacity]
        free = [row for row in window if row.record_id not in opened.notices]
        if notice is None:
            assert not free, f"{free[0]} is pending, and not handed out"
            return None
        self._count("received")
        assert free, "nothing is pending, and something was handed out"
        command = notice.notification.command_id
        assert (command, notice.journal_seq) == (free[0].record_id, free[0].seq)
        assert notice.notification == decode_command(free[0].payload).notification
        assert command not in self.acknowledged, "told again after its acknowledgement had returned"
        again = notice.journal_seq < self.host.fence or command in self.host.handed_out
        assert notice.redelivered == again
        self.host.handed_out.add(command)
        opened.notices[command] = notice
        return command

    @precondition(lambda self: self._in_hand())
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """A notice is given back."""
        self._release(*data.draw(st.sampled_from(self._in_hand())))

    def _release(self, loop_id: UUID, command: UUID) -> None:
        self._count("released")
        notice = self.host.loops[loop_id].notices.pop(command)

        async def act() -> None:
            notice.release()

        self.portal.call(act)

    @precondition(lambda self: self._in_hand())
    @rule(data=st.data(), cancelled=cancelled)
    def ack(self, data: st.DataObject, cancelled: bool) -> None:
        """A notice is acknowledged; cancelled, it may be."""
        self._ack(*data.draw(st.sampled_from(self._in_hand())), cancelled=cancelled)

    def _ack(self, loop_id: UUID, command: UUID, *, cancelled: bool) -> None:
        self._count("acknowledged")
        notice = self.host.loops[loop_id].notices[command]
        answer = self._call(notice.ack, [consumption_record(command, loop_id)], cancelled=cancelled)
        self._settled(answer, command)

    def _in_hand(self) -> list[tuple[UUID, UUID]]:
        return sorted((loop_id, command) for loop_id, opened in self.host.loops.items() for command in opened.notices)

    @rule(job=jobs, cancelled=cancelled)
    def acknowledge(self, job: Job, cancelled: bool) -> None:
        """A notification is settled without its loop, before it comes, too."""
        self._count("acknowledged without a loop")
        command = job.ids.command
        answer = self._call(
            lambda: self.host.session.acknowledge(command), [consumption_record(command, None)], cancelled=cancelled
        )
        self._settled(answer, command)

    @rule(job=jobs)
    def consume_by_event(self, job: Job) -> None:
        """An event that the notification has caused settles it."""
        self._count("settled by an event")
        other = fixed_job(50 + JOBS.index(job), job.loop_id)
        event = other.event(LifecycleKind.STARTED, cause=Cause(command_id=job.ids.command))
        answer = self._call(lambda: self.host.session.publish_event(event), [event_record(event)], cancelled=False)
        self._settled(answer, job.ids.command)

    @rule(job=jobs)
    def name_a_cause_of_another_loop(self, job: Job) -> None:
        """An event on another loop names the notification as its cause: nothing is settled or forgotten."""
        self._count("caused elsewhere")
        number = JOBS.index(job)
        other = fixed_job(80 + number, LOOPS[(number + 1) % 2])
        event = other.event(LifecycleKind.STARTED, cause=Cause(command_id=job.ids.command))
        self._call(lambda: self.host.session.publish_event(event), [event_record(event)], cancelled=False)

    # --- trouble

    @rule(faults=st.lists(st.sampled_from(["before", "after"]), min_size=1, max_size=3))
    def break_commits(self, faults: list[str]) -> None:
        """The next appends fail: before their commit, or after it."""
        self._count("broken commits", len(faults))
        self.host.journal.faults.extend(faults)

    @precondition(lambda self: not self.host.journal.down)
    @rule()
    def lose_the_journal(self) -> None:
        """It is not there, reopening does not help."""
        self._count("journal down")
        self.host.journal.down = True
        self.was_down = True

    @precondition(lambda self: self.host.journal.down)
    @rule()
    def find_the_journal(self) -> None:
        """It is there again."""
        self.host.journal.down = False

    @precondition(lambda self: self.age > 8)  # or nothing ever grows
    @rule()
    def crash(self) -> None:
        """The power goes, at rest or with commits in doubt; a new host opens the files as they are."""
        self._count("crashes")
        self.portal.call(self.hosts.crash)
        self._after_opening()

    @precondition(lambda self: self.age > 5 and len(self.hosts.zombies) < 3)
    @rule()
    def take_over(self) -> None:
        """Another host opens the journal; this one is a zombie from now on."""
        self._count("taken over")
        self.portal.call(self.hosts.take_over)
        self._after_opening()

    @precondition(lambda self: bool(self.hosts.zombies))
    @rule(job=jobs, data=st.data(), what=st.sampled_from(["deliver", "ack", "acknowledge", "publish"]))
    def zombie_writes(self, job: Job, data: st.DataObject, what: str) -> None:
        """An older holder tries to write: it is told that it is fenced, and writes nothing."""
        zombie = data.draw(st.sampled_from(self.hosts.zombies))
        if zombie.journal.down:
            return
        self._count("zombie writes")
        zombie.journal.faults.clear()
        if data.draw(st.booleans()):
            zombie.journal.faults.append("before")
        notices = [notice for opened in zombie.loops.values() for notice in opened.notices.values()]
        acts: dict[str, Callable[[], Awaitable[object]]] = {
            "deliver": lambda: zombie.session.deliver(records(job, "end", odd=True)),
            "ack": notices[0].ack if notices else lambda: zombie.session.acknowledge(job.ids.command),
            "acknowledge": lambda: zombie.session.acknowledge(job.ids.command),
            "publish": lambda: zombie.session.publish_event(job.started()),
        }
        before = len(self.hosts.ledger())

        async def call() -> object:
            return await self.hosts.call(acts[what], cancelled=False)

        answer = self.portal.call(call)
        # A notice that was acknowledged in time stays so, and needs no journal for saying it.
        was_settled = what == "ack" and notices and notices[0].notification.command_id in self.acknowledged
        assert isinstance(answer, JournalFencedError) or (was_settled and answer is None)
        assert len(self.hosts.ledger()) == before

    # --- subscribers

    @precondition(lambda self: self.host.subscription is None)
    @rule()
    def subscribe(self) -> None:
        """Somebody listens, and may lag."""
        self._count("subscribed")

        async def act() -> None:
            subscription = self.host.session.subscribe(EVERYTHING)
            self.host.subscription = await subscription.__aenter__()

        self.portal.call(act)
        self._explain()
        self.host.read_until = len(self.model.rows)

    @precondition(lambda self: self.host.subscription is not None and not self.host.journal.down)
    @rule(count=st.integers(1, BUFFER + 2))
    def burst(self, count: int) -> None:
        """Processes start faster than somebody who listens can read."""
        self._count("bursts")
        for _ in range(count):
            self.started += 1
            new = fixed_job(1000 + self.started).start_unit()
            self._call(functools.partial(self.host.session.deliver, new), new, cancelled=False)
        self._read_subscription()

    @precondition(lambda self: self.host.subscription is not None and not self._unsound())
    @rule()
    def read_subscription(self) -> None:
        """It hears each event once and in order; one that lagged is told from where to resume."""
        self._read_subscription()

    def _read_subscription(self) -> None:
        host = self.host
        subscription = host.subscription
        assert subscription is not None
        self._count("subscriptions read")
        expected = self.model.events(host.read_until)
        heard, lost = self.portal.call(_hear, subscription, len(expected))
        assert heard == expected[: len(heard)]
        if lost is None:
            assert len(heard) == len(expected)
            host.read_until = heard[-1] if heard else host.read_until
            return
        self._count("subscribers lost")
        assert len(heard) == BUFFER
        assert lost == heard[-1]
        host.subscription = None

    @precondition(lambda self: not self._unsound())
    @rule(count=st.integers(1, 4))
    def read_watch(self, count: int) -> None:
        """A watcher hears everything that there is, each once, however far it lags and over every restart."""
        self._count("watch read")
        expected = self.model.events(self.watched)[:count]
        heard = self.portal.call(_follow, self.watch, len(expected))
        assert heard == expected
        self.watched = heard[-1] if heard else self.watched

    @rule()
    def replay(self) -> None:
        """Replay gives the public events, all of them."""
        if not self._unsound():
            heard = self.portal.call(_replay, self.host.session)
            assert heard == self.model.events(0)

    # --- what is true after each act

    @invariant()
    def all_is_as_the_model_says(self) -> None:
        """The ledger, the outbox, and, where the journal is there, every loop's window and count."""
        self.age += 1
        self.portal.call(self.hosts.settle)
        self._explain()
        for unit in self.hosts.outbox.marked():
            answers, new = self.model.answer(unit.records)
            assert not new, "a unit was marked, and is not in the journal"
            superseded = "SecondTerminal" in answers
            assert superseded or "Collision" not in answers, "a unit was marked, and its id is somebody else's"
        for position, reason in self.hosts.outbox.quarantined.items():
            answers, _ = self.model.answer(self.hosts.outbox.units[position].records)
            assert set(answers) & {"Collision", "SecondTerminal"}, "a unit was quarantined without need"
            assert reason
        if self.host.journal.down:
            return
        assert not self.hosts.outbox.waiting(), "all is quiet, and a unit waits"
        if not self.was_down:
            self._check_windows()
        # The question shows the session that the journal is there: what could not be read or told before is now.
        told = dict(self.portal.call(self.host.session.loops))
        self.portal.call(self.hosts.settle)
        assert {loop_id: told.get(loop_id, 0) for loop_id in LOOPS} == {
            loop_id: len(self.model.pending(loop_id)) for loop_id in LOOPS
        }
        self.was_down = False
        self._check_windows()

    def _check_windows(self) -> None:
        for loop_id, opened in self.host.loops.items():
            window = [row.record_id for row in self.model.pending(loop_id)[: opened.loop.capacity]]
            assert opened.loop.held == len(window)
            for command in set(opened.notices) - set(window):
                del opened.notices[command]  # settled by somebody else meanwhile

    # --- small acts

    def _after_opening(self) -> None:
        self._explain()
        self.host.fence = max(row.seq for row in self.model.rows if row.kind is RecordKind.FENCE)
        self.age = 0
        self.was_down = False
        self.watch: Watch = self.host.session.watch(EVERYTHING, after=self.watched)

    def _bring_everything_home(self) -> None:
        """In the end all that is pending is told and acknowledged, and then nothing is told any more."""
        self.host.journal.faults.clear()
        if self.host.journal.down:
            self.find_the_journal()
        self.all_is_as_the_model_says()
        for _ in range(2):
            self.age = 0
            for loop_id in LOOPS:
                self.open_loop(loop_id, 2)
                for command in sorted(self.host.loops[loop_id].notices):
                    self._ack(loop_id, command, cancelled=False)
                    del self.host.loops[loop_id].notices[command]
                while self.model.pending(loop_id):
                    told = self._receive(loop_id)
                    assert told is not None
                    self._ack(loop_id, told, cancelled=False)
                    del self.host.loops[loop_id].notices[told]
                assert self._receive(loop_id) is None
            self.all_is_as_the_model_says()
            assert not any(map(self.model.pending, LOOPS))
            self.crash()

    @property
    def host(self) -> Host:
        return self.hosts.host

    def _count(self, what: str, times: int = 1) -> None:
        self.done[what] += times

    def _unsound(self) -> bool:
        """Whether the journal does not do what it is asked now."""
        return self.host.journal.down or bool(self.host.journal.faults)

    def _untouched(self) -> bool:
        """Whether nothing else is under way, so that the next call's answer is the model's."""
        return not self._unsound() and not self.hosts.outbox.waiting()

    def _call(self, act: Callable[[], Awaitable[object]], new: Any, *, cancelled: bool) -> object:
        """Do it; what the ledger has afterwards must be explained by it, or by the outbox."""

        async def call() -> object:
            return await self.hosts.call(act, cancelled=cancelled)

        answer = self.portal.call(call)
        self._explain(new)
        return answer

    def _explain(self, *units: Any) -> None:
        self.model.explain(self.hosts.ledger(), [*units, *(unit.records for unit in self.hosts.outbox.all())])

    def _settled(self, answer: object, command: UUID) -> None:
        """A settling call has come back."""
        if answer is UNANSWERED:
            return
        assert answer is None or isinstance(answer, (IdempotencyCollisionError, SecondTerminalError)), answer
        if answer is None:
            self.acknowledged.add(command)


async def _hear(subscription: Subscription, count: int) -> tuple[list[int], int | None]:
    """So many deliveries, or those that there are until it is lost, and from where to resume then."""
    heard: list[int] = []
    with anyio.fail_after(30):
        while len(heard) < count:
            try:
                heard.append((await anext(subscription)).journal_seq)
            except SubscriptionLostError as lost:
                return heard, lost.resume_after
    return heard, None


async def _follow(watch: Watch, count: int) -> list[int]:
    with anyio.fail_after(30):
        return [(await anext(watch)).journal_seq for _ in range(count)]


async def _replay(session: Session) -> list[int]:
    return [delivery.journal_seq async for delivery in session.replay()]


def _play(backend: str, examples: int, steps: int) -> Counter[str]:
    """So many examples; how often each thing was done."""
    done: Counter[str] = Counter()
    with start_blocking_portal(backend) as portal, patch("lastword.session._subscription.BUFFER", BUFFER):
        machine = type("Acts", (Acts,), {"portal": portal, "backend": backend, "done": done})
        run_state_machine_as_test(
            machine, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
        )
    return done


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_session_is_as_the_model_says(backend: str) -> None:
    """Whatever is done in whatever order: the ledger, the windows, the notices and the streams are the model's."""
    assert _play(backend, EXAMPLES, STEPS)["examples"] >= EXAMPLES


@pytest.mark.prove
@pytest.mark.timeout(FULL_TIMEOUT_SECONDS)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_session_is_as_the_model_says_in_full(backend: str) -> None:
    """The same with more and longer examples, in which everything that can be done has been done."""
    done = _play(backend, FULL_EXAMPLES, FULL_STEPS)
    report(f"the stateful model on {backend}: " + ", ".join(f"{times} {what}" for what, times in sorted(done.items())))
    assert done["examples"] >= FULL_EXAMPLES
    assert all(done[what] for what in ("crashes", "taken over", "zombie writes", "subscribers lost", "journal down"))
