"""A connected socket as a byte stream on either backend.

anyio's own stream for Unix sockets would do, but for one thing: where a receive is cancelled in the moment in which
data comes, it logs an error on asyncio, which a command line shows to its user (anyio 4.16, `_wait_until_readable`).
"""

from __future__ import annotations

import socket
from typing import final

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint


@final
class SocketStream(ByteStream):
    """Owns `connection`.  One task receives at a time, and one sends."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """What has come; waits for some.  Cancelled: nothing is taken.  A checkpoint."""
        await checkpoint()
        while True:
            try:
                data = self._socket.recv(max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
            except OSError:
                raise self._broken() from None
            else:
                if not data:
                    raise anyio.EndOfStream
                return data

    async def send(self, item: bytes) -> None:
        """Send all of it; waits for the other side to read.  Cancelled: some of it may be sent.  A checkpoint."""
        await checkpoint()
        rest = memoryview(item)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
            except OSError:
                raise self._broken() from None

    async def send_eof(self) -> None:
        """End what is sent; a checkpoint."""
        await checkpoint()
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            raise self._broken() from None

    async def aclose(self) -> None:
        """Close it; who waits on it is told.  Idempotent; a checkpoint."""
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()
        await checkpoint()

    def _broken(self) -> Exception:
        return anyio.ClosedResourceError() if self._socket.fileno() < 0 else anyio.BrokenResourceError()
