"""Run the jobs, follow what is said of them, and then open the same folder again."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from ..._runtime import Runtime, open_runtime
from ...notifier import ProcessEvent
from ...session import EventFilter, LoopScope
from ...supervisor import Limits, SpawnFailedError
from ._jobs import Job, jobs
from ._ledger import Ledger
from ._show import Show, choose_show

# The slowest job takes 1.5 s; what has not come after this long, on a machine with much to do either, will not come.
_PATIENCE_SECONDS = 60.0


async def run_demo(plain: bool = False) -> bool:
    """Run the demo in a temporary folder; whether every job met its fate and nothing was left pending."""
    with tempfile.TemporaryDirectory(prefix="lastword-demo-") as folder:
        state = Path(folder, "state")
        gate = _Gate(Path(folder, "gate"))
        todo = jobs(str(gate.path))
        ledger = Ledger(len(todo))
        with choose_show(ledger.rows, plain=plain) as show:
            async with open_runtime(state, limits=Limits(running_per_loop=16)) as runtime:
                await _run_all(runtime, todo, ledger, show, gate)
        left = await _look_again(state, show)
        return _judge(todo, ledger, left, show)


class _Gate:
    """A named pipe that readers wait at until it is opened: they then all see its end at the same instant."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path, 0o600)
        # Open for both, so that a reader's open succeeds at once and its read waits for the last writer to close.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def open(self) -> None:
        """Let everybody through."""
        os.close(self._descriptor)


async def _run_all(runtime: Runtime, todo: tuple[Job, ...], ledger: Ledger, show: Show, gate: _Gate) -> None:
    """Start every job at once, and return when all are settled, or patience has run out."""
    began = time.monotonic()
    async with anyio.create_task_group() as listeners:
        await listeners.start(_follow_events, runtime, ledger, show, began)
        listeners.start_soon(_take_notices, runtime, ledger, show, began)
        async with anyio.create_task_group() as starters:
            for job in todo:
                starters.start_soon(_start, runtime, job, ledger)
        gate.open()
        with anyio.move_on_after(_PATIENCE_SECONDS):
            await ledger.settled.wait()
        listeners.cancel_scope.cancel()


async def _start(runtime: Runtime, job: Job, ledger: Ledger) -> None:
    """Start one job and do to it what it is there for."""
    try:
        process = await runtime.start(
            job.command, name=job.label, timeout=job.timeout, output_limit=job.output_limit, env=job.env
        )
    except SpawnFailedError as error:
        # A job that cannot start has a last word, too: its event and its notice are on their way.
        ledger.row(error.handle).job = job
        return
    ledger.row(process.handle).job = job
    if job.at_the_gate:
        await process.wait_output(0)
    if job.background:
        await process.background()
    if job.stop is not None:
        await process.stop(job.stop)


async def _follow_events(
    runtime: Runtime, ledger: Ledger, show: Show, began: float, *, task_status: TaskStatus[None]
) -> None:
    everything = EventFilter(enduring=LoopScope.all())
    async with runtime.session.subscribe(everything) as subscription:
        task_status.started()
        async for delivery in subscription:
            if not isinstance(delivery.event, ProcessEvent):
                continue
            told = delivery.event.process
            row = ledger.row(told.process_handle)
            row.kinds.append(told.kind)
            if told.state.terminal:
                row.last_word = told
                row.outcome = runtime.supervisor.get(told.process_handle, runtime.loop).outcome
                row.told.set()
            show.event(time.monotonic() - began, row, told.kind)
            ledger.note()


async def _take_notices(runtime: Runtime, ledger: Ledger, show: Show, began: float) -> None:
    async for notice in runtime.loop:
        row = ledger.row(notice.notification.process_handle)
        row.notices.append(notice.notification)
        # Both ways bring the same news; shown in this order, they read as what they are.
        await row.told.wait()
        await notice.ack()
        row.acknowledged = True
        show.notice(time.monotonic() - began, row)
        ledger.note()


async def _look_again(state: Path, show: Show) -> int:
    """Open the same folder once more: how much is pending there."""
    async with open_runtime(state) as runtime:
        pending = await runtime.pending()
        show.say(f"opened the same folder again: {len(pending)} pending")
        return len(pending)


def _judge(todo: tuple[Job, ...], ledger: Ledger, left: int, show: Show) -> bool:
    faults = [
        f"{row.job.label if row.job is not None else row.handle}: {fault}"
        for row in ledger.rows.values()
        for fault in row.faults
    ]
    met = {row.job.label for row in ledger.rows.values() if row.job is not None}
    faults += [f"{job.label}: never heard of" for job in todo if job.label not in met]
    if left:
        faults.append(f"{left} records are still pending")
    for fault in faults:
        show.say(f"FAULT  {fault}")
    if not faults:
        show.say(f"{len(todo)} jobs, {len(todo)} last words, all of them home.")
    return not faults
