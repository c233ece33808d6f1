"""What an answer tells the model counts as told only once the answer is given.

An answer is made over several awaits, and its call can be cancelled at each of them; so what it tells is noted as it is
made, and handed over in the same step in which the handler returns.  Where a host puts several results into one answer
of its own, that can be cancelled between two of them: `one_answer` hands over all, or none.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, final

from ...supervisor import Process
from ._result import Result, state_of


class Listener(Protocol):
    """Who wants to know what the model has been told by results."""

    def told(self, process: Process) -> None:
        """A result that was given has the last word of this process."""
        ...

    def left(self, process: Process) -> None:
        """The call that had started this process has given no result that names it."""
        ...


@final
class Unheard:
    """Nobody wants to know: every notice stays pending until its loop acknowledges it."""

    def told(self, process: Process) -> None:
        """Nothing is done."""

    def left(self, process: Process) -> None:
        """Nothing is done."""


@final
class Telling:
    """Of one call."""

    def __init__(self) -> None:
        self._told: list[Process] = []
        self.begun: list[Process] = []

    def state(self, process: Process) -> Result:
        """Where the process is in its life, as part of the answer."""
        if process.outcome is not None:
            self.ended(process)
        return state_of(process)

    def began(self, process: Process) -> None:
        """The call has started this process: if no answer is given, the model does not know of it."""
        self.begun.append(process)

    def ended(self, process: Process) -> None:
        """The answer has the process's last word, whether or not that is durable by now."""
        self._told.append(process)

    def given(self, listener: Listener) -> None:
        """The answer is given in this step; within `one_answer`, when that is."""
        together = _together.get()
        if together is not None:
            together.append((self, listener))
            return
        for process in self._told:
            listener.told(process)

    def lost(self, listener: Listener) -> None:
        """The answer was given, and has got no further."""
        for process in self.begun:
            if process.outcome is None:
                listener.left(process)


_together: ContextVar[list[tuple[Telling, Listener]] | None] = ContextVar("_together", default=None)


@contextmanager
def one_answer() -> Generator[None]:
    """The results of all handlers that are called in the block are one answer: they count as told when it is left.

    Where it raises, or is cancelled, none of them does: the next bulletin of their `Notices` has a line for each end
    that they have told, and for each command that goes on.  No await may come between the block's end and the caller.
    """
    together: list[tuple[Telling, Listener]] = []
    token = _together.set(together)
    try:
        yield
    except BaseException:
        for telling, listener in together:
            telling.lost(listener)
        raise
    finally:
        _together.reset(token)
    for telling, listener in together:
        telling.given(listener)
