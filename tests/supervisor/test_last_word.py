"""The last word: never told before its record is durable, and never another job's trouble."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest
from supervising import OWNER, launcher_class, names, supervising, told

from lastword.notifier import ProcessState, SystemClock
from lastword.supervisor import Limits, SpawnFailedError
from lastword.supervisor._job import Job
from lastword.supervisor._reactor import Reactor
from lastword.supervisor._record import ProcessRecord
from lastword.supervisor._registry import Registry
from lastword.supervisor._store import Store
from lastword.supervisor._timers import Timers
from lastword.supervisor._units import last_word_unit

pytestmark = pytest.mark.usefixtures("each_tier")

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


async def test_what_nobody_foresaw_touches_one_process_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A store that raises anything at all: logged with its traceback, tried again, and every other process lives."""
    save = Store.save
    broken = True
    async with supervising() as supervisor:
        other = await supervisor.start("exec sleep 300", owner=OWNER)
        tried = anyio.Event()

        async def raising(self: Store, record: ProcessRecord, units: Any = ()) -> None:
            if record.name == "odd" and record.state.terminal and broken:
                tried.set()
                raise RuntimeError("nobody foresaw this")
            await save(self, record, units)

        monkeypatch.setattr(Store, "save", raising)
        odd = await supervisor.start("exit 3", owner=OWNER, name="odd")
        await tried.wait()
        await anyio.wait_all_tasks_blocked()
        assert other.state is S.RUNNING
        assert {record.last_error for record in supervisor.pending() if record.process_handle == odd.handle} >= {
            "the last word could not be stored (RuntimeError)"
        }
        broken = False
        assert (await odd.wait()).exit_code == 3
        stopped = await other.stop()
        assert stopped is not None
        assert stopped.state is S.TERMINATED
    assert any(record.exc_info and record.exc_info[0] is RuntimeError for record in caplog.records)


async def test_an_encoder_that_raises_touches_one_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of the last word cannot be made: the process has none, closing is bounded, and the others are told."""
    monkeypatch.setattr("lastword.supervisor._supervisor.CLOSING_SECONDS", 0.2)
    encode = last_word_unit

    def raising(record: ProcessRecord) -> Any:
        if record.name == "odd":
            raise RuntimeError("nobody foresaw this")
        return encode(record)

    monkeypatch.setattr("lastword.supervisor._teller.last_word_unit", raising)
    async with supervising(limits=Limits(grace_seconds=0.1)) as supervisor:
        odd = await supervisor.start("exit 3", owner=OWNER, name="odd")
        other = await supervisor.start("exit 4", owner=OWNER)
        assert (await other.wait()).exit_code == 4
    assert odd.outcome is None


@pytest.mark.parametrize("at", ["starting", "running", "launch"])
async def test_what_nobody_foresaw_in_a_start_leaves_no_process(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is raised and wherever: the child is killed, the record is failed and told, and the start raises."""
    kind = launcher_class()
    save, launch = Store.save, kind.launch

    async def saving(self: Store, record: ProcessRecord, units: Any = ()) -> None:
        if record.state.name.lower() == at:
            raise RuntimeError("nobody foresaw this")
        await save(self, record, units)

    async def launching(self: Any, spec: Any, listener: Any) -> Any:
        if at == "launch":
            raise RuntimeError("nobody foresaw this")
        return await launch(self, spec, listener)

    async with supervising() as supervisor:
        other = await supervisor.start("sleep 300", owner=OWNER)
        told(supervisor.outbox)
        with monkeypatch.context() as patch:
            patch.setattr(Store, "save", saving)
            patch.setattr(kind, "launch", launching)
            with pytest.raises(SpawnFailedError) as caught:
                await supervisor.start("sleep 300", owner=OWNER)
        outcome = await supervisor.get(caught.value.handle, OWNER).wait()
        assert (outcome.state, outcome.started_at, outcome.diagnostic) == (S.FAILED, None, "unforeseen")
        assert names(told(supervisor.outbox)) == ["ProcessCompleted", "ProcessNotification"]
        assert other.state is S.RUNNING


async def test_a_fault_in_a_flush_touches_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request to stop cannot be told, and the process is stopped all the same; its next write tells it."""
    save = Store.save
    failed: list[ProcessState] = []

    async def raising_once(self: Store, record: ProcessRecord, units: Any = ()) -> None:
        if not failed:
            failed.append(record.state)
            raise RuntimeError("nobody foresaw this")
        await save(self, record, units)

    async with supervising() as supervisor:
        process = await supervisor.start("exec sleep 300", owner=OWNER)
        monkeypatch.setattr(Store, "save", raising_once)
        assert await process.stop() is not None
        assert failed == [S.RUNNING]
        assert "ProcessStopRequested" in names(told(supervisor.outbox))


async def test_a_fault_after_the_last_word_touches_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows it (retention, here) ends a task of that one process, and no other."""
    note_ended = Registry.note_ended

    def raising(self: Registry, job: Job) -> None:
        if job.record.name == "odd":
            raise RuntimeError("nobody foresaw this")
        note_ended(self, job)

    monkeypatch.setattr(Registry, "note_ended", raising)
    async with supervising() as supervisor:
        other = await supervisor.start("exec sleep 300", owner=OWNER)
        odd = await supervisor.start("exit 3", owner=OWNER, name="odd")
        assert (await odd.wait()).exit_code == 3
        await anyio.wait_all_tasks_blocked()
        assert other.state is S.RUNNING
        stopped = await other.stop()
        assert stopped is not None
        assert stopped.state is S.TERMINATED


async def test_a_callback_that_raises_touches_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """A timer's or a descriptor's: logged, and everything that waits by the same task goes on waiting."""
    timers, reactor = Timers(SystemClock()), Reactor()
    fired, ready = anyio.Event(), anyio.Event()
    pipes = [os.pipe() for _ in range(2)]

    def raising() -> None:
        raise RuntimeError("nobody foresaw this")

    def reading_on() -> None:
        os.read(pipes[1][0], 1)
        ready.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(timers.run)
        tasks.start_soon(reactor.run)
        timers.call_after(0.0, raising)
        timers.call_after(0.0, fired.set)
        for (reading, writing), callback in zip(pipes, (raising, reading_on), strict=True):
            reactor.add(reading, callback)
            os.write(writing, b"x")
            await anyio.wait_all_tasks_blocked()
        await fired.wait()
        await ready.wait()
        tasks.cancel_scope.cancel()
    for reading, _ in pipes:
        reactor.remove(reading)
    reactor.close()
    for pipe in pipes:
        for descriptor in pipe:
            os.close(descriptor)
    # Once each: a descriptor whose callback has raised is not asked again, or it would be for ever.
    assert sum("nobody foresaw" in (record.exc_text or "") for record in caplog.records) == 2


async def test_a_program_that_is_not_text_is_shown_escaped(tmp_path: Path) -> None:
    """Any file name can be executed, and what is stored and told of it can be encoded."""
    program = tmp_path / "\udcff"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start([str(program)], owner=OWNER)
        assert (await process.wait()).exit_code == 3
        with pytest.raises(SpawnFailedError):
            await supervisor.start(["/no/such/\udcff"], owner=OWNER)
