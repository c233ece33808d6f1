"""Hosts that are odd themselves: each is a real program with jobs, and says by its exit code whether all was right.

What a tier does not promise (`hostile_tiers`) is not asked of it; what it does then instead is.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import anyio
from hostile_host import HELPERS_SECONDS, JOBS, LIMITS, OWNER, SESSION, is_ready
from hostile_lives import Life
from hostile_namespace import run_apart
from hostile_pens import look, pen_of
from hostile_tiers import Promise, launcher_of, promises

from lastword.notifier import ProcessState
from lastword.supervisor import (
    ErrorCode,
    Outcome,
    Process,
    ResourceLimits,
    SpawnFailedError,
    Supervisor,
    SupervisorError,
    open_supervisor,
)

Body = Callable[[Supervisor, Life], Awaitable[None]]

_libc = ctypes.CDLL(None, use_errno=True)


def _run(life: Life, body: Body) -> None:
    """The host proper."""

    async def main() -> None:
        with anyio.fail_after(life.seconds - 5):
            async with open_supervisor(
                None, session_id=SESSION, limits=LIMITS, launcher=launcher_of(life.containment)
            ) as supervisor:
                await body(supervisor, life)

    anyio.run(main, backend=life.backend)


async def _output(process: Process) -> str:
    data = b""
    async for chunk in process.follow():
        data += chunk.data
    return data.decode()


async def _says(supervisor: Supervisor, command: str | list[str], **options: Any) -> str:
    """What `command` writes; it must end well."""
    process = await supervisor.start(command, owner=OWNER, **options)
    outcome = await process.wait()
    said = await _output(process)
    assert (outcome.state, outcome.exit_code) == (ProcessState.EXITED, 0), (outcome, said)
    return said


async def _start(supervisor: Supervisor, command: str, **options: Any) -> Process | SupervisorError:
    """A process, or why there is none."""
    try:
        return await supervisor.start(command, owner=OWNER, **options)
    except SupervisorError as error:
        return error


async def _exits(supervisor: Supervisor, count: int, command: str = "exit 3") -> list[Outcome]:
    """Outcomes of `count` jobs, as many at once as the limits let."""
    outcomes: list[Outcome] = []

    async def some(number: int) -> None:
        for _ in range(number):
            process = await supervisor.start(command, owner=OWNER)
            outcomes.append(await process.wait())

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(some, count // 10)
    assert len(outcomes) == count
    return outcomes


def _are_exact(outcomes: list[Outcome], *, code: int = 3) -> None:
    assert {(each.state, each.exit_code, each.signal) for each in outcomes} == {(ProcessState.EXITED, code, None)}


def _are_true(life: Life, outcomes: list[Outcome]) -> None:
    """Exact where that is promised; else exact or unknown, and never made up."""
    if promises(life.containment, Promise.EXACT_STATUS):
        _are_exact(outcomes)
    for each in outcomes:
        assert (each.state, each.exit_code, each.diagnostic) in {
            (ProcessState.EXITED, 3, ""),
            (ProcessState.FAILED, None, "exit_unknown"),
        }, each


@contextmanager
def _threads(count: int, work: Callable[[], None]) -> Generator[None]:
    """While the block lasts `count` threads do `work` again and again."""
    over = threading.Event()
    failed: list[BaseException] = []

    def loop() -> None:
        try:
            while not over.is_set():
                work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=loop) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failed, failed


# --- what it does meanwhile


def threads(life: Life) -> None:
    """Sixteen threads allocate."""

    def allocate() -> None:
        assert all(list(map(bytearray, [4096] * 50)))
        time.sleep(0.0005)

    async def body(supervisor: Supervisor, _: Life) -> None:
        with _threads(16, allocate):
            _are_exact(await _exits(supervisor, 30))

    _run(life, body)


def big(life: Life) -> None:
    """A gigabyte is resident, which a fork would have to copy the tables of."""
    ballast = bytearray(1 << 30)
    ballast[:: resource.getpagesize()] = b"\1" * len(range(0, 1 << 30, resource.getpagesize()))

    async def body(supervisor: Supervisor, _: Life) -> None:
        _are_exact(await _exits(supervisor, 50))

    _run(life, body)


def popen(life: Life) -> None:
    """It runs programs of its own, and each gives its own true return code."""

    def own() -> None:
        for code in (0, 5):
            assert subprocess.run(["sh", "-c", f"exit {code}"], check=False).returncode == code

    async def body(supervisor: Supervisor, _: Life) -> None:
        with _threads(2, own):
            _are_exact(await _exits(supervisor, 40))

    _run(life, body)


# --- what it does to its children


def ignores_children(life: Life) -> None:
    """SIGCHLD is ignored: the kernel throws its children's statuses away."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    async def body(supervisor: Supervisor, life: Life) -> None:
        _are_true(life, await _exits(supervisor, 20))

    _run(life, body)
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN


def handles_children(life: Life) -> None:
    """SIGCHLD has a handler, which stays where it is and takes nothing."""
    heard: list[int] = []

    def hear(number: int, _: object) -> None:
        heard.append(number)

    signal.signal(signal.SIGCHLD, hear)

    async def body(supervisor: Supervisor, _: Life) -> None:
        _are_exact(await _exits(supervisor, 20))
        assert subprocess.run(["sh", "-c", "exit 5"], check=False).returncode == 5

    _run(life, body)
    assert signal.getsignal(signal.SIGCHLD) is hear
    assert heard


def takes_children(life: Life) -> None:
    """A thread waits for any child, again and again, and so takes every status."""

    def take() -> None:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        time.sleep(0.0005)

    async def body(supervisor: Supervisor, life: Life) -> None:
        with _threads(1, take):
            _are_true(life, await _exits(supervisor, 60))

    _run(life, body)


def subreaper(life: Life) -> None:
    """It adopts orphans."""
    assert _libc.prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
    _adopting(life)


def first_process(life: Life) -> None:
    """It is process 1 of a container, and so adopts every orphan."""
    run_apart(lambda: _adopting(life))


def _adopting(life: Life) -> None:
    async def body(supervisor: Supervisor, life: Life) -> None:
        own = subprocess.Popen(["sh", "-c", "sleep 0.2; exit 5"])
        _are_exact(await _exits(supervisor, 40, "(sleep 0.1 &); exit 3"))
        assert own.wait() == 5
        if promises(life.containment, Promise.NO_ZOMBIES):
            await _until(lambda: _zombies() == [])
        # Closed: the helpers' last children, too.

    _run(life, body)
    if promises(life.containment, Promise.NO_ZOMBIES):
        anyio.run(_until, lambda: _zombies() == [])


def _holds_only_three(pid: int) -> bool:
    return sorted(path.name for path in Path(f"/proc/{pid}/fd").iterdir()) == ["0", "1", "2"]


async def _until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(HELPERS_SECONDS):
        while not condition():  # noqa: ASYNC110 -- nobody is there to set an event
            await anyio.sleep(0.005)


def _descriptors() -> list[str]:
    """The numbers of this process's descriptors; the folder that is read is one."""
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def _zombies() -> list[str]:
    """What this process ought to have reaped."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = path.read_text().rpartition(") ")
            if rest.split()[:2] == ["Z", str(os.getpid())]:
                found.append(name)
    return found


# --- what it is born with


def no_descriptors(life: Life) -> None:
    """Standard input, output and error are closed, so that whatever it opens first gets their numbers."""
    os.closerange(0, 3)

    async def body(supervisor: Supervisor, _: Life) -> None:
        for number in range(3):
            said = await _says(supervisor, "echo out; echo err >&2; cat; ls /proc/self/fd", stdin=b"%d\n" % number)
            # The last one is the folder that ls reads.
            assert said.split() == ["out", "err", str(number), "0", "1", "2", "3"], said
            assert await _says(supervisor, "cat") == ""

    _run(life, body)
    assert _descriptors() == ["0"], _descriptors()


def many_descriptors(life: Life) -> None:
    """It holds descriptors that every child would inherit: a job has three, and so have its children."""
    for _ in range(20):
        for descriptor in os.pipe():
            os.set_inheritable(descriptor, True)

    async def body(supervisor: Supervisor, _: Life) -> None:
        others = [await supervisor.start("sleep 60", owner=OWNER) for _ in range(3)]
        process = await supervisor.start("sleep 60 & echo $! $$; wait", owner=OWNER, stdin=b"x" * 100_000)
        await process.wait_output(0)
        pids = (await process.read_output()).data.split()
        assert len(pids) == 2
        await _until(lambda: Path(f"/proc/{int(pids[0])}/comm").read_text() == "sleep\n")  # it was forked, and executes
        for pid in pids:
            # A program opens files of its own while it begins; what it inherited would stay.
            await _until(partial(_holds_only_three, int(pid)))
        for started in (*others, process):
            await started.stop()

    _run(life, body)


def deaf(life: Life) -> None:
    """It was started with signals ignored and blocked, as by nohup, cron or a careless parent; jobs are not."""
    chosen = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGUSR1)
    for number in chosen:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR2, signal.SIGCHLD, signal.SIGWINCH})

    async def body(supervisor: Supervisor, life: Life) -> None:
        said = await _says(supervisor, ["cat", "/proc/self/status"])
        masks = {
            # But for 32 and 33, which are the C library's own, and ignored in all that `make` runs.
            line[:6]: int(line[7:], 16) & ~(0b11 << 31)
            for line in said.splitlines()
            if line[:6] in ("SigBlk", "SigIgn", "SigCgt")
        }
        assert len(masks) == 3
        if promises(life.containment, Promise.CLEAN_SIGNALS):
            assert set(masks.values()) == {0}, masks
            job = await supervisor.start("kill -TERM $$; sleep 60", owner=OWNER)
            assert (await job.wait()).signal == signal.SIGTERM

    _run(life, body)
    assert {signal.getsignal(number) for number in chosen} == {signal.SIG_IGN}
    assert signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def piped(life: Life) -> None:
    """Python ignores SIGPIPE; a job's pipelines end by it."""

    async def body(supervisor: Supervisor, _: Life) -> None:
        with anyio.fail_after(60):
            process = await supervisor.start("{ yes; echo $? >&2; } | head -n1", owner=OWNER)
            assert (await process.wait()).exit_code == 0
            assert sorted((await _output(process)).split()) == [str(128 + signal.SIGPIPE), "y"]

    _run(life, body)


def homeless(life: Life) -> None:
    """Its working directory is gone: a job that names one runs; one that does not is started, or typed as refused."""
    gone = Path(life.folder, "gone")
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()

    async def body(supervisor: Supervisor, life: Life) -> None:
        assert await _says(supervisor, "pwd", cwd=life.folder) == f"{life.folder}\n"
        started = await _start(supervisor, "exit 3")
        if isinstance(started, Process):
            assert (await started.wait()).exit_code == 3
        else:
            assert isinstance(started, SpawnFailedError)
            assert started.kind == "cwd"

    _run(life, body)
    os.chdir("/")


def open_handed(life: Life) -> None:
    """Its umask is 0: what it keeps is private all the same, and a job has the umask that it would have had."""
    os.umask(0)

    async def body(supervisor: Supervisor, life: Life) -> None:
        process = await supervisor.start("umask; echo > made; sleep 60", owner=OWNER, cwd=life.folder)
        made = Path(life.folder, "made")
        await _until(made.exists)
        await process.wait_output(0)
        assert (await process.read_output()).data == b"0000\n"
        assert stat.S_IMODE(made.stat().st_mode) == 0o666
        (temporary,) = Path(life.folder).glob("lastword-*")
        kept = list(temporary.rglob("*"))
        assert kept
        for path in (temporary, *kept):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
        await process.stop()
        assert await _says(supervisor, "umask", resources=ResourceLimits(umask=0o27)) == "0027\n"

    _run(life, body)
    assert os.umask(0) == 0


def exhausted(life: Life) -> None:
    """It has nearly no descriptor left: a start succeeds or says so, and all is well once there are some again."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    async def body(supervisor: Supervisor, _: Life) -> None:
        refused = 0
        for left in (0, 1, 2, 3, 4, 6, 8, 0, 2, 5, 10):
            taken: list[int] = []
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.dup(2))
            for descriptor in [taken.pop() for _ in range(left)]:
                os.close(descriptor)
            started = await _start(supervisor, "exit 3")
            if isinstance(started, Process):
                _are_exact([await started.wait()])
            else:
                assert isinstance(started, SpawnFailedError)
                assert started.kind == "resources", started
                refused += 1
            for descriptor in taken:
                os.close(descriptor)
            _are_exact([await (await supervisor.start("exit 3", owner=OWNER)).wait()])
        assert refused >= 2
        before = len(_descriptors())
        _are_exact(await _exits(supervisor, 20))
        await _until(lambda: len(_descriptors()) <= before)

    _run(life, body)


# --- what jobs are given


def particular(life: Life) -> None:
    """Working directory, environment, limits, niceness and umask are the job's own, and the host keeps its own."""
    here, nice, limit = Path.cwd(), os.nice(0), resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ResourceLimits(open_files=77, cpu_seconds=9, core=0, nice=5, umask=0o27)
    (elsewhere := Path(life.folder, "elsewhere")).mkdir()
    command = "pwd; ulimit -n; ulimit -t; ulimit -c; nice; umask; echo $WORD"

    async def body(supervisor: Supervisor, life: Life) -> None:
        options: dict[str, Any] = {"cwd": elsewhere, "env": {"WORD": "said"}, "resources": wanted}
        if promises(life.containment, Promise.RESOURCES):
            said = await _says(supervisor, command, **options)
            assert said.split() == [str(elsewhere), "77", "9", "0", str(nice + 5), "0027", "said"], said
        else:
            refused = await _start(supervisor, command, **options)
            assert isinstance(refused, SupervisorError), "limits are taken and not kept"
            assert refused.code is ErrorCode.PROCESS_SETUP_FAILED
        assert (await _says(supervisor, "pwd; nice")).split() == [str(here), str(nice)]

    _run(life, body)
    assert (Path.cwd(), os.nice(0), resource.getrlimit(resource.RLIMIT_NOFILE)) == (here, nice, limit)


# --- how it dies


def forked(life: Life) -> None:
    """It forks by multiprocessing while jobs run, and is killed; the fork lives on with all that it has inherited."""

    async def body(supervisor: Supervisor, life: Life) -> None:
        for name in ("daemon", "deaf"):
            await is_ready(await supervisor.start([sys.executable, "-IS", str(JOBS), name, "stay"], owner=OWNER))
        ready = anyio.Event()
        child = get_context("fork").Process(target=_outlive, args=(life, os.getpid()))
        child.start()
        ready.set()
        os.kill(os.getpid(), signal.SIGKILL)

    _run(life, body)


def _outlive(life: Life, host: int) -> None:
    """The fork: wait until it is alone in the pen, and tell who is not gone by then."""
    pen = pen_of(life.pen)
    end = time.monotonic() + HELPERS_SECONDS
    while os.getppid() == host:
        time.sleep(0.002)
    while (others := [seen for seen in pen.members() if seen.pid != os.getpid()]) and time.monotonic() < end:
        time.sleep(0.005)
    assert look(os.getpid()) is not None
    life.say("outlived", left=[str(seen) for seen in others])
    os._exit(0)
