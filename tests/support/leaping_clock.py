"""A clock that goes as the system's does, and leaps when a test says so: a timeout comes after what it is to hit."""

from __future__ import annotations

import anyio

from lastword.notifier import SystemClock


class LeapingClock(SystemClock):
    """Monotonic time can be moved on; who sleeps until then wakes."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._leapt = anyio.Event()

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead

    async def sleep(self, seconds: float) -> None:
        due = self.monotonic() + seconds
        while (left := due - self.monotonic()) > 0:
            with anyio.move_on_after(left):
                await self._leapt.wait()

    def leap(self, seconds: float) -> None:
        """It is so much later."""
        self._ahead += seconds
        self._leapt.set()
        self._leapt = anyio.Event()
