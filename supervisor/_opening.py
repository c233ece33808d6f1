"""Opens a supervisor, and takes it down: the only place that knows the order of both.

Open: folder -> store -> restore (what had not ended is lost, and told) -> tasks.  Close: stop everything, bounded and
shielded -> tasks -> store -> descriptors -> a private folder.  What the block raised leaves as it is, not in a group.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import final
from uuid import UUID

import anyio
import attrs

from ..notifier import Clock, SystemClock, new_uuid7
from ..notifier._interrupts import protect, uninterrupted
from ._admission import Admission
from ._directory import OUTPUT, STORE
from ._errors import ErrorCode, SupervisorError, refusing
from ._limits import Containment, Limits
from ._outbox import StoreOutbox
from ._reactor import Reactor
from ._registry import Registry
from ._restoring import restore
from ._store import Store
from ._supervisor import Supervisor
from ._timers import Timers
from ._works import Tasks, Works
from .launch import LauncherFactory, LaunchSite, strongest_launcher, wait_for_old_shims

logger = logging.getLogger(__name__)


def open_supervisor(
    directory: Path | None,
    *,
    session_id: UUID,
    limits: Limits | None = None,
    require: Containment | None = None,
    launcher: LauncherFactory | None = None,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    new_id: Callable[[], UUID] | None = None,
) -> AbstractAsyncContextManager[Supervisor, None]:
    """A supervisor for the time of an async block, whose end stops every process.

    `directory` is an existing private folder that the caller holds; what had not ended in it when the last supervisor
    died is told as lost.  None is headless: the store in memory, output in a temporary folder that is gone at the end.
    `require` refuses a machine that cannot hold processes at least so strongly.

    Leaving the block is shielded and takes at most `Limits.grace_seconds` and 5 seconds; see `Supervisor.aclose`.
    Entering raises `SupervisorError`: lifetime_enforcement_unavailable, invalid_settings, manifest_corrupt.
    """
    return _Opening(
        directory=directory,
        session_id=session_id,
        limits=limits or Limits(),
        require=require,
        launcher=launcher or strongest_launcher,
        clock=clock or SystemClock(),
        rng=rng or random.Random(),  # noqa: S311 -- jitter of retries, not a secret
        new_id=new_id or new_uuid7,
    )


@final
@attrs.define(kw_only=True, eq=False)
class _Opening(AbstractAsyncContextManager[Supervisor, None]):
    directory: Path | None
    session_id: UUID
    limits: Limits
    require: Containment | None
    launcher: LauncherFactory
    clock: Clock
    rng: random.Random
    new_id: Callable[[], UUID]
    _stack: AsyncExitStack = attrs.field(init=False, factory=AsyncExitStack)

    @uninterrupted
    async def __aenter__(self) -> Supervisor:
        protect()
        async with AsyncExitStack() as stack:
            supervisor = await self._build(stack)
            self._stack = stack.pop_all()
        return supervisor

    @uninterrupted
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._stack.__aexit__(kind, error, traceback)
        except BaseExceptionGroup as group:
            # The task group wraps what the block raised; it leaves bare.  A fault of our own tasks leaves in the group.
            if error is None or _others(group, error):
                raise
        # Never swallows: where the group has taken a cancellation for its own, `error` goes on from here.

    async def _build(self, stack: AsyncExitStack) -> Supervisor:
        folder = self.directory
        if folder is None:
            with refusing("the folder for temporary files"):
                folder = Path(tempfile.mkdtemp(prefix="lastword-"))
            stack.callback(_remove, folder, os.getpid())
        output = folder / OUTPUT
        with refusing("the folder for output"):
            output.mkdir(mode=0o700, exist_ok=True)
        timers = Timers(self.clock)
        with refusing("a queue of the kernel's"):
            reactor = Reactor()
        stack.callback(reactor.close)
        launcher = self.launcher(
            LaunchSite(reactor=reactor, timers=timers, folder=folder, temporary=self.directory is None)
        )
        self._check(launcher.containment)
        with refusing("the store"):
            store = Store(None if self.directory is None else folder / STORE, self.session_id)
        stack.push_async_callback(store.aclose)
        group = anyio.create_task_group()
        tasks = Tasks(group)
        works = Works(
            session_id=self.session_id,
            limits=self.limits,
            clock=self.clock,
            rng=self.rng,
            timers=timers,
            reactor=reactor,
            launcher=launcher,
            store=store,
            outbox=StoreOutbox(store),
            admission=Admission(self.limits),
            tasks=tasks,
            output_folder=output,
        )
        registry = Registry(works)
        with refusing("the lock of the processes' keepers"):
            if not await wait_for_old_shims(folder, self.clock):
                logger.error("keepers of the last supervisor are still alive; what they hold could not be ended")
        await restore(works, registry)
        # Entered only now, so that what opening raises leaves bare.
        await stack.enter_async_context(group)
        stack.callback(tasks.cancel)
        tasks.serve(reactor.run)
        tasks.serve(timers.run)
        stack.push_async_callback(_let_go, works)
        supervisor = Supervisor(works, registry, self.new_id)
        stack.push_async_callback(_close, works, supervisor, registry)
        return supervisor

    def _check(self, containment: Containment) -> None:
        if self.require is not None and containment < self.require:
            raise SupervisorError(
                ErrorCode.LIFETIME_ENFORCEMENT_UNAVAILABLE,
                f"this machine holds processes by {containment.name.lower()} at best, and "
                f"{self.require.name.lower()} is required; leave `require` out to accept less",
            )


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:  # not in a fork, which leaves the same block
        shutil.rmtree(folder, ignore_errors=True)


async def _close(works: Works, supervisor: Supervisor, registry: Registry) -> None:
    if works.forked:
        return
    try:
        with anyio.CancelScope(shield=True):
            await supervisor.aclose()
    finally:
        for job in registry.all_jobs():
            job.abandon()


async def _let_go(works: Works) -> None:
    if not works.forked:
        with anyio.CancelScope(shield=True):
            await works.launcher.aclose()


def _others(group: BaseExceptionGroup[BaseException], error: BaseException) -> bool:
    """Whether `group` has anything but `error` and cancellations."""
    cancelled = anyio.get_cancelled_exc_class()
    _, rest = group.split(lambda each: each is error or isinstance(each, cancelled))
    return rest is not None
