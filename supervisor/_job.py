"""One process's life, from its record to its last word: the only place that decides about it.

Theory of operation
- `Starting` takes it from `starting` to `running`.
- From then on nothing of it is a task: the launcher's keeper tells `grew`, `ended` and `stuck`, callers ask for
  stops, a timer asks for the timeout's.
- Whatever ends it goes through `settle`, where the first verdict wins, and then `_conclude`, which keeps the terminal
  order: one transaction (record, last word, notification) -> quota released -> waiters woken -> outbox told.
- A store that fails is tried again for as long as it takes; until the last word is durable the process counts as
  running, holds its place, and `wait()` waits.  Where closing cannot wait for it, `abandon` ends every wait.

Awaits, and what a death of the host at each leaves: until the last transaction, a record that the next opening tells as
lost.  After it, the outbox's rows, which the next opening delivers.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import final

from ..notifier import ProcessState
from ..notifier._first import first_of
from . import _diagnostics as diagnostics
from ._admission import Reservation
from ._command import Order
from ._outcome import CAUSES, Outcome, StopCause, Verdict, failed, judge, outcome_of
from ._output import JobOutput
from ._record import ProcessRecord
from ._starting import Starting
from ._stopping import Stopping
from ._teller import Teller
from ._timers import Timer
from ._waits import Waits
from ._works import Works
from .launch import Child, Input, Report, StopMode
from .output import OutputChunk


@final
class Job:
    """Implements `Listener` for its child; `Process` is its public face."""

    __slots__ = (
        "_child",
        "_input",
        "_on_ended",
        "_output",
        "_report",
        "_reservation",
        "_settled",
        "_starting",
        "_stopping",
        "_teller",
        "_timeout",
        "_verdict",
        "_waits",
        "_works",
    )

    def __init__(
        self,
        works: Works,
        record: ProcessRecord,
        reservation: Reservation,
        on_ended: Callable[[Job], None],
        given: Input | None = None,
    ) -> None:
        """For a fresh record, or for one that has ended (restored); `on_ended` is called after the last word.

        `given` is what it reads from while it runs, if anything; owned.
        """
        self._works = works
        self._teller = Teller(works, record)
        self._reservation = reservation
        self._on_ended = on_ended
        self._input = given
        self._child: Child | None = None
        self._report: Report | None = None
        self._verdict: Verdict | None = None  # what it will be, whatever the keeper reports
        self._settled = False
        self._stopping = Stopping()
        self._timeout: Timer | None = None
        self._starting: Starting | None = None
        self._waits = Waits()
        self._output = JobOutput(works.output_folder, self._teller, self._waits)
        if record.outcome is not None:
            self._waits.end()

    # --- what can be seen ---------------------------------------------------------------------------------------------

    @property
    def teller(self) -> Teller:
        """What is durable of it, and how storing its last word goes."""
        return self._teller

    @property
    def record(self) -> ProcessRecord:
        """What is known of it."""
        return self._teller.record

    @property
    def reservation(self) -> Reservation:
        """What it takes of the quotas."""
        return self._reservation

    @property
    def output(self) -> JobOutput:
        """What it writes."""
        return self._output

    @property
    def input(self) -> Input | None:
        """What it reads from while it runs; None where it was given all that there is."""
        return self._input

    @property
    def has_ended(self) -> bool:
        """Whether its last word is durable."""
        return self.record.outcome is not None

    @property
    def holds_survivors(self) -> bool:
        """Whether it has ended and survivors are kept under its handle."""
        return self.has_ended and self._child is not None and self._child.holds_survivors

    @property
    def released(self) -> bool:
        """Whether nothing is held of its process: no survivor, no descriptor."""
        return self._child is None or self._child.released

    @property
    def default_grace(self) -> float:
        """Seconds between SIGTERM and SIGKILL where a stop does not say."""
        return self._works.limits.grace_seconds

    def read(self, cursor: int, max_bytes: int, stream: int | None) -> OutputChunk:
        """What it (or one stream of it) has written at `cursor`; raises `ProcessNotFoundError` where it was evicted."""
        self._works.refuse_fork()
        return self._output.read(cursor, max_bytes, stream)

    def cursor_at(self, moment: float) -> int | None:
        """From where on there is what came at `moment` (seconds since 1970) or later; raises as `read`."""
        self._works.refuse_fork()
        return self._output.find_cursor(moment)

    # --- starting -----------------------------------------------------------------------------------------------------

    async def run(self, order: Order) -> None:
        """Start it; see `Supervisor.start` for what is raised and for cancellation."""
        self._output.stop_at = order.output_limit if order.on_output_limit == "stop" else None
        self._starting = Starting(self._works, self)
        try:
            await self._starting.run(order)
        finally:
            self._starting = None
        self._check_kept()

    async def wait_launched(self) -> None:
        """Until it runs, or never will.  A checkpoint."""
        self._works.refuse_fork()
        await self._waits.launched.wait()
        self._check_kept()

    async def wait_tried(self) -> None:
        """Until its last word was tried to be stored, with success or without."""
        await self._waits.tried.wait()

    def adopt(self, child: Child) -> bool:
        """It was spawned; False where nobody holds it any more, and it is let go."""
        self._child = self._output.child = child
        if self._input is not None:
            self._input.release()
            self._input.on_end = child.end_input
        if self._waits.abandoned:
            child.abandon()
        return not self._waits.abandoned

    def take_back(self, verdict: Verdict) -> None:
        """It must not go on: kill what was spawned, if anything was, and let `verdict` be its last word."""
        if self._child is None:
            self.settle(verdict)
            return
        self._verdict = verdict
        self._child.stop(StopMode.KILL, 0.0)
        self.finish_launch()

    def expire_in(self, seconds: float) -> None:
        """It is stopped then, and has timed out."""
        self._timeout = self._works.timers.call_after(seconds, lambda: self.request(StopCause.TIMEOUT))

    def finish_launch(self) -> None:
        """It runs, or is about to end: what has come meanwhile is dealt with now."""
        self._waits.launched.set()
        if self._works.closing:
            self.request(StopCause.SHUTDOWN)
        if self._report is not None:
            self.ended(self._report)
        else:
            self.grew(self._output.spool.total)

    # --- asked for ----------------------------------------------------------------------------------------------------

    async def wait(self) -> Outcome:
        """Until the last word is durable."""
        self._works.refuse_fork()
        await self._waits.over.wait()
        self._check_kept()
        outcome = self.record.outcome
        assert outcome is not None  # noqa: S101 -- over and kept: it has ended
        return outcome

    async def background(self) -> None:
        """Tell, once, that nobody waits for it any more."""
        await self.wait_launched()
        if not self.record.backgrounded and not self._settled and self.record.state is ProcessState.RUNNING:
            self._teller.tell_backgrounded()
        await self._teller.flush()

    async def stop(self, mode: StopMode, grace: float) -> Outcome | None:
        """Ask for a stop, and wait for what comes of it; see `Process.stop`."""
        self._works.refuse_fork()
        if not self._waits.launched.is_set():  # no chance to be cancelled where nothing is waited for
            await self._waits.launched.wait()
        if self.has_ended:
            await self._stop_survivors(mode, grace)
            return self.record.outcome
        self._check_kept()
        failures_before = self._stopping.failures
        self.request(CAUSES[mode], grace)
        await self._watch_for(grace if mode is StopMode.INTERRUPT else None)
        self._check_kept()
        if self._report is not None or self._settled:
            return await self.wait()
        if self._stopping.failures != failures_before:
            raise self._stopping.error()
        return None

    async def _watch_for(self, seconds: float | None) -> None:
        """Until it has ended, an order was stuck, or the time is over."""
        with self._waits.watching() as event:
            if self._waits.over.is_set():
                event.set()
            if seconds is None:
                await event.wait()
            else:
                await first_of(event.wait, lambda: self._works.clock.sleep(seconds))

    async def _stop_survivors(self, mode: StopMode, grace: float) -> None:
        if self._child is None or not self._child.holds_survivors:
            return
        failures_before = self._stopping.failures
        with self._waits.watching() as event:
            self._child.stop(mode, grace)
            if mode is not StopMode.INTERRUPT and not self._waits.emptied.is_set():
                await event.wait()
        if self._stopping.failures != failures_before:
            raise self._stopping.error()

    def request(self, cause: StopCause, grace: float | None = None) -> None:
        """Order a stop; the first cause that ends a process for certain is what is told.  Harmless at any time."""
        child = self._child
        if child is None or self._report is not None or self._settled or not self._waits.launched.is_set():
            return
        seconds = self.default_grace if grace is None else grace
        if not child.stop(cause.mode, seconds):
            return  # it has ended by itself, and that is about to be told
        self._stopping.ordered(cause)
        if self.record.state is ProcessState.RUNNING and self._stopping.tell():
            self._teller.tell_stop_requested(cause.requested)
            self._works.tasks.start(self._teller.flush)

    def shut_down(self) -> None:
        """The supervisor closes: it is stopped, and so are survivors that are kept."""
        if self.holds_survivors and self._child is not None:
            self._child.stop(StopMode.TERMINATE, self.default_grace)
        else:
            self.request(StopCause.SHUTDOWN)

    async def wait_let_go(self) -> None:
        """Until its last word is durable and no survivor is kept."""
        await self._waits.over.wait()
        if self.holds_survivors:
            self.shut_down()
            await self._waits.emptied.wait()

    def kill_now(self) -> None:
        """Closing has no more time: whatever is still there, survivors too, gets SIGKILL."""
        if self._child is not None:
            self._child.stop(StopMode.KILL, 0.0)

    async def wait_output(self, after: int) -> None:
        """Until more than `after` bytes were written, or it has ended."""
        self._works.refuse_fork()
        await self._output.wait(after)
        if self._output.spool.total <= after:
            self._check_kept()

    def abandon(self) -> None:
        """Let go of what is still held of the process, and of whoever still waits; for the very end of closing."""
        self._waits.abandon()
        if self._child is not None:
            self._child.abandon()
        if self._input is not None:
            self._input.close()
        if self._starting is not None:
            self._starting.abandon()

    def _check_kept(self) -> None:
        self._waits.refuse_abandoned(ended=self.has_ended)

    # --- told by the child (`Listener`) -------------------------------------------------------------------------------

    def grew(self, total: int) -> None:
        """See `Listener.grew`."""
        self._waits.readers.wake(total)
        if not self._waits.launched.is_set():
            return  # asked for again when it is
        if self._output.passes_limit(total):
            self.request(StopCause.OUTPUT_LIMIT)
        self._output.arm()

    def ended(self, report: Report) -> None:
        """See `Listener.ended`."""
        self._report = report
        self._output.sealed = report.spool
        if self._waits.launched.is_set():
            self.settle(self._verdict or judge(report, self._stopping.cause))

    def stuck(self, errno: int | None) -> None:
        """See `Listener.stuck`: a caller's stop raises and the process goes on; where nobody asked, it has failed."""
        self._stopping.failed(errno)
        if self._report is not None:  # who is left after the last word changes nothing of it
            self._waits.wake_watchers()
            return
        if self._stopping.asked and self._verdict is None and not self._works.closing:
            self._stopping.not_delivered()
            self._waits.wake_watchers()
            return
        assert self._child is not None  # noqa: S101 -- only a child can be stuck
        self._verdict = self._verdict or failed(diagnostics.teardown_failed(errno))
        self.ended(self._child.give_up())

    def emptied(self) -> None:
        """See `Listener.emptied`."""
        self._waits.emptied.set()
        self._waits.wake_watchers()

    # --- the last word ------------------------------------------------------------------------------------------------

    def settle(self, verdict: Verdict) -> None:
        """This is how it ended; the first one counts."""
        if not self._settled:
            self._settled = True
            self._verdict = verdict
            if self._timeout is not None:
                self._timeout.cancel()
            if self._input is not None:
                self._input.close()
            self._works.tasks.start(self._conclude)

    async def _conclude(self) -> None:
        kept = (0, 0) if self._report is None else self._report.spool.kept
        units = await self._teller.conclude(self._outcome_of, kept, self._waits.tried.set)
        self._output.remove_if_empty()
        self._works.admission.shrink(self._reservation, self.record.kept_bytes)
        self._waits.end()
        self._works.outbox.add(units)
        self._on_ended(self)

    def _outcome_of(self, record: ProcessRecord, finished_at: datetime) -> Outcome:
        assert self._verdict is not None  # noqa: S101 -- concluding comes from settling
        return outcome_of(
            self._verdict,
            self._report,
            started_at=record.started_at,
            finished_at=finished_at,
            containment=self._works.launcher.containment,
        )
