"""The last word: never told before its record is durable, and never another job's trouble."""

from __future__ import annotations

import sqlite3
from typing import Any

import anyio
import pytest
from supervising import OWNER, failing_saves, names, supervising, told

from lastword.notifier import ProcessState
from lastword.supervisor._record import ProcessRecord
from lastword.supervisor._store import Store

S = ProcessState


async def test_it_is_not_told_without_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first write fails, and another write of the same process comes in between: nothing of it goes with that."""
    save = Store.save
    written: list[tuple[ProcessState, list[str]]] = []
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 300", owner=OWNER)
        told(supervisor.outbox)
        async with anyio.create_task_group() as tasks:

            async def failing_once(self: Store, record: ProcessRecord, units: Any = ()) -> None:
                kinds = [item.kind.name for unit in units for item in unit.records]
                written.append((record.state, kinds))
                if record.state.terminal and len([state for state, _ in written if state.terminal]) == 1:
                    # It waits for its turn to write, which is when this one has failed.
                    tasks.start_soon(process.background)
                    await anyio.wait_all_tasks_blocked()
                    raise sqlite3.OperationalError("disk I/O error")
                await save(self, record, units)

            monkeypatch.setattr(Store, "save", failing_once)
            await process.stop()
        outcome = await process.wait()
        assert outcome.state is S.TERMINATED
        for state, kinds in written:
            assert ("COMMAND" in kinds) == state.terminal, written
        assert names(told(supervisor.outbox))[-2:] == ["ProcessCompleted", "ProcessNotification"]
