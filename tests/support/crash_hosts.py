"""From a test to the hosts that it kills: a server that forks them, and the lock that their sleeping jobs wait for."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from crash_host import Plan

SUPPORT = Path(__file__).parent


def support_environment() -> dict[str, str]:
    """The environment in which the programs of this folder run."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])}


class Hosts:
    """Lives, one after the other, each in a process of its own."""

    def __init__(self, lines: IO[str], answers: IO[str], errors: Path) -> None:
        self._lines = lines
        self._answers = answers
        self._errors = errors

    def live(self, plan: Plan) -> int:
        """Have one life lived; its exit code, negative for a signal."""
        print(plan.to_json(), file=self._lines, flush=True)
        return int(self._answers.readline())

    def killed(self, plan: Plan) -> None:
        """A life that must end by SIGKILL."""
        code = self.live(plan)
        assert code == -signal.SIGKILL, f"ended with {code}, and was never at {plan.point!r}: {self._said()}"

    def finished(self, plan: Plan) -> None:
        """A life that must end by itself, and well."""
        code = self.live(plan)
        assert code == 0, f"ended with {code}: {self._said()}"

    def _said(self) -> str:
        return self._errors.read_text()[-4000:]


@contextmanager
def serving(folder: Path) -> Generator[Hosts]:
    """Hosts; what they print on stderr goes into `folder`."""
    errors = folder / "stderr"
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, str(SUPPORT / "crash_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=support_environment(),
        ) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        yield Hosts(server.stdin, server.stdout, errors)
        server.stdin.close()


@contextmanager
def keeping_asleep(folder: Path) -> Generator[None]:
    """While the block lasts, sleeping jobs of hosts in `folder` sleep; then they end by themselves."""
    with (folder / "awake").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
