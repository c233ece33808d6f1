"""The courier's view of the store: every unit that is not yet known to be at the receiver, in memory, backed by rows.

Rules
- A unit enters here only once it is durable in the store, and leaves its row only after it was delivered.
- Marks of delivery ride on the store's next write.  A mark that is lost with the host costs one duplicate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import final

import anyio
import attrs
from anyio.lowlevel import checkpoint

from ..notifier import NewRecord, OutboxUnit, PendingDelivery, RecordKind
from ._store import Store


@attrs.define(eq=False)
class _Entry:
    unit: OutboxUnit
    attempts: int = 0
    last_error: str | None = None


@final
class StoreOutbox:
    """Implements `lastword.notifier.Outbox`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[str, deque[_Entry]] = {}
        self._entries: dict[int, _Entry] = {}
        self._quarantined: dict[int, _Entry] = {}
        self._changed = False
        self._change = anyio.Event()
        self._empty = anyio.Event()
        self._last_position = 0

    def next_position(self) -> int:
        """A position after every one that was ever given out by this outbox or is in the store."""
        self._last_position += 1
        return self._last_position

    def restore(self, units: Iterable[tuple[OutboxUnit, str | None]]) -> None:
        """Take over what the store holds at opening, in order; the text is the reason of a quarantine."""
        for unit, error in units:
            self._last_position = max(self._last_position, unit.position)
            if error is None:
                self.add((unit,))
            else:
                self._quarantined[unit.position] = _Entry(unit, last_error=error)

    def add(self, units: Iterable[OutboxUnit]) -> None:
        """Take over units that have just become durable; wakes the courier."""
        for unit in units:
            entry = _Entry(unit)
            self._entries[unit.position] = entry
            self._waiting.setdefault(unit.subject, deque()).append(entry)
            self._tell_changed()

    def undelivered(self) -> list[PendingDelivery]:
        """Every record that is held, in order of position."""
        held = [*self._entries.items(), *self._quarantined.items()]
        return [
            undelivered_record(
                record,
                entry.unit.subject,
                quarantined=position in self._quarantined,
                attempts=entry.attempts,
                error=entry.last_error,
            )
            for position, entry in sorted(held, key=lambda item: item[0])
            for record in entry.unit.records
        ]

    # --- the port -----------------------------------------------------------------------------------------------------

    def heads(self) -> list[OutboxUnit]:
        """See `Outbox.heads`."""
        self._changed = False
        return sorted((queue[0].unit for queue in self._waiting.values()), key=lambda unit: unit.position)

    async def wait_changed(self) -> None:
        """See `Outbox.wait_changed`."""
        if self._changed:
            await checkpoint()
            return
        await self._change.wait()

    async def wait_empty(self) -> None:
        """See `Outbox.wait_empty`."""
        while self._waiting:
            await self._empty.wait()
        await checkpoint()

    def mark_delivered(self, position: int) -> None:
        """See `Outbox.mark_delivered`."""
        if self._remove(position) is not None:
            self._store.forget_unit(position)

    def mark_failed(self, position: int, error: str) -> None:
        """See `Outbox.mark_failed`."""
        entry = self._entries.get(position)
        if entry is not None:
            entry.attempts += 1
            entry.last_error = error

    async def quarantine(self, position: int, error: str) -> None:
        """See `Outbox.quarantine`; cancelled before it is durable, the unit stays a head."""
        if position not in self._entries:
            return
        await self._store.quarantine(position, error)
        entry = self._remove(position)
        if entry is not None:
            entry.last_error = error
            self._quarantined[position] = entry
            self._tell_changed()

    # --- small acts ---------------------------------------------------------------------------------------------------

    def _remove(self, position: int) -> _Entry | None:
        entry = self._entries.pop(position, None)
        if entry is None:
            return None
        queue = self._waiting[entry.unit.subject]
        queue.remove(entry)
        if not queue:
            del self._waiting[entry.unit.subject]
        if not self._waiting:
            self._empty.set()
            self._empty = anyio.Event()
        return entry

    def _tell_changed(self) -> None:
        self._changed = True
        self._change.set()
        self._change = anyio.Event()


def undelivered_record(
    record: NewRecord, handle: str, *, quarantined: bool, attempts: int = 0, error: str | None = None
) -> PendingDelivery:
    """A record that is still here, for people to look at."""
    return PendingDelivery(
        record_id=record.record_id,
        kind="notification" if record.kind is RecordKind.COMMAND else "event",
        process_handle=handle,
        attempts=attempts,
        status="quarantined" if quarantined else "waiting",
        last_error=error,
    )
