"""The end of a supervisor: everything stopped and told, bounded, whatever ends the block."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from supervising import (
    HANG_SECONDS,
    OWNER,
    SESSION,
    alive,
    failing_saves,
    launcher_class,
    nothing_left,
    supervising,
    told,
    until,
    wait_for_output,
)

from lastword.adapters.testing import ManualClock
from lastword.notifier import ProcessCompleted, ProcessState, ProcessStopRequested, TerminalReason
from lastword.supervisor import Containment, ErrorCode, Limits, Process, Supervisor, SupervisorError, open_supervisor
from lastword.supervisor._record import ProcessRecord
from lastword.supervisor._store import Store
from lastword.supervisor._supervisor import CLOSING_SECONDS
from lastword.supervisor.launch import launcher_of

pytestmark = pytest.mark.usefixtures("each_tier")

S, R = ProcessState, TerminalReason


class Five:
    """Five running processes of a supervisor, and how they must have ended."""

    def __init__(self) -> None:
        self._supervisor: Supervisor | None = None
        self._processes: list[Process] = []

    async def start(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._processes = [await supervisor.start("sleep 300", owner=OWNER) for _ in range(5)]

    def assert_shut_down(self) -> None:
        assert self._supervisor is not None
        assert len(self._processes) == 5
        _assert_all_shut_down(self._supervisor, self._processes)


def _assert_all_shut_down(supervisor: Supervisor, processes: list[Process]) -> None:
    for process in processes:
        assert process.outcome is not None
        assert (process.outcome.state, process.outcome.reason) == (S.TERMINATED, R.RUNNER_SHUTDOWN)
    items = told(supervisor.outbox)
    assert sum(isinstance(item, ProcessCompleted) for item in items) == len(processes)
    assert {item.process.reason for item in items if isinstance(item, ProcessStopRequested)} == {R.TERMINATED}


async def test_leaving_the_block_stops_everything_and_tells_it() -> None:
    """Every process ends as terminated by runner_shutdown, stored and due."""
    five = Five()
    async with supervising() as supervisor:
        await five.start(supervisor)
    five.assert_shut_down()


async def test_who_ignores_sigterm_is_killed_at_the_grace() -> None:
    """Closing is bounded; the reason stays runner_shutdown."""
    async with supervising(limits=Limits(grace_seconds=0.1)) as supervisor:
        process = await supervisor.start("trap '' TERM; echo ready; while :; do sleep 0.05; done", owner=OWNER)
        await wait_for_output(process, b"ready")
    assert process.outcome is not None
    assert (process.outcome.state, process.outcome.reason) == (S.KILLED, R.RUNNER_SHUTDOWN)
    assert process.outcome.signal == signal.SIGKILL


async def test_a_stop_with_a_longer_grace_does_not_hold_up_closing() -> None:
    """At the supervisor's own grace everything that is left is killed."""
    with nothing_left(), anyio.fail_after(HANG_SECONDS):
        async with open_supervisor(None, session_id=SESSION, limits=Limits(grace_seconds=0.1)) as supervisor:
            process = await supervisor.start("trap '' TERM; echo ready; while :; do sleep 0.05; done", owner=OWNER)
            await wait_for_output(process, b"ready")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: process.stop(grace=600.0))
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
    assert process.outcome is not None
    assert (process.outcome.state, process.outcome.reason) == (S.KILLED, R.KILLED)


async def test_a_cancelled_block_closes_all_the_same() -> None:
    """The stop sequence is shielded, and the cancellation goes on after it."""
    five = Five()
    with nothing_left():
        with anyio.CancelScope() as scope:
            async with open_supervisor(None, session_id=SESSION) as supervisor:
                await five.start(supervisor)
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
    five.assert_shut_down()


async def test_a_cancelled_task_group_closes_all_the_same() -> None:
    """A crash of a sibling task cancels the block; its error arrives, and every process has had its last word."""
    five = Five()
    with nothing_left():
        with pytest.raises(ExceptionGroup) as caught:
            async with anyio.create_task_group() as tasks:
                started = anyio.Event()

                async def host() -> None:
                    async with open_supervisor(None, session_id=SESSION) as supervisor:
                        await five.start(supervisor)
                        started.set()
                        await anyio.sleep_forever()

                async def crash() -> None:
                    await started.wait()
                    raise RuntimeError("sibling")

                tasks.start_soon(host)
                tasks.start_soon(crash)
        assert [str(error) for error in caught.value.exceptions] == ["sibling"]
    five.assert_shut_down()


async def test_what_the_block_raised_leaves_as_it_is() -> None:
    """Not wrapped in a group, and after everything was stopped."""
    five = Five()
    with nothing_left(), pytest.raises(ZeroDivisionError) as caught:
        async with open_supervisor(None, session_id=SESSION) as supervisor:
            await five.start(supervisor)
            raise ZeroDivisionError("mine")
    assert str(caught.value) == "mine"
    five.assert_shut_down()


async def test_keyboard_interrupt_closes_all_the_same() -> None:
    """Ctrl-C that surfaces in the block."""
    five = Five()
    with nothing_left(), pytest.raises(KeyboardInterrupt):
        async with open_supervisor(None, session_id=SESSION) as supervisor:
            await five.start(supervisor)
            raise KeyboardInterrupt
    five.assert_shut_down()


async def test_closing_twice_is_harmless() -> None:
    """`aclose` inside the block, and again by leaving it; ended processes stay readable in between."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo hi; sleep 60", owner=OWNER)
        await wait_for_output(process, b"hi\n")
        await supervisor.aclose()
        await supervisor.aclose()
        assert supervisor.get(process.handle, OWNER) is process
        assert (await process.read_output()).data == b"hi\n"
        assert process.outcome is not None


async def test_closing_while_starting() -> None:
    """A start that closing overtakes leaves no process, whichever comes first, and every record has its last word."""
    for _ in range(10):
        async with supervising() as supervisor:
            async with anyio.create_task_group() as tasks:

                async def starting() -> None:
                    with contextlib.suppress(SupervisorError):
                        await supervisor.start("sleep 300", owner=OWNER)

                for _ in range(3):
                    tasks.start_soon(starting)
                tasks.start_soon(supervisor.aclose)
            assert all(process.outcome is not None for process in supervisor.list(OWNER))


async def test_a_store_that_never_comes_back_does_not_hang_closing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Bounded: what could not be stored is told as lost by the next opening."""
    monkeypatch.setattr("lastword.supervisor._supervisor.CLOSING_SECONDS", 0.2)
    with failing_saves(monkeypatch, lambda record: record.state.terminal):
        async with supervising(limits=Limits(grace_seconds=0.1)) as supervisor:
            process = await supervisor.start("true", owner=OWNER)
    assert process.outcome is None
    assert "closing has run out of time" in caplog.text


async def test_the_bound_on_closing_is_one_bound_by_the_clock(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is counted from the first call, whoever calls again; what is still missing then is said once."""
    clock = ManualClock()
    with failing_saves(monkeypatch, lambda record: record.state.terminal) as failed:
        async with supervising(limits=Limits(grace_seconds=2.0), clock=clock) as supervisor:
            await supervisor.start("exec sleep 300", owner=OWNER)
            closed: list[str] = []

            async def close(name: str) -> None:
                await supervisor.aclose()
                closed.append(name)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(close, "first")
                await until(lambda: bool(failed))
                clock.advance(CLOSING_SECONDS)
                tasks.start_soon(close, "second")
                await anyio.wait_all_tasks_blocked()
                assert closed == []
                clock.advance(2.0)
            assert sorted(closed) == ["first", "second"]
            # No time is left for the call that leaving the block makes.
    assert caplog.text.count("closing has run out of time") == 1


async def test_a_cancelled_close_still_kills_at_the_grace() -> None:
    """What was ordered goes on: a stop with a longer grace of its own does not outlive the supervisor's."""
    clock = ManualClock()
    async with supervising(limits=Limits(grace_seconds=2.0), clock=clock) as supervisor:
        process = await supervisor.start("trap '' TERM; echo ready; exec sleep 300", owner=OWNER)
        await wait_for_output(process, b"ready")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: process.stop(grace=600.0))
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(supervisor.aclose)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        clock.advance(2.0)
        assert (await process.wait()).state is S.KILLED


async def test_who_waits_for_what_could_not_be_stored_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of closing every waiter gets a typed error, later ones too; the next opening tells what happened."""
    monkeypatch.setattr("lastword.supervisor._supervisor.CLOSING_SECONDS", 0.2)
    codes: list[ErrorCode] = []
    handles: list[str] = []
    asking: list[Callable[[], Awaitable[object]]] = []

    async def ask(act: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(SupervisorError, match="next opening") as caught:
            await act()
        codes.append(caught.value.code)

    with nothing_left(), anyio.fail_after(HANG_SECONDS):
        async with anyio.create_task_group() as waiters:
            with failing_saves(monkeypatch, lambda record: record.state.terminal):
                async with open_supervisor(
                    tmp_path, session_id=SESSION, limits=Limits(grace_seconds=0.1)
                ) as supervisor:
                    process = await supervisor.start("echo hi; exec sleep 300", owner=OWNER)
                    handles.append(process.handle)
                    asking += [
                        process.wait,
                        process.stop,
                        lambda: process.wait_output(99),
                        lambda: supervisor.wait_any([process]),
                    ]
                    for act in asking:
                        waiters.start_soon(ask, act)
                    await anyio.wait_all_tasks_blocked()
                    asking.append(process.background)
            for act in asking:
                await ask(act)
    assert codes == [ErrorCode.SUPERVISOR_SHUTTING_DOWN] * 9
    async with supervising(tmp_path) as supervisor:
        assert (await supervisor.get(handles[0], OWNER).wait()).state is S.LOST_ON_RESTORE


async def test_a_start_that_closing_cannot_wait_for_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher that never answers: its caller is told that the supervisor closed."""
    monkeypatch.setattr("lastword.supervisor._supervisor.CLOSING_SECONDS", 0.2)

    async def never(*_: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(launcher_class(), "launch", never)
    codes: list[ErrorCode] = []
    async with anyio.create_task_group() as callers, supervising(limits=Limits(grace_seconds=0.1)) as supervisor:

        async def start() -> None:
            with pytest.raises(SupervisorError) as caught:
                await supervisor.start("true", owner=OWNER)
            codes.append(caught.value.code)

        callers.start_soon(start)
        await anyio.wait_all_tasks_blocked()
    assert codes == [ErrorCode.SUPERVISOR_SHUTTING_DOWN]


async def test_a_process_that_is_being_spawned_when_closing_begins_is_asked_to_stop_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It could not be asked before it was there; it is not left to the kill at the end of the grace."""
    launch = launcher_class().launch
    async with supervising() as supervisor:

        async def slow(*arguments: Any) -> Any:
            tasks.start_soon(supervisor.aclose)
            await anyio.wait_all_tasks_blocked()
            return await launch(*arguments)

        monkeypatch.setattr(launcher_class(), "launch", slow)
        with anyio.fail_after(HANG_SECONDS):
            async with anyio.create_task_group() as tasks:
                process = await supervisor.start("exec sleep 60", owner=OWNER)
                outcome = await process.wait()
                assert (outcome.state, outcome.reason) == (S.TERMINATED, TerminalReason.RUNNER_SHUTDOWN)


async def test_a_start_that_closing_overtakes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded and not spawned: told like any other, and the code says why."""
    save = Store.save
    async with supervising() as supervisor:

        async def closing(self: Store, record: ProcessRecord, units: Any = ()) -> None:
            if record.state is S.STARTING:
                tasks.start_soon(supervisor.aclose)
                await anyio.wait_all_tasks_blocked()
            await save(self, record, units)

        async with anyio.create_task_group() as tasks:
            with monkeypatch.context() as patch:
                patch.setattr(Store, "save", closing)
                with pytest.raises(SupervisorError, match="closing") as caught:
                    await supervisor.start("true", owner=OWNER)
                assert caught.value.code is ErrorCode.SUPERVISOR_SHUTTING_DOWN
        (process,) = supervisor.list(OWNER)
        assert process.outcome is not None
        assert process.outcome.diagnostic == "start_cancelled"


async def test_nothing_is_left_of_a_headless_supervisor() -> None:
    """Its folder is gone, and reading what was in it is a typed error."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo hi", owner=OWNER)
        await process.wait()
    with pytest.raises(SupervisorError):
        await process.read_output()
    assert process.outcome is not None
    assert await process.stop() is process.outcome


async def test_what_may_not_be_signalled_is_told_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing has nobody to raise to: teardown_failed in the record, bounded, and the block ends."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with anyio.fail_after(HANG_SECONDS):
        async with open_supervisor(
            None,
            session_id=SESSION,
            limits=Limits(grace_seconds=0.05),
            launcher=launcher_of(Containment.PROCESS_GROUP),  # the one that signals from here
        ) as supervisor:
            process = await supervisor.start("echo $$; sleep 300", owner=OWNER)
            await wait_for_output(process, b"\n")
            pid = int((await process.read_output()).data)
            with monkeypatch.context() as patch:
                patch.setattr(os, "killpg", refuse)
                patch.setattr(signal, "pidfd_send_signal", refuse)
                await supervisor.aclose()
            assert process.outcome is not None
            assert (process.outcome.state, process.outcome.diagnostic) == (S.FAILED, "teardown_failed:EPERM")
            assert alive(pid)
        # Letting go of it at the very end tries once more.
        await until(lambda: not alive(pid))
    with contextlib.suppress(ChildProcessError):  # it may have been reaped in the end
        os.waitpid(pid, 0)


async def test_a_fork_of_the_host_has_no_part_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor and its processes belong to the process that opened it: nothing is started, stopped or told."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo $$; sleep 300", owner=OWNER)
        await wait_for_output(process, b"\n")
        told(supervisor.outbox)
        asking: list[Callable[[], Awaitable[object]]] = [
            lambda: supervisor.start("true", owner=OWNER),
            process.stop,
            process.background,
            process.wait,
            process.read_output,
            lambda: process.wait_output(99),
            lambda: supervisor.wait_any([process]),
            lambda: supervisor.wait_all([process]),
        ]
        for act in asking:
            with monkeypatch.context() as patch:
                patch.setattr(os, "getpid", lambda: -1)
                with pytest.raises(SupervisorError, match="fork") as caught:
                    await act()
            assert caught.value.code is ErrorCode.SUPERVISOR_SHUTTING_DOWN
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)
            await supervisor.aclose()
        assert process.state is S.RUNNING
        assert supervisor.list(OWNER) == [process]
        assert told(supervisor.outbox) == []
        assert (await (await supervisor.start("true", owner=OWNER)).wait()).exit_code == 0


_FORKING_HOST = f"""
import os
from uuid import UUID
import anyio
from lastword.notifier import Owner
from lastword.supervisor import open_supervisor

PARENT = os.getpid()

async def main():
    session = UUID("{SESSION}")
    async with open_supervisor(None, session_id=session) as supervisor:
        process = await supervisor.start("echo hi; exec sleep 300", owner=Owner(session_id=session, loop_id=session))
        await process.wait_output(2)
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            print(process.state.name, (await process.read_output()).data, flush=True)

try:
    anyio.run(main)
finally:
    # asyncio ends as it can in a fork; what matters is what that does to the parent.
    if os.getpid() != PARENT:
        os._exit(0)
"""


# asyncio only: a fork of a trio host takes the parent's descriptors out of trio's own kernel queue, which both share.
def test_a_fork_that_leaves_the_block_ends_nothing() -> None:
    """However the block ends there, the parent's processes run on, and its folder stays."""
    command = [sys.executable, "-W", "ignore", "-c", _FORKING_HOST]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stdout) == (0, "RUNNING b'hi\\n'\n"), done.stderr


async def test_an_idle_job_costs_a_descriptor_or_two_and_no_thread_or_task(each_tier: Containment) -> None:
    """A socket to its shim, or a pidfd and a pipe; everything else is shared."""
    async with supervising(limits=Limits(running_per_loop=32, spool_bytes=4096)) as supervisor:
        await (await supervisor.start("true", owner=OWNER)).wait()
        descriptors, threads = _descriptors(), _threads()
        tasks = len(anyio.get_running_tasks())
        for _ in range(20):
            await supervisor.start(["sleep", "300"], owner=OWNER, timeout=600.0)
        await anyio.wait_all_tasks_blocked()
        each = 2 if each_tier is Containment.PROCESS_GROUP else 1
        assert _descriptors() == descriptors + 20 * each
        assert _threads() <= threads  # one of an earlier test may have ended since
        assert len(anyio.get_running_tasks()) == tasks


def _threads() -> set[threading.Thread]:
    """All but those of trio's pool, by which the test runner itself drives trio, and which come and go."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("Trio thread")}


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
