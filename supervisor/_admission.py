"""Quotas: reserved before anything is recorded, released on every way out.  Plain synchronous code.

A running process reserves its whole output limit.  When it ends the reservation shrinks to what is kept on disk, and
that counts until the process is evicted.
"""

from __future__ import annotations

from collections import Counter
from typing import final
from uuid import UUID

import attrs

from ._errors import ErrorCode, QuotaExceededError
from ._limits import Limits


@final
@attrs.define(eq=False)
class Reservation:
    """What one process takes of the quotas: a place while it runs, bytes for as long as it is known."""

    loop_id: UUID
    output_bytes: int
    running: bool


@final
class Admission:
    """The quotas of one supervisor."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running: Counter[UUID] = Counter()
        self._output_bytes = 0

    @property
    def running(self) -> int:
        """How many processes hold a place."""
        return self._running.total()

    def output_shortage(self, output_bytes: int) -> int:
        """How many bytes would have to be evicted before `output_bytes` more can be reserved."""
        return max(0, self._output_bytes + output_bytes - self._limits.aggregate_spool_bytes)

    def reserve(self, loop_id: UUID, output_bytes: int) -> Reservation:
        """Take a place and the bytes; raises `QuotaExceededError` and takes nothing where a limit would be broken."""
        if self._running[loop_id] >= self._limits.running_per_loop:
            raise QuotaExceededError(
                ErrorCode.PROCESS_QUOTA_EXCEEDED,
                f"this loop already runs {self._limits.running_per_loop} processes (running_per_loop); "
                "wait for one to end, or stop one",
            )
        if self._running.total() >= self._limits.running_per_session:
            raise QuotaExceededError(
                ErrorCode.PROCESS_QUOTA_EXCEEDED,
                f"this session already runs {self._limits.running_per_session} processes (running_per_session); "
                "wait for one to end, or stop one",
            )
        if self.output_shortage(output_bytes):
            raise QuotaExceededError(
                ErrorCode.OUTPUT_QUOTA_EXCEEDED,
                "running processes reserve all room for output (aggregate_spool_bytes); "
                "wait for one to end, or give a smaller output_limit",
            )
        self._running[loop_id] += 1
        self._output_bytes += output_bytes
        return Reservation(loop_id, output_bytes, running=True)

    def keep(self, loop_id: UUID, output_bytes: int) -> Reservation:
        """Count the kept output of a process that had ended before this supervisor was opened."""
        self._output_bytes += output_bytes
        return Reservation(loop_id, output_bytes, running=False)

    def shrink(self, reservation: Reservation, output_bytes: int) -> None:
        """The process has ended and `output_bytes` are kept: give back its place and the rest.  Idempotent."""
        if reservation.running:
            reservation.running = False
            self._running[reservation.loop_id] -= 1
            if not self._running[reservation.loop_id]:
                del self._running[reservation.loop_id]
        self._output_bytes += output_bytes - reservation.output_bytes
        reservation.output_bytes = output_bytes
