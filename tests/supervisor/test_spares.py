"""The shim that is forked ahead: every row of the zygote's table, and that nothing of an earlier job is in it."""

from __future__ import annotations

import errno
import marshal
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import psutil
import pytest
from own_cgroups import need_root, own_cgroup
from shim_ground import QUIET, Stations, all_gone, is_stopped, pids_of, shim_of, spare_of, zygote_of
from supervising import OWNER, alive, output_of, supervising, until

from lastword.notifier import ProcessState
from lastword.supervisor import Process, SpawnFailedError, Supervisor

pytestmark = pytest.mark.usefixtures("each_contained_tier")

S = ProcessState

# What a spare does, with a station before it takes its job: a zygote is never there, since its pid is its own.
_TAKING = """
take, own = _zygote.messages.take_packet, os.getpid()
def held(*arguments):
    if os.getpid() != own:
        at("taking")
    return take(*arguments)
_zygote.messages.take_packet = held
"""


def _zygote() -> int:
    (zygote,) = [child.pid for child in psutil.Process().children() if child.name() == "lastword-zygote"]
    return zygote


async def _waiting() -> int:
    """The spare, once there is one."""
    zygote = _zygote()
    await until(lambda: spare_of(zygote) is not None)
    spare = spare_of(zygote)
    assert spare is not None
    return spare


async def _spare(supervisor: Supervisor) -> int:
    """A spare, after a job of `supervisor` that has ended."""
    assert (await (await supervisor.start("exit 4", owner=OWNER)).wait()).exit_code == 4
    return await _waiting()


async def _runs(supervisor: Supervisor) -> int:
    """The shim of a job that runs from start to end as it should."""
    process = await supervisor.start("echo $PPID; exit 3", owner=OWNER)
    outcome = await process.wait()
    assert (outcome.exit_code, outcome.proven) == (3, True)
    return int(await output_of(process))


async def _sleeper(supervisor: Supervisor, stdin: bytes | None = None) -> tuple[Process, int]:
    """A job that goes on, and its shim."""
    process = await supervisor.start("echo $$; exec sleep 300", owner=OWNER, stdin=stdin)
    (leader,) = await pids_of(process)
    return process, shim_of(leader)


# --- it waits


async def test_the_next_job_has_the_one_that_was_forked_ahead() -> None:
    """And the one after it has the next; there is one at a time."""
    async with supervising() as supervisor:
        first = await _spare(supervisor)
        process, shim = await _sleeper(supervisor)
        assert shim == first
        second = await _waiting()
        assert second != first
        assert await _runs(supervisor) == second
        assert process.outcome is None


async def test_it_has_what_the_host_has_when_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what that had when it was forked: the working directory and the umask; and of a large message all."""
    async with supervising() as supervisor:
        spare = await _spare(supervisor)
        monkeypatch.chdir(tmp_path)
        umask = os.umask(0o027)
        try:
            process = await supervisor.start(
                "echo $PPID; pwd; umask; echo ${#LONG}", owner=OWNER, env={"LONG": "x" * 100_000}
            )
        finally:
            os.umask(umask)
        assert (await process.wait()).exit_code == 0
        assert await output_of(process) == f"{spare}\n{tmp_path}\n0027\n100000\n".encode()


def _lower(zygote: int) -> None:
    resource.prlimit(zygote, resource.RLIMIT_CORE, (4096, 8192))


def _renice(zygote: int) -> None:
    os.setpriority(os.PRIO_PROCESS, zygote, os.getpriority(os.PRIO_PROCESS, zygote) + 1)


def _batch(zygote: int) -> None:
    batch = os.sched_getscheduler(zygote) == os.SCHED_BATCH
    os.sched_setscheduler(zygote, os.SCHED_OTHER if batch else os.SCHED_BATCH, os.sched_param(0))


def _bind(zygote: int) -> None:
    os.sched_setaffinity(zygote, {min(os.sched_getaffinity(zygote))})


def _offer(zygote: int) -> None:
    path = Path(f"/proc/{zygote}/oom_score_adj")
    path.write_text(str(int(path.read_text()) + 1))


_SEEN = (
    "ulimit -c; cut -d' ' -f 19,40,41 /proc/$PPID/stat; "
    "grep Cpus_allowed: /proc/$PPID/status; cat /proc/$PPID/oom_score_adj"
)
_CHANGES = [_lower, _renice, _batch, _offer, *([_bind] if len(os.sched_getaffinity(0)) > 1 else [])]


@pytest.mark.parametrize("change", _CHANGES)
async def test_it_is_of_no_use_where_the_zygote_was_given_something_else(change: Callable[[int], None]) -> None:
    """By an administrator: the next job's shim has what its zygote has, and not what that had before."""
    async with supervising() as supervisor:
        spare = await _spare(supervisor)
        zygote = _zygote()
        change(zygote)
        process = await supervisor.start(f"echo $PPID; {_SEEN}", owner=OWNER)
        await process.wait()
        shim, *seen = (await output_of(process)).decode().splitlines()
        assert int(shim) != spare
        done = subprocess.run(
            ["sh", "-c", _SEEN.replace("$PPID", str(zygote))], capture_output=True, text=True, check=True
        )
        limit, *others = done.stdout.splitlines()
        assert seen[1:] == others
        assert seen[0] == ("8" if change is _lower else limit)
        assert await _runs(supervisor) != spare


async def test_it_is_of_no_use_where_the_zygote_was_moved_to_another_control_group() -> None:
    """Its shims belong where it is."""
    need_root("moving a process between control groups")
    with own_cgroup() as group:
        async with supervising() as supervisor:
            spare = await _spare(supervisor)
            (group / "cgroup.procs").write_text(str(_zygote()))
            process, shim = await _sleeper(supervisor)
            assert shim != spare
            assert str(shim) in (group / "cgroup.procs").read_text().split()
            assert process.outcome is None


async def test_it_holds_nothing_of_a_job() -> None:
    """Neither of one that runs nor of the zygote: its socket, the two ends of its own pipe, the lock and the host."""
    async with supervising() as supervisor:
        await _spare(supervisor)
        process, shim = await _sleeper(supervisor, stdin=b"of the first")
        zygote = _zygote()
        spare = await _waiting()
        # It has named itself, and so closed what is the zygote's; its own pipe is the last that it opens.
        await until(lambda: any("pipe:" in link for link in _links(spare)))
        kinds = sorted(link.split(":")[0].rpartition("/")[2] for link in _links(spare))
        assert kinds == ["anon_inode", "null", "pipe", "shims.lock", "socket"]
        assert not any("memfd" in link for link in _links(shim) | _links(zygote))
        assert not {link for link in _links(spare) if "pipe:" in link or "socket:" in link} & _links(shim)
        assert process.outcome is None


def _links(pid: int) -> set[str]:
    """What it has open; both ends of a pipe look the same."""
    return {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()}


async def test_the_zygote_keeps_no_descriptor() -> None:
    """However many jobs were handed over."""
    async with supervising() as supervisor:
        for _ in range(5):
            await _spare(supervisor)
            folder = Path(f"/proc/{_zygote()}/fd")
            # Three that are null, the host, its socket, the lock, two ends of a pipe, the spare's socket.
            await until(lambda folder=folder: len(list(folder.iterdir())) == 9)  # type: ignore[misc]


@pytest.mark.parametrize("size", [0, 100_000])
async def test_no_earlier_job_is_in_its_memory(size: int) -> None:
    """Neither arguments nor environment, by whichever way they came; nor are they in the zygote's."""
    need_root("the memory of a shim")
    marks = [b"of-%d-" % number + os.urandom(8).hex().encode() for number in range(2)]
    async with supervising() as supervisor:
        for mark in marks:  # the first by a fork, the second by a spare
            word = mark.decode()
            process = await supervisor.start(
                ["/bin/true", word], owner=OWNER, env={"MARK": word, "PADDING": "x" * size}
            )
            await process.wait()
            await _waiting()
        spare, zygote = await _waiting(), _zygote()
        for pid in (spare, zygote):
            memory = _memory(pid)
            assert b"lastword-spare" in memory  # it is what was looked at
            assert [mark for mark in marks if mark in memory] == []


async def test_no_job_that_was_refused_is_in_its_memory() -> None:
    """The zygote had no descriptor left for what came with the order, and so never passed it on."""
    need_root("the memory of a shim")
    mark = os.urandom(8).hex()
    async with supervising() as supervisor:
        await _spare(supervisor)
        zygote = _zygote()
        limits = resource.prlimit(zygote, resource.RLIMIT_NOFILE)
        resource.prlimit(zygote, resource.RLIMIT_NOFILE, (3, limits[1]))
        with pytest.raises(SpawnFailedError) as caught:
            await supervisor.start(["/bin/true", mark], owner=OWNER, env={"MARK": mark})
        assert caught.value.errno == errno.EMFILE
        resource.prlimit(zygote, resource.RLIMIT_NOFILE, limits)
        assert mark.encode() not in _memory(zygote)
        await _runs(supervisor)


async def test_a_shim_does_not_keep_the_order() -> None:
    """As it came, with its job's environment: neither a spare nor one that was forked for it."""
    need_root("the memory of a shim")
    async with supervising() as supervisor:
        for _ in range(2):
            mark = os.urandom(8).hex()
            process = await supervisor.start(
                "echo $$ $MARK; exec sleep 300", owner=OWNER, env={"MARK": mark}, split_streams=True
            )
            await process.wait_output(0)
            leader, said = (await process.read_output()).data.split()
            assert said == mark.encode()
            # As marshal writes it: objects that were made of it, and freed, look otherwise.
            assert marshal.dumps(mark.encode())[1:] not in _memory(shim_of(int(leader)))


def _memory(pid: int) -> bytes:
    """All that it can write to."""
    pieces: list[bytes] = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            place, rights = line.split()[:2]
            if rights.startswith("rw"):
                start, end = (int(word, 16) for word in place.split("-"))
                memory.seek(start)
                pieces.append(memory.read(end - start))
    return b"".join(pieces)


# --- it ends, or is stopped


async def test_killed_while_it_waits() -> None:
    """It is reaped, nobody is told anything, and the next job has a shim of its own."""
    async with supervising() as supervisor:
        spare = await _spare(supervisor)
        os.kill(spare, signal.SIGKILL)
        await until(lambda: not psutil.pid_exists(spare))
        assert await _runs(supervisor) != spare
        assert await _spare(supervisor) != spare


async def test_killed_just_before_it_is_told(stations: Stations, tmp_path: Path) -> None:
    """The zygote has read the order, and has not heard of the death: the job is begun, and once."""
    log = tmp_path / "log"
    async with supervising() as supervisor:
        spare = await _spare(supervisor)
        stations["asked"].close()
        processes: list[Process] = []

        async def start() -> None:
            processes.append(await supervisor.start(f"echo $PPID >>{log}; exit 3", owner=OWNER))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start)
            await stations["asked"].arrival()
            os.kill(spare, signal.SIGKILL)
            await until(lambda: not alive(spare))
            stations["asked"].open()
        assert (await processes[0].wait()).exit_code == 3
        (shim,) = map(int, log.read_text().split())
        assert shim != spare


@pytest.mark.parametrize("station", ["taking", "born", "spawning"])
async def test_killed_when_it_was_told(stations: Stations, station: str, tmp_path: Path) -> None:
    """Whether it has read the order or not: the start fails as that of any shim that dies, and nothing was begun."""
    stations.build(_TAKING)
    log = tmp_path / "log"
    async with supervising() as supervisor:
        spare = await _spare(supervisor)
        stations[station].close()
        errors: list[SpawnFailedError] = []

        async def start() -> None:
            with pytest.raises(SpawnFailedError) as caught:
                await supervisor.start(f"echo x >>{log}", owner=OWNER)
            errors.append(caught.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start)
            assert await stations[station].arrival() == spare
            os.kill(spare, signal.SIGKILL)
            await all_gone(spare)
            stations[station].open()
        outcome = supervisor.get(errors[0].handle, OWNER).outcome
        assert outcome is not None
        assert (errors[0].kind, outcome.state, outcome.started_at) == ("other", S.FAILED, None)
        assert not log.exists()
        assert await _runs(supervisor) != spare


async def test_stopped_it_is_continued() -> None:
    """By the zygote, as any shim; the next job has it."""
    async with supervising() as supervisor:
        for _ in range(3):
            spare = await _spare(supervisor)
            os.kill(spare, signal.SIGSTOP)
            assert await _runs(supervisor) == spare


async def test_a_sweep_spares_it() -> None:
    """A shim was killed: what that held is ended, and the one that waits is not."""
    async with supervising() as supervisor:
        await _spare(supervisor)
        process = await supervisor.start(f"echo $$; setsid sleep 300 {QUIET} & echo $!; wait", owner=OWNER)
        leader, child = await pids_of(process, 2)
        spare = await _waiting()
        os.kill(shim_of(leader), signal.SIGKILL)
        outcome = await process.wait()
        assert (outcome.state, outcome.diagnostic, outcome.proven) == (S.FAILED, "shim_lost", True)
        await all_gone(leader, child)
        assert await _runs(supervisor) == spare


# --- the zygote and the host


async def test_it_ends_with_the_zygote() -> None:
    """Which was killed: at once, and the jobs go on."""
    async with supervising() as supervisor:
        await _spare(supervisor)
        process, shim = await _sleeper(supervisor)
        zygote = zygote_of(shim)
        spare = await _waiting()
        os.kill(zygote, signal.SIGKILL)
        await all_gone(zygote, spare)
        assert process.outcome is None
        assert await _runs(supervisor) not in (shim, spare)


async def test_it_ends_with_the_zygote_though_both_were_stopped() -> None:
    """Nobody is left who would continue it, and it holds the lock that the next opening of the folder waits for."""
    async with supervising() as supervisor:
        spare = await _spare(supervisor)
        zygote = _zygote()
        for pid in (zygote, spare):
            os.kill(pid, signal.SIGSTOP)
            await until(lambda pid=pid: is_stopped(pid))  # type: ignore[misc]
        os.kill(zygote, signal.SIGKILL)
        await all_gone(zygote, spare)
        assert await _runs(supervisor) != spare


async def test_its_job_goes_on_where_the_zygote_was_killed(stations: Stations) -> None:
    """Right after it was handed over."""
    stations.build(_TAKING)
    async with supervising() as supervisor:
        spare = await _spare(supervisor)
        zygote = _zygote()
        stations["taking"].close()
        shims: list[int] = []

        async def run() -> None:
            shims.append(await _runs(supervisor))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            assert await stations["taking"].arrival() == spare
            os.kill(zygote, signal.SIGKILL)
            await all_gone(zygote)
            stations["taking"].open()
        assert shims == [spare]


async def test_closing_ends_it_though_it_is_stopped(stations: Stations, monkeypatch: pytest.MonkeyPatch) -> None:
    """And though nobody continues it: nobody waits for it, and it is gone when the block is left."""
    stations.build(
        "import signal; kill = os.kill; "
        "os.kill = lambda pid, number: None if number == signal.SIGCONT else kill(pid, number)"
    )
    async with supervising() as supervisor:
        spare = await _spare(supervisor)
        os.kill(spare, signal.SIGSTOP)
        await until(lambda: is_stopped(spare))
        monkeypatch.setattr("lastword.supervisor.launch._contained._LEAVING_SECONDS", 1000.0)
    assert not psutil.pid_exists(spare)


# --- it cannot be had


async def test_jobs_run_without_one(stations: Stations) -> None:
    """No descriptor, no process or no knowledge can be had for it: it is tried again with the next job."""
    stations.build(f"""
socket, fork = _zygote.Spare.__init__.__globals__["socket"], os.fork
pair = socket.socketpair
def refused(what, error):
    if os.path.exists({str(stations.folder)!r} + "/" + what):
        raise OSError(error, "")
def refusing_pair(*arguments):
    refused("pair", 24)
    return pair(*arguments)
socket.socketpair = refusing_pair
import sys
def refusing_fork():
    if sys._getframe(1).f_code.co_name == "fork":  # a spare's
        refused("fork", 11)
    return fork()
os.fork = refusing_fork
affinity = os.sched_getaffinity
def refusing_affinity(pid):
    refused("affinity", 1)
    return affinity(pid)
os.sched_getaffinity = refusing_affinity
""")
    async with supervising() as supervisor:
        for what in ("pair", "fork", "affinity"):
            (stations.folder / what).touch()
            await _runs(supervisor)  # which may have had one that was there
            for _ in range(3):
                await _runs(supervisor)
                assert spare_of(_zygote()) is None
            (stations.folder / what).unlink()
            spare = await _spare(supervisor)
            assert await _runs(supervisor) == spare


# --- it is held


_TRACER = """
import ctypes, os, signal, sys, time
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
spare = int(sys.argv[1])
assert ptrace(0x4206, spare, 0, 0) == 0 and ptrace(0x4207, spare, 0, 0) == 0  # PTRACE_SEIZE, PTRACE_INTERRUPT
os.waitpid(spare, 0x40000000)  # __WALL
print("held", flush=True)
while True:
    time.sleep(0.05)
"""


async def test_one_that_a_tracer_holds_gets_no_job() -> None:
    """A job can be one, as root: the next start does not wait for it."""
    need_root("tracing a spare")
    async with supervising() as supervisor:
        spare = await _spare(supervisor)
        with subprocess.Popen([sys.executable, "-c", _TRACER, str(spare)], stdout=subprocess.PIPE) as tracer:
            try:
                assert tracer.stdout is not None
                assert tracer.stdout.readline() == b"held\n"
                assert await _runs(supervisor) != spare
            finally:
                tracer.kill()
        await until(lambda: not psutil.pid_exists(spare))
