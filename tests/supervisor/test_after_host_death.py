"""After the host was killed: the next opening waits for who still keeps jobs, and nothing of theirs is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import psutil
import pytest
from own_cgroups import need_root, own_cgroup
from shim_ground import all_gone, group_of, is_stopped, shim_of, spare_of, zygote_of
from supervising import OWNER, alive, supervising, until

from lastword.notifier import ProcessState
from lastword.supervisor import Containment, Outcome
from lastword.supervisor.launch import wait_for_old_shims

pytestmark = pytest.mark.usefixtures("each_contained_tier")

_HOST = """
import json, os, sys
import anyio
import supervising as support
from supervising import OWNER, SESSION, launcher_of, open_supervisor
from pathlib import Path
from lastword.supervisor import Containment, Limits

backend, tier, folder, count = sys.argv[1:]

async def main():
    async with open_supervisor(
        Path(folder) if folder else None, session_id=SESSION, launcher=launcher_of(Containment[tier]),
        limits=Limits(running_per_loop=100, running_per_session=100),
    ) as supervisor:
        pids = []
        for _ in range(int(count)):
            process = await supervisor.start(
                "echo $$; setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $!; wait", owner=OWNER, output_limit=4096
            )
            while (chunk := await process.read_output()).data.count(b"\\n") < 2:
                await process.wait_output(chunk.total)
            pids.append([int(word) for word in (await process.read_output()).data.split()])
        print(json.dumps(pids), flush=True)
        await anyio.sleep_forever()

anyio.run(main, backend=backend)
"""


class Host:
    """A host program that runs jobs until it is killed; `jobs` has the pids of each one's leader and child."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.jobs: list[list[int]] = json.loads(process.stdout.readline())
        self.pids = [pid for job in self.jobs for pid in job]
        self.shims = [shim_of(leader) for leader, _ in self.jobs]
        self.zygote = zygote_of(self.shims[0])
        self.group = group_of(self.jobs[0][0])
        # Each stays itself, whoever has its number later.
        self._all = [psutil.Process(pid) for pid in (self.zygote, *self.shims, *self.pids)]

    def kill(self) -> None:
        """SIGKILL, and reap it."""
        self.process.kill()
        self.process.wait()

    def end_all(self) -> None:
        """It, and what is left of it."""
        self.kill()
        for each in self._all:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()


@contextmanager
def running_host(
    backend: str, tier: Containment, folder: Path | None, jobs: int = 1, **options: Any
) -> Generator[Host]:
    """A host for the block; whatever is left of it at the end is ended."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOST, backend, tier.name, str(folder or ""), str(jobs)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "support")} | options,
    ) as process:
        host = Host(process)
        try:
            yield host
        finally:
            host.end_all()


class SteppingClock:
    """Each sleep takes no time, and is over when the clock says so."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.sleeps: int = 0
        self.slept = anyio.Event()

    def now(self) -> datetime:
        """Wall time does not go on."""
        return datetime(2026, 3, 14, tzinfo=UTC)

    def monotonic(self) -> float:
        """What was slept."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Let others run, and step on."""
        await anyio.lowlevel.checkpoint()
        self.seconds += seconds
        self.sleeps += 1


class CountingClock(SteppingClock):
    """Each sleep takes its time, and is counted; the clock stands still, so that no patience ends."""

    async def sleep(self, seconds: float) -> None:
        """As long as that takes."""
        self.sleeps += 1
        await anyio.sleep(seconds)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state folder."""
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    return path


def _lost(outcome: Outcome | None, diagnostic: str, *, proven: bool) -> None:
    assert outcome is not None
    assert (outcome.state, outcome.diagnostic, outcome.proven) == (S.LOST_ON_RESTORE, diagnostic, proven)


S = ProcessState


async def test_the_next_opening_waits_for_shims_that_are_held_up(
    folder: Path, each_contained_tier: Containment, anyio_backend_name: str
) -> None:
    """What they write while they end their jobs counts, and no job is alive when it is told as lost."""
    with running_host(anyio_backend_name, each_contained_tier, folder, 2) as host:
        for pid in (host.zygote, *host.shims):
            os.kill(pid, signal.SIGSTOP)
        await until(lambda: all(map(is_stopped, (host.zygote, *host.shims))))
        host.kill()
        clock = CountingClock()
        opened: list[bool] = []

        async def open_next() -> None:
            async with supervising(folder, clock=clock) as supervisor:
                opened.append(any(map(alive, host.pids)))
                for process in supervisor.list(OWNER):
                    _lost(process.outcome, "host_died", proven=True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(open_next)
            await until(lambda: clock.sleeps > 10)
            assert not opened
            assert all(map(alive, host.pids))
            for pid in (host.zygote, *host.shims):
                with contextlib.suppress(ProcessLookupError):  # the zygote has the shims go on by itself
                    os.kill(pid, signal.SIGCONT)
        assert opened == [False]
        await all_gone(host.zygote, *host.shims)
        assert host.group is None or not host.group.parent.exists()


async def test_an_opening_that_waited_in_vain_says_that_nothing_is_proven(
    folder: Path, each_contained_tier: Containment, anyio_backend_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """After ten seconds; what is held by the others stays theirs."""
    with running_host(anyio_backend_name, each_contained_tier, folder) as host:
        for pid in (host.zygote, *host.shims):
            os.kill(pid, signal.SIGSTOP)
        await until(lambda: all(map(is_stopped, (host.zygote, *host.shims))))
        host.kill()
        clock = SteppingClock()
        async with supervising(folder, clock=clock) as supervisor:
            assert clock.seconds >= 10
            (process,) = supervisor.list(OWNER)
            _lost(process.outcome, "tree_not_proven", proven=False)
            assert all(map(alive, host.pids))
            for pid in (host.zygote, *host.shims):
                with contextlib.suppress(ProcessLookupError):  # the zygote has the shims go on by itself
                    os.kill(pid, signal.SIGCONT)
            await all_gone(*host.pids, host.zygote, *host.shims)
            _lost(process.outcome, "tree_not_proven", proven=False)
        assert host.group is None or not host.group.parent.exists()
    assert "still alive" in caplog.text


async def test_what_is_left_of_a_supervisor_that_was_killed_altogether_is_ended(
    folder: Path, each_contained_tier: Containment, anyio_backend_name: str
) -> None:
    """Host, zygote and shims at once: the control groups are found again, and who is in them dies; unproven, since
    nobody saw what had left them."""
    with running_host(anyio_backend_name, each_contained_tier, folder, 3) as host:
        keepers = (host.process.pid, host.zygote, *host.shims)
        for pid in keepers:
            os.kill(pid, signal.SIGSTOP)
        for pid in reversed(keepers):  # the zygote's death continues its shims
            os.kill(pid, signal.SIGKILL)
        host.kill()
        await all_gone(*keepers)
        assert all(map(alive, host.pids))
        if host.group is None:
            for pid in host.pids:
                os.kill(pid, signal.SIGKILL)  # nobody is left who knows them
        async with supervising(folder) as supervisor:
            for process in supervisor.list(OWNER):
                _lost(process.outcome, "tree_not_proven", proven=False)
            await all_gone(*host.pids)
            assert host.group is None or not host.group.parent.exists()
            assert (await (await supervisor.start("exit 3", owner=OWNER)).wait()).exit_code == 3


async def test_a_lock_file_that_is_damaged_ends_nobody(folder: Path, tmp_path: Path) -> None:
    """Names that are not those of our groups are left alone, and not waited for."""
    stranger = tmp_path / "lastword-stranger"
    stranger.mkdir()
    with own_cgroup() as group, subprocess.Popen(["sleep", "300"]) as sleeper:
        (group / "cgroup.procs").write_text(str(sleeper.pid))
        ours = "lastword-0123456789abcdef"
        names = [str(group), str(stranger), str(tmp_path / ours / ".."), ours, f"{group}/{ours}\n", "\0", "/"]
        (folder / "shims.lock").write_bytes(b"\0".join(map(os.fsencode, names)))
        clock = SteppingClock()
        assert await wait_for_old_shims(folder, clock)
        assert clock.sleeps == 0
        assert sleeper.poll() is None
        assert stranger.exists()
        async with supervising(folder) as supervisor:
            assert (await (await supervisor.start("exit 3", owner=OWNER)).wait()).exit_code == 3
        sleeper.kill()


async def test_a_headless_folder_goes_with_its_host(
    tmp_path: Path, each_contained_tier: Containment, anyio_backend_name: str
) -> None:
    """The zygote removes it, after the last shim."""
    with running_host(anyio_backend_name, each_contained_tier, None, 3, TMPDIR=str(tmp_path)) as host:
        assert len(list(tmp_path.glob("lastword-*"))) == 1
        host.kill()
        await all_gone(*host.pids, *host.shims, host.zygote)
        assert not list(tmp_path.iterdir())
        assert host.group is None or not host.group.parent.exists()


async def test_jobs_end_with_a_host_whose_zygote_was_killed(
    tmp_path: Path, each_contained_tier: Containment, anyio_backend_name: str
) -> None:
    """Their shims see to that by themselves."""
    with running_host(anyio_backend_name, each_contained_tier, None, 3, TMPDIR=str(tmp_path)) as host:
        os.kill(host.zygote, signal.SIGKILL)
        await all_gone(host.zygote)
        host.kill()
        await all_gone(*host.pids, *host.shims)
        assert host.group is None or not host.group.parent.exists()


# Its ends of the sockets go first, as those of every process that dies do, and it takes its time to follow.
_SLOW = """
import json, os, sys
import anyio
from supervising import OWNER, SESSION, launcher_of, open_supervisor
from lastword.supervisor import Containment
from lastword.supervisor.launch import _zygote

backend, tier, who = sys.argv[1:]
_zygote._BOOTSTRAP = _zygote._BOOTSTRAP.replace(
    "from shim._zygote import main;",
    "from shim import _shim, _zygote; _zygote._DYING_SECONDS = 0.0; _zygote._DYING_MILLISECONDS = 10**8; "
    "_shim._DYING_MILLISECONDS = 0; _shim._FORSAKEN_MILLISECONDS = 10**8; main = _zygote.main;",
)

async def main():
    async with open_supervisor(None, session_id=SESSION, launcher=launcher_of(Containment[tier])) as supervisor:
        process = await supervisor.start("echo $$; exec sleep 300", owner=OWNER)
        await process.wait_output(0)
        print((await process.read_output()).data.decode().strip(), flush=True)
        sys.stdin.readline()
        zygote, line = supervisor._works.launcher._zygote, process._job._child._line
        for channel in [zygote._channel, line._channel] if who == "zygote" else [line._channel]:
            os.close(channel.detach())
        print("closed", flush=True)
        sys.stdin.readline()

anyio.run(main, backend=backend)
"""


@pytest.mark.parametrize("who", ["zygote", "shim"])
async def test_who_is_the_last_to_leave_a_host_waits_for_its_end(
    who: str, tmp_path: Path, each_contained_tier: Containment, anyio_backend_name: str
) -> None:
    """What is to be removed when the host has died is not left behind since its dying took a moment."""
    with subprocess.Popen(
        [sys.executable, "-c", _SLOW, anyio_backend_name, each_contained_tier.name, who],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "support"), "TMPDIR": str(tmp_path)},
    ) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        leader = int(host.stdout.readline())
        shim, group = shim_of(leader), group_of(leader)
        zygote = zygote_of(shim)
        if who == "shim":
            os.kill(zygote, signal.SIGKILL)
            await all_gone(zygote)
        host.stdin.write("\n")
        host.stdin.flush()
        assert host.stdout.readline() == "closed\n"
        await all_gone(leader)
        host.kill()
        host.wait()
        await all_gone(shim, zygote)
    assert who == "shim" or not list(tmp_path.iterdir())
    assert group is None or not group.parent.exists()


@pytest.mark.parametrize("held", [False, True], ids=["", "the zygote is stopped"])
async def test_the_spare_ends_with_the_host(
    held: bool, folder: Path, each_contained_tier: Containment, anyio_backend_name: str
) -> None:
    """By itself; so the next opening need not wait for it."""
    with running_host(anyio_backend_name, each_contained_tier, folder) as host:
        await until(lambda: spare_of(host.zygote) is not None)
        spare = spare_of(host.zygote)
        assert spare is not None
        if held:
            os.kill(host.zygote, signal.SIGSTOP)
            await until(lambda: is_stopped(host.zygote))
        host.kill()
        with anyio.fail_after(60):
            await all_gone(spare, *host.pids)
            if held:
                os.kill(host.zygote, signal.SIGCONT)
            assert await wait_for_old_shims(folder, CountingClock())
            await all_gone(host.zygote)


# --- a host that orphans come to


_FIRST = """
import ctypes, os, signal, subprocess, sys, time
import anyio, psutil
import supervising as support
from supervising import OWNER, HANG_SECONDS, supervising, until, alive
from lastword.supervisor import Containment

backend, tier, how = sys.argv[1:]
support.tier = Containment[tier]
if how == "subreaper":
    assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
else:
    assert os.getpid() == 1

def zombies():
    return [child.pid for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE]

def zygotes():
    # A fork of one is named as that is until it has a name and a group of its own.
    return [c for c in psutil.Process().children() if c.name() == "lastword-zygote" and os.getpgid(c.pid) == c.pid]

def shims():
    return [c for c in psutil.Process().children() if c.name() in ("lastword-shim", "lastword-spare")]

async def main():
    async with supervising() as supervisor:
        for _ in range(3):
            processes = [await supervisor.start("sleep 0.3; exit 3", owner=OWNER) for _ in range(3)]
            (zygote,) = zygotes()
            short = [await supervisor.start("exit 3", owner=OWNER) for _ in range(3)]
            zygote.kill()
            await until(lambda: not alive(zygote.pid))
            own = subprocess.Popen(["sh", "-c", "exit 7"])  # whose status is nobody else's
            for process in processes + short:
                assert (await process.wait()).exit_code == 3
            await until(lambda: zombies() in ([], [own.pid]))
            assert own.wait() == 7
            await until(lambda: not shims())
        process = await supervisor.start("sleep 300", owner=OWNER)
        (zygote,) = zygotes()
        zygote.kill()
        await until(lambda: not alive(zygote.pid))
        await until(shims)
    assert not psutil.Process().children(recursive=True), psutil.Process().children(recursive=True)
    print("fine")

anyio.run(main, backend=backend)
"""


@pytest.mark.parametrize("how", ["first", "subreaper"])
def test_no_zombie_is_left_to_a_host_that_adopts(
    how: str, each_contained_tier: Containment, anyio_backend_name: str, tmp_path: Path
) -> None:
    """As process 1 or a subreaper it gets the shims of a zygote that was killed; its own children stay its own."""
    apart: tuple[str, ...] = ()
    if how == "first":
        need_root("what a host meets that is process 1")
        apart = ("unshare", "--pid", "--fork", "--mount-proc")
    done = subprocess.run(
        [*apart, sys.executable, "-c", _FIRST, anyio_backend_name, each_contained_tier.name, how],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "support"), "TMPDIR": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
