"""Stops: the time they take, the whole of what they reach, and what is told of them (timeout, stop-truth, signal,
exit-code, noise)."""

from __future__ import annotations

import errno
import logging
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import psutil
import pytest
from cases_ground import (
    TRACEABLE,
    contained,
    end_marked,
    every_tier,
    group_tier,
    host,
    pids_of,
    running,
    running_in,
    sizes,
    story_of,
    together,
    told_once,
    unkillable,
    within,
    words,
)
from leaping_clock import LeapingClock
from supervising import OWNER, alive, names, output_of, supervising, told, until, wait_for_output

from lastword.notifier import ProcessCompleted, ProcessState, ProcessStopRequested, TerminalReason
from lastword.supervisor import Containment, ErrorCode, Limits, StopMode, TeardownFailedError

S, R = ProcessState, TerminalReason

GRACE = 0.3

PIPELINES = (
    "sh -c '(while :; do echo c; sleep 1; done) | cat'",
    "bash -c 'set -o pipefail; (while :; do echo c; sleep 1; done) | cat | cat; exit $?'",
    "trap '' TERM; (while :; do echo c; sleep 0.1; done) | cat",
)


@every_tier
async def test_c04_a_timeout_ends_the_whole_pipeline(state: Path | None, tmp_path: Path) -> None:
    """The stop is requested at the timeout, the end is told by its own state, and no descendant is alive."""
    clock = LeapingClock()
    async with running_in(state, grace_seconds=GRACE, clock=clock) as runtime:
        with within(2 + GRACE + 1):
            jobs = [
                await runtime.start(f": {tmp_path}{number}; {command}", timeout=60)
                for number, command in enumerate(PIPELINES)
            ]
            for process in jobs:
                await wait_for_output(process, b"c\n")
            clock.leap(60)
            outcomes = await runtime.supervisor.wait_all(jobs)
        for process, outcome in zip(jobs, outcomes, strict=True):
            assert (outcome.state, outcome.reason) == (S.TIMED_OUT, R.TIMED_OUT)
            assert outcome.signal in (signal.SIGTERM, signal.SIGKILL)
            assert outcome.exit_code is None
            assert b"c\n" in (await process.read_output()).data
        assert outcomes[2].signal == signal.SIGKILL
        assert running(str(tmp_path)) == []
        told_states = {notification.state for notification in (await told_once(runtime, 3)).values()}
        assert told_states == {S.TIMED_OUT}
        for events in (await story_of(runtime)).values():
            assert words(events) == ["ProcessStarted", "ProcessStopRequested", "ProcessCompleted"]
            assert [event.process.reason for event in events] == [R.NONE, R.TERMINATED, R.TIMED_OUT]


@contained
async def test_c04_a_timeout_reaches_who_has_left_the_group(mark: str) -> None:
    """Sessions, daemons, and a leader that is gone from its own pipeline."""
    async with supervising(limits=Limits(grace_seconds=GRACE)) as supervisor:
        jobs = [
            await supervisor.start(command.format(mark), owner=OWNER, timeout=0.4)
            for command in (
                "setsid sleep {0} & setsid -f sleep {0}; sleep {0}",
                "(setsid sh -c 'trap \"\" TERM; while :; do sleep {0}; done' &) ; exec sleep {0}",
            )
        ]
        with within(2 + GRACE):
            outcomes = await supervisor.wait_all(jobs)
        assert {(outcome.state, outcome.survivors, outcome.proven) for outcome in outcomes} == {(S.TIMED_OUT, 0, True)}
        assert running(mark) == []


@every_tier
async def test_c06_a_timeout_that_cannot_end_it_settles_the_record_all_the_same(state: Path | None) -> None:
    """A process that SIGKILL does not end: terminal within the bound, waiters released, its owner told, no success."""
    clock = LeapingClock()
    async with running_in(state, grace_seconds=0.05, clock=clock) as runtime:
        process = await runtime.start(TRACEABLE, timeout=60)
        (pid,) = await pids_of(process)
        with unkillable(pid):
            clock.leap(60)
            with within(0.4 + 0.05 + 1):
                await together([process.wait] * 3)
                outcome = await process.wait()
            assert (outcome.state, outcome.reason, outcome.proven) == (S.FAILED, R.FAILED, False)
            assert (outcome.exit_code, outcome.signal) == (None, None)
            assert outcome.diagnostic.startswith("teardown_failed:")
            assert (await told_once(runtime, 1))[process.handle].state is S.FAILED
            story = (await story_of(runtime))[process.handle]
            assert words(story) == ["ProcessStarted", "ProcessStopRequested", "ProcessCompleted"]
            assert alive(pid)
        with within(1):  # as soon as it can die it does, and nobody has to ask again
            await until(lambda: not alive(pid))


@group_tier
async def test_c06_a_timeout_that_may_not_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """EPERM, where it is this process that signals: the record says so."""
    clock = LeapingClock()
    async with supervising(limits=Limits(grace_seconds=0.05), clock=clock) as supervisor:
        process = await supervisor.start("echo $$; exec sleep 300", owner=OWNER, timeout=60)
        (pid,) = await pids_of(process)
        with _refusing(monkeypatch), within(2):
            clock.leap(60)
            outcome = await process.wait()
        assert (outcome.state, outcome.diagnostic) == (S.FAILED, "teardown_failed:EPERM")
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not psutil.pid_exists(pid))  # it is watched on, and reaped


@contextmanager
def _refusing(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """While the block lasts this process may signal nobody."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", refuse)
        patch.setattr(signal, "pidfd_send_signal", refuse)
        yield


@every_tier
async def test_c18_a_stop_that_does_not_end_it_says_so() -> None:
    """A typed error within the bound, the process is running still, nothing spins, and a later stop succeeds."""
    async with supervising(limits=Limits(grace_seconds=0.05)) as supervisor:
        process = await supervisor.start(TRACEABLE, owner=OWNER)
        (pid,) = await pids_of(process)
        keepers = [child for child in psutil.Process().children(recursive=True) if child.pid != pid]
        with unkillable(pid):
            spent, began = _processor_seconds(keepers), time.monotonic()
            with within(0.05 + 1), pytest.raises(TeardownFailedError) as caught:
                await process.stop()
            assert (caught.value.code, caught.value.errno) == (ErrorCode.TEARDOWN_FAILED, None)
            assert str(pid) not in str(caught.value)
            assert _processor_seconds(keepers) - spent < (time.monotonic() - began) / 2
            assert process.state is S.RUNNING
            assert process.outcome is None
        with within(1):
            outcome = await process.stop()  # or it was faster itself
        assert outcome is not None
        assert (outcome.state, outcome.signal) == (S.KILLED, signal.SIGKILL)
        assert names(told(supervisor.outbox)) == [
            "ProcessStarted",
            "ProcessStopRequested",
            "ProcessCompleted",
            "ProcessNotification",
        ]


def _processor_seconds(keepers: list[psutil.Process]) -> float:
    """What this process and those that keep jobs have used."""
    return time.process_time() + sum(sum(keeper.cpu_times()[:2]) for keeper in keepers if keeper.is_running())


@group_tier
async def test_c18_a_stop_that_may_not_signal_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """EPERM, where it is this process that signals, by the very number."""
    async with supervising(limits=Limits(grace_seconds=0.05)) as supervisor:
        process = await supervisor.start("echo $$; exec sleep 300", owner=OWNER)
        await pids_of(process)
        with _refusing(monkeypatch), within(0.05 + 1):
            with pytest.raises(TeardownFailedError) as caught:
                await process.stop()
            assert caught.value.errno == errno.EPERM
            assert process.state is S.RUNNING
        outcome = await process.stop(grace=60.0)
        assert outcome is not None
        assert outcome.state is S.TERMINATED


_SPLIT = "sleep {0} & setsid sleep {0} & wait"


@contained
async def test_c19_a_stop_reaches_all_sessions_and_says_that_it_did(mark: str) -> None:
    """Nobody is left and that is proven, whatever the first signal could reach."""
    async with supervising(limits=Limits(grace_seconds=GRACE)) as supervisor:
        for command in (_SPLIT, "trap '' TERM; " + _SPLIT, f"setsid sh -c '{_SPLIT}' & sleep {{0}}"):
            for mode in (StopMode.TERMINATE, StopMode.KILL):
                process = await supervisor.start(f"echo; {command}".format(mark), owner=OWNER)
                await wait_for_output(process, b"\n")
                outcome = await process.stop(mode)
                assert outcome is not None
                assert (outcome.survivors, outcome.proven) == (0, True), command
                assert running(mark) == [], command


@group_tier
async def test_c19_a_group_does_not_claim_what_it_did_not_reach(mark: str) -> None:
    """Who has left the group lives on; the outcome says that nothing is proven."""
    async with supervising(limits=Limits(grace_seconds=GRACE)) as supervisor:
        process = await supervisor.start(_SPLIT.format(mark), owner=OWNER)
        await until(lambda: len({os.getpgid(pid) for pid in running(f"sleep\0{mark}")}) == 2)  # one has left the group
        outcome = await process.stop(grace=60.0)
        assert outcome is not None
        assert (outcome.state, outcome.proven) == (S.TERMINATED, False)
        assert len(running(mark)) == 1
        end_marked(mark)


# --- signals that are not ours


@every_tier
async def test_c25_ctrl_c_in_the_hosts_terminal_reaches_no_job(tier: Containment, anyio_backend_name: str) -> None:
    """Nor Ctrl-\\, Ctrl-Z and a hang-up: jobs have a session of their own and no controlling terminal."""
    master, slave = os.openpty()
    with host("in_a_terminal", tier, anyio_backend_name, terminal=slave) as it:
        os.close(slave)
        assert it.line() == "ready"
        for key, word in ((b"\x03", "heard SIGINT"), (b"\x1c", "heard SIGQUIT"), (b"\x1a", "heard SIGTSTP")):
            os.write(master, key)
            assert it.line() == word
        os.close(master)  # a hang-up
        assert it.line() == "heard SIGHUP"
        assert it.line() == "EXITED 0 b'0\\nok\\n'"
        it.succeed()


# --- what a stop is told as


@every_tier
async def test_c47_the_exit_code_is_no_text() -> None:
    """It comes from the wait status; the text, whatever it imitates, passes through untouched."""
    texts = ("EXITCODESTART0EXITCODEEND", "$?", "\\033[0mexit 0\\r", "__DONE__ 0\\n")
    async with supervising() as supervisor:
        for text in texts:
            process = await supervisor.start(f"printf '{text}'; exit 3", owner=OWNER)
            assert (await process.wait()).exit_code == 3
            shown = text.replace("\\033", "\033").replace("\\r", "\r").replace("\\n", "\n")
            assert await output_of(process) == shown.encode()


@every_tier
async def test_c62_a_death_by_signal_is_no_success(state: Path | None) -> None:
    """Killed is told as a signal; a shell that passes 137 on has exited with it."""
    numbers = (1, 2, 3, 4, 6, 8, 9, 10, 11, 13, 14, 15)
    async with running_in(state, running_per_loop=32, spool_bytes=1 << 16) as runtime:
        by_signal = [await runtime.start(f"ulimit -c 0; kill -{number} $$") for number in numbers]
        passed = await runtime.start('sh -c "kill -9 \\$\\$"; exit $?')
        outcomes = [await process.wait() for process in by_signal]
        told = [(outcome.exit_code, outcome.signal, outcome.shell_code) for outcome in outcomes]
        assert told == [(None, number, 128 + number) for number in numbers]
        assert {outcome.state for outcome in outcomes} == {S.EXITED}
        outcome = await passed.wait()
        assert (outcome.state, outcome.exit_code, outcome.signal) == (S.EXITED, 137, None)
        story = await story_of(runtime)
        codes = [story[process.handle][-1].process.exit_code for process in (*by_signal, passed)]
        assert codes == [*(128 + number for number in numbers), 137]


@every_tier
async def test_c99_a_clean_stop_is_no_crash(state: Path | None, tier: Containment) -> None:
    """Neither success nor failure is claimed of what was stopped, however it took it."""
    loop = "while :; do sleep .1; done"
    commands = {
        "echo up; exec sleep 60": (15, None),
        f'trap "exit 0" TERM; echo up; {loop}': (None, 0),
        f'trap "exit 143" TERM; echo up; {loop}': (None, 143),
        f'trap "kill -INT \\$\\$" TERM; echo up; {loop}': (2, None),
    }
    async with running_in(state) as runtime:
        jobs = [await runtime.start(command) for command in commands]
        for process, (number, code) in zip(jobs, commands.values(), strict=True):
            await wait_for_output(process, b"up\n")
            outcome = await process.stop()
            assert outcome is not None
            assert (outcome.state, outcome.reason) == (S.TERMINATED, R.TERMINATED)
            assert (outcome.signal, outcome.exit_code) == (number, code)
        told = await told_once(runtime, len(jobs))
        assert {notification.state for notification in told.values()} == {S.TERMINATED}
        for events in (await story_of(runtime)).values():
            assert events[-1].process.exit_code is None
            assert events[-1].process.state is S.TERMINATED


@every_tier
@sizes(40, 500)
async def test_c100_a_stop_that_races_the_exit_is_silent(count: int, caplog: pytest.LogCaptureFixture) -> None:
    """An exit with 0 or a stop by SIGTERM, and nothing said."""
    caplog.set_level(logging.DEBUG)
    ends: set[tuple[ProcessState, int | None, int | None]] = set()
    async with supervising(limits=Limits(retained_completed=5)) as supervisor:

        async def race(delay: float, seconds: str = "0.01") -> None:
            process = await supervisor.start(["sleep", seconds], owner=OWNER)
            await anyio.sleep(delay)
            outcome = await process.stop()
            assert outcome is not None
            ends.add((outcome.state, outcome.exit_code, outcome.signal))

        await race(0, "60")  # far from its exit
        # One after the other around the exit, from well before it; then several at once.
        for number in range(count - count // 4):
            await race(0.016 * number / count)
        for _ in range(count // 16):
            await together(partial(race, 0.009 + 0.001 * number) for number in range(4))
        told(supervisor.outbox)
    assert ends <= {(S.EXITED, 0, None), (S.TERMINATED, None, 15)}
    assert (S.TERMINATED, None, 15) in ends
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@every_tier
async def test_c100_stops_of_what_has_ended_are_silent(caplog: pytest.LogCaptureFixture) -> None:
    """Again and again, in every mode, from several callers: one outcome, one last word, nothing said."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60 & exit 0", owner=OWNER)
        outcome = await process.wait()
        await together(partial(process.stop, mode) for mode in [*StopMode] * 3)
        assert process.outcome is outcome
        items = told(supervisor.outbox)
        assert sum(isinstance(item, ProcessCompleted) for item in items) == 1
        assert not [item for item in items if isinstance(item, ProcessStopRequested)]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
