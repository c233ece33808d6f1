"""Input while a job runs, and jobs that have a terminal (stdin, pty, buffering; signal, fork, fd)."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from cases_ground import every_tier, gone, pids_of, sizes, together, within
from supervising import OWNER, no_descriptor_left, output_of, supervising, told, until, wait_for_output

from lastword.notifier import ProcessState
from lastword.supervisor import (
    Containment,
    ErrorCode,
    InputBackpressureError,
    Limits,
    StdinClosedError,
    StopMode,
    Supervisor,
    SupervisorError,
    TerminalSize,
)

S = ProcessState


# --- C23: Ctrl-C


@every_tier
async def test_c23_an_interrupt_reaches_what_is_in_the_foreground(mark: str) -> None:
    """Where Ctrl-C is a byte like any other, and where it is not; in the leader's own group, and in another."""
    async with supervising() as supervisor:
        for mode in ("-isig", "raw -echo", "isig"):
            # A shell executes its last command in its own place; one before it gets a group of its own.
            for then in ("", "; exit $?"):
                process = await supervisor.start(
                    ["bash", "--norc", "--noprofile", "-ic", f"stty {mode}; echo $$; sleep {mark}{then}"],
                    owner=OWNER,
                    pty=True,
                )
                (leader,) = await pids_of(process)
                await until(partial(_runs_sleep, leader))
                if mode != "isig":
                    await process.send_input(b"\x03")
                with within(1):
                    outcome = await process.stop(StopMode.INTERRUPT)
                assert outcome is not None
                assert outcome.state is S.INTERRUPTED
                with within(1):
                    await gone(f"sleep\0{mark}")
                # What a shell that leaves a list of commands undone says is its own affair.
                assert outcome.exit_code in ((130, 1) if then else (130,)) or outcome.signal == signal.SIGINT


def _runs_sleep(leader: int) -> bool:
    own = psutil.Process(leader)
    with suppress(psutil.NoSuchProcess):  # a child has ended meanwhile
        return any(process.name() == "sleep" for process in (own, *own.children()))
    return False


# --- C51: buffering


@every_tier
async def test_c51_block_buffering(tmp_path: Path) -> None:
    """To a pipe Python says nothing yet, and runs; on a terminal, or asked not to wait, it says it at once."""
    program = f"import time; print('a'); open({str(tmp_path / 'said')!r}, 'w').close(); time.sleep(60)"
    command = [sys.executable, "-c", program]
    at_once: list[tuple[dict[str, Any], bytes]] = [
        ({"pty": True}, b"a\r\n"),
        ({"env": {"PYTHONUNBUFFERED": "1"}}, b"a\n"),
    ]
    async with supervising() as supervisor:
        process = await supervisor.start(command, owner=OWNER)
        await until((tmp_path / "said").exists)
        chunk = await process.read_output()
        assert (chunk.data, chunk.total, chunk.ended, process.state) == (b"", 0, False, S.RUNNING)
        for options, line in at_once:
            told_at_once = await supervisor.start(command, owner=OWNER, **options)
            with within(1):
                await wait_for_output(told_at_once, line)
            assert told_at_once.state is S.RUNNING
        assert (await process.read_output()).total == 0


# --- C57: input that nobody reads


@every_tier
async def test_c57_input_after_the_end() -> None:
    """Typed, and the outcome is what it was; before the end it is taken, and nobody minds that it is not read."""
    async with _no_sigpipe(), supervising() as supervisor:
        process = await supervisor.start("true", owner=OWNER, stdin="pipe")
        outcome = await process.wait()
        with pytest.raises(StdinClosedError) as caught:
            await process.send_input(b"x" * 100_000)
        assert caught.value.code is ErrorCode.STDIN_CLOSED
        assert process.outcome is outcome
        assert (outcome.state, outcome.exit_code) == (S.EXITED, 0)
        for command in ("exec <&-; sleep 0.1", "head -c 10 >/dev/null", "sleep 0.1"):
            process = await supervisor.start(command, owner=OWNER, stdin="pipe")
            with pytest.raises((StdinClosedError, InputBackpressureError)):
                while True:
                    await process.send_input(b"x" * 100_000)
            outcome = await process.wait()
            assert (outcome.state, outcome.exit_code, outcome.signal) == (S.EXITED, 0, None)


@asynccontextmanager
async def _no_sigpipe() -> AsyncGenerator[None]:
    """The host takes that signal while the block lasts, and gets none."""
    heard: list[int] = []
    before = signal.signal(signal.SIGPIPE, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, before)
    assert heard == []


# --- C58, C59, C60: a true terminal


@every_tier
async def test_c58_a_line_that_a_terminal_would_cut() -> None:
    """Refused before anything of it is typed; without lines it is read whole."""
    async with supervising() as supervisor:
        process = await supervisor.start("read x; echo ${#x}", owner=OWNER, pty=True)
        for typed in (b"a" * 6000 + b"\n", b"a" * 4096):
            with pytest.raises(SupervisorError, match="4095") as caught:
                await process.send_input(typed)
            assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
        await process.send_input(b"a" * 4095 + b"\n")
        assert (await process.wait()).exit_code == 0
        assert (await output_of(process)).endswith(b"\r\n4095\r\n")
        process = await supervisor.start("stty raw -echo; echo up; read x; echo ${#x}", owner=OWNER, pty=True)
        await wait_for_output(process, b"up\n")
        await process.send_input(b"a" * 6000 + b"\n")
        assert (await process.wait()).exit_code == 0
        assert await output_of(process) == b"up\n6000\n"


@every_tier
async def test_c59_a_terminal_or_an_error() -> None:
    """With it there is one, without it there is none; where it cannot be had, nothing runs in its stead."""
    command = "test -t 0 && test -t 1 && echo tty"
    async with supervising() as supervisor:
        for pty, code, shown in ((True, 0, b"tty\r\n"), (False, 1, b"")):
            process = await supervisor.start(command, owner=OWNER, pty=pty)
            assert (await process.wait()).exit_code == code
            assert await output_of(process) == shown
        known = len(supervisor.list(OWNER))
        with no_descriptor_left(), pytest.raises(SupervisorError) as caught:
            await supervisor.start(command, owner=OWNER, pty=True)
        assert caught.value.code is ErrorCode.PTY_UNAVAILABLE
        assert len(supervisor.list(OWNER)) == known


@every_tier
@sizes(5, 50)
async def test_c60_the_size_is_there_before_the_program(count: int) -> None:
    """Each time; a default that is not 0 x 0; and a new one is told."""
    async with supervising(limits=Limits(spool_bytes=4096)) as supervisor:
        for _ in range(count):
            process = await supervisor.start("stty size", owner=OWNER, pty=TerminalSize(rows=40, cols=120))
            assert (await process.wait()).exit_code == 0
            assert await output_of(process) == b"40 120\r\n"
        process = await supervisor.start("stty size", owner=OWNER, pty=True)
        assert (await process.wait()).exit_code == 0
        assert await output_of(process) == b"24 80\r\n"
        process = await supervisor.start(
            "trap 'stty size' WINCH; echo up; while :; do sleep 0.01; done", owner=OWNER, pty=True
        )
        await wait_for_output(process, b"up\r\n")
        await process.resize(50, 132)
        await wait_for_output(process, b"50 132\r\n")


# --- C75: starts beside threads


@every_tier
@sizes(50, 500)
async def test_c75_terminals_beside_threads(count: int, recwarn: pytest.WarningsRecorder) -> None:
    """Sixteen threads allocate and log: nothing warns, hangs or forks this process, and no terminal is left."""
    gc.collect()  # what others have forgotten is no matter of this one
    recwarn.clear()
    forks: list[int] = []
    over = threading.Event()
    os.register_at_fork(before=lambda: forks.append(os.getpid()) if not over.is_set() else None)
    before = _terminals_held()
    with _sixteen_threads(over):
        async with supervising(limits=Limits(retained_completed=5, spool_bytes=4096)) as supervisor:

            async def some(number: int) -> None:
                for _ in range(number):
                    process = await supervisor.start("true", owner=OWNER, pty=True)
                    assert (await process.wait()).exit_code == 0

            await together(partial(some, count // 5) for _ in range(5))
            told(supervisor.outbox)
            with within(2):
                await until(lambda: _terminals_held() <= before)  # a keeper leaves a moment after its job
    assert forks == []
    assert [str(warning.message) for warning in recwarn] == []


@contextmanager
def _sixteen_threads(over: threading.Event) -> Generator[None]:
    def work() -> None:
        while not over.wait(0.001):
            assert len([bytearray(512) for _ in range(200)]) == 200

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _terminals_held() -> int:
    """How many descriptors of terminals, of either side, this process and all below it hold: none open, none there."""
    count = 0
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        try:
            links = [os.readlink(entry) for entry in Path(f"/proc/{process.pid}/fd").iterdir()]  # noqa: PTH115 -- they vanish
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
        count += sum(link.startswith(("/dev/ptmx", "/dev/pts/")) for link in links)
    return count


# --- C77: the other ends of pipes


@every_tier
@sizes(8, 50)
async def test_c77_no_sibling_holds_an_end_of_its_pipe(count: int, mark: str) -> None:
    """Started at once with others that live on: each reads its end as soon as it is closed."""
    limits = Limits(running_per_loop=200, running_per_session=200, spool_bytes=4096)
    async with supervising(limits=limits) as supervisor:
        await together(partial(_pair, supervisor, mark) for _ in range(count))


async def _pair(supervisor: Supervisor, mark: str) -> None:
    reader = await supervisor.start("cat", owner=OWNER, stdin="pipe")
    sleeper = await supervisor.start(f"echo $$; exec sleep {mark}", owner=OWNER, stdin="pipe")
    (pid,) = await pids_of(sleeper)
    await reader.send_input(b"x")
    with within(5):  # of many at once; the figure is of one
        await reader.close_input()
        assert (await reader.wait()).exit_code == 0
    assert sleeper.state is S.RUNNING
    await until(lambda: sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2"])  # noqa: PTH208 -- names


@every_tier
async def test_c77_one_reads_its_end_at_once(tier: Containment, mark: str) -> None:
    """While another, which was started after it, lives."""
    async with supervising() as supervisor:
        reader = await supervisor.start("cat", owner=OWNER, stdin="pipe")
        with_terminal = await supervisor.start(f"echo $$; exec sleep {mark}", owner=OWNER, pty=True)
        (pid,) = await pids_of(with_terminal)
        with within(0.5):
            await reader.close_input()
            assert (await reader.wait()).exit_code == 0
        assert with_terminal.state is S.RUNNING
        await until(lambda: sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2"])  # noqa: PTH208 -- names
