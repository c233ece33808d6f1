"""Every deadline of a supervisor: one heap, one task, the injected clock.  A timeout costs no task.

A callback that raises is logged: one job's fault must not end the task that all are served by.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from itertools import count

import anyio

from ..notifier import Clock

logger = logging.getLogger(__name__)


class Timer:
    """One call that is due; `cancel()` is idempotent, and harmless after the call."""

    __slots__ = ("_callback", "_note_cancelled")

    def __init__(self, callback: Callable[[], None], note_cancelled: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback
        self._note_cancelled = note_cancelled

    @property
    def waits(self) -> bool:
        """Whether it was neither cancelled nor called."""
        return self._callback is not None

    def cancel(self) -> None:
        """Do not call."""
        if self._callback is not None:
            self._callback = None
            self._note_cancelled()

    def fire(self) -> None:
        """Call, unless that was cancelled or has been done."""
        callback, self._callback = self._callback, None
        if callback is None:
            return
        try:
            callback()
        except Exception:
            logger.exception("what was due for a process failed in a way that nobody foresaw")


class Timers:
    """Calls back at given times of the clock's monotonic scale; the callbacks run in `run()`'s task, in order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Timer]] = []
        self._cancelled = 0  # how many entries of the heap
        self._order = count()
        self._sleep: anyio.CancelScope | None = None

    def now(self) -> float:
        """The clock's monotonic seconds."""
        return self._clock.monotonic()

    def call_after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Have `callback` called `seconds` from now; at the next round for 0."""
        timer = Timer(callback, self._note_cancelled)
        entry = (self.now() + seconds, next(self._order), timer)
        heapq.heappush(self._heap, entry)
        if self._heap[0] is entry and self._sleep is not None:
            self._sleep.cancel()  # the new one is the earliest: sleep anew
        return timer

    async def run(self) -> None:
        """Call what is due, until cancelled."""
        while True:
            while self._heap and self._heap[0][0] <= self.now():
                timer = heapq.heappop(self._heap)[2]
                if timer.waits:
                    timer.fire()
                else:
                    self._cancelled -= 1
            with anyio.CancelScope() as self._sleep:
                if self._heap:
                    await self._clock.sleep(max(0.0, self._heap[0][0] - self.now()))
                else:
                    await anyio.sleep_forever()
            self._sleep = None

    def _note_cancelled(self) -> None:
        """Most timers are cancelled long before they are due: when half of the entries were, they go."""
        self._cancelled += 1
        if self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].waits]
            heapq.heapify(self._heap)
            self._cancelled = 0
