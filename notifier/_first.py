"""Waiting for several things at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio


async def first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    """Await all of `waits` together; return when one has returned, with the others cancelled.

    What one of them raises leaves as it is, alone.  Cancelled: all of them are.
    """
    try:
        async with anyio.create_task_group() as tasks:

            async def first(wait: Callable[[], Awaitable[object]]) -> None:
                await wait()
                tasks.cancel_scope.cancel()

            for wait in waits:
                tasks.start_soon(first, wait)
    except BaseExceptionGroup as group:
        if len(group.exceptions) != 1:
            raise
        raise group.exceptions[0] from group.exceptions[0].__cause__
