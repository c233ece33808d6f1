"""Zygotes and shims for tests: who they are, how they are held at a station, and what must not be left of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from own_cgroups import need_root
from strangers import STRANGER
from supervising import alive, until

from lastword.supervisor import Process
from lastword.supervisor.launch import _zygote
from lastword.supervisor.output import read_header

QUIET = "</dev/null >/dev/null 2>&1"

# What the zygote runs, with stations: who comes to one whose gate is there says its pid, and waits until it is gone.
# (Not at a FIFO: a process that is stopped and continued would have to open it anew.)
_STATIONS = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from shim import _shim, _zygote

def at(station):
    gate = f"{folder!s}/{{station}}"
    if os.path.exists(gate):
        with open(gate + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(gate + ".new", gate + ".pid")
        while os.path.exists(gate):
            time.sleep(0.001)

def between(before, act, after):
    def held(*arguments):
        at(before)
        result = act(*arguments)
        at(after)
        return result
    return held

_zygote.Zygote._start = between("asked", _zygote.Zygote._start, "forked")
_zygote.Zygote._configure = between("configuring", _zygote.Zygote._configure, "configured")
_shim.run = between("born", _shim.run, "dying")
_shim.spawn = between("spawning", _shim.spawn, "spawned")
{more}
_zygote.main(int(sys.argv[2]), int(sys.argv[3]))
"""


class Station:
    """A place at which a zygote or a shim is held."""

    def __init__(self, gate: Path) -> None:
        """It is open; `close` it before somebody comes."""
        self._gate = gate

    def close(self) -> None:
        """Who comes from now on is held."""
        self._gate.with_suffix(".pid").unlink(missing_ok=True)
        self._gate.touch()

    async def arrival(self) -> int:
        """Until somebody is held; the pid."""
        told = self._gate.with_suffix(".pid")
        await until(told.exists)
        return int(told.read_text())

    def open(self) -> None:
        """Let it go on, and everybody after it."""
        self._gate.unlink()


class Stations:
    """The stations of the supervisors that are opened while the fixture lasts."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        """The gates are files in `folder`."""
        self.folder = folder
        self._patch = patch
        self.build()

    def build(self, more: str = "") -> None:
        """Have every zygote that is started from now on stop at the stations, and execute `more` before it serves."""
        self._patch.setattr(_zygote, "_BOOTSTRAP", _STATIONS.format(folder=self.folder, more=more))

    def __getitem__(self, name: str) -> Station:
        """asked, forked, configuring, configured: of the zygote; born, spawning, spawned, dying: of a shim."""
        return Station(self.folder / name)


def parent_of(pid: int) -> int:
    """Of a process that is there."""
    return psutil.Process(pid).ppid()


def name_of(pid: int) -> str:
    """What it calls itself."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


async def pids_of(process: Process, count: int = 1) -> list[int]:
    """The numbers that the job has written, one to a line, once there are `count`."""
    while (chunk := await process.read_output()).data.count(b"\n") < count:
        assert not chunk.ended, chunk
        await process.wait_output(chunk.total)
    words = chunk.data.split(b"\n")
    return [int(word) for word in words[:count]]


def shim_of(leader: int) -> int:
    """The shim whose job that process leads."""
    shim = parent_of(leader)
    assert name_of(shim) == "lastword-shim"
    return shim


def zygote_of(shim: int) -> int:
    """The zygote that has forked it."""
    zygote = parent_of(shim)
    assert name_of(zygote) == "lastword-zygote"
    return zygote


def spare_of(zygote: int) -> int | None:
    """The one that it has forked ahead and that waits; None where there is none."""
    listed = Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
    for pid in map(int, listed):
        with contextlib.suppress(OSError):  # it has ended
            if name_of(pid) == "lastword-spare" and alive(pid):
                return pid
    return None


def group_of(pid: int) -> Path | None:
    """The job's control group that the process is in; None where it is in none of a job's."""
    own = next(line[3:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if line[:3] == "0::")
    if "/lastword-" not in own:
        return None
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, point = before.split()[3:5]
        if after.startswith("cgroup2 ") and Path(own).is_relative_to(root):
            return Path(point) / Path(own).relative_to(root)
    raise AssertionError(own)


async def all_gone(*pids: int) -> None:
    """Until none of them lives; bounded by the caller."""
    await until(lambda: not any(map(alive, pids)))


async def status_noted(folder: Path, process: Process) -> None:
    """Until the shim has written how the leader ended."""

    def noted() -> bool:
        header = read_header(folder / "output" / process.handle)
        return header is not None and header.status is not None

    await until(noted)


@contextmanager
def stopped(pid: int) -> Generator[None]:
    """SIGSTOP it for the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def is_stopped(pid: int) -> bool:
    """Whether it is, now."""
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


def cpu_seconds(pid: int) -> float:
    """What it has used so far."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


_REACHING = (
    "import os, sys; from hostile_reach import open_to_everybody; open_to_everybody(); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


def as_stranger(*, inside: Path | None = None) -> tuple[str, ...]:
    """The beginning of a command that runs the rest as nobody with no privileges; `inside` a control group."""
    need_root("what a host without privileges meets")
    enter = () if inside is None else ("sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(inside))
    return (
        *enter,
        sys.executable,
        "-c",
        _REACHING,
        "setpriv",
        f"--reuid={STRANGER}",
        f"--regid={STRANGER}",
        "--clear-groups",
        "--inh-caps=-all",
    )


def run_as_stranger(program: str, *arguments: str, inside: Path | None = None) -> str:
    """The last line that a Python program prints that runs so, with the support of the tests at hand.

    A line "kill 123" has that process ended: by root, as somebody else would.
    """
    folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="lastword-test-"))
    os.chown(folder, STRANGER, STRANGER)
    with subprocess.Popen(
        [*as_stranger(inside=inside), sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parent), "TMPDIR": str(folder)},
    ) as host:
        try:
            assert host.stdout is not None
            line = ""
            for line in host.stdout:
                if line.startswith("kill "):
                    os.kill(int(line[5:]), signal.SIGKILL)
            assert host.wait(timeout=200) == 0, line
        finally:
            host.kill()
            shutil.rmtree(folder)
    return line
