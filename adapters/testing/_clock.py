"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio


class ManualClock:
    """A `Clock` whose time only `advance` moves; sleepers wake in the order of their deadlines.

    Give it to `open_runtime(clock=)`, with scripted jobs: a real process does not know of it.
    """

    def __init__(self) -> None:
        self.elapsed: float = 0.0
        self._sleepers: list[tuple[float, anyio.Event]] = []

    def now(self) -> datetime:
        """A time in 2026, and what has elapsed since."""
        return datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC) + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        """The seconds that have elapsed."""
        return self.elapsed

    async def sleep(self, seconds: float) -> None:
        """Return once `advance` has come so far; 0 waits for it, too."""
        sleeper = (self.elapsed + seconds, anyio.Event())
        self._sleepers.append(sleeper)
        try:
            await sleeper[1].wait()
        finally:
            self._sleepers.remove(sleeper)

    @property
    def next_deadline(self) -> float | None:
        """When the first sleeper wants to wake, on this clock's own scale."""
        return min((deadline for deadline, _ in self._sleepers), default=None)

    @property
    def deadlines(self) -> list[float]:
        """When each sleeper wants to wake, on this clock's own scale."""
        return [deadline for deadline, _ in self._sleepers]

    def advance(self, seconds: float) -> None:
        """Move time on, and wake whoever is due; they go on when the caller next waits."""
        self.elapsed += seconds
        for deadline, event in sorted(self._sleepers, key=lambda sleeper: sleeper[0]):
            if deadline <= self.elapsed:
                event.set()
