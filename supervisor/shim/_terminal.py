"""A terminal as a job's keeper holds it: the host's side is read as its output, and tells its foreground processes.

Theory of operation
- Reading answers EIO while nobody has the other side open.  For the leader's life that is no end: it may have closed
  it, and open `/dev/tty` later.  Then the other side is held open here, without becoming anybody's controlling
  terminal, so that nothing has to be looked for again and again; it is let go of when the leader has ended.
- After the leader's end EIO is the end of output.  The system hangs the terminal up then, and tells the foreground
  processes by SIGHUP: whoever still has the other side open can write no more.
- The system counts as waiting only what its line discipline has taken in, not what is on its way there.  A read brings
  that on, so what waits is known by reading until there is nothing.
"""

from __future__ import annotations

import fcntl
import os
import signal

from ._drain import Drain

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._ports import Descriptors
    from ._ring import RingWriter

# include/uapi/asm-generic/ioctls.h; Python has no name for it.  Some processors number it otherwise, and answer ENOTTY.
_TIOCSIG = 0x40045436

# More than can wait in the system (some 20 KiB).
_MOST_WAITING = 128 * 1024


class Terminal:
    """The host's side of one, non-blocking, owned by whoever reads it; `path` is the other side's."""

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path
        self.open = True

    @property
    def foreground(self) -> int:
        """The foreground process group; 0 where there is none."""
        try:
            return max(0, os.tcgetpgrp(self.descriptor)) if self.open else 0
        except OSError:
            return 0

    def serves_others(self, group: int) -> bool:
        """Whether an interrupt goes to another group than that one."""
        return self.foreground not in (0, group)

    def interrupt(self) -> bool:
        """SIGINT to the foreground process group, whatever the mode says of Ctrl-C; False where there is none."""
        group = self.foreground
        if not group:
            return False
        try:
            fcntl.ioctl(self.descriptor, _TIOCSIG, int(signal.SIGINT))
        except OSError:
            try:
                os.killpg(group, signal.SIGINT)
            except OSError:
                return False
        return True


class TerminalDrain(Drain):
    """Reads a terminal to its end, and owns it."""

    def __init__(
        self,
        terminal: Terminal,
        ring: RingWriter,
        descriptors: Descriptors,
        buffer: memoryview,
        on_readable: Callable[[], None],
    ) -> None:
        """As `Drain`."""
        super().__init__((terminal.descriptor,), ring, descriptors, buffer, on_readable)
        self._terminal = terminal
        self._held: int | None = None
        self._over = False

    def take_waiting(self) -> bool:
        """The leader has ended: read what is there now, and no more; whether there was anything."""
        self._over = True
        self._let_go()
        taken = self.open and self._read(self._terminal.descriptor, _MOST_WAITING, _MOST_WAITING) > 0
        return self._publish(taken)

    def close(self) -> None:
        """Let go of it.  Idempotent."""
        self._terminal.open = False
        self._let_go()
        super().close()

    def close_in_fork(self) -> None:
        """See `Drain.close_in_fork`."""
        self._terminal.open = False
        self._let_go()
        super().close_in_fork()

    def _end(self, pipe: int) -> None:
        """Nobody has the other side open."""
        if not self._over and self._held is None:
            try:
                self._held = os.open(self._terminal.path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            except OSError:
                pass  # no descriptor is left: this is its end after all
            else:
                return
        self.close()

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            os.close(held)


def drain_of(
    pipes: tuple[int, ...],
    terminal: Terminal | None,
    ring: RingWriter,
    descriptors: Descriptors,
    buffer: memoryview,
) -> Callable[[Callable[[], None]], Drain]:
    """What makes a job's drain, once it is known who is called: of its `pipes`, or of its `terminal`."""
    if terminal is None:
        return lambda on_readable: Drain(pipes, ring, descriptors, buffer, on_readable)
    return lambda on_readable: TerminalDrain(terminal, ring, descriptors, buffer, on_readable)
