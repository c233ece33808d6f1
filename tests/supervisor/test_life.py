"""A process's life as it is told: order of events, terminal order, waiting, ownership, redaction."""

from __future__ import annotations

import logging
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import pytest
from anyio.lowlevel import checkpoint
from supervising import (
    OTHER,
    OWNER,
    SESSION,
    failing_saves,
    names,
    nothing_left,
    output_of,
    supervising,
    told,
    told_units,
    until,
)

from lastword.adapters.testing import ManualClock
from lastword.notifier import (
    Owner,
    ProcessCompleted,
    ProcessNotification,
    ProcessStarted,
    ProcessState,
    process_ids,
)
from lastword.supervisor import Limits, ProcessNotFoundError, StopMode, open_supervisor

pytestmark = pytest.mark.usefixtures("each_tier")


async def test_a_life_is_told_in_order_with_the_ids_of_its_process() -> None:
    """Started, then Completed with its notification in one unit; every id is a role of the one base id."""
    async with supervising() as supervisor:
        process = await supervisor.start("exit 3", owner=OWNER)
        outcome = await process.wait()
        (started,), (completed, notification) = told_units(supervisor.outbox)
        assert isinstance(started, ProcessStarted)
        assert isinstance(completed, ProcessCompleted)
        assert isinstance(notification, ProcessNotification)
        ids = process_ids(process.command_id)
        assert started.header.event_id == ids.started
        assert completed.header.event_id == ids.completed
        assert notification.notification.command_id == ids.command == process.command_id
        assert ids.process.version == 7
        assert (started.header.session_id, started.header.loop_id) == (OWNER.session_id, OWNER.loop_id)
        assert started.header.created_at == process.started_at == outcome.started_at
        assert completed.header.created_at == outcome.finished_at
        assert (completed.process.exit_code, completed.process.diagnostic) == (3, "")
        assert (notification.notification.state, notification.notification.reason) == (outcome.state, outcome.reason)
        assert supervisor.pending() == []


async def test_a_signal_nobody_asked_for_is_an_exit_with_the_shells_code() -> None:
    """In the outcome the signal, on the wire 128 plus it: never 0, never -1."""
    async with supervising() as supervisor:
        process = await supervisor.start("kill -9 $$", owner=OWNER)
        outcome = await process.wait()
        assert (outcome.state, outcome.exit_code, outcome.signal, outcome.shell_code) == (
            ProcessState.EXITED,
            None,
            9,
            137,
        )
        completed = told(supervisor.outbox)[1]
        assert isinstance(completed, ProcessCompleted)
        assert completed.process.exit_code == 137


async def test_exactly_one_of_started_and_backgrounded_at_the_start() -> None:
    """In the background from the start it is told so at once, and once."""
    async with supervising() as supervisor:
        process = await supervisor.start("exit 0", owner=OWNER, background=True)
        assert process.backgrounded
        await process.wait()
        await process.background()
        assert names(told(supervisor.outbox)) == ["ProcessBackgrounded", "ProcessCompleted", "ProcessNotification"]


async def test_backgrounding_later_is_told_once() -> None:
    """However often it is said, and by however many at once."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER)
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(process.background)
        assert process.backgrounded
        await process.stop(StopMode.KILL)
        await process.background()
        assert names(told(supervisor.outbox)) == [
            "ProcessStarted",
            "ProcessBackgrounded",
            "ProcessStopRequested",
            "ProcessCompleted",
            "ProcessNotification",
        ]


async def test_stop_requests_are_told_once_and_before_the_end() -> None:
    """Five stops at once are one request, of the first one's mode."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER)
        async with anyio.create_task_group() as tasks:
            for mode in (StopMode.INTERRUPT, StopMode.TERMINATE, StopMode.KILL, StopMode.KILL, StopMode.TERMINATE):
                tasks.start_soon(process.stop, mode)
        assert names(told(supervisor.outbox)) == [
            "ProcessStarted",
            "ProcessStopRequested",
            "ProcessCompleted",
            "ProcessNotification",
        ]


# --- waiting ----------------------------------------------------------------------------------------------------------


async def test_wait_is_cancel_safe_and_gives_the_same_object() -> None:
    """Cancelling a wait neither signals nor loses anything; any number of waiters get one outcome."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER)
        with anyio.move_on_after(0.05) as scope:
            await process.wait()
        assert scope.cancelled_caught
        assert process.state is ProcessState.RUNNING
        outcomes: list[object] = []
        async with anyio.create_task_group() as tasks:

            async def waiter() -> None:
                outcomes.append(await process.wait())

            for _ in range(5):
                tasks.start_soon(waiter)
            await anyio.wait_all_tasks_blocked()
            await process.stop()
        assert len({id(outcome) for outcome in (*outcomes, await process.wait(), await process.wait())}) == 1


async def test_waiting_for_several() -> None:
    """`wait_any` gives those that have ended, `wait_all` all outcomes; both in the order they were asked in."""
    async with supervising() as supervisor:
        slow = await supervisor.start("sleep 60", owner=OWNER)
        quick = await supervisor.start("exit 1", owner=OWNER)
        assert await supervisor.wait_any([slow, quick]) == [quick]
        assert await supervisor.wait_any([quick, slow]) == [quick]
        assert await supervisor.wait_any([]) == []
        await slow.stop()
        assert await supervisor.wait_any([slow, quick]) == [slow, quick]
        assert [outcome.exit_code for outcome in await supervisor.wait_all([quick, slow])] == [1, None]


async def test_a_job_outlives_the_scope_that_started_it() -> None:
    """Its life is bound to the supervisor, not to the task that started it."""
    async with supervising() as supervisor:
        processes: list[Any] = []
        async with anyio.create_task_group() as turn:
            processes.append(await supervisor.start("sleep 0.2; echo ok", owner=OWNER))
            turn.cancel_scope.cancel()
        outcome = await processes[0].wait()
        assert outcome.exit_code == 0
        assert await output_of(processes[0]) == b"ok\n"


# --- durable first ----------------------------------------------------------------------------------------------------


async def test_nothing_ends_before_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the store fails, the last word is retried: running, holding its place, shown as pending, untold."""
    async with supervising(limits=Limits(running_per_loop=1)) as supervisor:
        with failing_saves(monkeypatch, lambda record: record.state.terminal) as failed:
            process = await supervisor.start("exit 3", owner=OWNER)
            await until(lambda: len(failed) >= 3)
            assert (process.state, process.outcome) == (ProcessState.RUNNING, None)
            pending = [(entry.kind, entry.record_id, entry.attempts >= 2) for entry in supervisor.pending()][1:]
            ids = process_ids(process.command_id)
            assert pending == [("event", ids.completed, True), ("notification", ids.command, True)]
            assert "OperationalError" in str(supervisor.pending()[-1].last_error)
            assert names(told(supervisor.outbox)) == ["ProcessStarted"]
            with pytest.raises(Exception, match="running_per_loop"):
                await supervisor.start("true", owner=OWNER)
        assert (await process.wait()).exit_code == 3
        assert names(told(supervisor.outbox)) == ["ProcessCompleted", "ProcessNotification"]
        assert supervisor.pending() == []
        assert len({record.outcome.finished_at for record in failed if record.outcome}) == 1


async def test_an_unknown_commit_is_made_again_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last word was durable although the store said otherwise: the retry finds it, and nothing is told twice."""
    async with supervising() as supervisor:
        with failing_saves(monkeypatch, lambda record: record.state.terminal, committed=True) as failed:
            process = await supervisor.start("exit 3", owner=OWNER)
            await until(lambda: bool(failed))
        await process.wait()
        assert names(told(supervisor.outbox)) == ["ProcessStarted", "ProcessCompleted", "ProcessNotification"]


async def test_an_event_that_could_not_be_stored_goes_with_the_next(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Backgrounded and StopRequested are not lost with a failing store; their order is kept."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER)
        with failing_saves(monkeypatch, lambda record: record.state is ProcessState.RUNNING) as failed:
            await process.background()
            await process.stop()
        assert len(failed) >= 1
        assert names(told(supervisor.outbox)) == [
            "ProcessStarted",
            "ProcessBackgrounded",
            "ProcessStopRequested",
            "ProcessCompleted",
            "ProcessNotification",
        ]
        assert all(record.levelno <= logging.WARNING for record in caplog.records)


async def test_terminal_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durable, then the place is free, then waiters wake, then the outbox has it."""
    from lastword.supervisor._admission import Admission
    from lastword.supervisor._outbox import StoreOutbox
    from lastword.supervisor._store import Store

    order: list[str] = []
    save, shrink, add = Store.save, Admission.shrink, StoreOutbox.add

    async def saving(self: Any, record: Any, units: Any = ()) -> None:
        await save(self, record, units)
        if record.state.terminal:
            order.append("stored")

    def shrinking(self: Any, *arguments: Any) -> None:
        shrink(self, *arguments)
        order.append(f"released {process.outcome is not None}")

    def adding(self: Any, units: Any) -> None:
        add(self, units)
        order.append(f"told {process.outcome is not None}")

    async with supervising() as supervisor:
        process = await supervisor.start("read x", owner=OWNER, stdin="pipe")
        monkeypatch.setattr(Store, "save", saving)
        monkeypatch.setattr(Admission, "shrink", shrinking)
        monkeypatch.setattr(StoreOutbox, "add", adding)
        await process.close_input()
        await process.wait()
        await until(lambda: len(order) == 3)
        assert order == ["stored", "released True", "told True"]


async def test_times_never_run_backward() -> None:
    """A wall clock that is set back does not make a record that validation refuses."""

    class BackwardClock:
        def __init__(self) -> None:
            self.year = 2026

        def now(self) -> datetime:
            self.year -= 1
            return datetime(self.year, 1, 1, tzinfo=UTC)

        def monotonic(self) -> float:
            return anyio.current_time()

        async def sleep(self, seconds: float) -> None:
            await anyio.sleep(seconds)

    async with supervising(clock=BackwardClock()) as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER)
        outcome = await process.stop()
        assert outcome is not None
        assert outcome.started_at == outcome.finished_at == process.started_at
        assert len(told(supervisor.outbox)) == 4


async def test_timeouts_are_on_the_injected_clock() -> None:
    """The lifetime is measured by the clock that was given, and by no other."""
    clock = ManualClock()
    async with supervising(clock=clock) as supervisor:
        process = await supervisor.start(["sleep", "60"], owner=OWNER, timeout=3_600.0)
        await until(lambda: clock.next_deadline is not None)
        clock.advance(3_599.0)
        await anyio.wait_all_tasks_blocked()
        assert process.state is ProcessState.RUNNING
        clock.advance(1.0)
        assert (await process.wait()).state is ProcessState.TIMED_OUT


# --- ownership and redaction ------------------------------------------------------------------------------------------


async def test_another_owners_process_is_answered_like_a_missing_one() -> None:
    """Same error, same text, and it is not listed."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER)
        answers: list[str] = []
        for handle, owner in ((process.handle, OTHER), ("A" * 22, OTHER), ("", OWNER)):
            with pytest.raises(ProcessNotFoundError) as caught:
                supervisor.get(handle, owner)
            answers.append(str(caught.value))
        assert len(set(answers)) == 1
        assert supervisor.list(OTHER) == []
        assert supervisor.list(OWNER) == [process]
        stranger = Owner(session_id=UUID(int=9), loop_id=OWNER.loop_id)
        with pytest.raises(ProcessNotFoundError):
            supervisor.get(process.handle, stranger)


async def test_secrets_are_nowhere_but_in_the_output(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Command, arguments, environment, stdin and directory: not in files, events, logs, repr or errors."""
    caplog.set_level(logging.DEBUG)
    cwd = tmp_path / "SEKRET5"
    cwd.mkdir()
    state = tmp_path / "state"
    state.mkdir()
    shown: list[str] = []
    with nothing_left():
        async with open_supervisor(state, session_id=SESSION) as supervisor:
            with failing_saves(monkeypatch, lambda record: record.state.terminal) as failed:
                process = await supervisor.start(
                    ": SEKRET1; echo SEKRET2", owner=OWNER, env={"K": "SEKRET3"}, stdin=b"SEKRET4", cwd=cwd
                )
                await until(lambda: bool(failed))
            shown += [repr(process), repr(await process.wait()), repr(supervisor.list(OWNER))]
            chunk = await process.read_output()
            assert chunk.data == b"SEKRET2\n"
            shown.append(repr(chunk))
            wrong: list[tuple[Any, dict[str, Any]]] = [
                (["no-such-program", "SEKRET1"], {"env": {"K": "SEKRET3"}}),
                (["true"], {"cwd": cwd / "SEKRET6"}),
                (["true", "SEKRET1" * 100_000], {}),
                (["true", "SEKRET1\0"], {}),
                ("true", {"env": {"A=SEKRET3": "x"}}),
                ("true", {"env_policy": "SEKRET1"}),
            ]
            for command, options in wrong:
                with pytest.raises(Exception) as caught:  # noqa: PT011 -- any of ours; what it says is the point
                    await supervisor.start(command, owner=OWNER, **options)
                shown += [repr(caught.value), str(caught.value), repr(caught.value.__context__ and "")]
                assert caught.value.__cause__ is None
                assert caught.value.__suppress_context__ or caught.value.__context__ is None
            shown += [repr(item) for item in told(supervisor.outbox)]
            shown += [repr(entry) for entry in supervisor.pending()]
    shown += [record.getMessage() for record in caplog.records]
    assert len(shown) > 20
    assert not [text for text in shown if "SEKRET" in text]
    written = {file: file.read_bytes() for file in state.rglob("*") if file.is_file()}
    assert [file.parent.name for file, data in written.items() if b"SEKRET" in data] == ["output"]


async def test_the_store_knows_the_program_only_by_its_base_name(tmp_path: Path) -> None:
    """For people: the name they gave, and what ran; of a shell command only that it was one."""
    async with supervising(tmp_path) as supervisor:
        await (await supervisor.start(["/bin/echo", "x"], owner=OWNER, name="greeting")).wait()
        await (await supervisor.start("A=1 true", owner=OWNER)).wait()
    connection = sqlite3.connect(tmp_path / "supervisor.db")
    rows = connection.execute("SELECT name, program FROM process ORDER BY base_id").fetchall()
    connection.close()
    assert rows == [("greeting", "echo"), ("", "sh")]
    await checkpoint()
