"""One life, lived by a process and by a scripted job: what a test has either do is the same."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from signal import Signals
from typing import Literal, Protocol, Unpack, final

import anyio
from supervising import HANG_SECONDS, nothing_left

import lastword
from lastword._runtime import StartOptions
from lastword.adapters.testing import ScriptedJob, ScriptedJobs
from lastword.supervisor import Limits

Stream = Literal["stdout", "stderr"]

# Does what it is told over a socket, line by line, and says when it is done.  It never waits for longer than a moment,
# so that a signal that comes just before it waits is dealt with, too.
LEADER = """
import os, select, signal, socket, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
control = socket.socket(socket.AF_UNIX)
control.connect(sys.argv[1])
lines = control.makefile("rb", buffering=0)

def answer(code):
    return lambda *_: os._exit(code)

while True:
    while not select.select([control], [], [], 0.05)[0]:
        pass
    word, *rest = lines.readline().split()
    done = b""
    if word == b"write":
        os.write(int(rest[0]), bytes.fromhex(rest[1].decode()))
    elif word == b"exit":
        os._exit(int(rest[0]))
    elif word == b"die":
        os.kill(os.getpid(), int(rest[0]))
        signal.pause()
    elif word == b"ignore":
        signal.signal(int(rest[0]), signal.SIG_IGN)
    elif word == b"answer":
        signal.signal(int(rest[0]), answer(int(rest[1])))
    elif word == b"read":
        done = os.read(0, 65536).hex().encode()
    control.sendall(done + b"\\n")
"""


class Life(Protocol):
    """What a test has a leader do; each returns once that is done."""

    async def write(self, data: bytes, stream: Stream = "stdout") -> None: ...
    async def exit(self, code: int) -> None: ...
    async def die(self, number: Signals) -> None: ...
    async def ignore(self, number: Signals) -> None: ...
    async def answer(self, number: Signals, code: int) -> None: ...
    async def read(self) -> bytes: ...


@final
class RealLife:
    """A process's."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control

    async def write(self, data: bytes, stream: Stream = "stdout") -> None:
        await self._ask(f"write {2 if stream == 'stderr' else 1} {data.hex()}")

    async def exit(self, code: int) -> None:
        self._control.sendall(f"exit {code}\n".encode())

    async def die(self, number: Signals) -> None:
        self._control.sendall(f"die {int(number)}\n".encode())

    async def ignore(self, number: Signals) -> None:
        await self._ask(f"ignore {int(number)}")

    async def answer(self, number: Signals, code: int) -> None:
        await self._ask(f"answer {int(number)} {code}")

    async def read(self) -> bytes:
        return bytes.fromhex((await self._ask("read")).decode())

    async def _ask(self, order: str) -> bytes:
        self._control.sendall(f"{order}\n".encode())  # a line or two of kilobytes: there is room
        answer = b""
        while not answer.endswith(b"\n"):
            await anyio.wait_readable(self._control)
            piece = self._control.recv(1 << 20)
            if not piece:
                break  # it was stopped for what it did
            answer += piece
        return answer


@final
class ScriptedLife:
    """A scripted job's."""

    def __init__(self, job: ScriptedJob) -> None:
        self.job = job

    async def write(self, data: bytes, stream: Stream = "stdout") -> None:
        self.job.write(data, stream=stream)

    async def exit(self, code: int) -> None:
        self.job.exit(code)

    async def die(self, number: Signals) -> None:
        self.job.die(number)

    async def ignore(self, number: Signals) -> None:
        self.job.on_signal(number, None)

    async def answer(self, number: Signals, code: int) -> None:
        self.job.on_signal(number, lambda: self.job.exit(code))

    async def read(self) -> bytes:
        return await self.job.read_input()


class Stage(Protocol):
    """A runtime, and the lives of what it starts."""

    runtime: lastword.Runtime

    async def start(self, **options: Unpack[StartOptions]) -> tuple[lastword.Process, Life]: ...


@final
class _RealStage:
    def __init__(self, runtime: lastword.Runtime, folder: Path, stack: ExitStack) -> None:
        self.runtime = runtime
        self._folder = folder
        self._stack = stack
        self._count = 0

    async def start(self, **options: Unpack[StartOptions]) -> tuple[lastword.Process, Life]:
        self._count += 1
        path = str(self._folder / f"control-{self._count}")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            command = [sys.executable, "-I", "-S", "-c", LEADER, path]
            process = await self.runtime.start(command, **options)
            await anyio.wait_readable(listener)
            control, _ = listener.accept()
        return process, RealLife(self._stack.enter_context(control))


@final
class _ScriptedStage:
    def __init__(self, runtime: lastword.Runtime, jobs: ScriptedJobs) -> None:
        self.runtime = runtime
        self._jobs = jobs

    async def start(self, **options: Unpack[StartOptions]) -> tuple[lastword.Process, Life]:
        process = await self.runtime.start(["leader"], **options)
        job = await self._jobs.next_job()
        assert job.handle == process.handle
        return process, ScriptedLife(job)


KINDS = ("process", "scripted")


@asynccontextmanager
async def staged(kind: str, folder: Path) -> AsyncGenerator[Stage]:
    """A stage of that kind, which must leave nothing."""
    # However slow the machine is, whoever answers a stop does so within its grace.
    limits = Limits(grace_seconds=HANG_SECONDS, pending_input_bytes=1 << 17)
    with nothing_left(), anyio.fail_after(HANG_SECONDS):
        if kind == "scripted":
            jobs = ScriptedJobs()
            async with lastword.open_runtime(launcher=jobs, limits=limits) as runtime:
                yield _ScriptedStage(runtime, jobs)
            return
        with ExitStack() as stack:
            async with lastword.open_runtime(limits=limits) as runtime:
                yield _RealStage(runtime, folder, stack)
