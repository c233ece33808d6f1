"""Where a job in the foreground is kept: here, or, while a server holds the directory, by that."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import anyio

from ...supervisor import DirectoryInUseError
from ._errors import OURS, CommandFailedError
from ._job import Job, Size
from ._job_here import start_here
from ._order import Order
from ._served import IN_USE

# A holder that is about to begin to serve, or to let go, does so in a moment: nobody tells of either.
_PATIENCE_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.05


@asynccontextmanager
async def start_job(state: Path, order: Order, size: Size | None, *, split: bool) -> AsyncGenerator[Job]:
    """Start it; the block's end is its end.  `size`: it has a terminal.  `split`: stdout and
    stderr are kept apart.

    Raises `CommandFailedError` where it cannot be started, with the exit code for it, and what opening raises.
    """
    async with AsyncExitStack() as stack:
        hopeless: float | None = None  # counted from the first answer, not from the question: a try may take long
        while True:
            try:
                job = await enter_job(stack, state, order, size, split=split)
            except _HeldError:
                now = anyio.current_time()
                hopeless = now + _PATIENCE_SECONDS if hopeless is None else hopeless
                if now >= hopeless:
                    raise CommandFailedError(IN_USE, OURS) from None
                await anyio.sleep(_LOOK_SECONDS)
            else:
                break
        yield job


class _HeldError(Exception):
    """Somebody holds the directory, and does not serve it, or not yet, or not any more."""


async def enter_job(stack: AsyncExitStack, state: Path, order: Order, size: Size | None, *, split: bool) -> Job:
    """One try.  Raises `_HeldError`, and as `start_job`."""
    try:
        return await stack.enter_async_context(start_here(state, order, size=size, split=split))
    except DirectoryInUseError:
        # Here, since most never need it.
        from ..serve import NotServedError, connect
        from ._job_served import start_served

        try:
            client = await stack.enter_async_context(connect(state))
        except NotServedError:
            raise _HeldError from None
        return await start_served(client, order, size, split=split)
