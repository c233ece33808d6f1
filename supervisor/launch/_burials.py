"""Leaders whose start came to nothing: killed, and reaped when they have died, without waiting for it.

Theory of operation
- A death takes its time: one that is stuck in the kernel dies later, and a program that has become another user's
  (setuid) may not be signalled at all.  Nobody waits for that: its descriptor tells the reactor.
- One that cannot be watched is looked at when the next one comes, and at the end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from typing import Final, final

import anyio

from .._reactor import Reactor
from ._leader import Leader

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.005


@final
class Burials:
    """Who is dying."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._leaders: set[Leader] = set()
        self._unwatched: set[int] = set()

    def destroy(self, leader: Leader) -> None:
        """Kill its group, and own it until it is reaped.  Does not block."""
        self.look()
        if not leader.kill():
            _tell_alive()
        self._leaders.add(leader)
        if not self._bury(leader) and leader.descriptor is not None:
            with contextlib.suppress(OSError):  # no room for it: it is looked at later
                self._reactor.add(leader.descriptor, lambda: self._told(leader))

    def destroy_unwatched(self, pid: int) -> None:
        """The same for an unreaped child that leads a group, where no descriptor was left for it."""
        self.look()
        try:
            os.killpg(pid, signal.SIGKILL)  # unreaped, so the number is still its own
        except ProcessLookupError:
            pass
        except PermissionError:
            _tell_alive()
        self._unwatched.add(pid)
        self.look()

    def look(self) -> None:
        """Reap who has died."""
        for leader in tuple(self._leaders):
            self._bury(leader)
        for pid in tuple(self._unwatched):
            with contextlib.suppress(ChildProcessError):  # taken by somebody else
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            self._unwatched.discard(pid)

    async def aclose(self, seconds: float) -> None:
        """Wait so long at most for those that are left, and let go of them."""
        with anyio.move_on_after(seconds):
            while self._leaders or self._unwatched:
                self.look()
                await anyio.sleep(_LOOK_SECONDS)
        for leader in tuple(self._leaders):
            self._let_go(leader)

    def _told(self, leader: Leader) -> None:
        if leader in self._leaders:
            self._bury(leader)

    def _bury(self, leader: Leader) -> bool:
        if leader.peek() is None:
            return False
        leader.reap()
        self._let_go(leader)
        return True

    def _let_go(self, leader: Leader) -> None:
        self._leaders.discard(leader)
        if leader.descriptor is not None:
            self._reactor.remove(leader.descriptor)
        leader.close()


def _tell_alive() -> None:
    logger.error("a program whose start was given up may not be signalled; it runs on until it ends by itself")
