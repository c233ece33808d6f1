"""How long a shim may be silent that owes an answer, and what is done to one whose zygote is dead.

A shim that does not answer was stopped, by its job most likely, or is stuck.  Its zygote would continue or kill it;
where there is none any more, it is continued from here, and killed when that did not help.

It is counted in turns: of a time in which this very process did not run (a machine that stood still) one turn counts,
and who owes the answer has the others.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final, final

from .._timers import Timer, Timers
from ._line import ShimLine

_TURNS: Final = 5


@final
class Patience:
    """The one thing that a child waits for."""

    __slots__ = ("_line", "_roused", "_timer", "_timers", "shim")

    def __init__(self, timers: Timers, line: ShimLine) -> None:
        self._timers = timers
        self._line = line
        self._timer: Timer | None = None
        self._roused = False
        self.shim: int = 0
        """The shim's pid, once it has told it."""

    @property
    def waits(self) -> bool:
        """Whether something is due."""
        return self._timer is not None

    def wait(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call `callback` in so many seconds, and nothing else that was due."""
        self.stop()
        self._wait(seconds / _TURNS, _TURNS, callback)

    def _wait(self, seconds: float, turns: int, callback: Callable[[], None]) -> None:
        last = turns == 1
        self._timer = self._timers.call_after(
            seconds, callback if last else lambda: self._wait(seconds, turns - 1, callback)
        )

    def stop(self) -> None:
        """It has come.  Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def rouse_or_kill(self, still: Callable[[], bool]) -> None:
        """Have the shim go on; the next time, end it.  `still`: see `ShimLine.signal`."""
        if self._line.signal(self.shim, signal.SIGKILL if self._roused else signal.SIGCONT, still):
            self._roused = True
