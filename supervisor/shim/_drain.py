"""The read end of a job's output: what comes goes into the ring until that is sealed, and away after it.

A job whose output nobody takes would block, and one whose reader is gone would die of SIGPIPE: so it is read to its
end.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._ports import Descriptors
    from ._ring import RingWriter

# How often it is read before others get their turn.
_READS = 8


class Drain:
    """A non-blocking pipe, owned, and the ring that it goes into."""

    def __init__(
        self,
        pipe: int,
        ring: RingWriter,
        descriptors: Descriptors,
        buffer: memoryview,
        on_readable: Callable[[], None],
    ) -> None:
        """`on_readable` is called whenever there is something to `take`; `buffer` may serve many."""
        self._pipe: int | None = pipe
        self._ring = ring
        self._descriptors = descriptors
        self._buffer = buffer
        descriptors.add(pipe, on_readable)

    @property
    def open(self) -> bool:
        """Whether its end was not seen yet: somebody holds the other side."""
        return self._pipe is not None

    def take(self) -> bool:
        """Read what is there, within reason; whether there was anything."""
        taken = False
        for _ in range(_READS):
            count = self._read()
            taken = taken or count > 0
            if count < len(self._buffer):  # empty by now, or at its end
                break
        if taken:
            self._ring.publish()
        return taken

    def take_waiting(self) -> bool:
        """Read what is in the pipe now, and no more, for a writer may go on for ever; whether there was anything."""
        if self._pipe is None:
            return False
        waiting = struct.unpack("i", fcntl.ioctl(self._pipe, termios.FIONREAD, b"\0\0\0\0"))[0]
        taken = False
        while waiting > 0:
            count = self._read()
            if count <= 0:
                break
            taken = True
            waiting -= count
        if taken:
            self._ring.publish()
        self._read()  # most often this is the end of file, and nothing has to be waited for
        return taken

    def close(self) -> None:
        """Let go of it.  Idempotent."""
        if self._pipe is not None:
            self._descriptors.remove(self._pipe)
            os.close(self._pipe)
            self._pipe = None

    def _read(self) -> int:
        """Read once; the count, 0 at end of file, -1 where nothing is there now."""
        if self._pipe is None:
            return -1
        try:
            count = os.readv(self._pipe, [self._buffer])
        except (BlockingIOError, InterruptedError):
            return -1
        except OSError:
            count = 0
        if count == 0:
            self.close()
        else:
            self._ring.append(self._buffer[:count])  # which drops it once it is sealed
        return count
