"""The host's side of the zygote: started when the first job is, asked for shims, and reaped.

Rules
- Spawned by `subprocess.Popen` without preexec_fn, in a session of its own: no fork of the host, and no Ctrl-C for it.
- What it is passed is above 2, whatever the host has closed.
- It says READY once it serves.  What is started in its stead and never says so is killed, and no start waits for it.
- A dead zygote is no fault of a running job: its shim goes on.  If the host is PID 1 or a subreaper, the shims become
  its own children, and are reaped one by one.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import anyio

from .._reactor import Reactor
from ..shim import _messages as messages
from ..shim import _proc
from ._forks import close_in_forks
from ._interpreter import bootstrap, interpreter_command, interpreter_environment

logger = logging.getLogger(__name__)

_BOOTSTRAP: Final = bootstrap("_zygote", "main")

# Of a shim and of a spare, in /proc/<pid>/stat; and of the zygote, which leads a group of its own.
_NAMES: Final = (b"lastword-shim", b"lastword-spare")
_OWN_NAME: Final = b"lastword-zygote"


@final
class Zygote:
    """A zygote that lives, as far as is known."""

    def __init__(
        self,
        reactor: Reactor,
        configuration: tuple[str, str | None, str | None],
        on_message: Callable[[tuple[Any, ...]], None],
        on_death: Callable[[Zygote], None],
        on_orphan: Callable[[int], None],
    ) -> None:
        """Start it; raises OSError and leaves nothing.  `configuration` is what CONFIGURE carries.

        `on_message` is called with what it tells; `on_death` once when its end of the socket is gone; `on_orphan` with
        the pidfd of each of its shims that has become a child of this process.
        """
        self._reactor = reactor
        self._on_message = on_message
        self._on_death = on_death
        self._on_orphan = on_orphan
        self._sending = anyio.Lock()  # one socket can be waited for by one task
        self._ended = anyio.Event()
        self._ready = False
        self._refused: int | None = None
        self._channel, self._pidfd = _start()
        try:
            self._channel.setblocking(False)
            with contextlib.suppress(ConnectionError):  # it has ended already, and that is told
                messages.send(self._channel, messages.encode(messages.CONFIGURE, *configuration))
            reactor.add(self._channel.fileno(), self._on_readable)
            reactor.add(self._pidfd, self._on_end)
            close_in_forks(self)
        except BaseException:
            self._close_channel()
            self._end()
            raise

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._channel.fileno() >= 0

    @property
    def ready(self) -> bool:
        """Whether it has ever served; else it is what was started that is at fault."""
        return self._ready

    @property
    def refused(self) -> int | None:
        """The errno of what it could not have, for want of which it never served; None where that is unknown."""
        return self._refused

    async def request(self, job: int, message: bytes, descriptors: Sequence[int]) -> None:
        """Send a START; waits while there is no room.  Raises BrokenPipeError where it is dead: then it was not sent.

        Raises OSError where this process lacks what it takes.
        """
        label = messages.label_of(message)
        async with self._sending:
            while self.alive:
                try:
                    messages.send(self._channel, message, descriptors, label)
                except BlockingIOError:
                    with contextlib.suppress(anyio.ClosedResourceError):
                        await anyio.wait_writable(self._channel)
                except ConnectionError:
                    self.give_up()
                else:
                    return
        raise BrokenPipeError

    def kill_shim(self, job: int) -> None:
        """Have a shim killed that does not answer, and what it leaves swept."""
        self.rouse()
        with contextlib.suppress(OSError):
            messages.send(self._channel, messages.encode(messages.KILL, job))

    def rouse(self) -> None:
        """Have it go on, should somebody have stopped it: a job runs as the same user.  It rouses its shims itself."""
        self._signal(signal.SIGCONT)

    def give_up(self) -> None:
        """It is dead, or as good as that: it is asked nothing more, and told so.  Idempotent."""
        if self.alive:
            self._close_channel()
            self._signal(signal.SIGKILL)
            self._on_death(self)

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
            self._reap()

    def close_in_fork(self) -> None:
        """See `Holder`."""
        self._channel.close()

    def _on_readable(self) -> None:
        try:
            message = messages.take(self._channel)
        except BlockingIOError:
            return
        match message:
            case None:
                self.give_up()
            case (messages.READY, 0):
                self._ready = True
            case (messages.READY, number):
                self._refused = number
                self.give_up()
            case _:
                self._on_message(message)

    def _on_end(self) -> None:
        """It has ended: by now its children are this process's, if they are to be."""
        self._reap()
        for pid in _shims_of_ours():
            with contextlib.suppress(OSError):
                self._on_orphan(os.pidfd_open(pid))
        self.give_up()

    def _end(self) -> None:
        """Kill and reap it; it holds nothing yet."""
        self._signal(signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        self._reap()

    def _reap(self) -> None:
        if self._pidfd >= 0:
            self._reactor.remove(self._pidfd)
            with contextlib.suppress(ChildProcessError):  # the host ignores SIGCHLD, or waits for any child
                os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG)
            os.close(self._pidfd)
            self._pidfd = -1
        self._ended.set()

    def _signal(self, number: int) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, number)

    def _close_channel(self) -> None:
        if self.alive:
            self._reactor.remove(self._channel.fileno())
            anyio.notify_closing(self._channel)  # who waits for room must not wait on
            self._channel.close()


def _shims_of_ours() -> list[int]:
    """Children of this process that are shims: it is PID 1 or a subreaper, and their zygote is dead."""
    return [pid for pid in _proc.children_finder()(os.getpid()) if _is_shim(pid)]


def _is_shim(pid: int) -> bool:
    """Whether it is one, or a spare, or would have been: a fork of the zygote's, named and grouped as that is."""
    name, found = _proc.name_of(pid), _proc.stat_of(pid)
    return name in _NAMES or (name == _OWN_NAME and found is not None and found.group != pid)


def _start() -> tuple[socket.socket, int]:
    """Its socket and pidfd.  Raises OSError and leaves nothing."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    passed: list[int] = []
    try:
        passed.append(_above_stdio(theirs.fileno()))
        passed.append(_own_pidfd())
        popen = subprocess.Popen(  # noqa: S603 -- our own interpreter and our own code
            interpreter_command(_BOOTSTRAP, *passed),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",  # and so do all shims work there: no folder is kept from being unmounted
            env=interpreter_environment(),
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
        return ours, os.pidfd_open(popen.pid)
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
