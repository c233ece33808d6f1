"""The runtime: a job's last word, end to end, whatever happens to the block around it."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import anyio
import pytest
from anyio.abc import TaskGroup
from runtime_scenes import HOST, BrittleJournal, HastyClock, gone, pid_of
from session_values import SESSION, Job

import lastword
from lastword._runtime import Observer, StartOptions
from lastword.adapters.testing import ManualClock
from lastword.notifier import (
    AppendResult,
    JournalFencedError,
    NewRecord,
    OutboxUnit,
    ProcessEvent,
    ProcessState,
    RecordKind,
    TerminalReason,
    Verdict,
    main_loop_id,
)
from lastword.session import LoopScope, open_session
from lastword.session.journal import MemoryJournal, MemoryLedger, SqliteJournal
from lastword.supervisor import SpawnFailedError, Supervisor, SupervisorError

EVERYTHING = lastword.EventFilter(enduring=LoopScope.all())


async def history(runtime: lastword.Runtime) -> list[tuple[str, str]]:
    """What the journal tells: (event, handle), in order."""
    return [
        (type(delivery.event).__name__, delivery.event.process.process_handle)
        async for delivery in runtime.session.replay()
        if isinstance(delivery.event, ProcessEvent)
    ]


@pytest.fixture(params=["headless", "directory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "state" if request.param == "directory" else None


async def test_the_first_last_word(place: Path | None) -> None:
    """Started, exit, Completed, notification, journal, loop, ack; and then nothing is pending."""
    with anyio.fail_after(90):
        async with lastword.open_runtime(place) as runtime:
            async with runtime.session.subscribe(EVERYTHING) as deliveries:
                process = await runtime.start("echo hello; exit 3")
                notice = await runtime.loop.receive()
                first = (await anext(deliveries)).event
                second = (await anext(deliveries)).event
            assert isinstance(first, lastword.ProcessStarted)
            assert isinstance(second, lastword.ProcessCompleted)
            assert second.process.exit_code == 3
            assert notice.notification.process_handle == process.handle == second.process.process_handle
            assert notice.notification.command_id == process.command_id
            assert (notice.notification.state, notice.notification.reason) == (
                ProcessState.EXITED,
                TerminalReason.EXITED,
            )
            assert not notice.redelivered
            (pending,) = await runtime.pending()
            assert (pending.record_id, pending.kind, pending.process_handle, pending.status) == (
                process.command_id,
                "notification",
                process.handle,
                "unacknowledged",
            )
            await notice.ack()
            assert await runtime.pending() == []
            outcome = await process.wait()
            assert (outcome.exit_code, outcome.signal) == (3, None)
            assert (await process.read_output()).data == b"hello\n"


async def test_what_is_in_the_outbox_and_in_the_journal_is_listed_once() -> None:
    """Between the journal's commit and the outbox's mark it is in both; the journal knows better."""
    job = Job()
    async with open_session(MemoryJournal(), session_id=SESSION) as session:
        await session.deliver(job.end_unit())
        event, notification = job.end_unit()
        records = [
            lastword.PendingDelivery(record_id=event.record_id, kind="event", process_handle="x", status="waiting"),
            lastword.PendingDelivery(
                record_id=notification.record_id, kind="notification", process_handle="x", status="waiting"
            ),
        ]
        outbox: Any = SimpleNamespace(pending=lambda: records)
        listed = await lastword.Runtime(session, outbox).pending()
    assert [(one.record_id, one.status) for one in listed] == [
        (records[0].record_id, "waiting"),
        (records[1].record_id, "unacknowledged"),
    ]


async def test_an_unacknowledged_notice_is_told_again_under_the_same_id_until_it_is(tmp_path: Path) -> None:
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        process = await runtime.start("true")
        with anyio.fail_after(90):
            notice = await runtime.loop.receive()
    for _ in range(2):
        async with lastword.open_runtime(tmp_path / "state") as runtime:
            with anyio.fail_after(90):
                notice = await runtime.loop.receive()
            assert notice.notification.command_id == process.command_id
            assert notice.redelivered
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        with anyio.fail_after(90):
            notice = await runtime.loop.receive()
        await notice.ack()
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        assert await runtime.pending() == []
        assert await history(runtime) == [("ProcessStarted", process.handle), ("ProcessCompleted", process.handle)]


async def test_a_directory_is_one_session_for_ever(tmp_path: Path) -> None:
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        session_id = runtime.session.session_id
        assert runtime.loop.loop_id == main_loop_id(session_id)
    async with lastword.open_runtime(str(tmp_path / "state"), session_id=session_id) as runtime:
        assert runtime.session.session_id == session_id
    with pytest.raises(SupervisorError, match=str(session_id)):
        async with lastword.open_runtime(tmp_path / "state", session_id=uuid4()):
            pytest.fail("another session was let in")


async def test_leaving_the_block_ends_every_process_and_journals_why(tmp_path: Path) -> None:
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        processes = [await runtime.start("echo $$; exec sleep 60", background=True) for _ in range(3)]
        with anyio.fail_after(90):
            pids = [await pid_of(process) for process in processes]
    assert all(gone(pid) for pid in pids)
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        with anyio.fail_after(90):
            notices = [await runtime.loop.receive() for _ in processes]
    assert {notice.notification.process_handle for notice in notices} == {process.handle for process in processes}
    assert {notice.notification.reason for notice in notices} == {TerminalReason.RUNNER_SHUTDOWN}


@pytest.mark.parametrize(
    "error", [ValueError("as it is"), KeyboardInterrupt(), SystemExit(3)], ids=lambda e: type(e).__name__
)
async def test_what_the_block_raises_leaves_as_it_is_after_the_last_words_are_home(
    error: BaseException, tmp_path: Path
) -> None:
    started: list[lastword.Process] = []
    with pytest.raises(type(error)) as caught:
        async with lastword.open_runtime(tmp_path / "state") as runtime:
            started.append(await runtime.start("exec sleep 60"))
            raise error
    assert caught.value is error
    (process,) = started
    assert process.outcome is not None
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        assert (await history(runtime))[-1] == ("ProcessCompleted", process.handle)


async def test_a_group_that_the_block_raises_leaves_without_a_false_alarm(caplog: pytest.LogCaptureFixture) -> None:
    """A task group takes it apart and puts it together anew; it is the block's all the same."""
    error = ExceptionGroup("outer", [ValueError("a"), ExceptionGroup("inner", [KeyError("b"), OSError("c")])])
    with pytest.raises(ExceptionGroup) as caught:
        async with lastword.open_runtime():
            raise error
    assert caught.value is error
    assert caplog.text == ""


async def test_a_cancelled_block_still_brings_the_last_words_home(tmp_path: Path) -> None:
    started: list[tuple[lastword.Process, int]] = []
    with anyio.CancelScope() as scope:
        async with lastword.open_runtime(tmp_path / "state") as runtime:
            process = await runtime.start("echo $$; exec sleep 60")
            started.append((process, await pid_of(process)))
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    ((process, pid),) = started
    assert gone(pid)
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        (pending,) = await runtime.pending()
        assert pending.process_handle == process.handle


async def test_closing_outlasts_a_cancellation_that_comes_while_it_waits(tmp_path: Path) -> None:
    """The job ignores SIGTERM, so closing takes its grace; the scope is cancelled meanwhile."""
    limits = lastword.Limits(grace_seconds=0.5)
    pids: list[int] = []

    async def cancel_once_it_is_asked_to_stop(runtime: lastword.Runtime) -> None:
        async for delivery in runtime.session.watch(EVERYTHING):
            if isinstance(delivery.event, lastword.ProcessStopRequested):
                scope.cancel()

    async def live(tasks: TaskGroup) -> None:
        async with lastword.open_runtime(tmp_path / "state", limits=limits) as runtime:
            process = await runtime.start("trap '' TERM; echo $$; while :; do sleep 0.05; done")
            pids.append(await pid_of(process))
            tasks.start_soon(cancel_once_it_is_asked_to_stop, runtime)

    with anyio.fail_after(90), anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            await live(tasks)
    assert scope.cancelled_caught
    assert gone(pids[0])
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        assert [name for name, _ in await history(runtime)] == [
            "ProcessStarted",
            "ProcessStopRequested",
            "ProcessCompleted",
        ]


async def _tick(count: int) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("where", ["headless", "directory"])
async def test_opening_can_be_cancelled_at_any_moment_and_leaves_nothing_open(where: str, tmp_path: Path) -> None:
    """A sweep over the checkpoints of opening and hand-over; a directory that is still held would refuse the next."""
    place = tmp_path / "state" if where == "directory" else None
    entered = 0
    with anyio.fail_after(100):
        for ticks in range(40):
            async with anyio.create_task_group() as tasks:

                async def open_it() -> None:
                    nonlocal entered
                    async with lastword.open_runtime(place):
                        entered += 1
                        await anyio.sleep_forever()

                tasks.start_soon(open_it)
                await _tick(ticks)
                tasks.cancel_scope.cancel()
        async with lastword.open_runtime(place) as runtime:
            assert (await (await runtime.start("true")).wait()).exit_code == 0
    assert entered > 0 or place is not None  # a thread's hand-over has no fixed number of checkpoints


@pytest.mark.parametrize("where", ["headless", "directory"])
def test_opening_survives_a_native_cancellation_at_any_moment(where: str, tmp_path: Path) -> None:
    """`task.cancel()`, as by `asyncio.wait_for`; asyncio alone has it, and it goes through anyio's shields."""
    place = tmp_path / "state" if where == "directory" else None

    async def open_it() -> None:
        async with lastword.open_runtime(place):
            await asyncio.sleep(3600)

    async def main() -> None:
        for ticks in range(40):
            task = asyncio.create_task(open_it())
            for _ in range(ticks):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, 90)
        async with lastword.open_runtime(place) as runtime:
            assert (await (await runtime.start("true")).wait()).exit_code == 0

    asyncio.run(main())


async def test_a_live_directory_refuses_a_second_opener(tmp_path: Path) -> None:
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        with pytest.raises(lastword.DirectoryInUseError):
            async with lastword.open_runtime(tmp_path / "state"):
                pytest.fail("a second opener was let in")
        process = await runtime.start("true")
        assert (await process.wait()).exit_code == 0


@pytest.mark.parametrize("url", ["sqlite:///{folder}/journal.db", "postgres", "sqlite:///", ""])
def test_a_journal_url_that_cannot_be_right_is_refused_before_anything_is_made(url: str, tmp_path: Path) -> None:
    _refused(url.format(folder=tmp_path), tmp_path)


def test_a_durable_journal_without_a_directory_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    _refused(SqliteJournal(tmp_path / "journal.db"), tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("directory", 3),
        ("directory", b"state"),
        ("session_id", "abc"),
        ("limits", {"spool_bytes": 1}),
        ("require", "cgroup"),
        ("observer", print),
        ("clock", 3),
        ("rng", 7),
        ("journal", 3),
    ],
)
def test_a_setting_of_the_wrong_kind_is_named_before_anything_is_opened(name: str, value: Any) -> None:
    settings: dict[str, Any] = {name: value}
    with pytest.raises(SupervisorError, match=f"{name} must be") as caught:
        lastword.open_runtime(**settings)
    assert caught.value.code is lastword.ErrorCode.INVALID_SETTINGS


def test_any_backend_but_memory_needs_a_directory(tmp_path: Path) -> None:
    """Who knows what outlives the block? What is not yet journaled would not."""

    class Elsewhere(SqliteJournal):
        """A stand-in for any backend of somebody's own."""

    _refused(Elsewhere(tmp_path / "journal.db"), tmp_path)


def _refused(journal: SqliteJournal | str, folder: Path) -> None:
    with pytest.raises(SupervisorError) as caught:
        lastword.open_runtime(journal=journal)
    assert caught.value.code is lastword.ErrorCode.INVALID_SETTINGS
    assert list(folder.iterdir()) == []


async def test_a_journal_url_names_the_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'elsewhere' / 'words.db'}"
    async with lastword.open_runtime(tmp_path / "state", journal=url) as runtime:
        process = await runtime.start("true")
        await process.wait()
    assert (tmp_path / "elsewhere" / "words.db").exists()
    assert not (tmp_path / "state" / "journal.db").exists()


async def test_a_job_that_cannot_start_has_a_last_word_too() -> None:
    async with lastword.open_runtime() as runtime:
        with pytest.raises(SpawnFailedError) as caught:
            await runtime.start(["/no/such/program"])
        with anyio.fail_after(90):
            notice = await runtime.loop.receive()
        assert notice.notification.process_handle == caught.value.handle
        assert notice.notification.state is ProcessState.FAILED
        assert await history(runtime) == [("ProcessCompleted", caught.value.handle)]


async def test_a_loop_of_its_own_is_told_and_the_main_loop_is_not() -> None:
    async with lastword.open_runtime() as runtime:
        other = runtime.session.open_loop(uuid4())
        process = await runtime.start("true", owner=other)
        with anyio.fail_after(90):
            notice = await other.receive()
        assert notice.notification.process_handle == process.handle
        with pytest.raises(anyio.WouldBlock):
            runtime.loop.receive_nowait()


async def test_many_that_end_together_are_each_told_once() -> None:
    limits = lastword.Limits(running_per_loop=20)
    async with lastword.open_runtime(limits=limits) as runtime:
        with anyio.fail_after(90):
            processes = [await runtime.start("exec cat", stdin=b"x" * 1000) for _ in range(20)]
            notices = [await runtime.loop.receive() for _ in processes]
        assert len({notice.notification.command_id for notice in notices}) == 20
        with pytest.raises(anyio.WouldBlock):
            runtime.loop.receive_nowait()


async def test_what_the_journal_cannot_take_waits_in_the_store_for_the_next_opening(tmp_path: Path) -> None:
    ledger = MemoryLedger()
    journal = BrittleJournal(ledger)
    async with lastword.open_runtime(tmp_path / "state", journal=journal, clock=HastyClock(), rng=Random(1)) as runtime:
        session_id = runtime.session.session_id
        journal.broken = True
        process = await runtime.start("true")
        await process.wait()
        with anyio.fail_after(90):
            while not any(record.attempts for record in await runtime.pending()):
                await anyio.lowlevel.checkpoint()
        waiting = await runtime.pending()
        assert {record.status for record in waiting} == {"waiting"}
        assert "disk is full" in (waiting[0].last_error or "")
    assert [record.kind.name for record in ledger.records] == ["FENCE"]
    async with lastword.open_runtime(
        tmp_path / "state", session_id=session_id, journal=MemoryJournal(ledger)
    ) as runtime:
        with anyio.fail_after(90):
            notice = await runtime.loop.receive()
        assert notice.notification.command_id == process.command_id
        assert await history(runtime) == [("ProcessStarted", process.handle), ("ProcessCompleted", process.handle)]


async def test_a_journal_that_is_back_is_used_at_once_whatever_the_backoff(tmp_path: Path) -> None:
    """The clock stands still, so no backoff ever passes: only the news of another write can end it."""
    journal = BrittleJournal()
    async with lastword.open_runtime(journal=journal, clock=ManualClock()) as runtime:
        journal.broken = True
        process = await runtime.start("true")
        with anyio.fail_after(90):
            await process.wait()
            while not any(record.attempts for record in await runtime.pending()):
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            assert max(record.attempts for record in await runtime.pending()) == 1
            journal.broken = False
            await runtime.session.acknowledge(uuid4())
            notice = await runtime.loop.receive()
        assert notice.notification.command_id == process.command_id


async def test_a_fenced_runtime_says_so_and_closes_quietly(tmp_path: Path) -> None:
    """Another opener took its journal over: its own records stay in its store."""
    ledger = MemoryLedger()
    async with lastword.open_runtime(tmp_path / "state", journal=MemoryJournal(ledger)) as runtime:
        MemoryJournal(ledger).open(runtime.session.session_id)
        process = await runtime.start("true")
        with anyio.fail_after(90), pytest.raises(JournalFencedError):
            await runtime.loop.receive()
        assert (await process.wait()).exit_code == 0


async def test_a_killed_host_leaves_a_process_that_the_next_one_tells_as_lost(
    tmp_path: Path, anyio_backend_name: str
) -> None:
    command = [sys.executable, "-c", HOST, str(tmp_path / "state"), anyio_backend_name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        handle, command_id, pid = host.stdout.readline().split()
        host.kill()
    for _ in range(2):  # told again after every restart, until it is acknowledged
        async with lastword.open_runtime(tmp_path / "state") as runtime:
            assert gone(int(pid))
            with anyio.fail_after(90):
                notice = await runtime.loop.receive()
            assert notice.notification.process_handle == handle
            assert notice.notification.command_id == UUID(command_id)
            assert notice.notification.state is ProcessState.LOST_ON_RESTORE
            assert await history(runtime) == [("ProcessBackgrounded", handle), ("ProcessLost", handle)]


async def test_an_observer_is_told_what_becomes_of_each_unit_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Verdict] = []

    class Watcher(Observer):
        def unit_judged(self, unit: OutboxUnit, verdict: Verdict, error: Exception | None) -> None:
            seen.append(verdict)
            raise ValueError("an observer's fault")

    async with lastword.open_runtime(observer=Watcher()) as runtime:
        await runtime.start("true")
        with anyio.fail_after(90):
            await runtime.loop.receive()
    assert seen == [Verdict.DELIVERED, Verdict.DELIVERED]
    assert "delivery goes on" in caplog.text


async def test_a_strangers_error_is_named_and_not_quoted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its text may hold anything; what is stored and listed says its type."""

    class Strange(MemoryJournal):
        def append_many(self, units: Sequence[Sequence[NewRecord]]) -> list[list[AppendResult]]:
            if units[0][0].kind is not RecordKind.FENCE:
                raise RuntimeError("SEKRET")
            return super().append_many(units)

    async with lastword.open_runtime(journal=Strange(), clock=HastyClock()) as runtime:
        await runtime.start("true")
        with anyio.fail_after(90):
            while not any(record.attempts for record in await runtime.pending()):
                await anyio.lowlevel.checkpoint()
        assert {record.last_error for record in await runtime.pending()} <= {"RuntimeError", None}
    assert "are lost with it" in caplog.text


async def test_a_manager_is_good_for_one_block() -> None:
    manager = lastword.open_runtime()
    async with manager:
        pass
    with pytest.raises(RuntimeError, match="opened before"):
        async with manager:
            pytest.fail("opened twice")


def test_the_runtime_takes_every_option_of_the_supervisor() -> None:
    ours = StartOptions.__annotations__
    theirs = inspect.signature(Supervisor.start).parameters
    assert list(ours) == [name for name in theirs if name not in {"self", "command", "owner"}]
    assert StartOptions.__required_keys__ == frozenset()
