"""How long is waited for who was killed, or owes an answer: a machine that stood still is no reason to give up."""

from __future__ import annotations

import fcntl
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from manual_clock import ManualClock

import lastword
from lastword.supervisor._reactor import Reactor
from lastword.supervisor._timers import Timers
from lastword.supervisor.launch import wait_for_old_shims
from lastword.supervisor.launch._line import ShimLine
from lastword.supervisor.launch._patience import Patience
from lastword.supervisor.launch._site import KEEPERS_LOCK
from lastword.supervisor.shim._deadline import LOOKS, Deadline


def test_sigkill_has_its_time_from_when_it_was_sent() -> None:
    """However late that was, and in so many looks: one that comes long after the one before is one."""
    clock = ManualClock()
    deadline = Deadline(clock.monotonic)
    deadline.set(5.0)
    assert (deadline.due, deadline.allows(4.0), deadline.allows(5.0)) == (False, True, False)
    clock.advance(100.0)
    assert deadline.due
    assert not deadline.look(1.0)
    clock.advance(100.0)
    for _ in range(LOOKS - 1):
        assert not deadline.look(1.0)
    assert deadline.look(1.0)


def test_many_looks_take_no_time_away() -> None:
    """Each end of a child is one; and another order begins anew."""
    clock = ManualClock()
    deadline = Deadline(clock.monotonic)
    for _ in range(2):
        deadline.set(0.0)
        assert not any(deadline.look(1.0) for _ in range(10 * LOOKS))
        clock.advance(0.9)
        assert not deadline.look(1.0)
        clock.advance(0.1)
        assert deadline.look(1.0)
        assert not deadline.late
        deadline.late = True


async def test_who_owes_an_answer_is_waited_for_in_turns() -> None:
    """All of the time, and never all of it at once; what has come ends it."""
    clock, reactor = ManualClock(), Reactor()
    timers = Timers(clock)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    patience = Patience(timers, ShimLine(reactor, ours, lambda: None))
    silent: list[float] = []

    async def stands_still(seconds: float) -> None:
        clock.advance(seconds)
        await anyio.wait_all_tasks_blocked()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(timers.run)
        patience.wait(10.0, lambda: silent.append(clock.elapsed))
        await stands_still(1000.0)
        assert (silent, patience.waits) == ([], True)
        for _ in range(4):
            await stands_still(1.9)
            assert silent == []
            await stands_still(0.1)
        assert silent == [1008.0]
        patience.wait(10.0, lambda: silent.append(-1.0))
        await stands_still(5.0)
        patience.stop()
        for _ in range(10):
            await stands_still(5.0)
        assert (len(silent), patience.waits) == (1, False)
        tasks.cancel_scope.cancel()
    ours.close()
    theirs.close()
    reactor.close()


class StoodStill(ManualClock):
    """Each sleep takes an hour."""

    def __init__(self, looks: int, then: Callable[[], None]) -> None:
        super().__init__()
        self._left = looks
        self._then = then

    async def sleep(self, seconds: float) -> None:
        await anyio.lowlevel.checkpoint()
        self.elapsed += 3600.0
        self._left -= 1
        if self._left == 0:
            self._then()


@pytest.mark.parametrize(("looks", "waited"), [(50, True), (1000, False)])
async def test_who_keeps_a_dead_hosts_jobs_is_waited_for_in_looks(looks: int, waited: bool, tmp_path: Path) -> None:
    """However long each took; and not for ever."""
    with (tmp_path / KEEPERS_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        clock = StoodStill(looks, lambda: fcntl.flock(lock, fcntl.LOCK_UN))
        assert await wait_for_old_shims(tmp_path, clock) is waited


# The leader and its child hear no SIGTERM; each is ended between the list that it was in and its own, so that the one
# in a session of its own moves up just behind who looks for it.
MOVING = """
import ctypes, os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from shim import _proc, _tree

signal.alarm(60)
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
reading, writing = os.pipe()

def forked(body):
    pid = os.fork()
    if pid == 0:
        body()
        os.write(writing, b"%d\\n" % os.getpid())
        while True:
            time.sleep(0.1)
            if os.getppid() == 1:
                os._exit(1)
    return pid

def leads():
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    forked(inner)

def apart():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()

def inner():
    forked(apart)

leader = forked(leads)
said = b""
while said.count(b"\\n") < 3:
    said += os.read(reading, 100)
below = [pid for pid in map(int, said.split()) if pid != leader]
(middle,) = [pid for pid in below if _proc.stat_of(pid).parent == leader]
(last,) = set(below) - {middle}
listed = _proc.children_finder()
ends = [leader, middle]

def finder():
    def children(pid):
        if ends and pid == ends[0]:
            os.kill(ends.pop(0), signal.SIGKILL)
            while _proc.stat_of(pid).live:
                pass
        return listed(pid)
    return children

_proc.children_finder = finder
_tree.SubreaperTree(leader, None, lambda _status: None).signal(signal.SIGTERM)
assert not ends
print(os.waitstatus_to_exitcode(os.waitpid(last, 0)[1]))
"""


def test_a_signal_reaches_who_moves_up_twice_while_it_is_looked_for() -> None:
    """Two looks that find nobody new are no end, where somebody has died meanwhile."""
    room = str(Path(lastword.__file__).resolve().parent / "supervisor")
    done = subprocess.run(
        [sys.executable, "-IS", "-c", MOVING, room], capture_output=True, text=True, check=False, timeout=200
    )
    assert (done.stdout, done.returncode) == (f"{-signal.SIGTERM}\n", 0), done.stderr
