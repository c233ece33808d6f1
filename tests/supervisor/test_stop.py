"""Stopping: modes, escalation, causes, and what is never signalled."""

from __future__ import annotations

import os
import signal
from typing import Any

import anyio
import psutil
import pytest
from supervising import (
    HANG_SECONDS,
    OWNER,
    alive,
    names,
    supervising,
    told,
    until,
    wait_for_output,
)

from lastword.notifier import ProcessCompleted, ProcessState, ProcessStopRequested, TerminalReason
from lastword.supervisor import (
    ErrorCode,
    Limits,
    Process,
    StopMode,
    Supervisor,
    SupervisorError,
)
from lastword.supervisor._outcome import StopCause

pytestmark = pytest.mark.usefixtures("each_tier")

S, R = ProcessState, TerminalReason

IGNORES_TERM = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
IGNORES_INT = "trap 'echo no' INT; echo ready; while :; do sleep 0.05; done"
EXITS_ON_TERM = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"


async def ready(supervisor: Supervisor, command: str, **options: Any) -> Process:
    """A process that has installed its traps."""
    process = await supervisor.start(command, owner=OWNER, **options)
    await wait_for_output(process, b"ready")
    return process


def stop_requests(supervisor: Supervisor) -> list[TerminalReason]:
    """The reasons of the StopRequested events that are due, after a check that each last word is a last word."""
    items = told(supervisor.outbox)
    for item in items:
        if isinstance(item, ProcessCompleted):
            item.process.validate()
    return [item.process.reason for item in items if isinstance(item, ProcessStopRequested)]


async def test_a_second_stop_with_less_patience_is_heard() -> None:
    """The first would wait for an hour before SIGKILL."""
    async with supervising() as supervisor:
        process = await ready(supervisor, IGNORES_TERM)
        with anyio.fail_after(HANG_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: process.stop(grace=3600.0))
                await anyio.wait_all_tasks_blocked()
                outcome = await process.stop(grace=0.05)
                assert outcome is not None
                assert outcome.signal == signal.SIGKILL


async def test_terminate_is_told_as_such() -> None:
    """SIGTERM ends it: terminated, with the signal in the outcome and no exit code, success or failure claimed."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER)
        outcome = await process.stop()
        assert outcome is not None
        assert (outcome.state, outcome.reason) == (S.TERMINATED, R.TERMINATED)
        assert (outcome.exit_code, outcome.signal, outcome.shell_code) == (None, signal.SIGTERM, 143)
        assert outcome is await process.wait()
        assert stop_requests(supervisor) == [R.TERMINATED]


async def test_an_exit_code_after_a_stop_is_kept_but_not_claimed() -> None:
    """A handler that exits 0 has been stopped all the same."""
    async with supervising() as supervisor:
        process = await ready(supervisor, EXITS_ON_TERM)
        outcome = await process.stop(grace=60.0)
        assert outcome is not None
        assert (outcome.state, outcome.exit_code, outcome.signal) == (S.TERMINATED, 0, None)
        assert outcome.wire_exit_code is None


async def test_who_ignores_sigterm_is_killed_after_the_grace() -> None:
    """The escalation is told as killed, and asked for once."""
    async with supervising() as supervisor:
        process = await ready(supervisor, IGNORES_TERM)
        outcome = await process.stop(grace=0.1)
        assert outcome is not None
        assert (outcome.state, outcome.reason, outcome.signal) == (S.KILLED, R.KILLED, signal.SIGKILL)
        assert stop_requests(supervisor) == [R.TERMINATED]


async def test_kill_does_not_wait() -> None:
    """SIGKILL at once, whatever the grace."""
    async with supervising() as supervisor:
        process = await ready(supervisor, IGNORES_TERM)
        outcome = await process.stop(StopMode.KILL, grace=60.0)
        assert outcome is not None
        assert (outcome.state, outcome.reason, outcome.signal) == (S.KILLED, R.KILLED, signal.SIGKILL)
        assert stop_requests(supervisor) == [R.KILLED]


async def test_a_stronger_mode_takes_over() -> None:
    """KILL during the grace of a TERMINATE does not wait for its end; both callers get the one outcome."""
    async with supervising(limits=Limits(grace_seconds=60.0)) as supervisor:
        process = await ready(supervisor, IGNORES_TERM)
        outcomes: list[object] = []
        async with anyio.create_task_group() as tasks:

            async def terminate() -> None:
                outcomes.append(await process.stop())

            tasks.start_soon(terminate)
            await anyio.wait_all_tasks_blocked()
            outcomes.append(await process.stop(StopMode.KILL))
        assert outcomes == [process.outcome] * 2
        assert process.outcome is not None
        assert process.outcome.state is S.KILLED
        assert stop_requests(supervisor) == [R.TERMINATED]


async def test_a_stopped_process_is_continued_to_see_sigterm() -> None:
    """SIGCONT follows SIGTERM, so that a suspended tree ends within the grace, not by SIGKILL."""
    async with supervising() as supervisor:
        process = await ready(supervisor, f"echo $$; {EXITS_ON_TERM}")
        leader = int((await process.read_output()).data.split()[0])
        os.killpg(leader, signal.SIGSTOP)
        outcome = await process.stop(grace=60.0)
        assert outcome is not None
        assert (outcome.state, outcome.exit_code) == (S.TERMINATED, 0)


async def test_the_whole_group_is_stopped() -> None:
    """Children and their children get the signals too, and none is left when the stop returns."""
    async with supervising() as supervisor:
        process = await supervisor.start("sh -c 'sh -c \"echo $$; sleep 300; :\"; :' & echo $!; wait", owner=OWNER)
        await until(lambda: process.state is S.RUNNING)
        while (chunk := await process.read_output()).data.count(b"\n") < 2:
            await process.wait_output(chunk.total)
        pids = [int(line) for line in chunk.data.split()]
        await process.stop()
        assert not any(alive(pid) for pid in pids)


# --- interrupt --------------------------------------------------------------------------------------------------------


async def test_interrupt_counts_when_it_works() -> None:
    """Dying of SIGINT is interrupted."""
    async with supervising() as supervisor:
        process = await supervisor.start(["sleep", "60"], owner=OWNER)
        outcome = await process.stop(StopMode.INTERRUPT, grace=60.0)
        assert outcome is not None
        assert (outcome.state, outcome.reason, outcome.signal) == (S.INTERRUPTED, R.INTERRUPTED, signal.SIGINT)
        assert stop_requests(supervisor) == [R.INTERRUPTED]


async def test_exiting_within_the_grace_is_interrupted_too() -> None:
    """A handler that cleans up and exits 0 was interrupted, not successful."""
    async with supervising() as supervisor:
        process = await ready(supervisor, EXITS_ON_TERM.replace("TERM", "INT"))
        outcome = await process.stop(StopMode.INTERRUPT, grace=60.0)
        assert outcome is not None
        assert (outcome.state, outcome.exit_code) == (S.INTERRUPTED, 0)


async def test_interrupt_never_escalates() -> None:
    """A process that goes on is left alone: None, and what it does later is its own."""
    async with supervising() as supervisor:
        process = await ready(
            supervisor, IGNORES_INT.replace("sleep 0.05", "sleep 0.05; test -e /dev/null && read x || :")
        )
        assert await process.stop(StopMode.INTERRUPT, grace=0.05) is None
        assert process.state is S.RUNNING
        await process.stop()
        assert process.outcome is not None
        assert (process.outcome.state, process.outcome.reason) == (S.TERMINATED, R.TERMINATED)
        assert stop_requests(supervisor) == [R.INTERRUPTED]


async def test_an_interrupt_that_did_not_work_is_no_cause() -> None:
    """Exiting by itself long after the grace of an interrupt is an exit."""
    async with supervising() as supervisor:
        process = await ready(supervisor, "trap '' INT; echo ready; read x; exit 4", stdin="pipe")
        assert await process.stop(StopMode.INTERRUPT, grace=0.0) is None
        await process.send_input(b"\n")
        outcome = await process.wait()
        assert (outcome.state, outcome.exit_code) == (S.EXITED, 4)


def _time_out(process: Process) -> None:
    """What its timer does: so that a slow machine cannot be too late for it."""
    process._job.request(StopCause.TIMEOUT)  # pyright: ignore[reportPrivateUsage]


# --- timeout, output limit --------------------------------------------------------------------------------------------


async def test_the_timeout_is_its_lifetime() -> None:
    """It is stopped like by terminate, and told as timed out, whatever it died of."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER, timeout=0.1)
        outcome = await process.wait()
        assert (outcome.state, outcome.reason) == (S.TIMED_OUT, R.TIMED_OUT)
        assert (outcome.exit_code, outcome.signal) == (None, signal.SIGTERM)
        assert stop_requests(supervisor) == [R.TERMINATED]


async def test_a_timeout_escalates() -> None:
    """A process that ignores SIGTERM times out as well."""
    async with supervising(limits=Limits(grace_seconds=0.05)) as supervisor:
        process = await ready(supervisor, IGNORES_TERM)
        _time_out(process)
        outcome = await process.wait()
        assert (outcome.state, outcome.reason, outcome.signal) == (S.TIMED_OUT, R.TIMED_OUT, signal.SIGKILL)


async def test_an_end_before_the_timeout_is_an_exit() -> None:
    """The timer of a process that has ended does nothing."""
    async with supervising() as supervisor:
        process = await supervisor.start("exit 2", owner=OWNER, timeout=3600.0)
        timer = process._job._timeout  # pyright: ignore[reportPrivateUsage]  # a timer that does nothing has no face
        assert timer is not None
        assert (await process.wait()).state is S.EXITED
        assert not timer.waits


async def test_the_first_cause_is_told() -> None:
    """A timeout that falls into the grace of a stop does not change what the stop was."""
    async with supervising() as supervisor:
        process = await ready(supervisor, IGNORES_TERM)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: process.stop(grace=3600.0))
            await anyio.wait_all_tasks_blocked()
            _time_out(process)
            await process.stop(StopMode.KILL)
        outcome = process.outcome
        assert outcome is not None
        assert (outcome.state, outcome.reason) == (S.KILLED, R.KILLED)


# --- what is never signalled ------------------------------------------------------------------------------------------


async def test_stopping_what_has_ended_returns_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """And signals nothing: the number may be a stranger's by now."""
    async with supervising() as supervisor:
        process = await supervisor.start("exit 3", owner=OWNER)
        outcome = await process.wait()
        sent = _record_signals(monkeypatch)
        for mode in StopMode:
            assert await process.stop(mode) is outcome
        assert sent == []
        assert stop_requests(supervisor) == []


async def test_a_stop_that_comes_after_the_exit_is_an_exit() -> None:
    """The leader's end is seen before anything is signalled: it was an exit, and no stop is told."""
    async with supervising() as supervisor:
        process = await supervisor.start("exit 3", owner=OWNER)
        for child in _children():  # the leader, and its shim where there is one
            while alive(child) and not _stays(child):  # not an await: the end must not be seen before the stop is
                pass
        outcome = await process.stop(StopMode.KILL)
        assert outcome is not None
        assert (outcome.state, outcome.exit_code) == (S.EXITED, 3)
        assert names(told(supervisor.outbox)) == ["ProcessStarted", "ProcessCompleted", "ProcessNotification"]


async def test_stop_checks_its_arguments() -> None:
    """A mode that is none, and a grace that is no time, are refused."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER)
        cases: list[dict[str, Any]] = [{"mode": "kill"}, {"grace": -1.0}, {"grace": float("nan")}, {"grace": True}]
        for wrong in cases:
            with pytest.raises(SupervisorError) as caught:
                await process.stop(**wrong)
            assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
        assert process.state is S.RUNNING


async def test_a_cancelled_stop_goes_on() -> None:
    """Whoever asked may leave; the process is ended all the same."""
    async with supervising() as supervisor:
        process = await ready(supervisor, IGNORES_TERM)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: process.stop(grace=0.1))
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        outcome = await process.wait()
        assert (outcome.state, outcome.signal) == (S.KILLED, signal.SIGKILL)


async def test_a_stop_by_somebody_who_is_cancelled_already_goes_on_too() -> None:
    async with supervising() as supervisor:
        process = await ready(supervisor, "echo ready; exec sleep 60")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await process.stop()
        assert scope.cancelled_caught
        assert (await process.wait()).state is S.TERMINATED


def _children() -> list[int]:
    return [child.pid for child in psutil.Process().children(recursive=True)]


def _stays(pid: int) -> bool:
    """Whether it is a zygote, or what that has forked ahead."""
    try:
        return psutil.Process(pid).name() in ("lastword-zygote", "lastword-spare")
    except psutil.Error:
        return False


def _record_signals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sent: list[int] = []

    def record(_: int, number: int, *__: object) -> None:
        sent.append(number)

    for module, name in ((os, "killpg"), (os, "kill"), (signal, "pidfd_send_signal")):
        monkeypatch.setattr(module, name, record)
    return sent
