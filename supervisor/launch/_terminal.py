"""A terminal for one job, as the host holds it: its size, and what is typed.

Theory of operation
- It is opened before anything is admitted, so that where none can be had nothing is recorded; its size is set before
  the program is executed.  The job opens the other side by its path, in a session of its own, which makes it the
  controlling terminal; its output is read from a copy of the host's side, by the job's keeper.
- What is typed goes through the line discipline, as from a keyboard.  In canonical mode, the usual one, the system
  keeps 4,095 bytes of a line and throws the rest away without a word: such a line is refused.
  How it is counted is in `_discipline`.
- There is no end of file on a terminal, only a character (VEOF, Ctrl-D) that ends a read: at the start of a line the
  read has nothing, which programs take for the end.  Behind an unfinished line it is typed twice: the first one hands
  over the line.

Rules
- A job that closes it may open `/dev/tty` later: what is typed meanwhile waits, for a while.  To the system's queue a
  terminal that nobody has open is always worth a look, so it is looked at by the clock.
- The host's side is held until the job has ended, whatever became of what was typed.
- What a mode decides is decided when `send` is called.  Whether a line is unfinished is known from what was sent here.
"""

from __future__ import annotations

import os
import select
import sys
import termios
from typing import Final, final

from .._errno import errno_name
from .._errors import ErrorCode, SupervisorError
from .._limits import TerminalSize
from .._reactor import Reactor
from .._timers import Timer, Timers
from ._discipline import Discipline, Line
from ._input import ENDED, LEFT, Input

MAX_LINE_BYTES: Final = 4095 if sys.platform == "linux" else 1023
"""Of a line in canonical mode, without what ends it."""

# For how long, and how often, somebody is waited for who opens it again: its keeper does so at once, if it can.
_TRY_SECONDS: Final = 0.02
_TRIES: Final = 50


@final
class TerminalInput(Input):
    """What is typed into a terminal that one job is to have, and the terminal's size."""

    __slots__ = ("_line", "_timer", "_timers", "_tries", "_typed", "path")

    def __init__(self, reactor: Reactor, timers: Timers, master: int, path: str, limit: int) -> None:
        """Own `master`, the host's side; `path` is the job's."""
        super().__init__(reactor, master, os.dup(master), limit)
        self.path: str = path
        """What the job is to open."""
        self._line = Line()
        self._typed = False  # the end of input
        self._timers = timers
        self._timer: Timer | None = None
        self._tries = _TRIES

    def hold(self) -> int | None:
        """None: the job's keeper has the host's side open for as long as the job lives."""
        return None

    def resize(self, size: TerminalSize) -> None:
        """Change its size; the foreground process group gets SIGWINCH.  Raises `SupervisorError`."""
        if self._writing is None:
            raise SupervisorError(ErrorCode.PTY_UNAVAILABLE, "the process has ended, and its terminal with it")
        try:
            termios.tcsetwinsize(self._writing, (size.rows, size.cols))
        except termios.error as error:
            raise SupervisorError(
                ErrorCode.PTY_UNAVAILABLE, f"its terminal takes no size now ({error.args[-1]}); try again, or stop it"
            ) from None

    def _check(self, data: bytes) -> None:
        if self._after(data)[0] > MAX_LINE_BYTES:
            raise SupervisorError(
                ErrorCode.INVALID_ARGUMENTS,
                f"a line of more than {MAX_LINE_BYTES} bytes, which a terminal in canonical mode would cut; nothing "
                "was taken: send shorter lines, have the program turn that mode off (`stty raw`), or use a pipe",
            )

    def _accept(self, data: bytes) -> None:
        _, self._line = self._after(data)
        if not self._pending:
            self._tries = _TRIES
        super()._accept(data)

    def _after(self, data: bytes) -> tuple[int, Line]:
        """How long the longest line is that there is with `data`, and the unfinished one that it leaves."""
        discipline = self._discipline()
        return (0, Line()) if discipline is None else discipline.after(self._line, data)

    def _finish(self) -> None:
        """Type what a program takes for the end, once; the terminal itself is there for as long as the job."""
        if not self._typed:
            self._typed = True
            if end := self._end_of_file():
                super()._accept(end)
                self._flush()  # which comes back here
                return
        self._close(ENDED)

    def _is_left(self) -> bool:
        if self._writing is None:
            return True
        poll = select.poll()
        poll.register(self._writing, 0)  # a hang-up is always told: nobody has the other side open
        return bool(poll.poll(0))

    def _on_refused(self) -> None:
        self._unwatch()
        if self._tries == 0:
            self._close(LEFT)
        elif self._timer is None:
            self._tries -= 1
            self._timer = self._timers.call_after(_TRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        self._on_room()

    def _watch(self) -> None:
        self._tries = _TRIES  # somebody has it open
        super()._watch()

    def _close(self, why: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super()._close(why)

    def _end_of_file(self) -> bytes:
        discipline = self._discipline()
        return b"" if discipline is None else discipline.end_behind(self._line)

    def _discipline(self) -> Discipline | None:
        if self._writing is None:
            return None
        try:
            return Discipline(termios.tcgetattr(self._writing))
        except termios.error:  # it was hung up
            return None


def open_terminal(reactor: Reactor, timers: Timers, size: TerminalSize, limit: int) -> TerminalInput:
    """A terminal of that size.  Raises `SupervisorError` (pty_unavailable): the system has none."""
    try:
        master, slave = os.openpty()
        try:
            path = os.ttyname(slave)
            termios.tcsetwinsize(master, (size.rows, size.cols))
            os.set_blocking(master, False)
            return TerminalInput(reactor, timers, master, path, limit)
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)  # the job's own is to be the only one: its end is the end of output
    except (OSError, termios.error) as error:
        code = errno_name(error.args[0] if error.args else None)
        raise SupervisorError(
            ErrorCode.PTY_UNAVAILABLE,
            f"the system has no terminal for it now ({code}); try again when others have ended, or leave pty out to "
            "run with pipes",
        ) from None
