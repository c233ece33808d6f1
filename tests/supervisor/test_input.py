"""A pipe for input: what is taken and when, what the process reads of it, and what ends it.

Where a process must not read yet, it opens a FIFO first, which waits for the test to open the other end.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
import pytest
from shim_ground import all_gone, pids_of, shim_of, stopped, zygote_of
from supervising import OWNER, alive, no_descriptor_left, output_of, supervising, until, wait_for_output

from lastword.notifier import ProcessState
from lastword.supervisor import (
    Containment,
    ErrorCode,
    InputBackpressureError,
    Limits,
    Process,
    SpawnFailedError,
    StdinClosedError,
    StopMode,
    Supervisor,
    SupervisorError,
)
from lastword.supervisor._reactor import Reactor
from lastword.supervisor.launch import open_pipe
from lastword.supervisor.launch._input import write_quietly

S = ProcessState

PIPE_BYTES = 64 * 1024


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A FIFO."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def opened(gate: Path) -> None:
    """Let go on who waits for the gate."""
    os.close(os.open(gate, os.O_WRONLY))


async def fill(process: Process, piece: bytes) -> int:
    """Send pieces until no more is taken; the bytes that were."""
    taken = 0
    with pytest.raises(InputBackpressureError) as refused:
        while True:
            await process.send_input(piece)
            taken += len(piece)
    assert refused.value.code is ErrorCode.INPUT_BACKPRESSURE
    return taken


async def closed(process: Process) -> str:
    """It takes no input any more; what a sender is told."""
    with pytest.raises(StdinClosedError) as caught:
        await process.send_input(b"x")
    assert caught.value.code is ErrorCode.STDIN_CLOSED
    return str(caught.value)


# --- what is sent


async def test_all_that_was_sent_is_read_and_then_the_end(each_tier: Containment) -> None:
    """In order, in any pieces; the end can be asked for again, and after it nothing is taken."""
    data = os.urandom(900_000)
    async with supervising() as supervisor:
        process = await supervisor.start("cat", owner=OWNER, stdin="pipe")
        await process.send_input(b"")
        for start, end in ((0, 1), (1, 5000), (5000, 900_000)):
            await process.send_input(data[start:end])
        await process.close_input()
        assert "closed" in await closed(process)
        await process.close_input()
        assert (await process.wait()).exit_code == 0
        assert await output_of(process) == data
        assert "ended" in await closed(process)
        await process.close_input()


async def test_an_answer_to_each_question() -> None:
    """Nothing is held back: what is sent can be read at once."""
    async with supervising() as supervisor:
        process = await supervisor.start("while read line; do echo $((line + 1)); done", owner=OWNER, stdin="pipe")
        for number in range(20):
            await process.send_input(b"%d\n" % number)
            await wait_for_output(process, b"%d\n" % (number + 1))
        await process.close_input()
        assert (await process.wait()).exit_code == 0


async def test_senders_do_not_mix(gate: Path) -> None:
    """Each piece is whole, and each sender's are in its order, though all of it had to wait."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"cat <{gate}; exec cat", owner=OWNER, stdin="pipe")

        async def send(name: int) -> None:
            for number in range(50):
                await process.send_input(b"%02d %02d %s\n" % (name, number, b"x" * 993))

        async with anyio.create_task_group() as tasks:
            for name in range(10):
                tasks.start_soon(send, name)
        await process.close_input()
        opened(gate)
        await process.wait()
        lines = (await output_of(process)).splitlines()
        assert len(lines) == 500
        for name in range(10):
            own = [line for line in lines if line[:2] == b"%02d" % name]
            assert own == [b"%02d %02d %s" % (name, number, b"x" * 993) for number in range(50)]


async def test_a_cancelled_send_has_taken_nothing() -> None:
    """Of two tasks the other's is there, whole."""
    async with supervising() as supervisor:
        process = await supervisor.start("cat", owner=OWNER, stdin="pipe")
        for _ in range(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.send_input, b"kept\n")
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await process.send_input(b"cancelled\n")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await process.close_input()
        await process.send_input(b"still open\n")
        await process.close_input()
        assert await output_of(process) == b"kept\n" * 10 + b"still open\n"


async def test_what_is_no_bytes_is_refused_and_a_buffer_is_copied(gate: Path) -> None:
    """What the caller does with it afterwards changes nothing."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"cat <{gate}; exec cat", owner=OWNER, stdin="pipe")
        for wrong in ("text", None, 7, [1]):
            with pytest.raises(SupervisorError) as caught:
                await process.send_input(wrong)  # type: ignore[arg-type]  # what it is about
            assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
        buffer = bytearray(b"a" * 200_000)
        await process.send_input(buffer)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] -- not refused
        await process.send_input(memoryview(buffer)[:10])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        buffer[:] = b"b" * 200_000
        await process.close_input()
        opened(gate)
        assert await output_of(process) == b"a" * 200_010


# --- no room


async def test_what_never_reads_is_sent_no_more_than_the_limit(each_tier: Containment) -> None:
    """A piece is taken whole or not at all; nothing of it waits behind a stop, and the host's loop is free."""
    limit = 100_000
    async with supervising(limits=Limits(pending_input_bytes=limit)) as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER, stdin="pipe")
        with pytest.raises(InputBackpressureError, match="at most 100000"):
            await process.send_input(b"x" * (limit + 1))
        await process.send_input(b"x" * limit)
        taken = limit + await fill(process, b"x" * 10_000)
        assert limit + PIPE_BYTES - 10_000 < taken <= limit + PIPE_BYTES
        await process.send_input(b"")
        outcome = await process.stop()
        assert outcome is not None
        assert (outcome.state, outcome.signal) == (S.TERMINATED, signal.SIGTERM)
        assert "ended" in await closed(process)


async def test_the_end_comes_after_what_waits(gate: Path, each_tier: Containment) -> None:
    """Closing is not waited for, and nothing that was taken is lost by it."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"cat <{gate}; exec cat", owner=OWNER, stdin="pipe")
        taken = await fill(process, os.urandom(1000) * 100)
        await process.close_input()
        assert "closed" in await closed(process)
        assert process.state is S.RUNNING
        opened(gate)
        assert (await process.wait()).exit_code == 0
        data = await output_of(process)
        assert len(data) == taken
        assert data == data[:100_000] * (taken // 100_000)


async def test_room_is_there_again_once_it_reads(gate: Path) -> None:
    """Refused, and taken when some of it was read: 4 MiB through a limit of 64 KiB."""
    async with supervising(limits=Limits(pending_input_bytes=65_536)) as supervisor:
        process = await supervisor.start(f"cat <{gate}; exec cat", owner=OWNER, stdin="pipe")
        sent = await fill(process, b"y" * 65_536)
        opened(gate)
        while sent < 4 << 20:
            try:
                await process.send_input(b"y" * 65_536)
            except InputBackpressureError:
                await process.wait_output((await process.read_output(0, 1)).total)
            else:
                sent += 65_536
        await process.close_input()
        assert (await process.wait()).total_bytes == sent


def test_many_small_pieces_that_wait_take_no_more_than_their_bytes() -> None:
    """The limit counts bytes, so it must be bytes that wait."""
    reactor = Reactor()
    given = open_pipe(reactor, PIPE_BYTES)
    given.send(b"x" * PIPE_BYTES)
    tracemalloc.start()
    for _ in range(2000):
        given.send(b"y")
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 2000 <= taken < 50_000
    with pytest.raises(InputBackpressureError, match="2000 bytes"):
        given.send(b"z" * PIPE_BYTES)
    given.close()
    reactor.close()


async def test_a_fast_reader_does_not_hold_the_loop() -> None:
    """What it has room for is written in turns; here all of it would go at once."""
    room, data = 1 << 20, os.urandom(900_000)
    reactor = Reactor()
    given = open_pipe(reactor, 64 << 20)
    assert given.given is not None
    fcntl.fcntl(given.given, fcntl.F_SETPIPE_SZ, room)
    given.send(data)
    given.end()
    read = b""
    try:
        first = len(os.read(given.given, room))
        assert 0 < first < 600_000
        read = data[:first]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reactor.run)
            with anyio.fail_after(30):
                while len(read) < len(data):
                    await anyio.wait_readable(given.given)
                    read += os.read(given.given, room)
            tasks.cancel_scope.cancel()
        assert read == data
        assert os.read(given.given, 1) == b""
        assert not reactor._selector.get_map()  # pyright: ignore[reportPrivateUsage]
    finally:
        given.close()
        reactor.close()


async def test_what_nobody_foresaw_is_told_to_who_sends_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reactor asks no more for it: nothing waits for ever, and its number can be watched again."""
    reactor = Reactor()
    given = open_pipe(reactor, 64 << 20)
    assert given.given is not None
    raised = anyio.Event()

    def unforeseen(*_arguments: object) -> int:
        raised.set()
        raise RuntimeError

    given.send(b"x" * 500_000)
    given.end()
    os.read(given.given, 1 << 20)
    with monkeypatch.context() as patch:
        patch.setattr("lastword.supervisor.launch._input.write_quietly", unforeseen)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reactor.run)
            with anyio.fail_after(30):
                await raised.wait()
            tasks.cancel_scope.cancel()
    with pytest.raises(StdinClosedError, match="nobody foresaw"):
        given.send(b"more")
    assert not reactor._selector.get_map()  # pyright: ignore[reportPrivateUsage]
    given.close()
    reactor.close()


# --- closed by the process, or by its end


async def test_a_process_that_closes_its_input_first(each_tier: Containment) -> None:
    """It is told as closed, and the process is not the worse for it."""
    async with supervising() as supervisor:
        process = await supervisor.start("exec <&-; echo closed; exec sleep 60", owner=OWNER, stdin="pipe")
        await wait_for_output(process, b"closed\n")
        with pytest.raises(StdinClosedError, match="closed its input itself"):
            await process.send_input(b"x" * 1000)
        await process.close_input()
        assert "closed its input itself" in await closed(process)
        assert process.state is S.RUNNING


async def test_a_process_that_closes_its_input_while_some_of_it_waits(gate: Path) -> None:
    """That is dropped, and nothing goes on asking for room."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"cat <{gate}; exec <&-; echo closed; sleep 60", owner=OWNER, stdin="pipe")
        await fill(process, b"x" * 200_000)
        opened(gate)
        await wait_for_output(process, b"closed\n")
        await closed(process)
        watched = supervisor._works.reactor._selector.get_map()  # pyright: ignore[reportPrivateUsage]
        assert len(watched) == 3  # the zygote's socket and its pidfd, and the shim's socket


async def test_a_process_that_has_ended(gate: Path, each_tier: Containment) -> None:
    """By itself, by a stop, while something waits: closed, and the outcome is its own."""
    async with supervising() as supervisor:
        process = await supervisor.start("exit 3", owner=OWNER, stdin="pipe")
        assert (await process.wait()).exit_code == 3
        assert "ended" in await closed(process)
        process = await supervisor.start(f"cat <{gate}; echo over; exit 4", owner=OWNER, stdin="pipe")
        await process.send_input(b"x" * 500_000)
        opened(gate)
        outcome = await process.wait()
        assert (outcome.state, outcome.exit_code) == (S.EXITED, 4)
        assert "ended" in await closed(process)
        assert await output_of(process) == b"over\n"


async def test_one_that_was_restored_takes_no_input(tmp_path: Path) -> None:
    """It has ended."""
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start("cat", owner=OWNER, stdin="pipe")
        handle = process.handle
    async with supervising(tmp_path) as supervisor:
        process = supervisor.get(handle, OWNER)
        assert "it has ended" in await closed(process)
        await process.close_input()
        with pytest.raises(SupervisorError, match="it has ended") as caught:
            await process.resize(24, 80)
        assert caught.value.code is ErrorCode.PTY_UNAVAILABLE


async def test_a_kept_survivor_reads_the_end_once_the_last_word_is_said(
    tmp_path: Path, each_contained_tier: Containment
) -> None:
    """Nobody can send to it any more, so it must not wait."""
    async with supervising() as supervisor:
        process = await supervisor.start(
            f"exec 3<&0; (cat <&3 >{tmp_path}/read; : >{tmp_path}/done; exec sleep 60) & exit 0",
            owner=OWNER,
            stdin="pipe",
            survivors="keep",
        )
        await process.send_input(b"for the survivor")
        outcome = await process.wait()
        assert outcome.exit_code == 0
        assert outcome.survivors >= 1
        await until((tmp_path / "done").exists)
        assert (tmp_path / "read").read_bytes() in (b"for the survivor", b"")
        await closed(process)


async def test_closing_the_supervisor_drops_what_waits(each_tier: Containment) -> None:
    """It is stopped like any other, and nothing is left: `supervising` counts."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER, stdin="pipe")
        await fill(process, b"x" * 300_000)
    assert process.outcome is not None


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
    for _ in range(3):
        try:
            await process.send_input(b"x" * 100_000)
        except StdinClosedError:
            print("closed", flush=True)

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
        timeout=60,
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
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # it is gone: of our own, the one that the folder was listed by
            if str(entry.readlink()) == pipe and entry.lstat().st_mode & 0o200:
                found.add(int(entry.parts[2]))
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
        with stopped(zygote), stopped(shim):
            host.kill()
            host.wait()
            assert _writers(pipe) == {shim}
            assert alive(leader)
        with anyio.fail_after(30):
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
            outcome = await process.stop(mode)
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
