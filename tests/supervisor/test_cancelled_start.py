"""A caller that is cancelled while it starts a process: before the hand-off nothing is left, after it the process runs.

A native cancel of asyncio (`Task.cancel`, `asyncio.wait_for`, `asyncio.timeout`) goes through anyio's shields, so each
moment is tried with both kinds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
from supervising import OWNER, launcher_class, names, supervising, told, until

from lastword.notifier import ProcessState
from lastword.supervisor import Process, Supervisor
from lastword.supervisor._record import ProcessRecord
from lastword.supervisor._store import Store

pytestmark = pytest.mark.usefixtures("each_tier")

S = ProcessState

Cancel = Callable[[], object]
Caller = Callable[[Callable[[], Awaitable[Process]], Callable[[Cancel], None]], Awaitable[None]]

MOMENTS = [
    "starting is written",
    "starting is stored",
    "launching",
    "launched",
    "running is written",
    "running is stored",
]
BEFORE_THE_HAND_OFF = MOMENTS[:4]


async def _cancelled_by_scope(start: Callable[[], Awaitable[Process]], arm: Callable[[Cancel], None]) -> None:
    with anyio.CancelScope() as scope:
        arm(scope.cancel)
        await start()


async def _cancelled_natively(start: Callable[[], Awaitable[Process]], arm: Callable[[Cancel], None]) -> None:
    async def act() -> None:
        await start()

    task = asyncio.get_running_loop().create_task(act())
    arm(task.cancel)
    with suppress(asyncio.CancelledError):
        await task


async def _start(supervisor: Supervisor, caller: Caller, moment: str, monkeypatch: pytest.MonkeyPatch) -> Process:
    """Start a process whose caller is cancelled at `moment`, and has noticed before anything goes on."""
    armed: list[Cancel] = []
    launches: list[str] = []
    kind = launcher_class()
    save, launch = Store.save, kind.launch

    async def at(now: str) -> None:
        if now == moment:
            armed[0]()
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()

    async def saving(self: Store, record: ProcessRecord, units: Any = ()) -> None:
        state = record.state.name.lower()
        await at(f"{state} is written")
        await save(self, record, units)
        await at(f"{state} is stored")

    async def launching(self: Any, spec: Any, listener: Any) -> Any:
        launches.append(moment)
        await at("launching")
        child = await launch(self, spec, listener)
        await at("launched")
        return child

    with monkeypatch.context() as patch:
        patch.setattr(Store, "save", saving)
        patch.setattr(kind, "launch", launching)
        await caller(lambda: supervisor.start("exec sleep 300", owner=OWNER), armed.append)
        await anyio.wait_all_tasks_blocked()
    # While `starting` is stored, nothing is spawned for nobody.
    assert bool(launches) == (not moment.startswith("starting"))
    (process,) = supervisor.list(OWNER)
    return process


async def _assert_consistent(supervisor: Supervisor, process: Process, moment: str) -> None:
    if moment in BEFORE_THE_HAND_OFF:
        outcome = await process.wait()
        assert (outcome.state, outcome.diagnostic, outcome.started_at) == (S.FAILED, "start_cancelled", None)
        assert names(told(supervisor.outbox)) == ["ProcessCompleted", "ProcessNotification"]
        return
    await until(lambda: process.state is S.RUNNING)
    outcome_of_stop = await process.stop()
    assert outcome_of_stop is not None
    assert outcome_of_stop.state is S.TERMINATED
    expected = ["ProcessStarted", "ProcessStopRequested", "ProcessCompleted", "ProcessNotification"]
    assert names(told(supervisor.outbox)) == expected


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_scope_that_is_cancelled(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it falls, the process has either failed as start_cancelled, or runs and is listed."""
    async with supervising() as supervisor:
        process = await _start(supervisor, _cancelled_by_scope, moment, monkeypatch)
        await _assert_consistent(supervisor, process, moment)


# asyncio only: trio has no way to cancel a task but its scopes.
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_task_that_is_cancelled_natively(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same: no shield of ours is what holds a process."""
    async with supervising() as supervisor:
        process = await _start(supervisor, _cancelled_natively, moment, monkeypatch)
        await _assert_consistent(supervisor, process, moment)
