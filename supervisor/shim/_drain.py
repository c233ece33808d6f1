"""The read ends of a job's output: what comes goes into the ring until that is sealed, and away after it.

- A job whose output nobody takes would block, and one whose reader is gone would die of SIGPIPE: so it is read to its
  end.
- Both streams in one pipe are in exact order.  Of two pipes each is read in turn: what was written to them between two
  looks comes standard output first.
- Of one pipe several reads are gathered before they are kept: most programs write 4 KiB or 8 KiB at a time, and a file
  is written fastest in large pieces (see `RingWriter.best_size`).
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from io import FileIO

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from ._ports import Descriptors
    from ._ring import RingWriter

    Pipe: TypeAlias = tuple[Callable[[memoryview], int | None], int]
    """How it is read, as by `FileIO.readinto`, and its stream."""

# How often it is read, and how much is kept, before others get their turn.  Until nothing is there: a writer that is at
# it has most often written more by the time its last piece is kept, and asking again is cheaper than to be told.
_READS = 512
_BYTES = 2 * 1024 * 1024


def open_pipes(*, split: bool) -> tuple[tuple[int, ...], tuple[int, int]]:
    """The read ends (one, or `split` one for each stream), non-blocking, and the write ends for stdout and stderr.

    None is inherited.  Raises OSError, and nothing is left open.
    """
    pipes: list[tuple[int, int]] = []
    try:
        for _ in range(1 + split):
            pipes.append(os.pipe())
            os.set_blocking(pipes[-1][0], False)
    except BaseException:
        for pipe in pipes:
            close_all(pipe)
        raise
    return tuple(reading for reading, _ in pipes), (pipes[0][1], pipes[-1][1])


def close_all(descriptors: Iterable[int]) -> None:
    """Close each of them, once."""
    for descriptor in set(descriptors):
        os.close(descriptor)


class Drain:
    """Non-blocking pipes, owned, and the ring that they go into; their order is that of the streams."""

    def __init__(
        self,
        pipes: tuple[int, ...],
        ring: RingWriter,
        descriptors: Descriptors,
        buffer: memoryview,
        on_readable: Callable[[], None],
    ) -> None:
        """`on_readable` is called whenever there is something to `take`; `buffer` may serve many."""
        self._pipes: dict[int, Pipe] = {}  # the open ones
        self._ring = ring
        self._descriptors = descriptors
        self._buffer = buffer
        try:
            for stream, pipe in enumerate(pipes):
                read = FileIO(pipe, closefd=False).readinto
                descriptors.add(pipe, on_readable)
                self._pipes[pipe] = read, stream
        except BaseException:
            for pipe in self._pipes:
                descriptors.remove(pipe)
            raise

    @property
    def open(self) -> bool:
        """Whether an end was not seen yet: somebody holds the other side."""
        return bool(self._pipes)

    def take(self) -> bool:
        """Read what is there, within reason; whether there was anything."""
        pipes = tuple(self._pipes)
        taken = self._read(pipes[0], _READS, _BYTES) if len(pipes) == 1 else self._take_in_turn()
        return self._publish(taken > 0)

    def _take_in_turn(self) -> int:
        taken, reads, more = 0, _READS, True
        while more and reads > 0 and taken < _BYTES:
            more = False
            for pipe in tuple(self._pipes):
                count = self._read(pipe)
                more = more or count > 0
                taken += count
                reads -= 1
        return taken

    def take_waiting(self) -> bool:
        """Read what is in the pipes now, and hardly more: a writer may go on for ever.  Whether there was anything."""
        taken = False
        for pipe in tuple(self._pipes):
            waiting = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"))[0]
            while waiting > 0 and (count := self._read(pipe)) > 0:
                taken = True
                waiting -= count
        for pipe in tuple(self._pipes):
            # Most often this is the end of file, and nothing has to be waited for.
            taken = self._read(pipe) > 0 or taken
        return self._publish(taken)

    def _publish(self, taken: bool) -> bool:
        if taken:
            self._ring.publish()
        return taken

    def close(self) -> None:
        """Let go of them.  Idempotent."""
        for pipe in tuple(self._pipes):
            self._close(pipe)

    def close_in_fork(self) -> None:
        """This process is a fork of the one that reads: it holds nothing, and touches nothing else."""
        pipes, self._pipes = tuple(self._pipes), {}
        for pipe in pipes:
            os.close(pipe)

    def _close(self, pipe: int) -> None:
        if self._pipes.pop(pipe, None) is not None:
            self._descriptors.remove(pipe)
            os.close(pipe)

    def _end(self, pipe: int, /) -> None:
        """Nothing more will come by it."""
        self._close(pipe)

    def _read(self, pipe: int, reads: int = 1, most: int = 1) -> int:
        """Read until nothing is there, or so often, or until so much went into the ring; how much did."""
        read, stream = self._pipes[pipe]
        ring, buffer = self._ring, self._buffer
        taken, filled, room = 0, 0, min(len(buffer), ring.best_size)
        while True:
            try:
                count = read(buffer[filled:room])  # None: nothing is there
            except OSError:
                count = 0  # no less an end
            reads -= 1
            filled += count or 0
            if count and filled < room and reads > 0:
                continue
            if not filled:
                break
            ring.append(buffer[:filled], stream)  # which drops it once it is sealed
            taken += filled
            if count == 0 or reads <= 0 or taken >= most:
                break
            filled, room = 0, min(len(buffer), ring.best_size)
        if count == 0:
            self._end(pipe)
        return taken
