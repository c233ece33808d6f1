"""A connection as lines: bounded ones in, whole ones out."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import final

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from ._bounds import MAX_LINE_BYTES


class LineTooLongError(Exception):
    """The other side sends a line without an end; where the next one begins is not known."""


@final
class Lines:
    """Lines over a byte stream.  One task receives; any number of them send, each line as a whole."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._buffered = BufferedByteReceiveStream(stream)
        self._sending = anyio.Lock()

    async def receive(self) -> bytes | None:
        """The next line, without its end; None where the other side has ended, also in the middle of a line.

        Raises `LineTooLongError`.  Cancelled: nothing is lost.
        """
        try:
            return await self._buffered.receive_until(b"\n", MAX_LINE_BYTES)
        except anyio.DelimiterNotFound:
            raise LineTooLongError from None
        except (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return None

    @asynccontextmanager
    async def sending(self) -> AsyncGenerator[None]:
        """A block in which nobody else sends: what it sends is made when there is room for it, not before."""
        async with self._sending:
            yield

    async def send(self, line: bytes) -> None:
        """Send a line; waits for the other side to read.  Raises what a closed stream raises.

        Cancelled in the middle of a line: nothing sensible can follow, so the caller closes.
        """
        async with self._sending:
            await self._stream.send(line)

    async def send_now(self, line: bytes) -> None:
        """As `send`, within `sending`."""
        await self._stream.send(line)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()
