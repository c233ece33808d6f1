"""The command line as users have it: in a pipe, or on a real terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
from click.testing import CliRunner

from lastword.adapters.cli import main

COMMAND = (sys.executable, "-W", "error", "-m", "lastword")

# Nothing here takes so long, on a machine with many others on it either: it only ends what hangs.
HANG_SECONDS = 90.0

# The shell opens the terminal as its controlling one, since it leads a new session, and becomes the command.
_ON_TERMINAL = 'terminal="$0"; exec "$@" <"$terminal" >"$terminal" 2>&1'


class Ground:
    """One state directory, and the command on it."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {**os.environ, "TERM": "xterm-256color", "LASTWORD_STATE": str(self.state), **(more or {})}

    def run(
        self, *arguments: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """The command, to its end, with pipes."""
        return subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            env=self.environment(env),
            timeout=HANG_SECONDS,
            check=False,
        )

    def here(self, *arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, bytes, bytes]:
        """The command in this process, for those that need no descriptor of their own: code, output, notes."""
        with CliRunner().isolation(env=self.environment(env)) as (out, notes, _):
            try:
                main(arguments)
            except SystemExit as end:
                code = end.code
            return code if isinstance(code, int) else 0, out.getvalue(), notes.getvalue()

    def out(self, *arguments: str) -> str:
        """What a command that must succeed prints; in this process."""
        code, out, notes = self.here(*arguments)
        assert (code, notes) == (0, b""), (code, out, notes)
        return out.decode()

    def objects(self, *arguments: str) -> list[dict[str, Any]]:
        """What it prints with `--json`."""
        return [json.loads(line) for line in self.out(*arguments, "--json").splitlines()]

    def start(self, *arguments: str, **options: Any) -> Running:
        """The command, with pipes, for as long as it runs."""
        pipe = subprocess.PIPE
        settings: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": pipe,
            "stderr": pipe,
            "env": self.environment(),
        }
        return Running([*COMMAND, *arguments], **settings | options)

    def on_terminal(self, *arguments: str, env: Mapping[str, str] | None = None) -> OnTerminal:
        """The command on a terminal of its own."""
        return OnTerminal(arguments, self.environment(env))


class Running(subprocess.Popen[bytes]):
    """A command that a failed test does not wait for."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, trace)


class OnTerminal:
    """A command whose controlling terminal this is; the end of the block hangs up."""

    def __init__(
        self, arguments: tuple[str, ...], environment: dict[str, str], *, command: tuple[str, ...] = COMMAND
    ) -> None:
        self.master, slave = os.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(slave)
        self.name = os.ttyname(slave)
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", _ON_TERMINAL, self.name, *command, *arguments],
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        # Kept, as a terminal's window keeps it: else the master would read an error until the command has opened it.
        self._slave = slave
        self.shown = b""
        self._read_to = 0

    def expect(self, needle: bytes) -> bytes:
        """What is shown until `needle` is, from where the last `expect` ended."""
        deadline = time.monotonic() + HANG_SECONDS
        while (at := self.shown.find(needle, self._read_to)) < 0:
            assert time.monotonic() < deadline, (needle, self.shown)
            ended = self.process.poll() is not None
            assert self.take(1.0) or not ended, (needle, self.shown)
        begin, self._read_to = self._read_to, at + len(needle)
        return self.shown[begin : self._read_to]

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def resize(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def attributes(self) -> list[Any]:
        """How the terminal is set."""
        return termios.tcgetattr(self._slave)

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self._slave)
        os.close(self.master)
        self.master = self._slave = -1

    def wait(self) -> int:
        """Its exit code, minus the signal's number where it died of one; all that it has shown is there then."""
        deadline = time.monotonic() + HANG_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown
            if self.master >= 0:
                self.take(0.05)
            else:
                time.sleep(0.01)
        while self.master >= 0 and self.take(0):
            pass
        return self.process.returncode

    def take(self, patience: float) -> bool:
        """Read what is shown, after so long a wait for it at most; whether there was something."""
        if not select.select([self.master], [], [], patience)[0]:
            return False
        self.shown += os.read(self.master, 65536)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.master >= 0:
            self.hang_up()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


def gone(pid: int) -> None:
    """Return when that process is no more, or only its remains, which a container's first process may never take."""
    deadline = time.monotonic() + HANG_SECONDS
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, "it lives on"
            time.sleep(0.01)
