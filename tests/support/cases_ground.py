"""What the tests of cases share: tiers, runtimes, marked processes, processes that cannot be killed, own hosts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import psutil
import pytest
from crash_hosts import SUPPORT, support_environment
from supervising import HANG_SECONDS, nothing_left, until

import lastword
from lastword.notifier import ProcessCompletionNotification, ProcessEvent
from lastword.supervisor import Containment
from lastword.supervisor.launch import _interpreter  # pyright: ignore[reportPrivateUsage] -- where helpers are run
from lastword.supervisor.shim import _keeper  # pyright: ignore[reportPrivateUsage] -- how long it waits

PYTHON: Final = [sys.executable, "-IS"]

# How many times slower than a case's figure a loaded machine may be, and what anything may take there at least: what
# must not be waited for takes minutes.  The figures themselves are measured in `bench/`.
PATIENCE: Final = 10
LEAST_SECONDS: Final = 30.0

_Test = TypeVar("_Test", bound=Callable[..., Any])

TIERS: Final = "tiers"
"""The attribute of a test that says by which ways of holding processes it is run; the cases' conftest reads it."""


def _of(*tiers: Containment) -> Callable[[_Test], _Test]:
    def decorate(test: _Test) -> _Test:
        setattr(test, TIERS, tiers)
        marked: _Test = pytest.mark.usefixtures("tier")(test)
        return marked

    return decorate


every_tier = _of(*Containment)
"""The case is met by every way of holding processes."""

contained = _of(*(tier for tier in Containment if tier.proven))
"""The case is met by the ways that hold a whole tree."""

group_tier = _of(Containment.PROCESS_GROUP)
"""What the weakest way says where it cannot meet the case."""


def within(seconds: float) -> AbstractContextManager[anyio.CancelScope]:
    """The time that a case gives, on a machine of today with others on it."""
    return anyio.fail_after(max(seconds * PATIENCE, LEAST_SECONDS))


def sizes(few: int, full: int) -> pytest.MarkDecorator:
    """`count`: all of it under `make prove`, a tenth or so under `make test`."""
    marks = (pytest.mark.prove, pytest.mark.timeout(900))
    return pytest.mark.parametrize("count", [few, pytest.param(full, marks=marks)])


# --- whole runtimes


@asynccontextmanager
async def running_in(state: Path | None, **limits: Any) -> AsyncGenerator[lastword.Runtime]:
    """A runtime for a block that must leave nothing and must not hang; `limits` are `Limits`, the rest its own.

    Its tier is that of the fixture.
    """
    options = {name: limits.pop(name) for name in ("clock", "journal", "require") if name in limits}
    with nothing_left(), anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(state, limits=lastword.Limits(**limits), **options) as runtime:
            yield runtime


async def story_of(runtime: lastword.Runtime) -> dict[str, list[ProcessEvent]]:
    """Every event in the journal by its process, in order, once all that happened is there."""
    await runtime.supervisor.outbox.wait_empty()
    story: dict[str, list[ProcessEvent]] = {}
    async for delivery in runtime.session.replay():
        assert isinstance(delivery.event, ProcessEvent)
        story.setdefault(delivery.event.process.process_handle, []).append(delivery.event)
    return story


def words(events: Iterable[ProcessEvent]) -> list[str]:
    """The types of events."""
    return [type(event).__name__ for event in events]


async def told_once(runtime: lastword.Runtime, count: int) -> dict[str, ProcessCompletionNotification]:
    """`count` notices of as many processes, acknowledged; and there is no other."""
    told: dict[str, ProcessCompletionNotification] = {}
    for _ in range(count):
        notice = await runtime.loop.receive()
        assert notice.notification.process_handle not in told
        told[notice.notification.process_handle] = notice.notification
        await notice.ack()
    await nothing_more(runtime.loop)
    return told


async def nothing_more(loop: lastword.Loop) -> None:
    """The window has been read, and nothing is on offer."""
    await anyio.wait_all_tasks_blocked()
    with pytest.raises(anyio.WouldBlock):
        loop.receive_nowait()


async def together(acts: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Do all of `acts` at once."""

    async def run(act: Callable[[], Awaitable[object]]) -> None:
        await act()

    async with anyio.create_task_group() as tasks:
        for act in acts:
            tasks.start_soon(run, act)


async def pids_of(process: lastword.Process, count: int = 1) -> list[int]:
    """The numbers, one a line, that a process has written first."""
    while True:
        chunk = await process.read_output()
        lines = chunk.data.split(b"\n")[:-1]
        if len(lines) >= count:
            return [int(line) for line in lines[:count]]
        assert not chunk.ended, f"ended, and has written {chunk.data!r}"
        await process.wait_output(chunk.total)


# --- keepers with a room of their own


def own_room(monkeypatch: pytest.MonkeyPatch, place: Path) -> Path:
    """A copy of what keepers execute, for them to execute in the test, and for it to change."""
    shutil.copytree(Path(_interpreter.__file__).parents[1] / "shim", place / "shim")
    monkeypatch.setattr(_interpreter, "_ROOM", str(place))
    return place / "shim"


def keepers_have(monkeypatch: pytest.MonkeyPatch, place: Path, **constants: float) -> None:
    """Keepers, in shims and in this process, wait as `constants` of their module say; `place` is for a room."""
    with (own_room(monkeypatch, place) / "_keeper.py").open("a") as file:
        for name, value in constants.items():
            monkeypatch.setattr(_keeper, name, value)
            file.write(f"{name} = {value}\n")


# --- processes with a mark


def running(mark: str) -> list[int]:
    """The live processes whose command line has `mark`: a look at all of them, without any help of the library's."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                line = (folder / "cmdline").read_bytes()  # a zombie has none
            except OSError:
                continue
            if mark.encode() in line:
                found.append(int(folder.name))
    return found


async def gone(mark: str) -> None:
    """Until nobody has the mark; bounded by the caller."""
    await until(lambda: not running(mark))


def end_marked(mark: str) -> set[int]:
    """Kill whoever has it, for good; who they were."""
    ended: set[int] = set()
    while pids := running(mark):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended.update(pids)
    return ended


@contextmanager
def unkillable(pid: int) -> Generator[None]:
    """While the block lasts `pid` does not end, whatever kills it: at its very end a tracer holds it in the kernel.

    SIGKILL is taken, and the process stays, as it does in a broken device or network file system.  Needs no privilege
    where `pid` has said that everybody may trace it (`TRACEABLE`).
    """
    with subprocess.Popen(
        [*PYTHON, "-c", _TRACER, str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tracer:
        assert tracer.stdin is not None
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == "holds\n"
        try:
            yield
        finally:
            tracer.stdin.close()
            tracer.wait()


_TRACER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
if libc.ptrace(0x4206, int(sys.argv[1]), None, 0x40):  # PTRACE_SEIZE with PTRACE_O_TRACEEXIT
    raise OSError(ctypes.get_errno(), "ptrace")
print("holds", flush=True)
sys.stdin.read()
"""

TRACEABLE = [
    *PYTHON,
    "-c",
    "import ctypes, os, time; ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1)); "  # PR_SET_PTRACER, any
    "print(os.getpid(), flush=True); time.sleep(300)",
]
"""A job that writes its number and sleeps, and that `unkillable` can hold."""


# --- hosts of their own


class Host:
    """A scene of `cases_host.py` in a process of its own."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self.popen = popen

    def line(self) -> str:
        """Its next line, without the end; raises where it has ended instead."""
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        assert line, f"the host has ended: {self.popen.wait()}"
        return line.rstrip("\n")

    def family(self) -> list[psutil.Process]:
        """It, and every process below it now; each stays itself whatever becomes of its number."""
        own = psutil.Process(self.popen.pid)
        while True:
            try:
                return [own, *own.children(recursive=True)]
            except psutil.NoSuchProcess as error:  # one has ended while it was looked at
                if error.pid == own.pid:
                    raise

    def end(self, number: int = signal.SIGKILL) -> int:
        """Signal it; its exit code once it has ended."""
        self.popen.send_signal(number)
        return self.popen.wait()

    def succeed(self) -> None:
        """It must end by itself, and well."""
        assert self.popen.wait() == 0


@contextmanager
def host(
    scene: str,
    tier: Containment,
    backend: str,
    *arguments: str | Path,
    before: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    terminal: int | None = None,
    stderr: int | None = None,
) -> Generator[Host]:
    """Have `scene` played; what it prints are lines for the test, what it says on stderr is shown by pytest.

    `before` is a command that executes it, `env` what its environment has besides, `terminal` one for it alone.
    """
    own = [sys.executable, str(SUPPORT / "cases_host.py"), scene, tier.name, backend, *map(str, arguments)]
    with subprocess.Popen(
        [*before, *own],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**support_environment(), **(env or {})},
        start_new_session=terminal is not None,
    ) as process:
        try:
            yield Host(process)
        finally:
            process.kill()
