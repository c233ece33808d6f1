"""What is durable about one process, and what is told of it: every write of its record goes through here, in order.

Rules
- A unit is made when the thing happens, so positions follow the order of events; it enters the outbox once durable.
- A unit whose write failed or was cancelled stays, and goes with the next write, with the last word at the latest.
- The last word goes with its terminal record and with nothing else: only `conclude` writes it.
- The record in memory never says more than is durable, except that a process runs while that is being written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Literal, final
from uuid import UUID

import attrs

from ..notifier import OutboxUnit, PendingDelivery, ProcessState, TerminalReason, next_delay
from ..notifier._crashpoints import CrashPoint, reached
from ._outcome import Outcome
from ._record import ProcessRecord
from ._store import STORE_ERRORS
from ._turn import Turn
from ._units import Unit, backgrounded_unit, last_word_unit, started_unit, stop_requested_unit
from ._works import Works

logger = logging.getLogger(__name__)


@final
class Teller:
    """Writes one process's record forward."""

    __slots__ = (
        "_record",
        "_unknown_start",
        "_unsaved",
        "_works",
        "_writing",
        "attempts",
        "last_error",
    )

    def __init__(self, works: Works, record: ProcessRecord) -> None:
        self._works = works
        self._record = record
        self._writing = Turn()
        self._unsaved: list[OutboxUnit] = []
        self._unknown_start: tuple[ProcessRecord, OutboxUnit] | None = None
        self.attempts: int = 0
        self.last_error: str | None = None

    @property
    def record(self) -> ProcessRecord:
        """What is known of the process."""
        return self._record

    def unstored(self) -> list[PendingDelivery]:
        """The records of a last word that could not be stored yet."""
        if self.last_error is None:
            return []
        ids = self._record.ids
        kinds: tuple[tuple[UUID, Literal["event", "notification"]], ...] = (
            (ids.completed, "event"),
            (ids.command, "notification"),
        )
        return [
            PendingDelivery(
                record_id=record_id,
                kind=kind,
                process_handle=self._record.handle,
                attempts=self.attempts,
                status="waiting",
                last_error=self.last_error,
            )
            for record_id, kind in kinds
        ]

    async def save_starting(self) -> None:
        """Make the fresh record durable, before anything is spawned.  Raises `STORE_ERRORS`."""
        await self._works.store.save(self._record)

    async def save_running(self, started_at: datetime, *, backgrounded: bool) -> None:
        """Make it durable, and tell, that it runs.  Raises `STORE_ERRORS`: then `conclude` reads back whether it is."""
        starting = self._record
        running = starting.running(started_at, backgrounded=backgrounded)
        unit = self._unit(started_unit(running))
        self._record = running
        try:
            async with self._writing:
                await self._works.store.save(running, [unit])
        except Exception:
            self._unknown_start = (running, unit)
            self._record = starting
            raise
        reached(CrashPoint.RUNNING_STORED)
        self._works.outbox.add([unit])

    def tell_backgrounded(self) -> None:
        """Note that nobody waits for it any more; `flush` makes it durable."""
        self._record = attrs.evolve(self._record, backgrounded=True)
        self._unsaved.append(self._unit(backgrounded_unit(self._record, self._now())))

    def tell_stop_requested(self, reason: TerminalReason) -> None:
        """Note that it was asked to end; `flush` makes it durable."""
        self._unsaved.append(self._unit(stop_requested_unit(self._record, reason, self._now())))

    async def flush(self) -> None:
        """Make durable what was noted.  Where that fails it goes with the next write; nothing is raised."""
        try:
            async with self._writing:
                await self._save(self._record)
        except STORE_ERRORS as error:
            logger.warning("an event could not be stored and goes with its process's next (%s)", type(error).__name__)
        except Exception:
            logger.exception("an event could not be stored, in a way that nobody foresaw; it goes with the next")

    async def conclude(
        self, outcome: Callable[[ProcessRecord, datetime], Outcome], kept: tuple[int, int], tried: Callable[[], None]
    ) -> list[OutboxUnit]:
        """Make the last word durable, however long that takes; the units that it brings with it.

        They are not in the outbox yet: other things come first.  `outcome` makes it from the record as it is durable
        and the time; `tried` is called after each try that failed.
        """
        now = self._works.clock.now()
        told: list[OutboxUnit] = []
        unit: OutboxUnit | None = None
        while True:
            try:
                async with self._writing:
                    told += await self._read_back()
                    record = self._record
                    final = record.ended(outcome(record, record.not_before(now)), kept=kept)
                    if unit is None:
                        unit = self._unit(last_word_unit(final))
                    units = [*self._unsaved, unit]
                    await self._works.store.save(final, units)
            except Exception as error:
                # Whatever it is, it is this process's own trouble: it must not end the tasks of all the others.
                self.attempts += 1
                self.last_error = f"the last word could not be stored ({type(error).__name__})"
                foreseen = isinstance(error, STORE_ERRORS)
                logger.error("%s; trying again", self.last_error, exc_info=None if foreseen else error)  # noqa: TRY400 -- expected trouble has no traceback
                tried()
                await self._works.clock.sleep(next_delay(self.attempts, self._works.rng))
            else:
                reached(CrashPoint.TERMINAL_STORED)
                self._unsaved.clear()
                self._record = final
                self.last_error = None
                return told + units

    async def _read_back(self) -> list[OutboxUnit]:
        """Whether `running` is durable after all, where its write failed: then its unit is, too."""
        if self._unknown_start is None:
            return []
        state = await self._works.store.state_of(self._record.handle)
        (running, unit), self._unknown_start = self._unknown_start, None
        if state is not ProcessState.RUNNING:
            return []
        self._record = running
        return [unit]

    async def _save(self, record: ProcessRecord) -> None:
        units = list(self._unsaved)
        if units:
            await self._works.store.save(record, units)
            del self._unsaved[: len(units)]
            self._works.outbox.add(units)

    def _unit(self, records: Unit) -> OutboxUnit:
        position = self._works.outbox.next_position()
        return OutboxUnit(position=position, subject=self._record.handle, records=records)

    def _now(self) -> datetime:
        return self._record.not_before(self._works.clock.now())
