"""Where a job in the foreground is kept: here, or, while a server holds the directory, by that."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ...supervisor import DirectoryInUseError
from ._errors import OURS, CommandFailedError
from ._job import Job, Size
from ._job_here import start_here
from ._order import Order
from ._served import IN_USE


@asynccontextmanager
async def start_job(state: Path, order: Order, size: Size | None, *, split: bool) -> AsyncGenerator[Job]:
    """Start it; the block's end is its end.  `size`: it has a terminal.  `split`: stdout and
    stderr are kept apart.

    Raises `CommandFailedError` where it cannot be started, with the exit code for it, and what opening raises.
    """
    async with AsyncExitStack() as stack:
        try:
            job: Job = await stack.enter_async_context(start_here(state, order, size=size, split=split))
        except DirectoryInUseError:
            # Here, since most never need it.
            from ..serve import NotServedError, connect
            from ._job_served import start_served

            try:
                client = await stack.enter_async_context(connect(state))
            except NotServedError:
                raise CommandFailedError(IN_USE, OURS) from None
            job = await start_served(client, order, size, split=split)
        yield job
