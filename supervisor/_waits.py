"""Who waits for what of one process.  Plain bookkeeping: it decides nothing, and asks nobody.

What is waited for, in the order in which it happens:

    launched   it runs and that is durable, or it never will
    tried      its last word was tried to be stored, with success or without
    over       its last word is durable, or nobody is left to make it so
    emptied    no survivor of it is kept any more

Watchers wait for whichever comes first: the end, or an order that did not end it.  Readers wait for output.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import final

import anyio
from anyio.lowlevel import checkpoint

from ._errors import ErrorCode, SupervisorError
from ._latch import Latch
from ._readers import Readers

_UNTOLD = (
    "the supervisor has closed before the process's last word could be stored; "
    "it is told at the next opening of the state directory"
)


@final
class Waits:
    """Everybody who waits for one process."""

    __slots__ = ("_watchers", "abandoned", "emptied", "launched", "over", "readers", "tried")

    def __init__(self) -> None:
        self.launched: Latch = Latch()
        self.tried: Latch = Latch()
        self.over: Latch = Latch()
        self.emptied: Latch = Latch()
        self.readers: Readers = Readers()
        self.abandoned: bool = False
        """Nobody will make its last word durable any more."""
        self._watchers: set[anyio.Event] = set()

    def end(self) -> None:
        """Nothing more will come: all go on who wait for anything but survivors."""
        for latch in (self.launched, self.tried, self.over):
            latch.set()
        self.wake_watchers()
        self.readers.wake_all()

    def abandon(self) -> None:
        """Nobody will tell them anything any more."""
        self.abandoned = True
        self.emptied.set()
        self.end()

    def refuse_abandoned(self, *, ended: bool) -> None:
        """Raise `SupervisorError` where it was abandoned before it had `ended`."""
        if self.abandoned and not ended:
            raise SupervisorError(ErrorCode.SUPERVISOR_SHUTTING_DOWN, _UNTOLD)

    @contextmanager
    def watching(self) -> Generator[anyio.Event]:
        """An event that is set by the next end, of the process or its survivors, and by an order that was stuck."""
        event = anyio.Event()
        self._watchers.add(event)
        try:
            yield event
        finally:
            self._watchers.discard(event)

    def wake_watchers(self) -> None:
        """It has ended, or an order did not end it."""
        for event in tuple(self._watchers):
            event.set()

    async def output(self, after: int, total: Callable[[], int], ask: Callable[[], None]) -> None:
        """Until `total()` is more than `after`, or it is over; `ask` has somebody tell.  A checkpoint."""
        if total() > after or self.over.is_set():
            await checkpoint()
        else:
            await self.readers.wait(after, ask)
