"""Hosts of the cases: each is a program that a test starts, talks to, and kills or lets go.

cases_host.py SCENE TIER BACKEND ARGUMENT...

What it prints are lines for the test.  It ends with 0 where all was right; what was not is on stderr.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

import lastword
from lastword.supervisor import (
    Containment,
    _opening,  # pyright: ignore[reportPrivateUsage] -- a runtime takes what its machine can have
)
from lastword.supervisor.launch import launcher_of

Scene = Callable[..., Awaitable[None]]

# A host whose test has gone must not stay.
HANG_SECONDS = 100.0


def say(*words: object) -> None:
    """A line for the test."""
    print(*words, flush=True)  # noqa: T201 -- that is how it is told


async def output(process: lastword.Process) -> bytes:
    """All that is kept of a process's output."""
    return b"".join([chunk.data async for chunk in process.follow()])


# --- a terminal


async def in_a_terminal() -> None:
    """The host of a terminal, which hears what its keys send; jobs must not."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    heard: dict[int, anyio.Event] = {
        number: anyio.Event() for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP)
    }
    reading, writing = os.pipe()
    async with lastword.open_runtime() as runtime, anyio.create_task_group() as tasks:
        gate = f"/proc/{os.getpid()}/fd/{reading}"
        # The number of the job's own terminal is in its stat; 0 is none.
        process = await runtime.start(f"cut -d' ' -f7 /proc/$$/stat; cat {gate}; echo ok")
        await process.wait_output(0)

        async def hear() -> None:
            with anyio.open_signal_receiver(*map(signal.Signals, heard)) as signals:
                say("ready")
                async for number in signals:
                    heard[number].set()

        tasks.start_soon(hear)
        for number, event in heard.items():
            await event.wait()
            say("heard", signal.Signals(number).name)
        os.close(writing)
        outcome = await process.wait()
        say(outcome.state.name, outcome.exit_code, await output(process))
        tasks.cancel_scope.cancel()
    os.close(reading)


async def asks_the_terminal() -> None:
    """The host has a terminal; a job that asks for it gets none, and says so."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    async with lastword.open_runtime() as runtime:
        process = await runtime.start("read x </dev/tty; echo got; echo shown >/dev/tty", env={"LC_ALL": "C"})
        with anyio.fail_after(60):
            outcome = await process.wait()
        shown = await output(process)
        assert outcome.exit_code, outcome
        assert shown.count(b"No such device or address") >= 1, shown
        say("failed, and said No such device or address")


# --- its death


async def dies(state: str, mark: str, count: str, then: str) -> None:
    """Start jobs whose trees have left their leaders in every way; then wait to be killed, or end in some way."""
    limits = lastword.Limits(running_per_loop=64, running_per_session=64, spool_bytes=1 << 16)
    async with lastword.open_runtime(None if state == "headless" else state, limits=limits) as runtime:
        for number in range(int(count)):
            process = await runtime.start(_TREE.format(mark), background=number % 2 == 0)
            say(process.handle, process.command_id)
            await process.wait_output(0)
        say("all")
        await _end_by(then)


_TREE = (
    "setsid sleep {0} & nohup sleep {0} >/dev/null 2>&1 & (sleep {0} &); "
    "env -i setsid -f sh -c 'sleep {0} & exec sleep {0}' <&- >&- 2>&-; "
    "sh -c 'trap \"\" TERM INT HUP; sleep {0} & wait; :' & sleep 0.05; echo up; sleep {0}; :"
)


async def _end_by(then: str) -> None:
    if then == "exit":
        os._exit(0)
    if then == "abort":
        os.abort()
    await anyio.sleep_forever()


async def dies_starting(state: str, mark: str, count: str) -> None:
    """Start jobs on several tasks, and say when so many have been; and go on, far beyond what is seen of it."""
    limits = lastword.Limits(running_per_loop=500, running_per_session=500, spool_bytes=4096)
    started = 0
    async with lastword.open_runtime(state, limits=limits) as runtime, anyio.create_task_group() as tasks:

        async def start() -> None:
            nonlocal started
            while started < int(count) + 200:
                process = await runtime.start(f"setsid sleep {mark} & sleep {mark}")
                say(process.handle)
                started += 1
                if started == int(count):
                    say("now")
            await anyio.sleep_forever()

        for _ in range(4):
            tasks.start_soon(start)


async def dies_stopping(state: str, mark: str) -> None:
    """Stop a job that does not hear, and say so while its grace runs."""
    async with lastword.open_runtime(state) as runtime:
        process = await runtime.start(f"trap '' TERM; setsid sleep {mark} & echo up; while :; do sleep {mark}; done")
        await process.wait_output(0)
        say(process.handle)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: process.stop(grace=600.0))
            await anyio.wait_all_tasks_blocked()
            say("now")


async def one_job(state: str, seconds: str) -> None:
    """Start one job, say what is known of it and the number of its leader, and wait."""
    async with lastword.open_runtime(state) as runtime:
        process = await runtime.start(f"echo $$; exec sleep {seconds}", background=True)
        await process.wait_output(0)
        say(process.handle, process.command_id, int((await process.read_output()).data))
        await anyio.sleep_forever()


async def looks_only(state: str) -> None:
    """Open what a killed host has left, and say everybody who is signalled by it: nobody should be."""
    signalled: list[object] = []

    def note(name: str) -> None:
        inner = getattr(signal if name.startswith("pidfd") else os, name)

        def noted(*arguments: object) -> object:
            signalled.append((name, arguments[0]))
            return inner(*arguments)

        setattr(signal if name.startswith("pidfd") else os, name, noted)

    for name in ("kill", "killpg", "pidfd_send_signal"):
        note(name)
    async with lastword.open_runtime(state) as runtime:
        for process in runtime.supervisor.list(runtime.loop):
            for mode in lastword.StopMode:
                await process.stop(mode)
        say(len(runtime.supervisor.list(runtime.loop)), signalled)


# --- other people's children


async def ignores_its_children(state: str) -> None:
    """SIGCHLD is ignored, which throws statuses away; and once more as a thread would find it, in between."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    async with lastword.open_runtime(None if state == "headless" else state) as runtime:
        await _exits(runtime, 20)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        await _exits(runtime, 5)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        await _exits(runtime, 5)


async def waits_for_anybody(state: str, count: str) -> None:
    """A thread takes every child that ends."""
    over = threading.Event()

    def take() -> None:
        while not over.wait(0.0002):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)

    thread = threading.Thread(target=take)
    thread.start()
    try:
        async with lastword.open_runtime(None if state == "headless" else state) as runtime:
            await _exits(runtime, int(count))
    finally:
        over.set()
        thread.join()


async def _exits(runtime: lastword.Runtime, count: int) -> None:
    """Jobs that exit with 3, five at once: each is told, truly or as unknown, and what is told is said."""
    told: list[tuple[str, int | None, str]] = []

    async def some() -> None:
        for _ in range(count // 5):
            process = await runtime.start("exit 3")
            with anyio.fail_after(60):
                outcome = await process.wait()
            told.append((outcome.state.name, outcome.exit_code, outcome.diagnostic))
            await (await runtime.loop.receive()).ack()

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(some)
    say(len(told), sorted(set(told), key=str))


async def adopts(count: str) -> None:
    """It is a subreaper."""
    import ctypes

    assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
    await _with_orphans(int(count))


async def is_first(count: str) -> None:
    """It is process 1 of a namespace of its own."""
    assert os.getpid() == 1
    await _with_orphans(int(count))


async def _with_orphans(count: int) -> None:
    async with lastword.open_runtime(limits=lastword.Limits(retained_completed=5)) as runtime:
        own = [subprocess.Popen(["sh", "-c", f"sleep 0.{number}; exit {5 + number}"]) for number in range(4)]

        async def some() -> None:
            for number in range(count // 5):
                command = ("(sleep 0.1 &) ; exit 0", "setsid -f sleep 0.1; exit 0")[number % 2]
                outcome = await (await runtime.start(command)).wait()
                assert (outcome.state.name, outcome.exit_code) == ("EXITED", 0), outcome

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(some)
        codes = [await anyio.to_thread.run_sync(popen.wait) for popen in own]
        with anyio.fail_after(60):
            while zombies():  # noqa: ASYNC110 -- nobody sets an event
                await anyio.sleep(0.01)
        say("codes", codes)
    with anyio.fail_after(60):
        while zombies():  # noqa: ASYNC110 -- as above
            await anyio.sleep(0.01)
    say("no zombies")


def zombies() -> list[str]:
    """Children of this process that it ought to have reaped."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = path.read_text().rpartition(") ")
            if rest.split()[:2] == ["Z", str(os.getpid())]:
                found.append(name)
    return found


# --- descriptors


async def is_short_of_descriptors() -> None:
    """With nearly none left a start says so by EMFILE; with some again everything works, and nothing has been lost."""
    async with lastword.open_runtime(limits=lastword.Limits(retained_completed=5)) as runtime:
        assert (await (await runtime.start("exit 3")).wait()).exit_code == 3
        await (await runtime.loop.receive()).ack()
        before = descriptors()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        refused, said = 0, list[str]()
        for left in [*range(10), 0, 0, 0]:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(before) + 1 + left, hard))
            taken: list[int] = []
            with contextlib.suppress(OSError):
                while len(taken) < max(before) - len(before) + 1:
                    taken.append(os.dup(2))  # the gaps
            try:
                process = await runtime.start("exit 3")
            except lastword.SpawnFailedError as error:
                refused += (error.kind, error.errno) == ("resources", errno.EMFILE)
                said.append(str(error))
            else:
                assert (await process.wait()).exit_code == 3
            for descriptor in taken:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert (await (await runtime.start("exit 3")).wait()).exit_code == 3
        assert refused == len(said) >= 3, said
        after = descriptors()
        assert len(after) <= len(before), (before, after)
        say("refused and recovered")


def descriptors() -> list[int]:
    """The numbers that are open, but the one that looks."""
    with os.scandir("/proc/self/fd") as entries:
        found = [int(entry.name) for entry in entries]
    return [number for number in found if os.path.exists(f"/proc/self/fd/{number}")]  # noqa: PTH110 -- a link


# --- its end


async def leaves(then: str, mark: str) -> None:
    """Leave a block in which jobs run, in every way that Python complains about if something was forgotten."""
    async with lastword.open_runtime() as runtime:
        for _ in range(2):
            await runtime.start(f"sleep {mark}", stdin=b"x" * 1000)
            await (await runtime.start(f"sleep {mark}", stdin="pipe")).send_input(b"x" * 100_000)
            await (await runtime.start(f"sleep {mark}", pty=True)).send_input(b"x" * 1000)
        await (await runtime.start(f"sleep {mark} & exit 0", survivors="keep")).wait()
        if then == "error":
            raise ZeroDivisionError


SCENES: dict[str, Scene] = {
    scene.__name__: scene
    for scene in (
        *(in_a_terminal, asks_the_terminal),
        *(dies, dies_starting, dies_stopping, one_job, looks_only),
        *(ignores_its_children, waits_for_anybody, adopts, is_first),
        *(is_short_of_descriptors, leaves),
    )
}


def main(name: str, tier: str, backend: str, *arguments: str) -> None:
    """Play a scene."""
    setattr(_opening, "strongest_launcher", launcher_of(Containment[tier]))  # noqa: B010 -- what a machine can have

    async def bounded() -> None:
        with anyio.fail_after(HANG_SECONDS):
            await SCENES[name](*arguments)

    anyio.run(bounded, backend=backend)


if __name__ == "__main__":
    main(*sys.argv[1:])
