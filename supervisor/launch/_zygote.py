"""The host's side of the zygote: started when the first job is, asked for shims, and reaped.

Rules
- Spawned by `subprocess.Popen` without preexec_fn, in a session of its own: no fork of the host, and no Ctrl-C for it.
- What it is passed is above 2, whatever the host has closed.
- A dead zygote is no fault of a running job: its shim goes on.  What the host must know then is which shims may have
  become its own children, if it is PID 1 or a subreaper; that is `ContainedChild`'s.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, final

import anyio

from .._reactor import Reactor
from ..shim import _messages as messages

logger = logging.getLogger(__name__)

# Isolated, without site: the room of the shims is the only thing that it imports beside the standard library.
_BOOTSTRAP: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from shim._zygote import main; "
    "del sys.path[0]; main(int(sys.argv[2]), int(sys.argv[3]))"
)
_ROOM: Final = str(Path(__file__).parents[1])

# Where the interpreter itself may need it to find its own library.
_KEPT_VARIABLES: Final = ("LD_LIBRARY_PATH",)


@final
class Zygote:
    """A zygote that lives, as far as is known."""

    def __init__(
        self,
        reactor: Reactor,
        configuration: tuple[str, str | None, str | None],
        on_message: Callable[[tuple[Any, ...]], None],
        on_death: Callable[[Zygote], None],
    ) -> None:
        """Start it; raises OSError.  `configuration` is what CONFIGURE carries.

        `on_message` is called with what it tells, `on_death` once when its end of the socket is gone.
        """
        self._reactor = reactor
        self._on_message = on_message
        self._on_death = on_death
        self._unsent: list[bytes] = []
        self._ended = anyio.Event()
        self._channel, self._pid, self._pidfd = _start()
        self._channel.setblocking(False)
        reactor.add(self._channel.fileno(), self._on_readable)
        reactor.add(self._pidfd, self._forget)
        messages.send(self._channel, messages.encode(messages.CONFIGURE, *configuration))

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._channel.fileno() >= 0

    async def request(self, message: bytes, descriptors: Sequence[int]) -> None:
        """Send a START; waits while there is no room.  Raises OSError where it is dead: then it was not sent."""
        while True:
            if not self.alive:
                raise BrokenPipeError
            try:
                messages.send(self._channel, message, descriptors)
            except BlockingIOError:
                await anyio.wait_writable(self._channel)
            else:
                return

    def kill_shim(self, job: int) -> None:
        """Have a shim killed that does not answer, and what it leaves swept."""
        with contextlib.suppress(OSError):
            messages.send(self._channel, messages.encode(messages.KILL, job))

    def rouse(self) -> None:
        """Have it go on, should somebody have stopped it: a job runs as the same user.  It rouses its shims itself."""
        if self._pidfd >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGCONT)

    async def aclose(self, seconds: float) -> None:
        """Let it go: it leaves after its last shim.  Waits so long at most for that, and reaps it."""
        if self.alive:
            with contextlib.suppress(OSError):  # dead, or it reads nothing: it sees for itself, a little later
                messages.send(self._channel, messages.encode(messages.LEAVE))
        self._close_channel()
        self.rouse()
        with anyio.move_on_after(seconds):
            await self._ended.wait()
        if not self._ended.is_set():
            logger.error("the keepers of some processes have not left; what they hold could not be ended")
            self._forget()

    def _on_readable(self) -> None:
        try:
            message, descriptors = messages.receive(self._channel)
        except BlockingIOError:
            return
        except OSError:
            message, descriptors = None, []
        for descriptor in descriptors:
            os.close(descriptor)
        if message is not None:
            self._on_message(message)
            return
        self._close_channel()
        self._on_death(self)

    def _forget(self) -> None:
        if self._pidfd >= 0:
            self._reactor.remove(self._pidfd)
            with contextlib.suppress(ChildProcessError):  # the host ignores SIGCHLD, or waits for any child
                os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG)
            os.close(self._pidfd)
            self._pidfd = -1
        self._ended.set()

    def _close_channel(self) -> None:
        if self.alive:
            self._reactor.remove(self._channel.fileno())
            self._channel.close()


def _start() -> tuple[socket.socket, int, int]:
    """Its socket, pid and pidfd.  Raises OSError and leaves nothing."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    passed: list[int] = []
    try:
        passed.append(_above_stdio(theirs.fileno()))
        passed.append(_own_pidfd())
        popen = subprocess.Popen(  # noqa: S603 -- our own interpreter and our own code
            [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, _ROOM, *map(str, passed)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
            pass_fds=passed,
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        for descriptor in passed:
            os.close(descriptor)
    # Popen is done: it must neither reap nor warn that it has not.
    popen.returncode = 0
    try:
        return ours, popen.pid, os.pidfd_open(popen.pid)
    except BaseException:
        # It is our unreaped child, so the number is still its own; it holds nothing yet.
        os.kill(popen.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(popen.pid, 0)
        ours.close()
        raise


def _own_pidfd() -> int:
    descriptor = os.pidfd_open(os.getpid())
    try:
        return _above_stdio(descriptor)
    finally:
        os.close(descriptor)


def _above_stdio(descriptor: int) -> int:
    """A copy above 2: the lower numbers are what the zygote's own streams become."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
