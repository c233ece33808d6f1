"""The smallest outbox that keeps the port's promises; in memory, for the courier's tests."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import anyio

from lastword.notifier import NewRecord, OutboxUnit, RecordKind


class MemoryOutbox:
    """Units in order, with what was marked, failed and quarantined open to the tests."""

    def __init__(self) -> None:
        self.units: list[OutboxUnit] = []
        self.delivered: list[int] = []
        self.failed: list[tuple[int, str]] = []
        self.quarantined: dict[int, str] = {}
        self._changed = anyio.Event()
        self._empty = anyio.Event()
        self._empty.set()

    def add(self, subject: str, *payloads: bytes) -> OutboxUnit:
        records = tuple(NewRecord(uuid4(), RecordKind.EVENT, payload, subject=subject) for payload in payloads)
        unit = OutboxUnit(position=len(self.units) + 1, subject=subject, records=records)
        self.units.append(unit)
        self._empty = anyio.Event()
        self._changed.set()
        return unit

    def heads(self) -> Sequence[OutboxUnit]:
        self._changed = anyio.Event()
        heads: dict[str, OutboxUnit] = {}
        for unit in self.units:
            if unit.position not in self.delivered and unit.position not in self.quarantined:
                heads.setdefault(unit.subject, unit)
        return list(heads.values())

    async def wait_changed(self) -> None:
        await self._changed.wait()

    async def wait_empty(self) -> None:
        await self._empty.wait()

    def mark_delivered(self, position: int) -> None:
        assert position not in self.delivered, "marked twice"
        self.delivered.append(position)
        self._settle()

    def mark_failed(self, position: int, error: str) -> None:
        self.failed.append((position, error))

    async def quarantine(self, position: int, error: str) -> None:
        await anyio.lowlevel.checkpoint()
        self.quarantined[position] = error
        self._settle()

    def _settle(self) -> None:
        if len(self.delivered) + len(self.quarantined) == len(self.units):
            self._empty.set()
