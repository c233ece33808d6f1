"""The courier: it takes units from the outbox to the sink, and never gives up.

Theory of operation
- One task.  Each round offers every due head of the outbox to the sink, at once, so that the sink can commit them
  together; per process there is one head, so each process's order is kept and none waits for another.
- A unit's bytes and ids are final, so any try may be repeated: a try that was cancelled, or whose commit is unknown,
  is answered as a duplicate next time.  At least once from here, exactly once in the journal.
- The courier never waits for a loop, and knows none.

Awaits, and what a death at each of them leaves: in `deliver`, the unit is durable at the sink or not, and still in the
outbox: it is offered again.  Between `deliver` and the mark, the same.  Waiting, nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol

import anyio
import attrs

from ._clock import Clock
from ._crashpoints import CrashPoint, reached
from ._errors import JournalFencedError, LastwordError
from ._first import first_of
from ._interrupts import uninterrupted
from ._outbox import Outbox, OutboxUnit
from ._ports import DeliverySink
from ._retry import next_delay
from ._verdict import Verdict, judge_error, judge_results

logger = logging.getLogger(__name__)

# As many units as the sink can commit in one batch (`MAX_BATCH` of the writer): more would only wait in its queue.
MAX_ROUND = 512


class CourierObserver(Protocol):
    """Is told what becomes of each unit; called in the courier's task, so it must return at once."""

    def unit_judged(self, unit: OutboxUnit, verdict: Verdict, error: Exception | None) -> None:
        """`unit` was offered to the sink once more; `error` is what the sink raised, where it did."""
        ...


@attrs.define
class _Retry:
    """A head that has failed: how often, and when it may be offered again."""

    failures: int
    not_before: float


class Courier:
    """Delivers what the outbox holds.  Run `run()` in a task group; `fenced` says why it has stopped."""

    def __init__(
        self,
        outbox: Outbox,
        sink: DeliverySink,
        *,
        clock: Clock,
        rng: Random,
        observer: CourierObserver | None = None,
    ) -> None:
        self._outbox = outbox
        self._sink = sink
        self._clock = clock
        self._rng = rng
        self._observer = observer
        self._retries: dict[int, _Retry] = {}
        self._wake = anyio.Event()
        self._fenced: JournalFencedError | None = None

    @property
    def fenced(self) -> JournalFencedError | None:
        """Set when another host took the session over: the courier has stopped, and every unit is still kept."""
        return self._fenced

    def wake(self) -> None:
        """Try everything again now: the sink is back.  Sync, and harmless at any time."""
        for retry in self._retries.values():
            retry.not_before = self._clock.monotonic()
        self._wake.set()

    async def run(self) -> None:
        """Deliver until cancelled, or until the sink says that it is fenced.  Cancelling loses nothing."""
        while self._fenced is None:
            now = self._clock.monotonic()
            heads = self._outbox.heads()
            due = [unit for unit in heads if self._not_before(unit) <= now]
            if due:
                await self._round(due[:MAX_ROUND])
            else:
                await self._rest(min((self._not_before(unit) - now for unit in heads), default=None))

    def _not_before(self, unit: OutboxUnit) -> float:
        retry = self._retries.get(unit.position)
        return -float("inf") if retry is None else retry.not_before

    async def _round(self, units: list[OutboxUnit]) -> None:
        async with anyio.create_task_group() as tasks:
            for unit in units:
                tasks.start_soon(self._deliver, unit)

    @uninterrupted
    async def _deliver(self, unit: OutboxUnit) -> None:
        """Offer `unit` once, and act on the verdict."""
        error: Exception | None = None
        try:
            verdict = judge_results(await self._sink.deliver(unit.records))
        except Exception as raised:
            error = raised
            verdict = judge_error(raised)
        else:
            reached(CrashPoint.DELIVERED)
        await self._settle(unit, verdict, error)
        self._tell(unit, verdict, error)

    async def _settle(self, unit: OutboxUnit, verdict: Verdict, error: Exception | None) -> None:
        match verdict:
            case Verdict.DELIVERED | Verdict.SUPERSEDED:
                self._retries.pop(unit.position, None)
                self._outbox.mark_delivered(unit.position)
            case Verdict.QUARANTINED:
                self._retries.pop(unit.position, None)
                logger.error("a record can never be journaled and is kept aside: %s", _what(error))
                await self._quarantine(unit, _what(error))
            case Verdict.FENCED:
                assert isinstance(error, JournalFencedError)  # noqa: S101 -- the table gives this verdict to it alone
                self._fenced = error
            case Verdict.RETRY | Verdict.BUG:
                if verdict is Verdict.BUG:
                    logger.error("a delivery failed in a way that nobody foresaw; it is kept", exc_info=error)
                self._put_off(unit, _what(error))

    def _tell(self, unit: OutboxUnit, verdict: Verdict, error: Exception | None) -> None:
        if self._observer is None:
            return
        try:
            self._observer.unit_judged(unit, verdict, error)
        except Exception:
            # A listener's fault must not end the one task that brings the last words home.
            logger.exception("an observer of the courier raised; delivery goes on")

    async def _quarantine(self, unit: OutboxUnit, reason: str) -> None:
        try:
            await self._outbox.quarantine(unit.position, reason)
        except Exception:
            # The outbox's own disk: the unit stays a head, and comes to the same verdict next time.
            logger.exception("a record could not be put into quarantine; it will be tried again")
            self._put_off(unit, reason)

    def _put_off(self, unit: OutboxUnit, reason: str) -> None:
        retry = self._retries.setdefault(unit.position, _Retry(0, 0.0))
        retry.failures += 1
        retry.not_before = self._clock.monotonic() + next_delay(retry.failures, self._rng)
        self._outbox.mark_failed(unit.position, reason)

    async def _rest(self, seconds: float | None) -> None:
        """Return when a unit was added, when `wake` was called, or after `seconds` (None: no limit)."""
        waits: list[Callable[[], Awaitable[object]]] = [self._outbox.wait_changed, self._wake.wait]
        if seconds is not None:
            waits.append(lambda: self._clock.sleep(seconds))
        await first_of(*waits)
        if self._wake.is_set():
            self._wake = anyio.Event()


def _what(error: Exception | None) -> str:
    """Why, in words that may be stored and shown: a stranger's text may hold anything, so it is named by its type."""
    if error is None:
        return "another record has its id"
    return f"{type(error).__name__}: {error}" if isinstance(error, LastwordError) else type(error).__name__
