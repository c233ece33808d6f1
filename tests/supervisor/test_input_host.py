"""A host's end of a pipe for input: what it cannot have, its signals, its forks, its death."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
import pytest
from input_ground import closed, fill
from shim_ground import all_gone, is_stopped, pids_of, shim_of, stopped, zygote_of
from supervising import HANG_SECONDS, OWNER, alive, no_descriptor_left, supervising, until

from lastword.notifier import ProcessState
from lastword.supervisor import (
    Containment,
    ErrorCode,
    Limits,
    Process,
    SpawnFailedError,
    StdinClosedError,
    StopMode,
    Supervisor,
    SupervisorError,
)
from lastword.supervisor._reactor import Reactor
from lastword.supervisor.launch._input import write_quietly

S = ProcessState


# --- what could not be


async def test_starts_that_fail_leave_no_pipe(each_tier: Containment) -> None:
    """Not found, refused, cancelled: `supervising` counts descriptors."""
    async with supervising(limits=Limits(running_per_loop=1)) as supervisor:
        with pytest.raises(SpawnFailedError):
            await supervisor.start(["/no/such/program"], owner=OWNER, stdin="pipe")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await supervisor.start("cat", owner=OWNER, stdin="pipe")
        process = await supervisor.start("cat", owner=OWNER, stdin="pipe")
        before = _descriptors()
        with pytest.raises(SupervisorError) as refused:
            await supervisor.start("cat", owner=OWNER, stdin="pipe")
        assert refused.value.code is ErrorCode.PROCESS_QUOTA_EXCEEDED
        assert _descriptors() == before
        await process.close_input()
        assert (await process.wait()).exit_code == 0


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- a count


@pytest.mark.parametrize(
    ("wish", "code"),
    [({"stdin": "pipe"}, ErrorCode.PROCESS_SETUP_FAILED), ({"pty": True}, ErrorCode.PTY_UNAVAILABLE)],
    ids=["pipe", "terminal"],
)
async def test_where_none_can_be_had_nothing_is_recorded(wish: dict[str, object], code: ErrorCode) -> None:
    """And never another thing in its stead."""
    async with supervising() as supervisor:
        await (await supervisor.start("true", owner=OWNER)).wait()
        known = supervisor.list(OWNER)
        with no_descriptor_left(), pytest.raises(SupervisorError, match="EMFILE") as caught:
            await supervisor.start("true", owner=OWNER, **wish)  # type: ignore[arg-type]  # each is valid
        assert caught.value.code is code
        assert supervisor.list(OWNER) == known
        again = await supervisor.start("true", owner=OWNER, **wish)  # type: ignore[arg-type]
        assert (await again.wait()).exit_code == 0


async def test_where_no_room_can_be_waited_for_half_of_it_is_not_taken_for_all(
    gate: Path, monkeypatch: pytest.MonkeyPatch, each_tier: Containment
) -> None:
    """It is told, and the process never reads an end that nobody meant."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"echo $$; cat <{gate}; exec cat", owner=OWNER, stdin="pipe")
        (leader,) = await pids_of(process)
        pipe = str(Path(f"/proc/{leader}/fd/0").readlink())
        with monkeypatch.context() as patch:
            patch.setattr(Reactor, "add", _no_watch_left)
            with pytest.raises(StdinClosedError, match="stop the process"):
                await process.send_input(b"x" * 500_000)
        await process.close_input()
        assert "stop the process" in await closed(process)
        assert os.getpid() in _writers(pipe)
        outcome = await process.stop()
        assert outcome is not None
        assert outcome.state is S.TERMINATED


def _no_watch_left(*_arguments: object, **_options: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# --- signals, forks, deaths


@contextmanager
def _sigpipe(action: signal.Handlers, *, blocked: bool) -> Generator[None]:
    handler = signal.signal(signal.SIGPIPE, action)
    before = signal.pthread_sigmask(signal.SIG_BLOCK if blocked else signal.SIG_UNBLOCK, {signal.SIGPIPE})
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # which also drops one that is pending
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGPIPE, handler)


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("blocked", [False, True])
def test_a_write_that_nobody_reads_raises_no_sigpipe(blocked: bool, pending: bool) -> None:
    """Its own is taken away, and somebody else's that waits is left."""
    if pending and not blocked:
        return  # there is no such thing: it would have been delivered
    reading, writing = os.pipe()
    os.close(reading)
    with _sigpipe(signal.SIG_DFL, blocked=blocked):
        if pending:
            signal.pthread_kill(threading.get_ident(), signal.SIGPIPE)  # to no other thread
        for _ in range(2):
            with pytest.raises(BrokenPipeError):
                write_quietly(writing, b"x")
            assert (signal.SIGPIPE in signal.sigpending()) is pending
        assert (signal.SIGPIPE in signal.pthread_sigmask(signal.SIG_BLOCK, ())) is blocked
    os.close(writing)


HOST = """
import os, signal, sys
import anyio, lastword
from lastword.supervisor import StdinClosedError

signal.signal(signal.SIGPIPE, signal.SIG_DFL)

async def dies_of_no_sigpipe(runtime):
    process = await runtime.start("read x; exec <&-; echo closed; sleep 60", stdin="pipe")
    await process.send_input(b"one line\\n")
    await process.wait_output(0)
    told = 0
    while told < 3:  # who has handed it over lets go of it a moment later
        try:
            await process.send_input(b"x" * 1000)
        except StdinClosedError:
            print("closed", flush=True)
            told += 1
        else:
            await anyio.sleep(0.05)

async def has_a_fork(runtime):
    process = await runtime.start("cat", stdin="pipe")
    await process.send_input(b"x" * 500_000)
    child = os.fork()
    if child == 0:
        signal.pause()
    print(child, flush=True)
    await process.close_input()
    print((await process.wait()).total_bytes, flush=True)

async def main():
    async with lastword.open_runtime() as runtime:
        await globals()[sys.argv[1]](runtime)

anyio.run(main, backend=sys.argv[2])
"""


def test_a_host_that_takes_sigpipe_does_not_die_of_it(anyio_backend_name: str) -> None:
    """As command line programs do: the error is typed, and the host goes on."""
    done = subprocess.run(
        [sys.executable, "-c", HOST, "dies_of_no_sigpipe", anyio_backend_name],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert done.stdout.split() == ["closed"] * 3


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_of_the_host_does_not_hold_the_input_open(anyio_backend_name: str) -> None:
    """The process reads its end although a forked child of the host lives on."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", HOST, "has_a_fork", anyio_backend_name],
        stdout=subprocess.PIPE,
        text=True,
    ) as host:
        assert host.stdout is not None
        child = int(host.stdout.readline())
        try:
            assert host.stdout.readline() == "500000\n"
            assert alive(child)
        finally:
            os.kill(child, signal.SIGKILL)


def _writers(pipe: str) -> set[int]:
    """The processes that hold the writing end of a pipe, such as "pipe:[123]"."""
    found: set[int] = set()
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        with suppress(OSError):  # it has ended, whoever's it is
            for entry in list((process / "fd").iterdir()):
                with suppress(OSError):  # it is gone: of our own, the one that the folder was listed by
                    if str(entry.readlink()) == pipe and entry.lstat().st_mode & 0o200:
                        found.add(int(process.name))
    return found


HOLDING = """
import sys
import anyio, lastword

async def main():
    async with lastword.open_runtime() as runtime:
        process = await runtime.start(f"echo $$; cat >/dev/null; : >{sys.argv[1]}", stdin="pipe")
        await process.wait_output(0)
        print((await process.read_output()).data.decode().strip(), flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


async def test_the_death_of_the_host_is_no_end_of_input(tmp_path: Path) -> None:
    """Its job is killed; it must not do before what it would have done with all of its input."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(tmp_path / "done")], stdout=subprocess.PIPE, text=True
    ) as host:
        assert host.stdout is not None
        leader = int(host.stdout.readline())
        pipe = str(Path(f"/proc/{leader}/fd/0").readlink())
        shim = shim_of(leader)
        zygote = zygote_of(shim)
        with anyio.fail_after(HANG_SECONDS):
            await until(lambda: _writers(pipe) == {host.pid, shim})
        with stopped(zygote), stopped(shim):
            with anyio.fail_after(HANG_SECONDS):
                await until(lambda: is_stopped(zygote) and is_stopped(shim))
            host.kill()
            host.wait()
            assert _writers(pipe) == {shim}
            assert alive(leader)
        with anyio.fail_after(HANG_SECONDS):
            await all_gone(leader, shim, zygote)
    assert not (tmp_path / "done").exists()


async def test_a_keeper_that_is_killed_while_input_waits(each_contained_tier: Containment) -> None:
    """Told as lost, and the input as closed."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo $$; exec sleep 60", owner=OWNER, stdin="pipe")
        (leader,) = await pids_of(process)
        await fill(process, b"x" * 300_000)
        os.kill(shim_of(leader), signal.SIGKILL)
        assert (await process.wait()).state is S.FAILED
        assert "ended" in await closed(process)
        await all_gone(leader)


async def test_a_stop_does_not_wait_behind_input(each_tier: Containment) -> None:
    """Each mode, with all that can wait waiting."""
    async with supervising() as supervisor:

        async def stopped_by(mode: StopMode, state: ProcessState) -> None:
            # Without a shell: for an instant a dash that begins a command hears of a SIGINT and goes on.
            process = await supervisor.start(["sleep", "60"], owner=OWNER, stdin="pipe")
            await fill(process, b"x" * 300_000)
            outcome = await process.stop(mode, grace=60.0)
            assert outcome is not None
            assert outcome.state is state

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stopped_by, StopMode.INTERRUPT, S.INTERRUPTED)
            tasks.start_soon(stopped_by, StopMode.TERMINATE, S.TERMINATED)
            tasks.start_soon(stopped_by, StopMode.KILL, S.KILLED)


async def test_many_at_once_cost_no_task_each() -> None:
    """Thirty that do not read: nothing runs for them but the supervisor's own tasks."""
    async with supervising(limits=Limits(running_per_loop=32, spool_bytes=4096)) as supervisor:
        await (await supervisor.start("true", owner=OWNER)).wait()
        before = len(anyio.get_running_tasks())
        jobs = [await supervisor.start("sleep 60", owner=OWNER, stdin="pipe") for _ in range(30)]
        for process in jobs:
            await process.send_input(b"x" * 200_000)
        assert len(anyio.get_running_tasks()) <= before
        await _stop_all(supervisor, jobs)


async def _stop_all(supervisor: Supervisor, jobs: list[Process]) -> None:
    async with anyio.create_task_group() as tasks:
        for process in jobs:
            stop: Callable[[], object] = partial(process.stop, StopMode.KILL)
            tasks.start_soon(stop)  # type: ignore[arg-type]  # what it returns is not of interest
    assert all(process.outcome for process in supervisor.list(OWNER))
