"""The commit handler alone, with steps made by hand: what no timing of real tasks shows for sure."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import cast
from uuid import UUID

import anyio
import attrs
import pytest
from session_values import LOOP_A, MAIN, SESSION, Job

from lastword.notifier import JournalFencedError, Owner
from lastword.notifier._first import first_of
from lastword.session import EventFilter
from lastword.session._commit import CommitHandler, Placement
from lastword.session._inbox import Inbox
from lastword.session._keeper import Committed, Fenced, Load, Loaded, LoadFailed, Step
from lastword.session._records import consumption_record
from lastword.session._window import Window
from lastword.session.journal import Record


class Bench:
    """A handler with its steps and its posts in plain sight; the desk of its inboxes."""

    def __init__(self) -> None:
        self.steps: deque[Step] = deque()
        self.posted: list[Load] = []
        self.pauses: list[int] = []
        self.handler = CommitHandler(self.take, self.posted.append, lambda: None)
        self.seq = 1
        self.handler.opened(1)

    def take(self) -> Step | None:
        return self.steps.popleft() if self.steps else None

    def open(self, loop_id: UUID = MAIN, capacity: int = 2) -> Inbox:
        inbox = Inbox(Owner(session_id=SESSION, loop_id=loop_id), Window(capacity), self, native=True)
        self.handler.add(inbox)
        return inbox

    def row(self, job: Job) -> Record:
        self.seq += 1
        new = job.command_record()
        return Record(
            seq=self.seq,
            record_id=new.record_id,
            kind=new.kind,
            payload=new.payload,
            loop_id=new.loop_id,
            subject=new.subject,
            terminal=new.terminal,
            consumes=new.consumes,
            public=new.public,
        )

    def consumption(self, job: Job, loop_id: UUID | None) -> Record:
        row = self.row(job)
        new = consumption_record(job.ids.command, loop_id)
        return attrs.evolve(row, record_id=new.record_id, kind=new.kind, loop_id=loop_id, consumes=new.consumes)

    def apply(self, *steps: Step) -> None:
        self.steps.extend(steps)
        self.handler.follow()

    async def consume(self, command_id: UUID, loop_id: UUID | None) -> None:
        raise AssertionError("not on this bench")

    async def pause(self, failures: int) -> None:
        self.pauses.append(failures)

    def offered(self, record: Record) -> bool:
        return self.handler.handed_out(record)

    def load(self, inbox: Inbox) -> None:
        self.handler.load(inbox)

    def stuck(self, inbox: Inbox) -> None:
        """Nobody observes."""

    def closed(self, inbox: Inbox) -> None:
        self.handler.remove(inbox)


def test_rows_loaded_for_a_closed_loop_do_not_reach_its_successor() -> None:
    """A loop that was closed and opened again loads for itself; what was under way for the first comes to nobody."""
    bench = Bench()
    first = bench.open()
    row = bench.row(Job())
    first.end(lambda: JournalFencedError("over"))
    second = bench.open()
    late, own = (Loaded(load.loop_id, load.ticket, [row], more=False) for load in bench.posted)
    bench.apply(late)
    assert (first.window.held, second.window.held) == (0, 0)
    bench.apply(own)
    assert second.window.held == 1
    bench.apply(LoadFailed(MAIN, first))
    assert second.failures == 0


def test_a_step_that_fails_does_not_stop_the_ones_after_it(caplog: pytest.LogCaptureFixture) -> None:
    """A bug met at one row must not keep the next from its loop."""
    bench = Bench()
    inbox = bench.open()
    bench.apply(Loaded(MAIN, inbox, [], more=False))
    broken = bench.row(Job(LOOP_A))
    bench.handler.inboxes[LOOP_A] = cast("Inbox", object())  # a bug, made by hand
    bench.apply(Committed(broken, pending=True), Committed(bench.row(Job()), pending=True))
    assert inbox.window.held == 1
    assert "commit handler failed" in caplog.text


def test_posting_from_within_is_followed_in_its_turn() -> None:
    """On a writer without a thread a load is answered at once: it is the next step, not a nested one."""
    bench = Bench()
    rows = [bench.row(Job()) for _ in range(3)]

    def post(load: Load) -> None:
        found = [row for row in rows if row.seq > load.after]
        bench.steps.append(Loaded(load.loop_id, load.ticket, found[: load.limit], more=len(found) > load.limit))
        bench.handler.follow()

    bench.handler = CommitHandler(bench.take, post, lambda: None)
    inbox = bench.open()
    assert inbox.window.held == 2


def test_a_placement_is_kept_while_somebody_waits_for_it() -> None:
    """The answer is what became of the row when it was handled, and nothing is kept for nobody."""
    bench = Bench()
    inbox = bench.open(capacity=1)
    bench.apply(Loaded(MAIN, inbox, [], more=False))
    one, two = Job(), Job()
    with bench.handler.awaiting(one.ids.command) as first, bench.handler.awaiting(one.ids.command) as again:
        assert first.placement is None
        bench.apply(Committed(bench.row(one), pending=True), Committed(bench.row(two), pending=True))
        inbox.window.settle(one.ids.command)
        assert {awaited.placement for awaited in (first, again)} == {Placement.OFFERED}
    with bench.handler.awaiting(two.ids.command) as nothing:
        assert nothing.placement is None


async def test_a_fence_ends_every_loop_and_feed() -> None:
    """Whoever waits is told, with an error of its own."""
    bench = Bench()
    inbox = bench.open()
    bench.apply(Fenced(JournalFencedError("over")))
    errors: list[BaseException] = []
    for _ in range(2):
        with pytest.raises(JournalFencedError, match="over") as caught:
            await inbox.loop.receive()
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    feed = bench.handler.hub.feed(EventFilter())
    feed.start()
    with anyio.fail_after(90), pytest.raises(JournalFencedError):
        await feed.take()


async def test_a_pause_is_as_long_as_the_failures_of_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load that succeeds between the decision to pause and the pause itself makes it no shorter than one failure."""
    bench = Bench()
    inbox = bench.open()
    bench.apply(LoadFailed(MAIN, inbox))

    async def first_of_with_a_load_in_between(*waits: Callable[[], Awaitable[object]]) -> None:
        bench.apply(Loaded(MAIN, inbox, [], more=False))
        assert inbox.failures == 0
        await first_of(*waits)

    monkeypatch.setattr("lastword.session._inbox.first_of", first_of_with_a_load_in_between)
    with anyio.fail_after(90):
        await inbox.wait()
    assert bench.pauses == [1]


async def test_a_pause_that_is_taken_is_that_of_its_failures() -> None:
    """Each failed load makes the next pause longer, and after it the window is asked for once more."""
    bench = Bench()
    inbox = bench.open()
    for failures in (1, 2):
        bench.apply(LoadFailed(MAIN, inbox))
        with anyio.fail_after(90):
            await inbox.wait()
        assert bench.pauses[-1] == failures
        assert len(bench.posted) == failures + 1


def _opened_in_front_of(bench: Bench, *, capacity: int) -> Inbox:
    """A loop whose rows have not been read, for the journal could not be."""
    inbox = bench.open(capacity=capacity)
    bench.apply(LoadFailed(MAIN, inbox))
    return inbox


async def test_a_loop_is_full_only_where_it_is() -> None:
    """There is room, and what waits in front of it is not known: the answer waits for the look, and is the truth."""
    for older, more, expected in (
        (0, False, Placement.OFFERED),
        (1, False, Placement.OFFERED),
        (2, True, Placement.FULL),
    ):
        bench = Bench()
        rows = [bench.row(Job()) for _ in range(older)]
        inbox = _opened_in_front_of(bench, capacity=2)
        job = Job()
        with bench.handler.awaiting(job.ids.command) as awaited:
            row = bench.row(job)
            bench.apply(Committed(row, pending=True))
            assert awaited.placement is Placement.COMING
            bench.apply(Loaded(MAIN, inbox, [*rows, row][:2], more=more))
            with anyio.fail_after(90):
                assert await awaited.settled() is expected


async def test_an_answer_that_waits_for_a_look_does_not_wait_for_ever() -> None:
    """The look fails, the loop is closed, the row is settled, or is not where it should be: all of them are answers."""
    job = Job()
    closed = JournalFencedError("over")
    ends: list[tuple[Placement, Callable[[Bench, Inbox], object]]] = [
        (Placement.UNREAD, lambda bench, inbox: bench.apply(LoadFailed(MAIN, inbox))),
        (Placement.UNREAD, lambda bench, inbox: bench.apply(Loaded(MAIN, inbox, [], more=False))),
        (Placement.CLOSED, lambda bench, inbox: inbox.end(lambda: closed)),
        (Placement.CLOSED, lambda bench, inbox: bench.apply(Fenced(closed))),
        (Placement.SETTLED, lambda bench, inbox: bench.apply(Committed(bench.consumption(job, MAIN), pending=False))),
        (Placement.SETTLED, lambda bench, inbox: bench.apply(Committed(bench.consumption(job, None), pending=False))),
    ]
    for expected, end in ends:
        bench = Bench()
        inbox = _opened_in_front_of(bench, capacity=2)
        with bench.handler.awaiting(job.ids.command) as awaited:
            bench.apply(Committed(bench.row(job), pending=True))
            bench.apply(Committed(bench.consumption(job, LOOP_A), pending=False))
            assert awaited.placement is Placement.COMING
            end(bench, inbox)
            with anyio.fail_after(90):
                assert await awaited.settled() is expected
        assert not bench.handler._coming  # pyright: ignore[reportPrivateUsage]  # nothing is kept for nobody


def test_who_asks_no_more_is_forgotten_while_the_look_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """A cancelled producer leaves nothing behind that the look's answer could stumble over."""
    bench = Bench()
    inbox = _opened_in_front_of(bench, capacity=2)
    row = bench.row(job := Job())
    with bench.handler.awaiting(job.ids.command):
        bench.apply(Committed(row, pending=True))
    bench.apply(Loaded(MAIN, inbox, [row], more=False))
    assert inbox.window.held == 1
    assert not caplog.records


def test_what_a_subscriber_does_wrong_keeps_no_notice_from_its_loop(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broadcast of a row fails in a way that nobody foresaw; its notice and its consumption are told."""
    bench = Bench()
    inbox = bench.open()
    bench.apply(Loaded(MAIN, inbox, [], more=False))

    def broken(_: Record) -> None:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(bench.handler.hub, "handle", broken)
    bench.apply(Committed(bench.row(job := Job()), pending=True))
    assert inbox.window.held == 1
    bench.apply(Committed(bench.consumption(job, MAIN), pending=False))
    assert inbox.window.held == 0
    assert "commit handler failed" in caplog.text
