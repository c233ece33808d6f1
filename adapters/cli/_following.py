"""Waiting for what comes next in a state directory: told by its server, or by looking again.

A `lastword run` in the foreground serves nobody.  Beside it the files are looked at now and then, as `tail -f` does it;
beside a server nothing is looked at before something was told.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..serve import Client

LOOK_SECONDS: Final = 0.25


@asynccontextmanager
async def connected(state: Path) -> AsyncGenerator[Client | None]:
    """A client for the time of a block; None where nobody serves the directory, or only another user's server does:
    root, who looks into an agent's directory, is no client of the agent's.
    """
    from ..serve import ForeignPeerError, NotServedError, connect

    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(connect(state))
        except (NotServedError, ForeignPeerError):
            client = None
        yield client
