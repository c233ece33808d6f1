"""The notices of the client's loop, put on its desk as they come; and who waits for them.

What is told of them, and when they are settled, is the desk's affair: see `adapters/_desk.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import anyio
from anyio.lowlevel import checkpoint

from ..._runtime import Runtime
from .._desk import Desk


@final
class Arrivals:
    """What has come for the runtime's main loop; `run` looks."""

    def __init__(self, runtime: Runtime, desk: Desk) -> None:
        self._runtime = runtime
        self._loop = runtime.loop
        self._desk = desk
        self._seen: set[str] = set()
        self._changed = anyio.Event()

    async def run(self, tell: Callable[[str], None]) -> None:
        """Take every notice that comes, and `tell` its process's handle; for ever.

        Raises `JournalFencedError` where somebody else has taken the session: nothing can be told any more.
        """
        async for notice in self._loop:
            self._desk.take(notice)
            handle = notice.notification.process_handle
            # Of a process without a record nobody asks any more.
            known = {process.handle for process in self._runtime.supervisor.list(self._loop)}
            self._seen = {*(self._seen & known), handle}
            self._changed.set()
            self._changed = anyio.Event()
            tell(handle)

    @property
    def full(self) -> bool:
        """Whether further notices wait in the journal until some of these are acknowledged."""
        return len(self._desk.held) >= self._loop.capacity

    async def wait_held(self, count: int) -> None:
        """Return once at least `count` are held.  A checkpoint; the caller bounds it."""
        await checkpoint()
        while len(self._desk.held) < count:
            await self._changed.wait()

    async def wait_seen(self, handles: set[str]) -> None:
        """Return once the notices of all these processes have come, settled since or not, or none can come, since the
        desk is full; the caller bounds it."""
        await checkpoint()
        while not (handles <= self._seen or self.full):
            await self._changed.wait()

    def seen(self, handle: str) -> bool:
        """Whether the process's notice has come."""
        return handle in self._seen
