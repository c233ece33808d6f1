"""A drain and its ring together: whatever comes, in whatever pieces, and whatever the disk does with it.

Real pipes and a real file; tiny sizes, so that each bound, boundary and wrap is met often.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import tempfile
import termios
from collections import deque
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from unittest.mock import patch

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ring_ground import Act, Crash
from ring_life import Life, acts, tiny
from ring_sizes import DRAINS, FULL_DRAINS, FULL_TIMEOUT_SECONDS, report

from lastword.supervisor.shim import _drain, _ring
from lastword.supervisor.shim._drain import Drain, open_pipes

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import WriteableBuffer

    Piece = int | Literal["end", "error"]
    """What happens before a read: so many bytes are written, the writer closes, or the read fails."""

    Step = tuple[bool, list[Piece]]
    """Whether all that waits is to be taken; and what happens before the reads of it."""


@attrs.frozen
class Sizes:
    """Of whatever a life meets."""

    limit: int
    segment: int
    best: int
    buffer: int
    reads: int
    most: int
    rotate: bool
    switches: int  # room for so many; 0: one pipe


class Plumbing:
    """A drain's pipes: what happens before each of its reads, and what the read answers."""

    def __init__(self, life: Life, *, split: bool) -> None:
        self.life = life
        self.reading, writing = open_pipes(split=split)
        self.writing = dict(enumerate(writing[: len(self.reading)]))  # the open ones, by their streams
        self.to_come: deque[Piece] = deque()
        self.sealed = False
        self.reads = 0
        self.taken = [0, 0]
        self.failed = False
        self.last: dict[int, int | None] = {}
        self.watched: list[int] = []
        self.closed: list[int] = []

    def __getattr__(self, name: str) -> object:
        """The drain's `os`, which notes what is closed."""
        return getattr(os, name)

    def close(self, descriptor: int) -> None:
        assert descriptor not in self.watched
        self.closed.append(descriptor)
        os.close(descriptor)

    def add(self, descriptor: int, _callback: Callable[[], None]) -> None:
        self.watched.append(descriptor)

    def remove(self, descriptor: int) -> None:
        self.watched.remove(descriptor)

    def begin(self) -> list[int]:
        """A step; how much waits."""
        self.reads, self.taken, self.last, self.failed = 0, [0, 0], {}, False
        return [
            struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0] if pipe in self.watched else 0
            for pipe in self.reading
        ]

    def reader(self, pipe: int, *, closefd: bool) -> FileIO:
        plumbing = self
        stream = self.reading.index(pipe)

        class Fed(FileIO):
            def readinto(self, buffer: WriteableBuffer, /) -> int | None:
                plumbing.happen(stream)
                with memoryview(buffer) as room:
                    assert len(room) > 0
                    count = super().readinto(room)
                    if count and not plumbing.sealed:
                        room[:count] = plumbing.life.come(count, stream)
                plumbing.last[stream] = count
                plumbing.taken[stream] += count or 0
                return count

        return Fed(pipe, closefd=closefd)

    def happen(self, stream: int) -> None:
        """Before a read of `stream`."""
        self.reads += 1
        piece = self.to_come.popleft() if self.to_come else 0
        if piece == "error":
            self.failed = True
            self.last[stream] = 0
            raise OSError(errno.EIO, "gone")
        if stream not in self.writing:
            return
        if piece == "end":
            os.close(self.writing.pop(stream))
        else:
            os.write(self.writing[stream], bytes(piece))


def drained(sizes: Sizes, steps: list[Step], plan: dict[int, Act]) -> Life:
    """A life of which everything is checked after each step, and at its end."""
    split = sizes.switches > 0
    with (
        tempfile.TemporaryDirectory() as folder,
        tiny(sizes.segment, sizes.switches),
        patch.object(_ring, "BEST_BYTES", sizes.best),
        patch.object(_drain, "_READS", sizes.reads),
        patch.object(_drain, "_BYTES", sizes.most),
    ):
        life = Life(Path(folder), sizes.limit, plan, rotate=sizes.rotate, split=split)
        plumbing = Plumbing(life, split=split)
        with (
            patch.object(_drain, "FileIO", plumbing.reader),
            patch.object(_drain, "os", plumbing),
            patch.object(_ring, "os", life.system),
        ):
            drain = Drain(plumbing.reading, life.writer, plumbing, memoryview(bytearray(sizes.buffer)), lambda: None)
            try:
                with contextlib.suppress(Crash):
                    _live(life, plumbing, drain, sizes, steps)
            finally:
                drain.close()
                drain.close()
                for end in plumbing.writing.values():
                    os.close(end)
                life.system.release()
        assert sorted(plumbing.closed) == sorted(plumbing.reading)
        life.look()
        if not life.system.dead:
            life.judge()
    return life


def _live(life: Life, plumbing: Plumbing, drain: Drain, sizes: Sizes, steps: list[Step]) -> None:
    for all_that_waits, pieces in steps:
        plumbing.to_come.extend(pieces)
        _step(life, plumbing, drain, sizes, all_that_waits=all_that_waits)
    while drain.open and _step(life, plumbing, drain, sizes, all_that_waits=False):
        pass
    life.seal()
    plumbing.sealed = True
    plumbing.to_come = deque([7, 100])
    while drain.open and drain.take():
        pass
    life.writer.close()


def _step(life: Life, plumbing: Plumbing, drain: Drain, sizes: Sizes, *, all_that_waits: bool) -> bool:
    waiting = plumbing.begin()
    anything = drain.take_waiting() if all_that_waits else drain.take()
    taken = sum(plumbing.taken)
    assert anything == (taken > 0)
    life.note_published()
    life.look()
    assert sorted((*plumbing.watched, *plumbing.closed)) == sorted(plumbing.reading)
    for stream, last in plumbing.last.items():
        # An end is seen when it is read, and nothing else is taken for one.
        assert (plumbing.reading[stream] in plumbing.closed) == (last == 0)
    assert drain.open == bool(plumbing.watched)
    if all_that_waits:
        assert plumbing.failed or all(map(int.__ge__, plumbing.taken, waiting))
    else:
        # It has its bounds, and comes back before them only where nothing is there.
        assert plumbing.reads < sizes.reads + len(plumbing.reading)
        assert taken < sizes.most + len(plumbing.reading) * min(sizes.buffer, sizes.best)
        assert plumbing.reads >= sizes.reads or taken >= sizes.most or not any(plumbing.last.values())
    return anything


pieces = st.one_of(
    st.integers(1, 30), st.just(0), st.integers(1, 200), st.sampled_from(["end", "error"] + [1, 2, 3, 5] * 2)
)
lives = given(
    sizes=st.builds(
        Sizes,
        limit=st.integers(1, 60),
        segment=st.integers(1, 24),
        best=st.integers(1, 40),
        buffer=st.integers(1, 50),
        reads=st.integers(1, 12),
        most=st.integers(1, 100),
        rotate=st.sampled_from([True, True, True, False]),
        switches=st.one_of(st.just(0), st.just(0), st.integers(1, 12)),
    ),
    steps=st.lists(st.tuples(st.sampled_from([False, False, False, True]), st.lists(pieces, max_size=8)), max_size=6),
    plan=st.one_of(st.builds(dict[int, Act]), st.dictionaries(st.integers(0, 60), acts, max_size=3)),
)


# What one gather is, when nothing comes between.
PLAIN = Sizes(limit=60, segment=24, best=40, buffer=50, reads=12, most=100, rotate=True, switches=0)


@settings(max_examples=DRAINS // 2)
@lives
@example(sizes=PLAIN, steps=[(False, [3, 3, "end"])], plan={})  # gathered, then the end
@example(sizes=PLAIN, steps=[(False, [3, 3, "error"])], plan={})
@example(sizes=PLAIN, steps=[(False, [3, 3, 0, 3, 0])], plan={})  # more has come while it was kept
@example(sizes=PLAIN, steps=[(False, [1] * 30)], plan={})
@example(sizes=PLAIN, steps=[(False, [200])], plan={})
@example(sizes=PLAIN, steps=[(False, [9, 9])], plan={5: Act("crash", 3)})  # gathered, and half of it written
@example(sizes=PLAIN, steps=[(False, [9, 9]), (False, [9])], plan={4: Act("fail", 3)})
def test_whatever_comes_is_counted_once_and_in_order(sizes: Sizes, steps: list[Step], plan: dict[int, Act]) -> None:
    """And kept as far as limit and disk allow, told after each step, within its bounds; each pipe is closed once."""
    drained(sizes, steps, plan)


@pytest.mark.prove
@pytest.mark.timeout(FULL_TIMEOUT_SECONDS)
def test_whatever_comes_is_counted_once_and_in_order_at_length() -> None:
    """The same, at full count."""
    calls = failed = crashed = 0

    @settings(max_examples=FULL_DRAINS)
    @lives
    def check(sizes: Sizes, steps: list[Step], plan: dict[int, Act]) -> None:
        nonlocal calls, failed, crashed
        life = drained(sizes, steps, plan)
        calls += life.system.calls
        failed += len(life.system.failed)
        crashed += life.system.dead

    check()
    report(f"drain: {FULL_DRAINS} lives, {calls} calls watched, {failed} failed, {crashed} writers died")
    assert failed
    assert crashed
