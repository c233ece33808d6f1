"""The read ends of a job's output: what waits is taken, of one pipe or of two, and no more than is fair."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from supervising import nothing_left

from lastword.supervisor.output import SpoolState, read_ring
from lastword.supervisor.shim import _drain
from lastword.supervisor.shim._drain import Drain, close_all, open_pipes
from lastword.supervisor.shim._ring import RingWriter


class Watched:
    """What a loop keeps of descriptors."""

    def __init__(self, room: int = 9) -> None:
        self.those: list[int] = []
        self._room = room

    def add(self, descriptor: int, _callback: Callable[[], None]) -> None:
        if len(self.those) == self._room:
            raise OSError(errno.ENOSPC, "no more watches")
        self.those.append(descriptor)

    def remove(self, descriptor: int) -> None:
        self.those.remove(descriptor)


class Ground:
    """Pipes, what drains them, and where it goes."""

    def __init__(self, path: Path, *, split: bool) -> None:
        self.path = path
        self.ring = RingWriter(str(path), 1 << 22, split=split)
        self.reading, self.writing = open_pipes(split=split)
        self.watched = Watched()
        self.drain = Drain(self.reading, self.ring, self.watched, memoryview(bytearray(4_096)), lambda: None)

    def write(self, stream: int, data: bytes) -> None:
        assert os.write(self.writing[stream], data) == len(data)

    def said(self, stream: int | None) -> bytes:
        return read_ring(self.path, SpoolState(), 0, 1 << 22, terminal=False, stream=stream).data


@pytest.fixture(params=[False, True], ids=["one", "two"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    with nothing_left():
        made = Ground(tmp_path / "ring", split=request.param)
        yield made
        close_all(made.writing)
        made.drain.close()
        made.drain.close()
        made.ring.close()
        assert made.watched.those == []


@pytest.mark.parametrize("take", [Drain.take, Drain.take_waiting])
def test_what_is_there_is_taken_of_each(ground: Ground, take: Callable[[Drain], bool]) -> None:
    """And can be read at once; nothing is not taken for something."""
    assert not take(ground.drain)
    ground.write(0, b"o" * 10_000)
    ground.write(1, b"e" * 10_000)
    assert take(ground.drain)
    assert not take(ground.drain)
    assert sorted(ground.said(None)) == sorted(b"o" * 10_000 + b"e" * 10_000)
    if ground.ring.header.split:
        assert (ground.said(0), ground.said(1)) == (b"o" * 10_000, b"e" * 10_000)
    assert ground.drain.open


def test_each_end_is_seen_by_itself(ground: Ground) -> None:
    """What was written before it is taken; it is open until the last one."""
    ends = sorted(set(ground.writing))
    for number, end in enumerate(ends):
        assert ground.drain.open
        os.write(end, b"last")
        os.close(end)
        assert ground.drain.take()
        assert ground.drain.open == (number + 1 < len(ends))
        assert len(ground.watched.those) == len(ends) - number - 1
    ground.writing = (null := os.open(os.devnull, os.O_RDONLY), null)
    assert not ground.drain.take()
    assert not ground.drain.take_waiting()


@pytest.mark.parametrize("take", [Drain.take, Drain.take_waiting])
def test_a_writer_that_goes_on_for_ever_does_not_hold_it(ground: Ground, take: Callable[[Drain], bool]) -> None:
    """It comes back after a while, with what was there; and all that it has taken can be read."""
    reads = 0

    class Endless:
        """Each read finds as much as the one before."""

        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

        def readv(self, pipe: int, buffers: list[memoryview]) -> int:
            nonlocal reads
            reads += 1
            assert reads < 1_000
            count = os.readv(pipe, buffers)
            ground.write(ground.reading.index(pipe), bytes(count))
            return count

    for end in set(ground.writing):
        os.write(end, b"x" * 4_096)
    with patch.object(_drain, "os", Endless()):
        assert take(ground.drain)
    assert len(ground.said(None)) == ground.ring.total >= 4_096


def test_pipes_that_cannot_be_had_leave_nothing() -> None:
    """Neither where the second one cannot be made, nor where it cannot be watched."""
    with nothing_left():
        left = [os.pipe()]

        def pipe() -> tuple[int, int]:
            if not left:
                raise OSError(errno.EMFILE, "no more")
            return left.pop()

        with patch("os.pipe", pipe), pytest.raises(OSError, match="no more"):
            open_pipes(split=True)
    with nothing_left():
        reading, writing = open_pipes(split=True)
        watched = Watched(room=1)
        with pytest.raises(OSError, match="no more watches"):
            Drain(reading, RingWriter("/nowhere", 1), watched, memoryview(bytearray(1)), lambda: None)
        assert watched.those == []  # the pipes are still whoever's they were
        close_all((*reading, *writing))
