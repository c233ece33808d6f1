"""The host's line to one shim: its end of the socket, read by the supervisor's reactor.

Rules
- The line is held until `close`: that is what tells the shim that its host has let go.
- Nothing here raises for a shim that is dead: its end of the socket is told like any message, as None.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from typing import Any, final

from .._reactor import Reactor
from ..shim import _messages as messages


@final
class ShimLine:
    """A socket, owned, and who is told what comes by it."""

    __slots__ = ("_channel", "_reactor")

    def __init__(self, reactor: Reactor, channel: socket.socket, on_readable: Callable[[], None]) -> None:
        """Own `channel`, whose other end the shim will be given."""
        self._reactor = reactor
        self._channel = channel
        channel.setblocking(False)
        reactor.add(channel.fileno(), on_readable)

    def take(self) -> tuple[Any, ...] | None:
        """The next message; None at the shim's end.  Raises BlockingIOError where there is none now."""
        return messages.take(self._channel)

    def send(self, *message: object) -> None:
        """Say it.  A dead shim hears nothing, and is told of by its end of the socket."""
        with contextlib.suppress(OSError):
            messages.send(self._channel, messages.encode(*message))

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
        if self._channel.fileno() >= 0:
            self._reactor.remove(self._channel.fileno())

    def close(self) -> None:
        """Let go of it.  Idempotent."""
        self.unwatch()
        self._channel.close()

    def _has_hung_up(self) -> bool:
        try:
            return not self._channel.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
