"""What all jobs of one supervisor share, and the tasks that act for them."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import final
from uuid import UUID

import anyio
import attrs
from anyio.abc import TaskGroup

from ..notifier import Clock
from ..notifier._interrupts import uninterrupted
from ._admission import Admission
from ._errors import ErrorCode, SupervisorError
from ._limits import Limits
from ._outbox import StoreOutbox
from ._reactor import Reactor
from ._store import Store
from ._timers import Timers
from .launch import Launcher

logger = logging.getLogger(__name__)


@final
class Tasks:
    """Tasks in the group of whoever opened the supervisor, that only this object ends.

    Each is shielded: a job's last word must not be cut off because the scope around the host was cancelled.  `cancel`
    is called when closing is over, and closing is bounded.  A fault in one job's task ends that task alone.
    """

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._scopes: set[anyio.CancelScope] = set()
        self._cancelled = False

    def start(self, act: Callable[[], Awaitable[None]]) -> None:
        """Run `act`, which is about one job, in a task of its own; what it raises is logged."""
        self._group.start_soon(self._run, lambda: _alone(act))

    def serve(self, act: Callable[[], Awaitable[None]]) -> None:
        """Run `act`, which serves every job, in a task of its own; what it raises ends the supervisor."""
        self._group.start_soon(self._run, act)

    def cancel(self) -> None:
        """End every task, now and from now on."""
        self._cancelled = True
        for scope in self._scopes:
            scope.cancel()

    @uninterrupted
    async def _run(self, act: Callable[[], Awaitable[None]]) -> None:
        with anyio.CancelScope(shield=True) as scope:
            self._scopes.add(scope)
            try:
                if not self._cancelled:
                    await act()
            finally:
                self._scopes.discard(scope)


async def _alone(act: Callable[[], Awaitable[None]]) -> None:
    try:
        await act()
    except Exception:
        logger.exception("a task of one process failed in a way that nobody foresaw; the others go on")


@final
@attrs.define(kw_only=True, eq=False)
class Works:
    """The shared parts; `closing` is set once, when nothing is admitted any more.

    They belong to the process that made them.  A fork shares its descriptors, its kernel queue and its children's ids:
    whatever acts, asks `forked` first.
    """

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
    _pid: int = attrs.field(init=False, factory=os.getpid)

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that opened the supervisor."""
        return os.getpid() != self._pid

    def refuse_fork(self) -> None:
        """Raise `SupervisorError` where this process is a fork."""
        if self.forked:
            raise SupervisorError(
                ErrorCode.SUPERVISOR_SHUTTING_DOWN,
                "this process is a fork of the one that opened the supervisor; open one of its own",
            )
