"""The outbox: what is durable at the sender and not yet known to be durable at the receiver.

Rules
- A unit is one atomic append; its bytes are final.  Units of one process are told in order; processes are independent.
- A mark is lazy: it rides on the outbox's next write.  Losing it costs one duplicate, which the journal knows.
- Nothing is ever dropped: a unit is delivered, superseded, quarantined, or waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from ._records import NewRecord


@attrs.frozen(kw_only=True)
class OutboxUnit:
    """One atomic append that is due; `position` orders units, `subject` (the handle) is whose order they keep."""

    position: int
    subject: str
    records: tuple[NewRecord, ...]


class Outbox(Protocol):
    """What the courier works from."""

    def heads(self) -> Sequence[OutboxUnit]:
        """For each process the first unit that is neither delivered nor quarantined, in order of position."""
        ...

    async def wait_changed(self) -> None:
        """Return when a unit was added since `heads()` was last called; at once if that has happened already."""
        ...

    async def wait_empty(self) -> None:
        """Return when there is no head; at once where there is none now.  What is quarantined is not waited for."""
        ...

    def mark_delivered(self, position: int) -> None:
        """The unit is durable at the receiver (or superseded there); it is a head no more.  Lazy, never raises."""
        ...

    def mark_failed(self, position: int, error: str) -> None:
        """One more try failed; told by `pending()`.  In memory only: tries are not history."""
        ...

    async def quarantine(self, position: int, error: str) -> None:
        """The unit can never be appended: keep it, durably, and let the process's next unit be the head."""
        ...
