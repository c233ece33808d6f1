"""The read ends of a job's output: what waits is taken, of one pipe or of two, and no more than is fair."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from supervising import nothing_left

from lastword.supervisor.output import SpoolState, read_ring
from lastword.supervisor.shim import _drain, _ring
from lastword.supervisor.shim._drain import Drain, close_all, open_pipes
from lastword.supervisor.shim._header import HEADER_BYTES
from lastword.supervisor.shim._ring import BEST_BYTES, RingWriter

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


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

    def __init__(self, path: Path, *, split: bool, buffer: int = 4_096) -> None:
        self.path = path
        self.ring = RingWriter(str(path), 1 << 22, split=split)
        self.reading, self.writing = open_pipes(split=split)
        self.watched = Watched()
        self.drain = Drain(self.reading, self.ring, self.watched, memoryview(bytearray(buffer)), lambda: None)

    def write(self, stream: int, data: bytes) -> None:
        assert os.write(self.writing[stream], data) == len(data)

    def said(self, stream: int | None) -> bytes:
        return read_ring(self.path, SpoolState(), 0, 1 << 22, terminal=False, stream=stream).data

    def close(self) -> None:
        close_all(self.writing)
        self.drain.close()
        self.drain.close()
        self.ring.close()
        assert self.watched.those == []


@pytest.fixture(params=[False, True], ids=["one", "two"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    with nothing_left():
        made = Ground(tmp_path / "ring", split=request.param)
        yield made
        made.close()


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
@pytest.mark.parametrize("size", [1, 4_096])
@pytest.mark.parametrize("split", [False, True], ids=["one", "two"])
def test_a_writer_that_goes_on_for_ever_does_not_hold_it(
    take: Callable[[Drain], bool], size: int, split: bool, tmp_path: Path
) -> None:
    """It comes back after a while, however little comes each time, with what was there; all of it can be read."""
    reads = 0

    class Endless(FileIO):
        """Each read finds as much as the one before."""

        def readinto(self, buffer: WriteableBuffer, /) -> int | None:
            nonlocal reads
            reads += 1
            assert reads < 1_000
            count = super().readinto(buffer)
            made.write(made.reading.index(self.fileno()), bytes(count or 0))
            return count

    with nothing_left(), patch.object(_drain, "FileIO", Endless):
        made = Ground(tmp_path / "ring", split=split)
        for end in set(made.writing):
            os.write(end, b"x" * size)
        assert take(made.drain)
        assert len(made.said(None)) == made.ring.total >= size
        made.close()


class Writes:
    """What the ring writes: offsets in the file, and sizes."""

    def __init__(self) -> None:
        self.those: list[tuple[int, int]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def pwrite(self, descriptor: int, data: memoryview, offset: int) -> int:
        if offset >= HEADER_BYTES:
            self.those.append((offset, len(data)))
        return os.pwrite(descriptor, data, offset)


def test_small_pieces_are_kept_as_large_ones(tmp_path: Path) -> None:
    """Whatever sizes a program writes, the file is written from boundary to boundary; and nothing waits for more."""
    data = bytes(each % 251 for each in range(500_000))
    pieces = [data[at : at + 5_000] for at in range(0, len(data), 5_000)]
    writes = Writes()

    class Fed(FileIO):
        """Before each read somebody writes one more piece, if there is one."""

        def readinto(self, buffer: WriteableBuffer, /) -> int | None:
            if pieces:
                made.write(0, pieces.pop(0))
            return super().readinto(buffer)

    with nothing_left(), patch.object(_drain, "FileIO", Fed), patch.object(_ring, "os", writes):
        made = Ground(tmp_path / "ring", split=False, buffer=1 << 20)
        assert made.drain.take()
        ends = [offset + size for offset, size in writes.those]
        assert ends == [*range(128 * 1024, HEADER_BYTES + len(data), 128 * 1024), HEADER_BYTES + len(data)]
        assert made.said(None) == data
        made.close()


@pytest.mark.parametrize("split", [False, True], ids=["one", "two"])
def test_what_is_best_appended_ends_at_a_boundary_of_the_file(split: bool, tmp_path: Path) -> None:
    """Also where the ring has gone round, and its size is no multiple of anything."""
    ring, writes = RingWriter(str(tmp_path / "ring"), 150_001, split=split), Writes()
    with patch.object(_ring, "os", writes):
        for size in (1, 100_000, 100_000, 70_001, 100_000, 100_000):
            ring.append(memoryview(bytes(size)))
            offset, written = writes.those[-1]
            assert 0 < ring.best_size <= BEST_BYTES
            assert (offset + written + ring.best_size) % BEST_BYTES == 0
    assert writes.those[-1][0] < ring.total - 200_000  # it has gone round
    ring.close()


def test_what_is_dropped_is_read_as_fast(tmp_path: Path) -> None:
    """Wherever in the file the last byte was kept: one before a boundary, a read of one byte would be the next."""
    reads = 0

    class Counted(FileIO):
        """Counts its reads."""

        def readinto(self, buffer: WriteableBuffer, /) -> int | None:
            nonlocal reads
            reads += 1
            return super().readinto(buffer)

    with nothing_left(), patch.object(_drain, "FileIO", Counted):
        made = Ground(tmp_path / "ring", split=False, buffer=BEST_BYTES)
        kept = BEST_BYTES - HEADER_BYTES - 1
        made.ring.append(memoryview(bytes(kept)))
        assert made.ring.best_size == 1
        made.ring.seal(proven=False)
        made.write(0, bytes(60_000))
        assert made.drain.take()
        assert (made.ring.total, reads) == (kept, 3)  # all of it; nothing; and nothing more has come meanwhile
        made.close()


@pytest.mark.parametrize("last", [b"", OSError(errno.EIO, "gone")], ids=["end", "error"])
def test_what_was_gathered_before_the_end_is_kept(last: bytes | OSError, tmp_path: Path) -> None:
    """Also where the next read fails, which is an end as well."""
    told: list[bytes | OSError] = [b"the last", b" words", last]

    class Ending(FileIO):
        """Reads what is told."""

        def readinto(self, buffer: WriteableBuffer, /) -> int | None:
            if isinstance(said := told.pop(0), OSError):
                raise said
            with memoryview(buffer) as room:
                room[: len(said)] = said
            return len(said)

    with nothing_left(), patch.object(_drain, "FileIO", Ending):
        ground = Ground(tmp_path / "ring", split=False)
        assert ground.drain.take()
        assert not ground.drain.open
        assert ground.said(None) == b"the last words"
        ground.close()


def test_pipes_that_cannot_be_had_leave_nothing() -> None:
    """Neither where the second one cannot be made, nor where it cannot be watched, nor read."""
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
        watched = Watched()
        made = [FileIO(reading[0], closefd=False)]

        def no_second(_pipe: int, *, closefd: bool) -> FileIO:
            if not made:
                raise OSError(errno.ENOMEM, "no more readers")
            assert not closefd
            return made.pop()

        with patch.object(_drain, "FileIO", no_second), pytest.raises(OSError, match="no more readers"):
            Drain(reading, RingWriter("/nowhere", 1), watched, memoryview(bytearray(1)), lambda: None)
        assert watched.those == []
        close_all((*reading, *writing))
