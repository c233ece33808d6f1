"""What a scripted job is to its keeper: alive until the test, or a signal, ends it."""

from __future__ import annotations

import os
from collections.abc import Callable
from signal import Signals
from typing import Final, final

import anyio

_NEVER_ENDS: Final = frozenset({Signals.SIGCONT})
"""Of the signals that a stop sends, those whose default is not to end the process."""


@final
class ScriptedLeader:
    """Has a status once it has ended, and until then reads, writes and takes signals."""

    def __init__(self, stdin: int) -> None:
        """Own `stdin`, a descriptor."""
        os.set_blocking(stdin, False)
        self.stdin: int | None = stdin
        self.status: int | None = None
        """As from waitpid."""
        self.signals: list[Signals] = []
        """What it was sent."""
        self.handlers: dict[Signals, Callable[[], None] | None] = {}
        """What it does of a signal in place of dying: None is nothing."""
        self.put: Callable[[bytes, int], None] = _nowhere
        """Where what it writes goes, with the stream's number."""
        self.on_end: Callable[[], None] = _nobody
        """Called when it has ended, before anything of it is told."""

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.status is None

    def check_running(self) -> None:
        """Raise `RuntimeError` where it has ended."""
        if not self.running:
            raise RuntimeError("the scripted job has ended already")

    def take_signal(self, number: int) -> None:
        """It is sent a signal; nothing happens where it has ended."""
        if not self.running:
            return
        sent = Signals(number)
        self.signals.append(sent)
        if sent in self.handlers:
            act = self.handlers[sent]
            if act is not None:
                act()
        elif sent not in _NEVER_ENDS:
            self.end(number)

    def end(self, status: int) -> None:
        """It ends so; `status` is as from waitpid."""
        self.check_running()
        self.status = status
        self.let_go()
        self.on_end()

    def let_go(self) -> None:
        """It reads nothing any more.  Idempotent."""
        stdin, self.stdin = self.stdin, None
        if stdin is not None:
            anyio.notify_closing(stdin)
            os.close(stdin)


def _nowhere(data: bytes, stream: int) -> None:
    """Before it has a keeper."""


def _nobody() -> None:
    """Before it has a keeper."""
