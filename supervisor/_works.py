"""What all jobs of one supervisor share, and the tasks that act for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import final
from uuid import UUID

import anyio
import attrs
from anyio.abc import TaskGroup

from ..notifier import Clock
from ._admission import Admission
from ._limits import Limits
from ._outbox import StoreOutbox
from ._reactor import Reactor
from ._store import Store
from ._timers import Timers
from .launch import Launcher


@final
class Tasks:
    """Tasks in the group of whoever opened the supervisor, that only this object ends.

    Each is shielded: a job's last word must not be cut off because the scope around the host was cancelled.  `cancel`
    is called when closing is over, and closing is bounded.
    """

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._scopes: set[anyio.CancelScope] = set()
        self._cancelled = False

    def start(self, act: Callable[[], Awaitable[None]]) -> None:
        """Run `act` in a task of its own."""
        self._group.start_soon(self._run, act)

    def cancel(self) -> None:
        """End every task, now and from now on."""
        self._cancelled = True
        for scope in self._scopes:
            scope.cancel()

    async def _run(self, act: Callable[[], Awaitable[None]]) -> None:
        with anyio.CancelScope(shield=True) as scope:
            self._scopes.add(scope)
            try:
                if not self._cancelled:
                    await act()
            finally:
                self._scopes.discard(scope)


@final
@attrs.define(kw_only=True, eq=False)
class Works:
    """The shared parts; `closing` is set once, when nothing is admitted any more."""

    session_id: UUID
    limits: Limits
    clock: Clock
    rng: Random
    timers: Timers
    reactor: Reactor
    launcher: Launcher
    store: Store
    outbox: StoreOutbox
    admission: Admission
    tasks: Tasks
    output_folder: Path
    closing: bool = False
