"""A job in a runtime of this program: it ends with this program, whatever ends that."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import anyio

from .._ending import Ending, refusal_status, spawn_status
from ._errors import OURS, CommandFailedError
from ._job import Mode, Size, Stream
from ._logs import READ_BYTES, Chunk
from ._order import Order

if TYPE_CHECKING:
    from ..._runtime import Runtime
    from ...supervisor import Process

# A job that does not read: nobody tells when it has begun to again, and a look costs nothing beside it.
_BACKPRESSURE_SECONDS: Final = 0.02


@asynccontextmanager
async def start_here(state: Path, order: Order, *, size: Size | None, split: bool) -> AsyncGenerator[JobHere]:
    """Start it; the block's end is its end.

    Raises `CommandFailedError` where it cannot be started, with the exit code for it.
    """
    from ..._runtime import open_runtime
    from ...supervisor import SpawnFailedError, SupervisorError, TerminalSize
    from ..serve import SERVE_LIMITS

    async with open_runtime(state, limits=SERVE_LIMITS) as runtime:
        try:
            process = await runtime.start(
                order.argv,
                **order.options(terminal=size is not None),
                pty=False if size is None else TerminalSize(rows=size[0], cols=size[1]),
                split_streams=split,
            )
        except SpawnFailedError as error:
            # It has a last word, too; and who reads this line has been told.
            await runtime.session.acknowledge(runtime.supervisor.get(error.handle, runtime.loop).command_id)
            raise CommandFailedError(error.message, spawn_status(error.kind)) from None
        except SupervisorError as error:
            raise CommandFailedError(error.message, refusal_status(error.code)) from None
        yield JobHere(runtime, process)


@final
class JobHere:
    """Implements `Job`."""

    def __init__(self, runtime: Runtime, process: Process) -> None:
        self._runtime = runtime
        self._process = process

    async def read(self, cursor: int, stream: Stream) -> Chunk:
        """See `Job.read`."""
        while True:
            chunk = await self._process.read_output(cursor, READ_BYTES, streams=stream)
            if chunk.data or chunk.gap or chunk.ended:
                return chunk
            # Of one stream of two: behind the other's bytes, and up to a gap, if there is one.
            cursor = chunk.next_cursor
            await self._process.wait_output(cursor)

    async def send(self, data: bytes) -> bool:
        """See `Job.send`."""
        from ...supervisor import InputBackpressureError, StdinClosedError

        while True:
            try:
                await self._process.send_input(data)
            except InputBackpressureError:
                await anyio.sleep(_BACKPRESSURE_SECONDS)
            except StdinClosedError:
                return False
            else:
                return True

    async def close_input(self) -> None:
        """See `Job.close_input`."""
        await self._process.close_input()

    async def resize(self, size: Size) -> None:
        """See `Job.resize`."""
        await self._process.resize(*size)

    async def stop(self, mode: Mode) -> None:
        """See `Job.stop`."""
        from ...supervisor import StopMode

        await self._process.stop(StopMode[mode.upper()])

    async def wait(self) -> Ending:
        """See `Job.wait`."""
        from ...notifier import LastwordError

        try:
            outcome = await self._process.wait()
        except LastwordError as error:
            raise CommandFailedError.of(error, OURS) from None
        return Ending.of_outcome(outcome)

    async def settle(self) -> None:
        """See `Job.settle`."""
        await self._runtime.session.acknowledge(self._process.command_id)
