"""One process's start: from its record to `running`, each durable before the next step.

Rules
- It is done by a task of the supervisor, since a native cancel of asyncio goes through every shield of its caller's.
  The caller only waits for the hand-off; one that is gone before the launcher said "spawned" wants no process.
- What goes wrong ends in a verdict that the job settles, and in the error that the caller is told.

Awaits, and what a death of the host at each leaves: before `starting` is durable, nothing.  After it, a record that the
next opening tells as lost.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, final

from ..notifier._crashpoints import CrashPoint, reached
from . import _diagnostics as diagnostics
from ._command import Order
from ._errors import ErrorCode, SpawnFailedError, SupervisorError
from ._latch import Latch
from ._outcome import failed
from ._store import STORE_ERRORS
from ._works import Works
from .launch import LaunchFailedError

if TYPE_CHECKING:
    from ._job import Job

logger = logging.getLogger(__name__)

_UNFORESEEN = "it failed in a way that nobody foresaw, which the log tells; nothing was left running"
_UNSTORED = "the store is unavailable, so the process was not left running; try again when it is back"


@final
class Starting:
    """One start, and the caller that waits for it."""

    def __init__(self, works: Works, job: Job) -> None:
        self._works = works
        self._job = job
        self._unwanted = False  # the caller was cancelled
        self._refusal: SupervisorError | None = None  # what it is told where the process does not run
        self._handed_off = Latch()

    async def run(self, order: Order) -> None:
        """Record, spawn, record that it runs; see `Supervisor.start` for what is raised and for cancellation."""
        self._works.tasks.start(lambda: self._start(order))
        try:
            await self._handed_off.wait()
        except BaseException:
            self._unwanted = True
            raise
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    def abandon(self) -> None:
        """The caller waits no longer."""
        self._handed_off.set()

    async def _start(self, order: Order) -> None:
        try:
            self._refusal = await self._launch(order)
        except Exception:
            logger.exception("a start failed in a way that nobody foresaw; nothing is left running")
            self._refusal = SpawnFailedError("other", None, self._job.record.handle, _UNFORESEEN)
            self._job.take_back(failed(diagnostics.UNFORESEEN))
        finally:
            self._handed_off.set()

    async def _launch(self, order: Order) -> SupervisorError | None:
        """Take it to `running`, or settle it; what the caller is told where it does not run."""
        job, works = self._job, self._works
        handle = job.record.handle
        try:
            await job.teller.save_starting()
        except STORE_ERRORS:
            job.settle(failed(diagnostics.STORE_UNAVAILABLE))
            return SpawnFailedError("other", None, handle, _UNSTORED)
        reached(CrashPoint.IDS_STORED)
        if self._unwanted or works.closing:
            job.settle(failed(diagnostics.START_CANCELLED))
            return SupervisorError(
                ErrorCode.SUPERVISOR_SHUTTING_DOWN, "the supervisor is closing, so the process was not spawned"
            )
        began = works.timers.now()
        try:
            child = await works.launcher.launch(order.spec(job.output.path, job.input), job)
        except LaunchFailedError as error:
            job.settle(failed(diagnostics.spawn_failed(error.kind, error.errno)))
            await job.wait_tried()
            return SpawnFailedError(error.kind, error.errno, handle, error.message)
        if not job.adopt(child):
            return None
        if self._unwanted:
            job.take_back(failed(diagnostics.START_CANCELLED))
            return None
        reached(CrashPoint.SPAWNED)
        try:
            await job.teller.save_running(works.clock.now(), backgrounded=order.background)
        except STORE_ERRORS:
            job.take_back(failed(diagnostics.STORE_UNAVAILABLE))
            return SpawnFailedError("other", None, handle, _UNSTORED)
        if order.timeout is not None:
            job.expire_in(order.timeout - (works.timers.now() - began))
        job.finish_launch()
        return None
