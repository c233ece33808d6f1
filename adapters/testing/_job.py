"""A job without a process: what its leader would do is what a test says.

Rules
- It stands where a process would, below the keeper: how a stop escalates, what is told as a stop and what as an exit,
  where output goes and who wakes is decided by the very code that decides it for a process.
- Nothing happens by itself.  What the test has it do is done at the event loop's next turn, and takes no time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from signal import Signals
from typing import Literal, final

import anyio
from anyio.lowlevel import checkpoint

from ...supervisor._errors import SpawnFailureKind
from ...supervisor.launch import LaunchSpec
from ._leader import ScriptedLeader


class ScriptedSpawnError(Exception):
    """Raise it in a `play`: the job cannot be spawned, and `start` raises `SpawnFailedError` of that `kind`."""

    def __init__(self, kind: SpawnFailureKind = "not_found", errno: int | None = None) -> None:
        super().__init__(kind, errno)
        self.kind: SpawnFailureKind = kind
        self.errno = errno


@final
class ScriptedJob:
    """A job that was started, in the test's hands; `ScriptedJobs` makes it.

    Its methods are called in the event loop.  What it cannot do any more, since it has ended, raises `RuntimeError`.
    """

    def __init__(self, spec: LaunchSpec, leader: ScriptedLeader) -> None:
        self._spec = spec
        self._leader = leader

    def __repr__(self) -> str:
        return f"<ScriptedJob {self.handle} {'running' if self.running else 'ended'}>"

    @property
    def handle(self) -> str:
        """That of its `Process`."""
        return self._spec.output_path.name

    @property
    def argv(self) -> tuple[str, ...]:
        """What a process would execute: a command that was a str is the last word, behind `/bin/sh -c`."""
        return self._spec.argv

    @property
    def env(self) -> Mapping[str, str]:
        """The environment that it would have."""
        return self._spec.env

    @property
    def cwd(self) -> str | None:
        """Where it would run; None is the host's."""
        return self._spec.cwd

    @property
    def running(self) -> bool:
        """Whether it has not ended, by itself or by a signal."""
        return self._leader.running

    @property
    def signals(self) -> tuple[Signals, ...]:
        """What it was sent so far, in order."""
        return tuple(self._leader.signals)

    def write(self, data: bytes, *, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        """Have it write `data`.  No pipe can be full, and who reads its output is woken at once."""
        self._leader.check_running()
        self._leader.put(data, int(stream == "stderr"))

    def exit(self, code: int = 0) -> None:
        """Have it exit with `code`, 0 to 255."""
        if not 0 <= code <= 255:
            raise ValueError("an exit code is 0 to 255; for the end by a signal call die()")
        self._leader.end(code << 8)

    def die(self, number: Signals = Signals.SIGKILL) -> None:
        """Have it die of a signal that this program has not sent."""
        self._leader.end(int(number))

    def on_signal(self, number: Signals, act: Callable[[], None] | None) -> None:
        """Have it call `act` when it is sent `number`, in place of dying of it; None: ignore it.

        SIGKILL can only be ignored, as by a process that is stuck in the kernel: a stop fails then
        (`TeardownFailedError`), and so does the runtime's end, until it is made to `die`.
        """
        if number is Signals.SIGKILL and act is not None:
            raise ValueError("nobody can handle SIGKILL; it can only be ignored: None")
        self._leader.handlers[number] = act

    async def read_input(self, max_bytes: int = 65536) -> bytes:
        """Return what it was sent, as soon as there is something; b"" at the end of its input.  A checkpoint.

        Cancelled: nothing was taken.  Raises `anyio.ClosedResourceError` where it has ended, meanwhile too.
        """
        await checkpoint()
        while True:
            stdin = self._leader.stdin
            if stdin is None:
                raise anyio.ClosedResourceError
            try:
                return os.read(stdin, max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(stdin)
