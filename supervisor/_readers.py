"""Who waits for more of one process's output.  Plain bookkeeping: it asks nobody, and nobody polls."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import anyio


@final
class Readers:
    """Waiting tasks, each with the count of bytes that it has seen."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[anyio.Event, int] = {}

    @property
    def lowest(self) -> int | None:
        """The count above which the next one wakes; None where nobody waits."""
        return min((after for event, after in self._waiting.items() if not event.is_set()), default=None)

    async def wait(self, after: int, ask: Callable[[], None]) -> None:
        """Until there are more than `after` bytes, or `wake_all`; `ask` has somebody tell, now that one more waits."""
        event = anyio.Event()
        self._waiting[event] = after
        try:
            ask()
            await event.wait()
        finally:
            del self._waiting[event]

    def wake(self, total: int) -> None:
        """There are `total` bytes by now."""
        for event, after in self._waiting.items():
            if total > after:
                event.set()

    def wake_all(self) -> None:
        """Nothing more will come."""
        for event in self._waiting:
            event.set()
