"""A shim's (or the zygote's) event loop: descriptors, timers and the ends of children, in one thread.

Ends of children are told by SIGCHLD through a pipe, so that they are one more descriptor.
"""

from __future__ import annotations

import heapq
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


# The system's call without what `signal` puts around it: the translation of numbers into enums and back touches more of
# the memory that a shim shares with the zygote than all else that a loop needs.
set_signal: Callable[[int, Any], object] = getattr(sys.modules.get("_signal"), "signal", signal.signal)


class Timer:
    """One call that is due; `cancel()` is idempotent."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Do not call."""
        self.callback = None


class Loop:
    """Calls back until `stop()`."""

    def __init__(self) -> None:
        """Take SIGCHLD over."""
        self._poll = select.poll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = 0
        self._running = True
        self.on_child: Callable[[], None] = _nobody
        """What is called after children have ended (once for many)."""
        self._wake, self._signalled = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(self._signalled, warn_on_full_buffer=False)
        set_signal(signal.SIGCHLD, _ignore)
        self.add(self._wake, self._on_wake)

    @property
    def descriptors(self) -> tuple[int, int]:
        """What a fork of this process must close."""
        return self._wake, self._signalled

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def add(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call `callback` whenever `descriptor` is readable or at its end."""
        self._callbacks[descriptor] = callback
        self._poll.register(descriptor, select.POLLIN)

    def remove(self, descriptor: int) -> None:
        """Forget `descriptor`.  Idempotent."""
        if self._callbacks.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def call_after(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` in so many seconds."""
        timer = Timer(callback)
        self._order += 1
        heapq.heappush(self._heap, (self.now() + seconds, self._order, timer))
        return timer

    def stop(self) -> None:
        """Leave `run`."""
        self._running = False

    def run(self) -> None:
        """Serve until stopped.  What a callback raises ends it."""
        while self._running:
            for descriptor, _ in self._poll.poll(self._milliseconds()):
                callback = self._callbacks.get(descriptor)  # an earlier one may have removed it
                if callback is not None:
                    callback()
            while self._heap and self._heap[0][0] <= self.now():
                timer = heapq.heappop(self._heap)[2]
                callback, timer.callback = timer.callback, None
                if callback is not None:
                    callback()

    def _milliseconds(self) -> float | None:
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
        return max(0.0, (self._heap[0][0] - self.now()) * 1000) if self._heap else None

    def _on_wake(self) -> None:
        os.read(self._wake, 4096)
        self.on_child()


def _nobody() -> None:
    """Nobody wants to know."""


def _ignore(_number: int, _frame: object) -> None:
    """There must be a handler for the pipe to be written."""
