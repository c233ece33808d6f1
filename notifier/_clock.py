"""Time, injected: every timer in the library goes through a `Clock`, so that tests and simulations own it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

import anyio


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """The wall clock, aware; used for records only, never to measure a span."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow; used for every deadline."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of monotonic time; a checkpoint, and cancellable."""
        ...


class SystemClock:
    """The machine's own clocks and the event loop's own sleep."""

    def now(self) -> datetime:
        """The wall clock in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """`time.monotonic()`."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """`anyio.sleep()`."""
        await anyio.sleep(seconds)
