"""A fork of the host, as `multiprocessing` makes them: it holds nothing of a job's, and so holds nothing up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakSet

import anyio
import pytest
import supervising as support
from crash_hosts import support_environment
from shim_ground import all_gone
from supervising import alive

from lastword.supervisor import Containment
from lastword.supervisor.launch import _forks

HOST = """
import os, signal, sys
import anyio, lastword
from lastword.supervisor import Containment, _opening
from lastword.supervisor.launch import launcher_of

tier, backend, then = sys.argv[1:]
_opening.strongest_launcher = launcher_of(Containment[tier])

def held():
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # the folder itself
            pass
    return {link for link in found if link.startswith(("pipe:", "socket:", "/dev/ptmx", "/dev/pts/"))}

async def main():
    reading, writing = os.pipe()
    before = held()
    async with lastword.open_runtime() as runtime:
        jobs = [
            await runtime.start("echo $$; exec sleep 60", stdin="pipe"),
            await runtime.start("echo $$; exec sleep 60", split_streams=True),
            await runtime.start("echo $$; exec sleep 60", pty=True),
            await runtime.start("exec <&- >&- 2>&-; exec sleep 60", pty=True),
        ]
        for job in jobs[:3]:
            while b"\\n" not in (chunk := await job.read_output()).data:
                await job.wait_output(chunk.total)
        await jobs[0].send_input(b"x" * 200_000)
        await jobs[2].send_input(b"x" * 200_000 if then == "raw" else b"x\\n" * 1000)
        pids = [(await job.read_output()).data.split()[0].decode() for job in jobs[:3]]
        child = os.fork()
        if child == 0:
            os.write(writing, " ".join(["has", *sorted(held() - before)]).encode())
            while True:
                signal.pause()
        print(child, *pids, os.read(reading, 4096).decode(), flush=True)
        if then == "dies":
            await anyio.sleep_forever()
    print("closed", *(job.outcome.state.name for job in jobs), flush=True)

anyio.run(main, backend=backend)
"""


@contextmanager
def _forking_host(
    tier: Containment, backend: str, then: str, said: Path
) -> Generator[tuple[subprocess.Popen[str], int, int]]:
    """It, its fork, and a job with a terminal; the fork has said that it holds nothing.  `said` has what is wrong."""
    with (
        said.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", HOST, tier.name, backend, then],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=support_environment(),
        ) as host,
    ):
        assert host.stdout is not None
        line = host.stdout.readline()
        assert line, said.read_text()
        fork, *jobs, held = line.split(maxsplit=4)
        try:
            assert held == "has\n"
            yield host, int(fork), int(jobs[-1])
            assert alive(int(fork))
        finally:
            os.kill(int(fork), signal.SIGKILL)
            host.kill()
            if then == "dies":  # nobody else ends those without a terminal
                for job in jobs[:-1]:
                    os.kill(int(job), signal.SIGKILL)


def test_leaving_the_block_is_not_held_up(each_tier: Containment, anyio_backend_name: str, tmp_path: Path) -> None:
    """Every keeper sees that its host has let go, though a fork of it lives; else it would be told that they have not
    left."""
    with _forking_host(each_tier, anyio_backend_name, "leaves", tmp_path / "said") as (host, _, _):
        assert host.stdout is not None
        assert host.stdout.readline() == "closed" + " TERMINATED" * 4 + "\n"
        assert host.wait() == 0
        assert (tmp_path / "said").read_text() == ""


async def test_the_death_of_the_host_hangs_its_terminals_up(
    monkeypatch: pytest.MonkeyPatch, anyio_backend_name: str, tmp_path: Path
) -> None:
    """Where nobody but the system ends what it leaves: a fork of it does not keep them open."""
    monkeypatch.setattr(support, "tier", Containment.PROCESS_GROUP)
    with _forking_host(Containment.PROCESS_GROUP, anyio_backend_name, "dies", tmp_path / "said") as (host, fork, job):
        host.kill()
        host.wait()
        with anyio.fail_after(30):
            await all_gone(job)
        assert alive(fork)


class _Holder:
    """Its descriptor was closed by somebody else, by its number."""

    closed = 0

    def close_in_fork(self) -> None:
        type(self).closed += 1
        raise OSError


def test_one_that_cannot_close_keeps_no_other_open(monkeypatch: pytest.MonkeyPatch) -> None:
    holders = [_Holder(), _Holder(), _Holder()]
    monkeypatch.setattr(_forks, "_holders", WeakSet(holders))
    _forks._close_in_fork()  # pyright: ignore[reportPrivateUsage] - called by the system's fork alone
    assert _Holder.closed == len(holders)
