"""How long is waited for who was killed, or owes an answer: a machine that stood still is no reason to give up."""

from __future__ import annotations

import fcntl
import socket
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from lastword.adapters.testing import ManualClock
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
