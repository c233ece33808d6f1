"""The zygote that is killed, stopped, or never was one: running jobs go on, and no start waits for it."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

import anyio
import psutil
import pytest
from leaping_clock import LeapingClock
from shim_ground import (
    QUIET,
    Stations,
    all_gone,
    group_of,
    name_of,
    pids_of,
    shim_of,
    stopped,
    zygote_of,
)
from supervising import OWNER, nothing_left, output_of, supervising, until

from lastword.notifier import ProcessState
from lastword.supervisor import Limits, Process, SpawnFailedError, StopMode, Supervisor
from lastword.supervisor.launch import _interpreter, _zygote
from lastword.supervisor.shim import _proc

pytestmark = pytest.mark.usefixtures("each_contained_tier")

S = ProcessState


async def _starts(supervisor: Supervisor) -> None:
    assert (await (await supervisor.start("exit 4", owner=OWNER)).wait()).exit_code == 4


def _zygotes() -> list[int]:
    return [child.pid for child in psutil.Process().children() if child.name() == "lastword-zygote"]


async def _kill_zygote() -> None:
    (zygote,) = _zygotes()
    os.kill(zygote, signal.SIGKILL)
    await all_gone(zygote)


# --- killed


async def test_jobs_outlive_it_and_the_next_start_brings_another() -> None:
    """Output that comes after its death, the exit, a stop's verdict and the proof: all as ever."""
    async with supervising() as supervisor:
        ends = await supervisor.start("read line; echo $$; sleep 0.2; echo out; exit 3", owner=OWNER, stdin=b"x\n")
        ended = await supervisor.start(f"echo $$; setsid sleep 300 {QUIET} & wait", owner=OWNER)
        (leader,) = await pids_of(ended)
        (first,) = _zygotes()
        await _kill_zygote()
        outcome = await ends.wait()
        assert (outcome.state, outcome.exit_code, outcome.proven) == (S.EXITED, 3, True)
        assert (await output_of(ends)).endswith(b"\nout\n")
        await _starts(supervisor)
        (second,) = _zygotes()
        assert second != first
        stopped_outcome = await ended.stop()
        assert stopped_outcome is not None
        assert (stopped_outcome.state, stopped_outcome.proven) == (S.TERMINATED, True)
        await all_gone(leader)


@pytest.fixture
def _word_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a zygote's word that nobody will say waits for ever."""
    monkeypatch.setattr("lastword.supervisor.launch._child._SWEEP_SECONDS", 3600.0)


@pytest.mark.usefixtures("_word_for_ever")
async def test_it_and_then_a_shim_are_killed() -> None:
    """Nobody can say what became of the tree: failed, unproven, and told at once."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo $$; exec sleep 300", owner=OWNER)
        (leader,) = await pids_of(process)
        shim, group = shim_of(leader), group_of(leader)
        await _kill_zygote()
        os.kill(shim, signal.SIGKILL)
        outcome = await process.wait()
        assert (outcome.state, outcome.diagnostic, outcome.proven) == (S.FAILED, "shim_lost", False)
        if group is None:
            os.kill(leader, signal.SIGKILL)
        await all_gone(leader)
        await _starts(supervisor)
    assert group is None or not group.parent.exists()


@pytest.mark.usefixtures("_word_for_ever")
@pytest.mark.parametrize("first", ["shim", "zygote"])
async def test_it_and_a_shim_are_killed_at_once(first: str) -> None:
    """In whatever order that is heard of."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo $$; exec sleep 300", owner=OWNER)
        (leader,) = await pids_of(process)
        shim = shim_of(leader)
        pids = [shim, zygote_of(shim)]
        for pid in pids if first == "shim" else reversed(pids):
            os.kill(pid, signal.SIGKILL)
        outcome = await process.wait()
        assert (outcome.state, outcome.diagnostic) == (S.FAILED, "shim_lost")
        with contextlib.suppress(ProcessLookupError):
            os.kill(leader, signal.SIGKILL)
        await all_gone(leader, *pids)  # a start that a dying zygote is still asked for would fail
        await _starts(supervisor)


@pytest.mark.usefixtures("_word_for_ever")
async def test_a_shim_of_a_dead_one_is_not_the_next_ones() -> None:
    """The next zygote lives, and has nothing to say of it: nobody waits for its word."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo $$; exec sleep 300", owner=OWNER)
        (leader,) = await pids_of(process)
        shim = shim_of(leader)
        await _kill_zygote()
        await _starts(supervisor)
        os.kill(shim, signal.SIGKILL)
        outcome = await process.wait()
        assert (outcome.diagnostic, outcome.proven) == ("shim_lost", False)
        with contextlib.suppress(ProcessLookupError):
            os.kill(leader, signal.SIGKILL)
        await all_gone(leader)


# --- killed while a start is in flight


class Starting:
    """A start in a task of its own, and what came of it."""

    def __init__(self) -> None:
        self.process: Process | None = None
        self.error: SpawnFailedError | None = None

    async def run(self, supervisor: Supervisor, command: str) -> None:
        """Until it has returned or failed."""
        try:
            self.process = await supervisor.start(command, owner=OWNER)
        except SpawnFailedError as error:
            self.error = error


async def test_killed_before_it_has_read_the_order() -> None:
    """It is in the socket of one that is stopped: the start fails, or the next zygote is asked; nothing hangs."""
    async with supervising() as supervisor:
        await _starts(supervisor)
        (zygote,) = _zygotes()
        starting = Starting()
        async with anyio.create_task_group() as tasks:
            os.kill(zygote, signal.SIGSTOP)
            with _asked() as asked:
                tasks.start_soon(starting.run, supervisor, "exit 3")
                await asked.wait()
            os.kill(zygote, signal.SIGKILL)
            await all_gone(zygote)
        await _judge(supervisor, starting)


@contextlib.contextmanager
def _asked() -> Generator[anyio.Event]:
    event = anyio.Event()
    request = _zygote.Zygote.request

    async def noting(self: _zygote.Zygote, job: int, message: bytes, descriptors: Sequence[int]) -> None:
        await request(self, job, message, descriptors)
        event.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_zygote.Zygote, "request", noting)
        yield event


async def test_killed_just_before_it_is_asked() -> None:
    """The host has not heard of its death yet: the next one is asked."""
    async with supervising() as supervisor:
        await _starts(supervisor)
        (zygote,) = _zygotes()
        request = _zygote.Zygote.request
        killed: list[int] = []

        async def killing(self: _zygote.Zygote, job: int, message: bytes, descriptors: Sequence[int]) -> None:
            if not killed:
                killed.append(zygote)
                os.kill(zygote, signal.SIGKILL)
                while Path(f"/proc/{zygote}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    pass  # this blocks the loop, so that nobody has heard of it
            await request(self, job, message, descriptors)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_zygote.Zygote, "request", killing)
            await _starts(supervisor)
        assert killed == [zygote]


@pytest.mark.parametrize("station", ["configuring", "configured", "asked", "forked"])
async def test_killed_when_it_has_read_the_order(stations: Stations, station: str) -> None:
    """Before and after the fork, the first start's and the second's."""
    async with supervising() as supervisor:
        if station in ("asked", "forked"):
            await _starts(supervisor)
        stations[station].close()
        starting = Starting()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(starting.run, supervisor, "echo out; exit 3")
            zygote = await stations[station].arrival()
            os.kill(zygote, signal.SIGKILL)
            await all_gone(zygote)
            stations[station].open()
        await _judge(supervisor, starting)


@pytest.mark.parametrize("station", ["born", "spawning", "spawned"])
async def test_killed_while_the_shim_starts_its_job(stations: Stations, station: str) -> None:
    """The shim lives, so the start succeeds: what is begun is not told as failed while it runs on."""
    async with supervising() as supervisor:
        stations[station].close()
        starting = Starting()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(starting.run, supervisor, "echo out; exit 3")
            await stations[station].arrival()
            await _kill_zygote()
            stations[station].open()
        assert starting.process is not None
        await _judge(supervisor, starting)


@pytest.mark.parametrize(("station", "first"), [("born", "shim"), ("spawning", "zygote"), ("spawned", "shim")])
async def test_it_and_the_shim_are_killed_while_that_starts_its_job(
    stations: Stations, station: str, first: str
) -> None:
    """The start fails at once."""
    async with supervising() as supervisor:
        stations[station].close()
        starting = Starting()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(starting.run, supervisor, "exit 3")
            shim = await stations[station].arrival()
            (zygote,) = _zygotes()
            for pid in (shim, zygote) if first == "shim" else (zygote, shim):
                os.kill(pid, signal.SIGKILL)
            stations[station].open()
            await all_gone(shim, zygote)
        assert starting.error is not None
        await _judge(supervisor, starting)


async def _judge(supervisor: Supervisor, starting: Starting) -> None:
    """It has worked, or failed cleanly."""
    if starting.process is not None:
        assert (await starting.process.wait()).exit_code == 3
    else:
        assert starting.error is not None
        assert starting.error.kind == "other"
        outcome = supervisor.get(starting.error.handle, OWNER).outcome
        assert outcome is not None
        assert (outcome.state, outcome.started_at) == (S.FAILED, None)
    await _starts(supervisor)


async def test_a_cancelled_start_leaves_nothing_where_it_was_killed_meanwhile(
    stations: Stations, tmp_path: Path
) -> None:
    """The shim sees that nobody wants the job any more."""
    job = tmp_path / "job"
    shims: list[int] = []
    async with supervising() as supervisor:
        stations["spawning"].close()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: supervisor.start(f"echo $$ >{job}; exec sleep 300", owner=OWNER))
            shims.append(await stations["spawning"].arrival())
            await _kill_zygote()
            tasks.cancel_scope.cancel()
        stations["spawning"].open()
        await all_gone(*shims)
        pid = job.read_text() if job.exists() else ""
        assert not pid or not psutil.pid_exists(int(pid))


# --- stopped


async def test_stopped_it_is_roused_for_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the start itself, when it takes too long."""
    monkeypatch.setattr("lastword.supervisor.launch._contained._PATIENCE_SECONDS", 0.1)
    async with supervising() as supervisor:
        await _starts(supervisor)
        for _ in range(2):
            os.kill(_zygotes()[0], signal.SIGSTOP)
            await _starts(supervisor)


async def test_stopped_again_when_it_was_roused_it_is_roused_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as it takes."""
    monkeypatch.setattr("lastword.supervisor.launch._contained._PATIENCE_SECONDS", 0.1)
    async with supervising() as supervisor:
        await _starts(supervisor)
        (zygote,) = _zygotes()
        rouse, count = _zygote.Zygote.rouse, 0

        def late(self: _zygote.Zygote) -> None:
            nonlocal count
            count += 1
            if count >= 3:
                rouse(self)

        os.kill(zygote, signal.SIGSTOP)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_zygote.Zygote, "rouse", late)
            await _starts(supervisor)
        assert count >= 3  # the third is heard, and a slow machine asks on until then


async def test_many_large_starts_wait_for_a_stopped_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than its socket has room for: each waits for its turn, and none fails."""
    monkeypatch.setattr("lastword.supervisor.launch._contained._PATIENCE_SECONDS", 0.3)
    limits = Limits(running_per_loop=20, spool_bytes=1024)
    async with supervising(limits=limits) as supervisor:
        await _starts(supervisor)
        os.kill(_zygotes()[0], signal.SIGSTOP)
        outputs: list[bytes] = []

        async def run(number: int) -> None:
            environment = {"NUMBER": str(number), "PADDING": "x" * 60_000}
            outputs.append(await output_of(await supervisor.start("echo $NUMBER", owner=OWNER, env=environment)))

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(run, number)
        assert sorted(map(int, outputs)) == list(range(20))


async def test_starts_that_wait_for_room_see_its_death() -> None:
    """They wait for a socket that is closed meanwhile: each fails or is begun anew, and none hangs."""
    async with supervising(limits=Limits(running_per_loop=20, spool_bytes=1024)) as supervisor:
        await _starts(supervisor)
        (zygote,) = _zygotes()
        os.kill(zygote, signal.SIGSTOP)
        starting = [Starting() for _ in range(20)]
        padding = "x" * 60_000
        async with anyio.create_task_group() as tasks:
            for each in starting:
                tasks.start_soon(each.run, supervisor, f"exit 3 # {padding}")
            await anyio.wait_all_tasks_blocked()
            os.kill(zygote, signal.SIGKILL)
        for each in starting:
            await _judge(supervisor, each)
        assert any(each.process is not None for each in starting)


# --- what cannot be one


_NO_PYTHON = {
    "leaves": "exit 0",
    "dies": "kill -9 $$",
    "says nothing and stays": "exec sleep 300",
    "hangs up and stays": "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; exec sleep 300",
    "leaves its socket to another": f"echo $$ >>pids; sleep 300 {QUIET} & echo $! >left; exit 0",
    "missing": None,
    "not executable": "exit 0",
    "unknown": None,
}


async def test_what_cannot_be_started_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sys.executable is no Python: a typed error that says so, nothing left, and a start works once that is right."""
    (tmp_path / "pids").touch()
    others = set(psutil.Process().children())  # of other tests, that serve many
    async with supervising() as supervisor:
        for name, program in _NO_PYTHON.items():
            fake = tmp_path / name
            if program is not None:
                fake.write_text(f"#!/bin/bash\ncd {tmp_path}\necho $$ >>pids\n{program}\n")
                fake.chmod(0o600 if name == "not executable" else 0o700)
            with monkeypatch.context() as patch, nothing_left():
                _be_impatient(patch)
                patch.setattr(sys, "executable", "" if name == "unknown" else str(fake))
                with pytest.raises(SpawnFailedError, match=r"sys\.executable") as caught:
                    await supervisor.start("true", owner=OWNER)
                await all_gone(*map(int, (tmp_path / "pids").read_text().split()))
                await until(lambda: set(psutil.Process().children()) <= others)
            assert caught.value.kind == "other"
            outcome = supervisor.get(caught.value.handle, OWNER).outcome
            assert outcome is not None
            assert outcome.diagnostic.startswith("spawn_failed:other")
        os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
        await _starts(supervisor)


def _be_impatient(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("lastword.supervisor.launch._contained._PATIENCE_SECONDS", 0.05)
    patch.setattr("lastword.supervisor.launch._contained._BIRTH_SECONDS", 0.3)


async def test_starts_that_wait_for_room_see_that_it_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads nothing, and they wait for its socket, one for all: each is told when it is given up."""
    fake = tmp_path / "python"
    fake.write_text("#!/bin/bash\nexec sleep 300\n")
    fake.chmod(0o700)
    async with supervising(limits=Limits(running_per_loop=20, spool_bytes=1024)) as supervisor:
        starting = [Starting() for _ in range(20)]
        with monkeypatch.context() as patch:
            _be_impatient(patch)
            patch.setattr(sys, "executable", str(fake))
            async with anyio.create_task_group() as tasks:
                for each in starting:
                    tasks.start_soon(each.run, supervisor, f"exit 3 # {'x' * 60_000}")
        assert {each.error.kind for each in starting if each.error is not None} == {"other"}
        assert not any(each.process for each in starting)
        await _starts(supervisor)


async def test_a_machine_that_stood_still_is_no_reason_to_give_one_up(stations: Stations) -> None:
    """It has had as little of that time as who waits for it."""
    clock = LeapingClock()
    async with supervising(clock=clock) as supervisor:
        stations["configuring"].close()
        starting = Starting()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(starting.run, supervisor, "exit 3")
            await stations["configuring"].arrival()
            for _ in range(3):
                clock.leap(3600.0)
                await anyio.wait_all_tasks_blocked()
            stations["configuring"].open()
        assert starting.process is not None
        await _judge(supervisor, starting)


@pytest.mark.parametrize("whose", ["_zygote", "_shim"])
async def test_one_that_lacks_what_it_needs_says_so(whose: str, stations: Stations) -> None:
    """It cannot have its own pipe: resources, with the system's number; nothing is left."""
    async with supervising() as supervisor:
        with pytest.MonkeyPatch.context() as patch:
            Stations(stations.folder, patch).build(f"def refused(*_): raise OSError(24, '')\n{whose}.Loop = refused")
            with pytest.raises(SpawnFailedError) as caught:
                await supervisor.start("true", owner=OWNER)
            assert (caught.value.kind, caught.value.errno) == ("resources", errno.EMFILE)
        for zygote in _zygotes():
            os.kill(zygote, signal.SIGKILL)
            await all_gone(zygote)
        await _starts(supervisor)


async def test_one_whose_library_is_gone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python it is, and it cannot find what it is to run."""
    async with supervising() as supervisor:
        with monkeypatch.context() as patch:
            patch.setattr(_interpreter, "_ROOM", "/nowhere")
            with pytest.raises(SpawnFailedError, match=r"sys\.executable"):
                await supervisor.start("true", owner=OWNER)
        await _starts(supervisor)


async def test_one_that_may_not_have_the_lock_is_told(tmp_path: Path) -> None:
    """The folder is gone, say; with the system's own number."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    async with supervising(folder) as supervisor:
        (folder / "shims.lock").mkdir()
        with pytest.raises(SpawnFailedError) as caught:
            await supervisor.start("true", owner=OWNER)
        assert caught.value.errno == errno.EISDIR
        (folder / "shims.lock").rmdir()
        await _starts(supervisor)


# --- one for each supervisor, and only where one is needed


async def test_a_supervisor_that_starts_nothing_has_none() -> None:
    """It costs what it is used for."""
    others = set(psutil.Process().children())  # of other tests, that serve many
    async with supervising():
        assert set(psutil.Process().children()) <= others


async def test_two_supervisors_have_two() -> None:
    """What happens to the one is nothing to the other."""
    async with supervising() as first:
        await _starts(first)
        one = set(_zygotes())
        async with supervising() as second:
            await _starts(second)
            (other,) = set(_zygotes()) - one
            os.kill(other, signal.SIGKILL)
            await all_gone(other)
            await _starts(first)
            await _starts(second)
        assert set(_zygotes()) == one
        await _starts(first)
    async with supervising() as third:
        await _starts(third)


@pytest.mark.parametrize("how", [pytest.param("running", marks=pytest.mark.prove), "kept", "cancelled"])
async def test_thirty_are_left_to_the_end_of_the_block(how: str) -> None:
    """No zombie, descriptor, thread, socket, file or control group is left, however the block is left."""
    command = f"echo $$; setsid sleep 300 {QUIET} & "
    limits = Limits(running_per_loop=30, running_per_session=30, grace_seconds=30.0)
    processes: list[Process] = []
    group: Path | None = None
    with anyio.CancelScope() as scope:
        async with supervising(limits=limits) as supervisor:
            for _ in range(30):
                end = "exit 0" if how == "kept" else "wait"
                process = await supervisor.start(command + end, owner=OWNER, survivors="keep", output_limit=4096)
                processes.append(process)
            (leader,) = await pids_of(processes[0])
            group = group_of(leader) if how != "kept" else None
            if how == "kept":
                await supervisor.wait_all(processes)
            if how == "cancelled":
                scope.cancel()
                await anyio.sleep(1)
    outcomes = [process.outcome for process in processes]
    assert {(outcome.state, outcome.proven) for outcome in outcomes if outcome is not None} == {
        (S.EXITED, False) if how == "kept" else (S.TERMINATED, True)
    }
    assert None not in outcomes
    assert group is None or not group.parent.exists()
    assert name_of(os.getpid()) != "lastword-zygote"


async def test_stop_mode_kill_needs_no_zygote() -> None:
    """Nor does any other stop."""
    async with supervising() as supervisor:
        process = await supervisor.start("exec sleep 300", owner=OWNER)
        with stopped(_zygotes()[0]):
            outcome = await process.stop(StopMode.KILL)
        assert outcome is not None
        assert (outcome.state, outcome.proven) == (S.KILLED, True)


def test_children_are_listed_by_any_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has no lists of children is asked for everybody's parent; where it cannot be asked, nobody knows."""
    with subprocess.Popen(["sleep", "300"]) as child:
        assert child.pid in _proc.own_children()
        listed = sorted(_proc.own_children())

        def without_lists(path: str) -> bytes:
            if path.endswith("/children"):
                raise FileNotFoundError(errno.ENOENT, "")
            return Path(path).read_bytes()

        monkeypatch.setattr(_proc, "_contents", without_lists)
        assert sorted(_proc.own_children()) == listed

        def refused(path: str) -> bytes:
            if path.endswith("/children"):
                raise FileNotFoundError(errno.ENOENT, "")
            raise OSError(errno.EMFILE, "")

        monkeypatch.setattr(_proc, "_contents", refused)
        with pytest.raises(OSError, match=str(errno.EMFILE)):
            _proc.own_children()
        child.kill()
