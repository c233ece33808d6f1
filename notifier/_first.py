"""Waiting for several things at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from ._interrupts import uninterrupted


async def first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    """Await all of `waits` together; return when one has returned, with the others cancelled.

    What one of them raises leaves as it is, alone.  Cancelled: all of them are.
    """
    try:
        async with anyio.create_task_group() as tasks:
            for wait in waits:
                tasks.start_soon(_first, wait, tasks.cancel_scope)
    except BaseExceptionGroup as group:
        if len(group.exceptions) != 1:
            raise
        raise group.exceptions[0] from group.exceptions[0].__cause__


@uninterrupted
async def _first(wait: Callable[[], Awaitable[object]], others: anyio.CancelScope) -> None:
    await wait()
    others.cancel()
