"""What only the process_group tier can meet: its keeper is in the host, so what the host is refused, it is refused."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import psutil
import pytest
import supervising as support
from input_ground import opened
from leaping_clock import LeapingClock
from supervising import OWNER, alive, supervising, told, until, wait_for_output

from lastword.notifier import ProcessState, ProcessStopRequested, TerminalReason
from lastword.supervisor import (
    Containment,
    ErrorCode,
    Limits,
    Process,
    SpawnFailedError,
    StopMode,
    Supervisor,
    TeardownFailedError,
)
from lastword.supervisor._reactor import Reactor
from lastword.supervisor.launch import _leader
from lastword.supervisor.launch._burials import Burials
from lastword.supervisor.launch._group_child import GroupChild
from lastword.supervisor.shim import _keeper

S, R = ProcessState, TerminalReason


@pytest.fixture(autouse=True)
def _process_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "tier", Containment.PROCESS_GROUP)


QUIET = "</dev/null >/dev/null 2>&1"


def _no_exact_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a kernel before 6.9: a flag that it does not know is refused."""
    monkeypatch.setattr(_leader, "_PIDFD_SIGNAL_PROCESS_GROUP", 1 << 30)


async def _pids(process: Process) -> list[int]:
    return [int(line) for line in (await process.read_output()).data.split()]


def stop_requests(supervisor: Supervisor) -> list[TerminalReason]:
    """The reasons of the StopRequested events that are due."""
    return [item.process.reason for item in told(supervisor.outbox) if isinstance(item, ProcessStopRequested)]


async def test_no_descriptor_at_the_exit_costs_no_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look at who is left in the group needs one; without it somebody may be there, and it is looked again."""
    faults = [OSError(errno.EMFILE, "too many")] * 3
    pids = psutil.pids

    def scan() -> list[int]:
        if faults:
            raise faults.pop()
        return pids()

    monkeypatch.setattr(psutil, "pids", scan)
    async with supervising() as supervisor:
        process = await supervisor.start("exec >/dev/null 2>&1; exit 3", owner=OWNER)
        with anyio.fail_after(30):
            outcome = await process.wait()
        assert outcome.exit_code == 3
        assert faults == []


def _refuse_signals(patch: pytest.MonkeyPatch) -> None:
    """And what is refused is told soon; what is sent again later has its time."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    patch.setattr(os, "killpg", refuse)
    patch.setattr(signal, "pidfd_send_signal", refuse)
    patch.setattr(_keeper, "KILL_SECONDS", 0.1)


async def test_a_stop_that_may_not_signal_raises_and_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """EPERM: TeardownFailedError with the errno, still running, and a later stop may work."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER)
        with monkeypatch.context() as patch:
            _refuse_signals(patch)
            with pytest.raises(TeardownFailedError) as caught:
                await process.stop(grace=0.05)
            assert (caught.value.errno, caught.value.code) == (errno.EPERM, ErrorCode.TEARDOWN_FAILED)
            assert process.state is S.RUNNING
        outcome = await process.stop(StopMode.KILL)
        assert outcome is not None
        assert outcome.state is S.KILLED


async def test_what_exits_after_a_failed_stop_has_exited(monkeypatch: pytest.MonkeyPatch) -> None:
    """No signal was delivered, so none can have been the cause."""
    async with supervising() as supervisor:
        process = await supervisor.start("read x; exit 5", owner=OWNER, stdin="pipe")
        with monkeypatch.context() as patch:
            _refuse_signals(patch)
            with pytest.raises(TeardownFailedError):
                await process.stop(grace=0.0)
        await process.send_input(b"\n")
        outcome = await process.wait()
        assert (outcome.state, outcome.exit_code) == (S.EXITED, 5)


async def test_a_timeout_that_may_not_signal_settles_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asked, so nobody can be told but by the record: failed, teardown_failed, within grace and a second."""
    others = set(psutil.Process().children())  # of other tests, that serve many
    clock = LeapingClock()
    async with supervising(limits=Limits(grace_seconds=0.05), clock=clock) as supervisor:
        with monkeypatch.context() as patch:
            _refuse_signals(patch)
            # It reads its end of input when the last word is said.
            process = await supervisor.start("echo hi; read x", owner=OWNER, timeout=3600.0, stdin="pipe")
            await wait_for_output(process, b"hi\n")
            clock.leap(3600.0)
            outcome = await process.wait()
        assert (outcome.state, outcome.reason) == (S.FAILED, R.FAILED)
        assert outcome.diagnostic == "teardown_failed:EPERM"
        assert not outcome.proven
        assert outcome.total_bytes == 3
        assert stop_requests(supervisor) == [R.TERMINATED]
        # It ends by itself at last, and is reaped.
        await until(lambda: set(psutil.Process().children()) <= others)
        assert process.outcome is outcome


async def test_a_stop_that_failed_is_no_cause_of_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it was delivered, so the timeout that ends the process later is the cause."""
    clock = LeapingClock()
    async with supervising(clock=clock) as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER, timeout=3600.0)
        with monkeypatch.context() as patch:
            _refuse_signals(patch)
            with pytest.raises(TeardownFailedError):
                await process.stop(grace=0.0)
        clock.leap(3600.0)
        outcome = await process.wait()
        assert (outcome.state, outcome.reason) == (S.TIMED_OUT, R.TIMED_OUT)
        assert stop_requests(supervisor) == [R.TERMINATED]


def _nobody(_: _leader.Leader) -> int:
    return 0


def _take_status(process: Process, gate: Path) -> None:
    """Let go of a process that waits for the gate, and block the loop until it has ended; its status is taken."""
    child = process._job._child  # pyright: ignore[reportPrivateUsage] -- nobody else's children must be taken
    assert isinstance(child, GroupChild)
    opened(gate)
    os.waitpid(child._leader.pid, 0)  # pyright: ignore[reportPrivateUsage] -- as above


async def test_no_stranger_is_signalled_when_somebody_else_reaped(gate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an exact way to name the group, a group whose leader is gone is not signalled by its number."""
    _no_exact_signals(monkeypatch)
    sent: list[int] = []
    killpg = os.killpg

    def recording(group: int, number: int) -> None:
        sent.append(number)
        killpg(group, number)

    async with supervising() as supervisor:
        process = await supervisor.start(f"cat <{gate}; exit 3", owner=OWNER)
        monkeypatch.setattr(os, "killpg", recording)
        _take_status(process, gate)
        outcome = await process.wait()
        assert (outcome.state, outcome.diagnostic) == (ProcessState.FAILED, "exit_unknown")
        assert sent == []


@pytest.mark.parametrize("ignored", [True, False])
async def test_a_status_that_somebody_took_is_unknown_and_never_made_up(ignored: bool, gate: Path) -> None:
    """An ignored SIGCHLD, or a foreign waitpid: failed with a diagnostic; not 0, not 255, and no hang."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        async with supervising() as supervisor:
            process = await supervisor.start(f"cat <{gate}; exit 3", owner=OWNER)
            if ignored:
                opened(gate)
            else:
                _take_status(process, gate)
            outcome = await process.wait()
            assert (outcome.state, outcome.diagnostic) == (ProcessState.FAILED, "exit_unknown")
            assert (outcome.exit_code, outcome.signal, outcome.shell_code) == (None, None, None)
            assert outcome.started_at is not None
            # A stop is known for what it was all the same: a live leader was signalled.
            other = await supervisor.start("sleep 60", owner=OWNER)
            stopped = await other.stop()
            assert stopped is not None
            assert stopped.state is ProcessState.TERMINATED
    finally:
        signal.signal(signal.SIGCHLD, before)


async def test_exits_before_it_can_be_watched_under_an_ignored_sigchld() -> None:
    """A hundred that end at once: none hangs."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        async with supervising() as supervisor:
            for _ in range(50):
                process = await supervisor.start(["true"], owner=OWNER)
                assert (await process.wait()).state is ProcessState.FAILED
    finally:
        signal.signal(signal.SIGCHLD, before)


async def test_the_group_is_killed_before_its_leader_is_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan that misses somebody (it may have forked meanwhile) does not let him live: the kernel finds them all."""
    monkeypatch.setattr(_leader.Leader, "members", _nobody)
    async with supervising() as supervisor:
        process = await supervisor.start(f"sleep 300 {QUIET} & echo $!; exit 3", owner=OWNER)
        assert (await process.wait()).exit_code == 3
        (pid,) = await _pids(process)
        await until(lambda: not alive(pid))


async def test_the_groups_number_is_its_own_whenever_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only a number can name the group, the leader's zombie keeps that number until the last signal was sent."""
    _no_exact_signals(monkeypatch)
    states: list[str] = []
    killpg = os.killpg

    def looking(group: int, number: int) -> None:
        states.append(psutil.Process(group).status())
        killpg(group, number)

    monkeypatch.setattr(os, "killpg", looking)
    async with supervising() as supervisor:
        process = await supervisor.start(f"sleep 300 {QUIET} & echo $!; exit 3", owner=OWNER)
        assert (await process.wait()).exit_code == 3
        (pid,) = await _pids(process)
        await until(lambda: not alive(pid))
    assert set(states) == {psutil.STATUS_ZOMBIE}


async def test_a_start_that_is_given_up_does_not_wait_for_who_cannot_be_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a setuid program, or one that is stuck: what failed is told, and it is reaped when it dies."""
    interpreter, begun = tmp_path / "interpreter", tmp_path / "begun"
    # It lets go of where it should tell what it has done, and lives on.
    interpreter.write_text(f'#!/bin/bash\necho $$ >{begun}; eval "exec $6>&-"; exec sleep 600\n')
    interpreter.chmod(0o700)
    async with supervising() as supervisor:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(interpreter))
            patch.setattr(os, "killpg", _not_permitted)
            with pytest.raises(SpawnFailedError):
                await supervisor.start("true", owner=OWNER, pty=True)
        pid = int(begun.read_text())
        assert alive(pid)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not psutil.pid_exists(pid))  # and no zombie is left of it


def _not_permitted(*_arguments: object) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


async def test_a_leader_that_cannot_be_watched_is_reaped_all_the_same() -> None:
    """It is killed, and looked at again until it has died."""
    reactor = Reactor()
    burials = Burials(reactor)
    popen = subprocess.Popen(["sleep", "600"], start_new_session=True)
    popen.returncode = 0  # which is not asked for
    burials.destroy_unwatched(popen.pid)
    await burials.aclose(30)
    assert not psutil.pid_exists(popen.pid)
    reactor.close()
