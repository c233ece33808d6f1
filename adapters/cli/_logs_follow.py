"""`lastword logs -f`: a job's output as it comes."""

from __future__ import annotations

from pathlib import Path

import anyio

from ...supervisor import ProcessView
from ..serve import Client
from ._following import LOOK_SECONDS, connected
from ._logs import READ_BYTES, Printer
from ._look import look


async def follow_output(state: Path, process: ProcessView, cursor: int, printer: Printer) -> None:
    """Show what it writes from `cursor` on, until it has ended, or nobody is left who could tell."""
    async with connected(state) as client:
        if client is None:
            await _look_again_and_again(state, process, cursor, printer)
        else:
            await _listen(client, process.handle, cursor, printer)


async def _listen(client: Client, handle: str, cursor: int, printer: Printer) -> None:
    ended = False
    while not ended:
        chunk = await client.read(handle, cursor, READ_BYTES, wait=True)
        cursor, ended = chunk.next_cursor, chunk.ended
        if chunk.data or chunk.omitted or ended:
            printer.show(chunk)


async def _look_again_and_again(state: Path, process: ProcessView, cursor: int, printer: Printer) -> None:
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
        await anyio.sleep(LOOK_SECONDS)
