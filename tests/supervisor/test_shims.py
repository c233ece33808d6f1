"""Shims that are killed, stopped and stuck, in every state: the tree is swept, and what is told is the truth."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
from pathlib import Path

import anyio
import psutil
import pytest
from shim_ground import (
    QUIET,
    Stations,
    all_gone,
    group_of,
    is_stopped,
    name_of,
    parent_of,
    pids_of,
    shim_of,
    status_noted,
    stopped,
    zygote_of,
)
from supervising import OWNER, supervising, until, wait_for_output

from lastword.notifier import ProcessState, TerminalReason
from lastword.supervisor import Outcome, Process, SpawnFailedError, StopMode, Supervisor
from lastword.supervisor.launch import _child

pytestmark = pytest.mark.usefixtures("each_contained_tier")

S, R = ProcessState, TerminalReason

# Leads a session of its own, and heeds no SIGTERM.
DEAF_APART = f"trap '' TERM; setsid sleep 300 {QUIET} & trap - TERM; echo $!"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state folder."""
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    return path


def assert_lost(outcome: Outcome | None) -> None:
    """Failed since its shim was killed, and the kernel has confirmed that nothing is left."""
    assert outcome is not None
    assert (outcome.state, outcome.reason, outcome.diagnostic) == (S.FAILED, R.FAILED, "shim_lost")
    assert (outcome.exit_code, outcome.signal, outcome.proven) == (None, None, True)


async def _starts(supervisor: Supervisor) -> None:
    assert (await (await supervisor.start("exit 4", owner=OWNER)).wait()).exit_code == 4


# --- killed, state by state


@pytest.mark.parametrize("station", ["born", "spawning", "spawned"])
async def test_killed_before_it_has_said_that_it_started(stations: Stations, station: str, tmp_path: Path) -> None:
    """The start fails, whatever the shim had come to; what it had begun is swept; the next start works."""
    job = tmp_path / "job"
    async with supervising() as supervisor:
        stations[station].close()
        caught: list[SpawnFailedError] = []
        group: Path | None = None

        async def start() -> None:
            with pytest.raises(SpawnFailedError) as error:
                await supervisor.start(f"echo $$ >{job}; exec sleep 300", owner=OWNER)
            caught.append(error.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start)
            shim = await stations[station].arrival()
            if station == "spawned":
                await until(lambda: job.exists() and job.read_text().endswith("\n"))
                group = group_of(int(job.read_text()))
            os.kill(shim, signal.SIGKILL)
            stations[station].open()
        if station == "spawned":
            await all_gone(int(job.read_text()))
        else:
            assert not job.exists()
        assert group is None or not group.exists()
        (error,) = caught
        outcome = supervisor.get(error.handle, OWNER).outcome
        assert outcome is not None
        assert (error.kind, outcome.state, outcome.started_at) == ("other", S.FAILED, None)
        await _starts(supervisor)


async def test_killed_while_its_job_runs() -> None:
    """Whatever the tree did to hide; the shim's socket alone would not say that it is swept."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"echo $$; {DEAF_APART}; wait", owner=OWNER)
        leader, child = await pids_of(process, 2)
        group = group_of(leader)
        os.kill(shim_of(leader), signal.SIGKILL)
        assert_lost(await process.wait())
        await all_gone(leader, child)
        assert group is None or not group.exists()
        assert (await process.read_output()).data == f"{leader}\n{child}\n".encode()
        await _starts(supervisor)


async def test_killed_by_its_job() -> None:
    """As soon as it runs, again and again: started or not, the truth is told, and nobody is left."""
    async with supervising() as supervisor:
        for _ in range(10):
            with contextlib.suppress(SpawnFailedError):
                process = await supervisor.start(f"setsid sleep 300 {QUIET} & kill -9 $PPID; wait", owner=OWNER)
                assert_lost(await process.wait())
        assert all(process.outcome and process.outcome.state is S.FAILED for process in supervisor.list(OWNER))
        await _starts(supervisor)


async def test_killed_while_it_drains(folder: Path, stations: Stations) -> None:
    """The leader has exited, and that was noted: the truth is told, not a loss."""
    stations.build(_patient("DRAIN_SECONDS", "SILENCE_SECONDS"))
    async with supervising(folder) as supervisor:
        process = await supervisor.start("(while :; do echo x; sleep 0.01; done) & echo $$; exit 3", owner=OWNER)
        await wait_for_output(process, b"x")
        await status_noted(folder, process)
        outcome = await _killed_after_the_exit(supervisor, process)
        assert outcome.output_open is False


async def test_killed_while_it_sweeps_survivors(folder: Path, stations: Stations) -> None:
    """They have been sent SIGTERM, and do not heed it."""
    stations.build(_patient("SURVIVOR_GRACE_SECONDS"))
    async with supervising(folder) as supervisor:
        process = await supervisor.start(f"{DEAF_APART}; exit 3", owner=OWNER)
        (child,) = await pids_of(process)
        await status_noted(folder, process)
        await _killed_after_the_exit(supervisor, process)
        await all_gone(child)


def _patient(*constants: str) -> str:
    """Have shims wait so long that nothing is over before it is looked at."""
    return "from shim import _keeper\n" + "\n".join(f"_keeper.{name} = 600.0" for name in constants)


async def _killed_after_the_exit(supervisor: Supervisor, process: Process) -> Outcome:
    (shim,) = _shims()
    assert process.outcome is None, "it was over too soon"
    os.kill(shim, signal.SIGKILL)
    outcome = await process.wait()
    assert (outcome.state, outcome.exit_code, outcome.signal, outcome.proven) == (S.EXITED, 3, None, True)
    assert outcome.diagnostic == ""
    await _starts(supervisor)
    return outcome


@pytest.mark.parametrize("mode", [StopMode.TERMINATE, StopMode.INTERRUPT])
async def test_killed_while_a_stop_waits(mode: StopMode) -> None:
    """Who asked is answered, long before the grace is over."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"echo $$; {DEAF_APART}; trap '' TERM INT; echo deaf; wait", owner=OWNER)
        await wait_for_output(process, b"deaf\n")
        leader, child = await pids_of(process, 2)
        await until(lambda: name_of(child) == "sleep")  # before that it is a fork that may not be deaf yet
        shim = shim_of(leader)
        outcomes: list[Outcome | None] = []

        async def stop() -> None:
            outcomes.append(await process.stop(mode, grace=300))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop)
            await anyio.wait_all_tasks_blocked()
            os.kill(shim, signal.SIGKILL)
            assert_lost(await process.wait())
            tasks.cancel_scope.deadline = anyio.current_time() + 60
        if mode is StopMode.TERMINATE:
            assert outcomes == [process.outcome]
        await all_gone(leader, child)


async def test_killed_while_a_stop_sweeps(folder: Path) -> None:
    """The leader has died of the stop, and another is still there: a loss, since nobody saw it to its end."""
    async with supervising(folder) as supervisor:
        process = await supervisor.start(f"echo $$; {DEAF_APART}; wait", owner=OWNER)
        leader, child = await pids_of(process, 2)
        shim = shim_of(leader)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: process.stop(grace=300))
            await all_gone(leader)
            await status_noted(folder, process)
            os.kill(shim, signal.SIGKILL)
        assert_lost(process.outcome)
        await all_gone(child)


async def test_killed_while_it_keeps_survivors() -> None:
    """Their process has had its last word, which stays; they are swept, and nothing is held any more."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"echo $PPID; {DEAF_APART}; exit 3", owner=OWNER, survivors="keep")
        outcome = await process.wait()
        assert (outcome.exit_code, outcome.survivors) == (3, 1)
        shim, child = await pids_of(process, 2)
        group = group_of(child)
        os.kill(shim, signal.SIGKILL)
        await all_gone(child)
        with anyio.fail_after(60):
            assert await process.stop(grace=300) is outcome
        assert group is None or not group.exists()
        await _starts(supervisor)


async def test_two_are_killed_at_once() -> None:
    """Each one's orphans are swept, the other's too, and both are told as proven; a third does not notice."""
    async with supervising() as supervisor:
        command = f"echo $$; {DEAF_APART}; wait"
        processes = [await supervisor.start(command, owner=OWNER) for _ in range(3)]
        pids = [await pids_of(process, 2) for process in processes]
        groups = [group_of(leader) for leader, _ in pids]
        shims = [shim_of(leader) for leader, _ in pids[:2]]
        for shim in shims:
            os.kill(shim, signal.SIGKILL)
        for process in processes[:2]:
            assert_lost(await process.wait())
        await all_gone(*pids[0], *pids[1])
        assert not any(group.exists() for group in groups[:2] if group is not None)
        assert processes[2].outcome is None
        outcome = await processes[2].stop(StopMode.KILL)
        assert outcome is not None
        assert (outcome.state, outcome.proven) == (S.KILLED, True)


async def test_a_zygote_that_is_stopped_when_a_shim_is_killed_is_roused() -> None:
    """Else nobody would sweep, and it would be told as unproven while the tree lives on."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"echo $$; {DEAF_APART}; wait", owner=OWNER)
        leader, child = await pids_of(process, 2)
        shim = shim_of(leader)
        os.kill(zygote_of(shim), signal.SIGSTOP)
        os.kill(shim, signal.SIGKILL)
        assert_lost(await process.wait())
        await all_gone(leader, child)


# --- stopped and stuck


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_child, "KILL_SECONDS", 0.1)
    monkeypatch.setattr(_child, "_MUTE_SECONDS", 0.2)


async def test_stopped_by_its_job() -> None:
    """The zygote has it go on: the job's end is told, with all of its output."""
    async with supervising() as supervisor:
        for _ in range(5):
            process = await supervisor.start("kill -STOP $PPID; echo out; exit 3", owner=OWNER)
            outcome = await process.wait()
            assert (outcome.state, outcome.exit_code, outcome.proven) == (S.EXITED, 3, True)
            assert (await process.read_output()).data == b"out\n"


@pytest.mark.parametrize("station", ["born", "spawned"])
async def test_stopped_before_it_could_say_started(stations: Stations, station: str) -> None:
    """It is continued all the same."""
    async with supervising() as supervisor:
        stations[station].close()

        async def stop() -> None:
            shim = await stations[station].arrival()
            os.kill(shim, signal.SIGSTOP)
            stations[station].open()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop)
            process = await supervisor.start("echo out; exit 3", owner=OWNER)
            assert (await process.wait()).exit_code == 3


async def test_one_that_is_stuck_for_good_is_killed() -> None:
    """It can answer no stop: within the grace and two seconds it is killed, and the tree swept."""
    async with supervising() as supervisor:
        process = await supervisor.start(
            f"echo $$; shim=$PPID; (trap '' TERM; while kill -STOP $shim; do :; done) {QUIET} & wait", owner=OWNER
        )
        (leader,) = await pids_of(process)
        shim = shim_of(leader)
        await process.stop(grace=0.1)
        outcome = process.outcome
        assert outcome is not None
        if outcome.state is S.FAILED:  # else it has come through between two stops
            assert_lost(outcome)
        await all_gone(leader, shim)
        await _starts(supervisor)


async def test_one_that_never_answers_is_killed(stations: Stations, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certain where the last one is a race: nobody continues it."""
    _nobody_continues(stations)
    async with supervising() as supervisor:
        process = await supervisor.start(f"echo $$; {DEAF_APART}; wait", owner=OWNER)
        leader, child = await pids_of(process, 2)
        with stopped(shim_of(leader)):
            assert_lost(await process.stop(grace=0.1))
        await all_gone(leader, child)
        await _starts(supervisor)


def _nobody_continues(stations: Stations) -> None:
    stations.build(
        "import signal; kill = os.kill; "
        "os.kill = lambda pid, number: None if number == signal.SIGCONT else kill(pid, number)"
    )


@pytest.mark.usefixtures("_impatient")
async def test_one_that_never_answers_is_killed_though_the_zygote_is_stopped_too(
    stations: Stations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order to kill reaches it as soon as it is roused, and it is."""
    _nobody_continues(stations)
    async with supervising() as supervisor:
        process = await supervisor.start("echo $$; exec sleep 300", owner=OWNER)
        (leader,) = await pids_of(process)
        shim = shim_of(leader)
        with stopped(zygote_of(shim)), stopped(shim):
            assert_lost(await process.stop(grace=0.1))


async def test_the_death_of_its_zygote_continues_it() -> None:
    """Which was stopped as well, and so could not: should the host die then, the job must end."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo $$; exec sleep 300", owner=OWNER)
        (leader,) = await pids_of(process)
        shim = shim_of(leader)
        zygote = zygote_of(shim)
        for pid in (zygote, shim):
            os.kill(pid, signal.SIGSTOP)
            await until(lambda pid=pid: is_stopped(pid))  # type: ignore[misc]
        os.kill(zygote, signal.SIGKILL)
        await all_gone(zygote)
        await until(lambda: not is_stopped(shim))
        assert process.outcome is None


async def test_one_whose_zygote_is_dead_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else is there to do it; then it has the time that it needs."""
    monkeypatch.setattr(_child, "_MUTE_SECONDS", 60.0)
    monkeypatch.setattr(_child, "KILL_SECONDS", 0.3 - 60.0)  # so the first wait is as short as ever
    async with supervising() as supervisor:
        process = await supervisor.start("echo $$; exec sleep 300", owner=OWNER)
        (leader,) = await pids_of(process)
        shim = shim_of(leader)
        zygote = zygote_of(shim)
        os.kill(zygote, signal.SIGKILL)
        await all_gone(zygote)
        await _starts(supervisor)  # there is another one, and it is not this shim's
        os.kill(shim, signal.SIGSTOP)
        outcome = await process.stop(grace=0.1)
        assert outcome is not None
        assert (outcome.state, outcome.proven) == (S.TERMINATED, True)


@pytest.mark.usefixtures("_impatient")
async def test_one_that_is_stuck_and_whose_zygote_is_dead_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed and unproven; what was in its control group is ended, where it had one."""
    send = signal.pidfd_send_signal

    def send_no_continue(pidfd: int, number: int) -> None:
        if number != signal.SIGCONT:
            send(pidfd, number)

    monkeypatch.setattr(signal, "pidfd_send_signal", send_no_continue)
    async with supervising() as supervisor:
        process = await supervisor.start("echo $$; exec sleep 300", owner=OWNER)
        (leader,) = await pids_of(process)
        shim, group = shim_of(leader), group_of(leader)
        zygote = zygote_of(shim)
        os.kill(zygote, signal.SIGKILL)
        await all_gone(zygote)
        os.kill(shim, signal.SIGSTOP)
        await process.stop(grace=0.1)
        outcome = process.outcome
        assert outcome is not None
        assert (outcome.state, outcome.diagnostic, outcome.proven) == (S.FAILED, "shim_lost", False)
        await all_gone(shim)
        if group is None:
            os.kill(leader, signal.SIGKILL)  # nobody is left to do it
        await all_gone(leader)


async def test_a_zygote_that_cannot_look_proves_nothing(stations: Stations) -> None:
    """No descriptor is left to read the list of its children: that is no sight of an empty one."""
    stations.build("_zygote._SWEEP_BOUND_SECONDS = 0.2")
    async with supervising() as supervisor:
        process = await supervisor.start(f"echo $$; {DEAF_APART}; wait", owner=OWNER)
        leader, child = await pids_of(process, 2)
        shim = shim_of(leader)
        zygote = zygote_of(shim)
        limits = resource.prlimit(zygote, resource.RLIMIT_NOFILE)
        resource.prlimit(zygote, resource.RLIMIT_NOFILE, (3, limits[1]))
        os.kill(shim, signal.SIGKILL)
        outcome = await process.wait()
        assert (outcome.state, outcome.diagnostic, outcome.proven) == (S.FAILED, "shim_lost", False)
        resource.prlimit(zygote, resource.RLIMIT_NOFILE, limits)
        assert parent_of(leader) == zygote
        for pid in (leader, child):
            os.kill(pid, signal.SIGKILL)
        await _starts(supervisor)


# --- a stop reaches everybody


async def test_a_stops_sigterm_reaches_who_moves_meanwhile() -> None:
    """Their parents die of it first, and they become the shim's children while it looks for them."""
    apart = " ".join(f"setsid sleep 300 {QUIET} &" for _ in range(8))
    async with supervising() as supervisor:
        for _ in range(8):
            process = await supervisor.start(f"sh -c '{apart} echo $$; wait' & wait", owner=OWNER)
            await pids_of(process)
            with anyio.fail_after(60):  # who is missed would be waited for until the grace is over
                await process.stop(grace=300)


# --- what goes wrong in the shim itself


async def test_one_that_fails_ends_what_it_holds(
    stations: Stations, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception in it is logged by the host, its tree is ended, and the process is failed: not exited by SIGKILL."""
    stations.build("_shim.Shim.grew = lambda *_: 1 // 0")
    async with supervising() as supervisor:
        process = await supervisor.start(f"{DEAF_APART}; wait", owner=OWNER)
        assert_lost(await process.wait())
        await all_gone(*await pids_of(process))
    assert "ZeroDivisionError" in caplog.text
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


def _shims() -> list[int]:
    """Shims that descend from this process, of which each is its own zygote's child."""
    found: list[int] = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # of a job, and ended meanwhile
            if child.name() == "lastword-shim" and child.ppid() != os.getpid():
                found.append(child.pid)
    return found
