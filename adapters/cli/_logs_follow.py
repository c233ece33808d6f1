"""`lastword logs -f`: a job's output as it comes."""

from __future__ import annotations

import math
from pathlib import Path

import anyio

from ...supervisor import ProcessView
from ..serve import Client, ConnectionLostError, SilentServerError
from ._following import LOOK_SECONDS, connected
from ._holder import END_SECONDS
from ._logs import READ_BYTES, Printer
from ._look import look


async def follow_output(state: Path, process: ProcessView, cursor: int, printer: Printer) -> None:
    """Show what it writes from `cursor` on, until it has ended, or nobody is left who could tell."""
    async with connected(state) as client:
        lost = None
        if client is not None:
            cursor, lost = await _listen(client, process.handle, cursor, printer)
            if lost is None:
                return
        await _look_again_and_again(state, process, cursor, printer, lost)


async def _listen(client: Client, handle: str, cursor: int, printer: Printer) -> tuple[int, ConnectionLostError | None]:
    """Where it ended, and why, if that is not the end of it all."""
    ended = False
    while not ended:
        try:
            chunk = await client.read(handle, cursor, READ_BYTES, wait=True)
        except ConnectionLostError as error:
            return cursor, error
        cursor, ended = chunk.next_cursor, chunk.ended
        if chunk.data or chunk.omitted or ended:
            printer.show(chunk)
    return cursor, None


async def _look_again_and_again(
    state: Path, process: ProcessView, cursor: int, printer: Printer, lost: ConnectionLostError | None
) -> None:
    """`lost`: its server has ended, or is about to, and the job with it; or it is stuck, and that is raised."""
    patience = math.inf if lost is None else 0.0 if isinstance(lost, SilentServerError) else END_SECONDS
    deadline = anyio.current_time() + patience
    while True:
        # Before the output is read: what was written until the end is there, then.
        view = look(state)
        now = None if view is None else next((each for each in view.processes if each.handle == process.handle), None)
        if now is None:
            return  # evicted
        chunk = now.read_output(cursor, READ_BYTES)
        while chunk.data or chunk.omitted:
            printer.show(chunk)
            cursor = chunk.next_cursor
            chunk = now.read_output(cursor, READ_BYTES)
        if now.outcome is not None or view is None or not view.held:
            return
        if lost is not None and anyio.current_time() >= deadline:
            raise lost
        await anyio.sleep(LOOK_SECONDS)
