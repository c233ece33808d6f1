"""A job in the foreground of this program that the directory's server keeps, for as long as this program lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import anyio

from .._ending import Ending, refusal_status
from ..serve import RequestError, Size
from ._errors import OURS, CommandFailedError
from ._job import Mode, Stream
from ._job import Size as Rectangle
from ._logs import READ_BYTES, Chunk
from ._order import Order

if TYPE_CHECKING:
    from ..serve import Client

# A job that does not read: nobody tells when it has begun to again.
_BACKPRESSURE_SECONDS: Final = 0.05

# What one request takes; see `Client.send_input`.
_AT_ONCE: Final = 256 * 1024


async def start_served(client: Client, order: Order, size: Rectangle | None, *, split: bool) -> JobServed:
    """Start it, attached: it is stopped when the connection ends.

    Raises `CommandFailedError` where it cannot be started, with the exit code for it.
    """
    try:
        info = await client.start(
            order.argv,
            **order.options(terminal=size is not None),
            pty=False if size is None else Size(rows=size[0], cols=size[1]),
            split_streams=split,
            attached=True,
        )
    except RequestError as error:
        raise await told_here(client, error) from None
    return JobServed(client, info.handle)


async def told_here(client: Client, error: RequestError) -> CommandFailedError:
    """Why a job could not be started, and the exit code for it; who reads that needs no notice of it."""
    if error.handle is not None:
        await client.acknowledge([error.handle])
    return CommandFailedError(error.message, refusal_status(error.code, error.kind))


async def send_patiently(client: Client, handle: str, data: bytes) -> None:
    """Send all of it, as soon as the job takes some."""
    at = 0
    while at < len(data):
        try:
            await client.send_input(handle, data[at : at + _AT_ONCE])
        except RequestError as error:
            if error.code != "input_backpressure":
                raise
            await anyio.sleep(_BACKPRESSURE_SECONDS)
        else:
            at += _AT_ONCE


@final
class JobServed:
    """Implements `Job`."""

    def __init__(self, client: Client, handle: str) -> None:
        self._client = client
        self._handle = handle

    async def read(self, cursor: int, stream: Stream) -> Chunk:
        """See `Job.read`."""
        return await self._client.read(self._handle, cursor, READ_BYTES, streams=stream, wait=True)

    async def send(self, data: bytes) -> bool:
        """See `Job.send`."""
        try:
            await send_patiently(self._client, self._handle, data)
        except RequestError as error:
            if error.code != "stdin_closed":
                raise
            return False
        return True

    async def close_input(self) -> None:
        """See `Job.close_input`."""
        await self._client.send_input(self._handle, eof=True)

    async def resize(self, size: Rectangle) -> None:
        """See `Job.resize`."""
        await self._client.resize(self._handle, *size)

    async def stop(self, mode: Mode) -> None:
        """See `Job.stop`."""
        await self._client.stop(self._handle, mode)

    async def wait(self) -> Ending:
        """See `Job.wait`."""
        (info,) = (await self._client.wait([self._handle])).processes
        if info.outcome is None:
            raise CommandFailedError("the server has not seen its end", OURS)
        return Ending(state=info.outcome.state, shell_code=info.outcome.shell_code, diagnostic=info.outcome.diagnostic)

    async def settle(self) -> None:
        """See `Job.settle`."""
        await self._client.acknowledge([self._handle])
