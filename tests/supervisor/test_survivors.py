"""What a leader leaves behind: stopped without changing its outcome, or kept under its handle."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from supervising import OWNER, alive, output_of, supervising, until, wait_for_output

from lastword.notifier import ProcessState
from lastword.supervisor import Limits, Process, QuotaExceededError, StopMode, TeardownFailedError
from lastword.supervisor.launch import _leader

pytestmark = pytest.mark.usefixtures("each_tier")


def _no_exact_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a kernel before 6.9: a flag that it does not know is refused."""
    monkeypatch.setattr(_leader, "_PIDFD_SIGNAL_PROCESS_GROUP", 1 << 30)


QUIET = "</dev/null >/dev/null 2>&1"


def _is_released(process: Process) -> bool:
    """Whether the last survivor's end has come to be known: a keeper outside of the host tells a moment after it."""
    return process._job.released  # pyright: ignore[reportPrivateUsage]  # nobody else may know


async def _pids(process: Any) -> list[int]:
    return [int(line) for line in (await process.read_output()).data.split()]


@pytest.mark.parametrize("held", [QUIET, ""])
async def test_survivors_are_stopped_and_the_outcome_is_the_leaders(held: str) -> None:
    """Counted, ended, and the leader's exit code stays what it was; holding the output delays nothing for long."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"sleep 300 {held} & echo $!; exit 7", owner=OWNER)
        outcome = await process.wait()
        assert (outcome.state, outcome.exit_code, outcome.signal) == (ProcessState.EXITED, 7, None)
        assert (outcome.survivors, outcome.output_open) == (1, not held)
        (pid,) = await _pids(process)
        assert not alive(pid)


async def test_survivors_that_ignore_sigterm_are_killed() -> None:
    """SIGTERM, half a second, SIGKILL: the last word waits for no longer, whatever the grace."""
    async with supervising(limits=Limits(grace_seconds=60.0)) as supervisor:
        process = await supervisor.start(
            "(trap '' TERM; echo ready; while :; do sleep 0.05; done) & echo $!; sleep 0.3; exit 0", owner=OWNER
        )
        outcome = await process.wait()
        assert (outcome.exit_code, outcome.survivors >= 1) == (0, True)
        pid = int((await output_of(process)).replace(b"ready\n", b"").split()[0])
        assert not alive(pid)


async def test_a_chatty_survivor_does_not_defer_the_end() -> None:
    """Draining is bounded by time, not by silence, and sealed output stays sealed."""
    async with supervising() as supervisor:
        process = await supervisor.start("while :; do echo tick; sleep 0.01; done & sleep 0.1; echo done", owner=OWNER)
        outcome = await process.wait()
        assert (outcome.exit_code, outcome.output_open) == (0, True)
        data = await output_of(process)
        assert b"done\n" in data
        assert len(data) == outcome.total_bytes == (await process.read_output(0, 1 << 20)).total


async def test_a_survivor_that_is_never_silent_does_not_defer_the_end() -> None:
    """At full speed there is no silence to wait for: the bound alone ends the draining."""
    async with supervising() as supervisor:
        process = await supervisor.start("yes & exit 3", owner=OWNER, output_limit=4096)
        outcome = await process.wait()
        assert (outcome.exit_code, outcome.output_open, outcome.survivors) == (3, True, 1)


@pytest.mark.parametrize("exact", [True, False])
async def test_kept_survivors_live_and_can_be_stopped(
    exact: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They neither block nor die of SIGPIPE after the seal; a stop by the handle ends them and keeps the outcome."""
    if not exact:
        _no_exact_signals(monkeypatch)
    ticks = tmp_path / "ticks"
    async with supervising() as supervisor:
        process = await supervisor.start(
            f"(while :; do echo tick; echo >> {ticks}; sleep 0.01; done) & echo $!; sleep 0.05; exit 3",
            owner=OWNER,
            survivors="keep",
        )
        outcome = await process.wait()
        assert (outcome.state, outcome.exit_code) == (ProcessState.EXITED, 3)
        assert outcome.survivors >= 1
        assert outcome.output_open
        pid = int((await process.read_output()).data.replace(b"tick\n", b"").split()[0])
        sealed = await output_of(process)
        await until(ticks.exists)
        written = ticks.stat().st_size
        await until(lambda: ticks.stat().st_size >= written + 2)  # it goes on writing, and none of it is kept
        assert await output_of(process) == sealed
        assert process.outcome is outcome
        assert await process.stop() is outcome
        assert not alive(pid)
        assert await process.stop() is outcome


async def test_kept_survivors_end_with_the_supervisor() -> None:
    """Nothing outlives it."""
    async with supervising(limits=Limits(grace_seconds=0.1)) as supervisor:
        process = await supervisor.start(
            f"(trap '' TERM; while :; do sleep 0.05; done) {QUIET} & echo $!; exit 0",
            owner=OWNER,
            survivors="keep",
        )
        await process.wait()
        (pid,) = await _pids(process)
        assert alive(pid)
    assert not alive(pid)


async def test_a_stop_ends_survivors_that_would_be_kept() -> None:
    """Keeping is for a leader that ends by itself; a stop reaches the whole tree."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 300 & echo $!; wait", owner=OWNER, survivors="keep")
        await wait_for_output(process, b"\n")
        await process.stop()
        (pid,) = await _pids(process)
        assert not alive(pid)


async def test_kept_survivors_that_end_by_themselves_are_let_go() -> None:
    """Looked up when it matters: then nothing is held any more."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 0.3 & echo $!; exit 0", owner=OWNER, survivors="keep")
        await process.wait()
        (pid,) = await _pids(process)
        await until(lambda: not alive(pid))
        assert await process.stop() is process.outcome


@pytest.mark.parametrize("gone", [True, False])
async def test_kept_survivors_that_are_gone_do_not_keep_their_record(gone: bool) -> None:
    """One that had closed its output tells nobody when it ends: retention looks before it passes it over."""
    options = Limits(retained_completed=1, spool_bytes=64, aggregate_spool_bytes=64)
    async with supervising(limits=options) as supervisor:
        keeping = await supervisor.start(
            f"sleep 300 {QUIET} & echo $!; exit 0", owner=OWNER, survivors="keep", output_limit=32
        )
        await keeping.wait()
        (pid,) = await _pids(keeping)
        if gone:
            os.kill(pid, signal.SIGKILL)
            await until(lambda: _is_released(keeping))
        other = await supervisor.start("echo x", owner=OWNER, output_limit=32)
        await other.wait()
        assert supervisor.list(OWNER) == ([other] if gone else [keeping])


async def test_admission_evicts_what_kept_survivors_that_are_gone() -> None:
    """Its output is room for another."""
    async with supervising(limits=Limits(spool_bytes=64, aggregate_spool_bytes=64)) as supervisor:
        keeping = await supervisor.start(f"sleep 300 {QUIET} & echo $!; exit 0", owner=OWNER, survivors="keep")
        await keeping.wait()
        (pid,) = await _pids(keeping)
        with pytest.raises(QuotaExceededError):
            await supervisor.start("true", owner=OWNER)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: _is_released(keeping))
        await (await supervisor.start("true", owner=OWNER)).wait()


@pytest.mark.parametrize("number", [errno.EPERM, None])
async def test_a_stop_that_does_not_reach_all_survivors_raises(
    number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keeper tells once the deadline has passed; the last word stays what it was, and a later stop may work."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"sleep 300 {QUIET} & echo $!; exit 3", owner=OWNER, survivors="keep")
        outcome = await process.wait()
        job = process._job  # pyright: ignore[reportPrivateUsage]  # stands in for a keeper whose order was refused
        child = job._child  # pyright: ignore[reportPrivateUsage]
        with monkeypatch.context() as patch:

            def refused(*_: object) -> bool:
                job.stuck(number)
                return True

            patch.setattr(type(child), "stop", refused)
            with pytest.raises(TeardownFailedError) as caught:
                await process.stop(StopMode.KILL)
        assert caught.value.errno == number
        assert process.outcome is outcome
        assert await process.stop() is outcome
        (pid,) = await _pids(process)
        assert not alive(pid)
