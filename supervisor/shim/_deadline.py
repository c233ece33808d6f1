"""When a job gets SIGKILL, and when that ought to have ended it.

Theory of operation
- The time that SIGKILL has is counted from the first one that was sent, however late that was.
- It is counted in looks, too: of a time in which this process did not run (nor, most likely, did who was killed: a
  machine that stood still) only one look counts.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Callable

# In no fewer.
LOOKS = 10


class Deadline:
    """Of one order."""

    __slots__ = ("_kill_at", "_killed_at", "_looks", "_now", "late")

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` gives monotonic seconds."""
        self._now = now
        self.set(0.0)

    def set(self, kill_at: float) -> None:
        """A new order: SIGKILL then."""
        self.late = False
        """Whether its time was over, and that was told."""
        self._kill_at = kill_at
        self._killed_at: float | None = None
        self._looks = 0

    def allows(self, kill_at: float) -> bool:
        """Whether another order would have SIGKILL come sooner."""
        return kill_at < self._kill_at

    @property
    def due(self) -> bool:
        """Whether it is time for SIGKILL."""
        return self._now() >= self._kill_at

    def look(self, seconds: float) -> bool:
        """SIGKILL was sent, and somebody is left: whether it has had its time, `seconds` from the first look on."""
        now = self._now()
        if self._killed_at is None:
            self._killed_at = now
        self._looks += 1
        return now >= self._killed_at + seconds and self._looks > LOOKS
