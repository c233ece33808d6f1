"""What an answer tells the model counts as told only once the answer is given.

An answer is made over several awaits, and its call can be cancelled at each of them; so what it tells is noted as it is
made, and handed over in the same step in which the handler returns.
"""

from __future__ import annotations

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
        """The answer is given in this step."""
        for process in self._told:
            listener.told(process)
