"""The host's line to one shim: its end of the socket, read by the supervisor's reactor.

Rules
- The line is held until `close`: that is what tells the shim that its host has let go.
- Nothing here raises for a shim that is dead: its end of the socket is told like any message, as None.
- What a full socket does not take (a shim that is stopped reads nothing) waits here, and goes as soon as there is room:
  an end of input, or what a reader waits for, is never said twice by who orders it.  It is bounded: of each kind the
  newest counts, of stops the newest of each mode.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable
from typing import Any, final

from .._reactor import Reactor
from ..shim import _messages as messages
from ._forks import close_in_forks


@final
class ShimLine:
    """A socket, owned, and who is told what comes by it."""

    __slots__ = ("__weakref__", "_channel", "_on_readable", "_reactor", "_unsent", "_watched")

    def __init__(self, reactor: Reactor, channel: socket.socket, on_readable: Callable[[], None]) -> None:
        """Own `channel`, whose other end the shim will be given."""
        self._reactor = reactor
        self._channel = channel
        self._on_readable = on_readable
        self._unsent: dict[tuple[object, ...], bytes] = {}  # in the order in which they go
        self._watched = True
        channel.setblocking(False)
        reactor.add(channel.fileno(), self._on_ready)
        close_in_forks(self)

    def take(self) -> tuple[Any, ...] | None:
        """The next message; None at the shim's end.  Raises BlockingIOError where there is none now."""
        return messages.take(self._channel)

    def send(self, *message: object) -> None:
        """Say it, now or when there is room.  A dead shim hears nothing, and is told of by its end of the socket."""
        kind = message[: 2 if message[0] == messages.STOP else 1]
        self._unsent.pop(kind, None)
        self._unsent[kind] = messages.encode(*message)
        self._send_waiting()

    def signal(self, shim: int, number: int, still: Callable[[], bool]) -> bool:
        """Signal the shim of that pid, if it is certainly the one at the other end; whether it was sent.

        `still` is asked in between: it reads all that has come, and says whether there is still a reason.
        """
        try:
            descriptor = os.pidfd_open(shim)
        except OSError:  # it is dying
            return False
        try:
            # Its end of the socket is there, so it lived on after the number was looked up: it is the shim's.
            if not still() or self._has_hung_up():
                return False
            signal.pidfd_send_signal(descriptor, number)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def unwatch(self) -> None:
        """Be told nothing more.  Idempotent."""
        self._watched = False
        self._unsent.clear()
        if self._channel.fileno() >= 0:
            self._reactor.remove(self._channel.fileno())

    def close(self) -> None:
        """Let go of it.  Idempotent."""
        self.unwatch()
        self._channel.close()

    def close_in_fork(self) -> None:
        """See `Holder`."""
        self._channel.close()

    def _on_ready(self) -> None:
        self._send_waiting()
        self._on_readable()

    def _send_waiting(self) -> None:
        """Send what there is room for; the rest when there is more."""
        full = False
        for kind, data in tuple(self._unsent.items()):
            try:
                messages.send(self._channel, data)
            except BlockingIOError:
                full = True
                break
            except OSError as error:
                if error.errno in (errno.ENOBUFS, errno.ENOMEM):
                    break  # room alone does not help: when it next speaks, or is spoken to
                self._unsent.clear()  # it is dead
                break
            del self._unsent[kind]
        if self._watched:
            self._reactor.ask_for_room(self._channel.fileno(), wanted=full)

    def _has_hung_up(self) -> bool:
        try:
            return not self._channel.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
