"""`lastword events -f`: events as they come."""

from __future__ import annotations

import json
from pathlib import Path

import anyio

from ..serve import Client, ConnectionLostError, SilentServerError
from ._events import EventPrinter, is_public
from ._following import LOOK_SECONDS, connected
from ._look import look
from ._look_journal import journal_of


async def follow_events(state: Path, after: int, printer: EventPrinter) -> None:
    """Show what comes after that sequence, for as long as somebody holds the directory."""
    async with connected(state) as client:
        if client is None:
            await _look_again_and_again(state, after, printer)
        else:
            await _listen(client, after, printer)


async def _listen(client: Client, after: int, printer: EventPrinter) -> None:
    try:
        async for info in client.events(after, follow=True):
            if info.event is not None:
                printer.show(info.seq, json.dumps(info.event).encode())
    except SilentServerError:
        raise
    except ConnectionLostError:
        return  # it has ended, and nothing more comes


async def _look_again_and_again(state: Path, after: int, printer: EventPrinter) -> None:
    held = True
    while held:
        view = look(state)
        held = view is not None and view.held
        for record in journal_of(state, after):
            after = record.seq
            printer.show(record.seq, record.payload if is_public(record) else None)
        await anyio.sleep(LOOK_SECONDS)
