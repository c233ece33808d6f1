"""Something that happens once, and who waits for it.

A process has several of these for as long as it lives, and hardly anybody waits: an `anyio.Event` for each would be
most of what an idle one costs (on asyncio 0.9 KB each).  So there is an event only while somebody waits.
"""

from __future__ import annotations

from typing import final

import anyio
from anyio.lowlevel import checkpoint


@final
class Latch:
    """As `anyio.Event`, made on demand."""

    __slots__ = ("_event", "_set")

    def __init__(self) -> None:
        self._set = False
        self._event: anyio.Event | None = None

    def set(self) -> None:
        """It has happened: all who wait go on.  Idempotent."""
        self._set = True
        event, self._event = self._event, None
        if event is not None:
            event.set()

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._set

    async def wait(self) -> None:
        """Until it has happened.  A checkpoint."""
        if self._set:
            await checkpoint()
            return
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()
