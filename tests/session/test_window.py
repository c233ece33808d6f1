"""The window over a loop's pending rows: the front of the queue, in order, whatever arrives in between."""

from __future__ import annotations

from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lastword.notifier import RecordKind
from lastword.session._window import Window
from lastword.session.journal import Record


def _row(seq: int) -> Record:
    return Record(
        seq=seq,
        record_id=UUID(int=seq),
        kind=RecordKind.COMMAND,
        payload=b"",
        loop_id=UUID(int=0),
        subject=None,
        terminal=False,
        consumes=None,
        public=False,
    )


def test_a_new_row_waits_its_turn_behind_rows_that_are_still_to_be_loaded() -> None:
    """A free slot is not for the newest row while older ones wait in the journal."""
    window = Window(2)
    assert window.wanted() == (0, 2)
    window.loaded([_row(1), _row(2)], more=True)
    assert window.wanted() is None
    window.settle(UUID(int=1))
    assert window.wanted() == (2, 1)
    assert not window.offer(_row(4))
    window.loaded([_row(3)], more=True)
    window.settle(UUID(int=2))
    assert window.wanted() == (3, 1)
    window.loaded([_row(4)], more=False)
    holder = object()
    assert [row.seq for _ in range(2) if (row := window.take(holder)) is not None] == [3, 4]
    assert window.stuck
    assert window.take(holder) is None


def test_a_failed_load_is_wanted_again() -> None:
    """Nothing is forgotten because it could not be read."""
    window = Window(2)
    assert window.wanted() == (0, 2)
    assert window.wanted() is None
    window.load_failed()
    assert window.wanted() == (0, 2)


def test_a_row_that_is_told_twice_is_there_once() -> None:
    """Read with the window, and told once more as committed after a fault: it is in one hand, and settled once."""
    window = Window(3)
    assert window.wanted() == (0, 3)
    window.loaded([_row(1), _row(2)], more=False)
    assert window.offer(_row(2))
    holder = object()
    assert [row.seq for _ in range(2) if (row := window.take(holder)) is not None] == [1, 2]
    assert window.take(holder) is None
    window.settle(UUID(int=2))
    assert window.offer(_row(2))
    assert window.take(holder) is None
    assert window.held == 1


class Windows(RuleBasedStateMachine):
    """A journal of pending rows, a window over it, loads that take their time, and holders that come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.window = Window(3)
        self.last = 0
        self.pending: list[int] = []
        self.settled: set[int] = set()
        self.loading: tuple[int, int] | None = None
        self.queued: set[int] = set()
        self.held: dict[int, object] = {}
        self.shown = 0

    def _want(self) -> None:
        wanted = self.window.wanted()
        if wanted is not None:
            assert self.loading is None
            self.loading = wanted

    @rule()
    def open(self) -> None:
        self._want()

    @rule()
    def commit(self) -> None:
        self.last += 1
        self.pending.append(self.last)
        if self.window.offer(_row(self.last)):
            assert len(self.queued) + len(self.held) < 3
            self.queued.add(self.last)
            assert self.pending[: len(self.queued) + len(self.held)] == sorted(self.queued | set(self.held))
        self._want()

    @precondition(lambda self: self.loading is not None)
    @rule(fails=st.booleans())
    def load(self, fails: bool) -> None:
        assert self.loading is not None
        (after, limit), self.loading = self.loading, None
        if fails:
            self.window.load_failed()
        else:
            rows = [seq for seq in self.pending if seq > after]
            self.window.loaded([_row(seq) for seq in rows[:limit]], more=len(rows) > limit)
            self.queued.update(rows[:limit])
        self._want()

    @precondition(lambda self: self.queued)
    @rule()
    def take(self) -> None:
        holder = object()
        row = self.window.take(holder)
        assert row is not None
        assert row.seq == min(self.queued)
        self.queued.discard(row.seq)
        self.held[row.seq] = holder

    @precondition(lambda self: self.held)
    @rule(data=st.data(), stranger=st.booleans())
    def give_back(self, data: st.DataObject, stranger: bool) -> None:
        seq = data.draw(st.sampled_from(sorted(self.held)))
        assert self.window.give_back(seq, object() if stranger else self.held[seq]) is not stranger
        if not stranger:
            del self.held[seq]
            self.queued.add(seq)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(self.pending))
        self.pending.remove(seq)
        self.queued.discard(seq)
        self.held.pop(seq, None)
        self.window.settle(UUID(int=seq))
        self.window.settle(UUID(int=seq))
        self._want()

    @invariant()
    def the_window_is_the_front_of_the_queue(self) -> None:
        shown = sorted(self.queued | set(self.held))
        assert self.window.held == len(shown) <= 3
        assert self.window.stuck == (len(self.held) == 3)
        assert self.pending[: len(shown)] == shown
        if self.loading is None and self.last and self.window.wanted() is None:
            assert len(shown) == min(3, len(self.pending))


Windows.TestCase.settings = settings(max_examples=200, stateful_step_count=40)
test_a_window_is_the_front_of_its_queue = Windows.TestCase
