"""A host of its own in a private control group, so that its death can be timed to the end of all that it has started.

The kernel's `populated 0` is the oracle: it knows every process, whatever that has done to its session or parents, and
no code of ours is asked.  Where no control group can be made it is the ends (pidfd) of those who were there then.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

# Asked so often, the oracle takes no core from those that it watches.
_LOOK_SECONDS = 0.0002

_BOUND_SECONDS = 60.0

_ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


class Pen:
    """Holds one host; leaving the block ends whatever is still in it."""

    def __init__(self, script: str, *arguments: str) -> None:
        """Start `script` with `arguments`; `host` is its Popen, with pipes for its input and output."""
        self._group = _make_group()
        command: Sequence[str] = (sys.executable, script, *arguments)
        if self._group is not None:
            command = ("/bin/sh", "-c", _ENTER, str(self._group), *command)
        self.host = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def oracle(self) -> str:
        """What says that nobody is left."""
        return "populated 0" if self._group is not None else "the end of each process that was there"

    def line(self) -> str:
        """What the host says next."""
        assert self.host.stdout is not None
        said = self.host.stdout.readline()
        if not said:
            raise RuntimeError("the host has ended before it was asked to")
        return said

    def kill(self) -> float:
        """SIGKILL the host; the seconds until nobody is left."""
        watched = [] if self._group is not None else _watch(self.host.pid)
        began = time.perf_counter()
        self.host.kill()
        while self._anybody(watched):
            if time.perf_counter() - began > _BOUND_SECONDS:
                raise RuntimeError("somebody has outlived the host")
            time.sleep(_LOOK_SECONDS)
        spent = time.perf_counter() - began
        self.host.wait()
        return spent

    def _anybody(self, watched: list[int]) -> bool:
        if self._group is not None:
            return "populated 1" in (self._group / "cgroup.events").read_text()
        poll = select.poll()
        for descriptor in watched:
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(0):
            watched.remove(descriptor)
            os.close(descriptor)
        return bool(watched)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.host.kill()
        self.host.wait()
        for pipe in (self.host.stdin, self.host.stdout):
            if pipe is not None:
                pipe.close()
        if self._group is not None:
            _clear(self._group)


def _watch(host: int) -> list[int]:
    with contextlib.suppress(ImportError, ValueError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    found: list[int] = []
    for process in (psutil.Process(host), *psutil.Process(host).children(recursive=True)):
        with contextlib.suppress(ProcessLookupError):
            found.append(os.pidfd_open(process.pid))
    return found


def _make_group() -> Path | None:
    """A fresh group below our own; None where the system has none for us."""
    own = next((line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line[:3] == "0::"), None)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, point = before.split()[3:5]
        if own is not None and after.startswith("cgroup2 ") and Path(own).is_relative_to(root):
            group = Path(point) / Path(own).relative_to(root) / f"lastword-bench-{secrets.token_hex(6)}"
            with contextlib.suppress(OSError):
                group.mkdir()
                return group
    return None


def _clear(group: Path) -> None:
    ends = time.monotonic() + _BOUND_SECONDS
    while "populated 1" in (group / "cgroup.events").read_text() and time.monotonic() < ends:
        for each in _deepest_first(group):
            for pid in (each / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.01)
    for each in _deepest_first(group):
        each.rmdir()


def _deepest_first(group: Path) -> Iterator[Path]:
    for below in sorted(group.iterdir()):
        if below.is_dir():
            yield from _deepest_first(below)
    yield group
