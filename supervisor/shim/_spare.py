"""A spare: a shim that was forked before there is a job for it, so that a start does not wait for the fork.

Rules
- It waits for one START, and holds nothing but its end of a socket, the host's pidfd and the shared lock.
- It ends at once when the zygote is dead or needs it no more (its end of the socket) or the host has died (its pidfd):
  who has died could be stopped, too.
- No job's arguments or environment were ever in its memory but its own job's.
- A shim has what its zygote has when its job starts: limits, a niceness, a scheduling policy, processors, control
  groups.  Where somebody has changed those since it was forked, it is of no use.  (Not looked at, for nothing but a
  call that differs from machine to machine tells it: the class of its input and output, `ionice`.)
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket

from . import _messages as messages
from . import _proc, _shim

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

# Not `lastword-shim`, which has a job.
_NAME = b"lastword-spare"

# Made by the zygote, once.
_PACKET = memoryview(bytearray(messages.PACKET_BYTES))


_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})


class Spare:
    """A spare as the zygote sees it, whose child it is."""

    def __init__(self, pid: int, channel: socket.socket, given: tuple[object, ...]) -> None:
        self.pid = pid
        self._channel = channel
        self._given = given

    @classmethod
    def fork(cls, host: int, close: Callable[[], None]) -> Spare | None:
        """One that waits; None where the system refuses.  `host`: its pidfd; `close`: what the child begins with."""
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return None
        with theirs:
            try:
                given = _given()  # before: what it is given between this and the fork is not taken for what it has
                ours.setblocking(False)
                pid = os.fork()
            except OSError:
                ours.close()
                return None
            if pid == 0:
                _be(host, theirs, ours, close)
        return cls(pid, ours, given)

    def hand_over(self, packet: memoryview, descriptors: list[int]) -> bool:
        """Give it a job; it is a shim from here on.  False where it could not be told: then it is no more."""
        if self._can_begin():
            try:
                messages.forward(self._channel, packet, descriptors)
            except OSError:
                pass  # it is dead, or the system has no room
            else:
                self.close()
                return True
        self.dismiss()
        return False

    def _can_begin(self) -> bool:
        """Not where a tracer holds it, a job most likely: nobody could continue it, and the start would hang."""
        found = _proc.stat_of(self.pid)
        try:
            return found is not None and found.state != "t" and self._given == _given()
        except OSError:  # no descriptor to read it by, for one
            return False

    def dismiss(self) -> None:
        """End it; it is reaped as any child.  A stopped one, too, would hold the shared lock."""
        self.close()
        os.kill(self.pid, signal.SIGKILL)  # a child that was not reaped: the number is its own

    def close(self) -> None:
        """It is not told anything more.  Idempotent."""
        self._channel.close()


def _given() -> tuple[object, ...]:
    """What a fork of this process has of it that somebody else may change."""
    limits = tuple(map(resource.getrlimit, _LIMITS))
    policy = os.sched_getscheduler(0), os.sched_getparam(0).sched_priority
    return limits, os.getpriority(os.PRIO_PROCESS, 0), policy, os.sched_getaffinity(0), _proc.placement_of_self()


def _be(host: int, channel: socket.socket, zygotes: socket.socket, close: Callable[[], None]) -> NoReturn:
    """In the child."""
    try:
        zygotes.close()
        close()
        loop = _shim.get_ready(_NAME)
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        poll.register(host, select.POLLIN)
        if [descriptor for descriptor, _ in poll.poll()] == [channel.fileno()]:
            packet, descriptors = messages.take_packet(channel, _PACKET)
            channel.close()
            if packet:
                _shim.run(packet, descriptors, host, loop)
    except BaseException:
        os._exit(1)
    os._exit(0)
