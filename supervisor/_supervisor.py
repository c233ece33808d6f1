"""Starts processes, knows them by handle and owner, and ends every one of them before it is gone.

Theory of operation
- Everything that one supervisor's processes share is in `Works`; a `Job` is one process's life; `Registry` knows them
  all, and evicts; this module admits, looks up, and closes.  `_opening` builds it and takes it down.
"""

from __future__ import annotations

import builtins
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, final
from uuid import UUID

from anyio.lowlevel import checkpoint

from ..notifier import Owner, PendingDelivery, new_handle, process_ids
from ..notifier._first import first_of
from ._admission import Reservation
from ._command import Command, EnvPolicy, HasOwner, OnOutputLimit, Order, judge_order, owner_of
from ._errors import ErrorCode, ProcessNotFoundError, QuotaExceededError, SupervisorError
from ._intake import open_input
from ._job import Job
from ._limits import Containment, Limits, ResourceLimits, TerminalSize
from ._outbox import StoreOutbox
from ._outcome import Outcome
from ._process import Process
from ._record import ProcessRecord
from ._registry import Registry
from ._works import Works
from .launch import Input, Survivors

logger = logging.getLogger(__name__)

# After the grace: SIGKILL and its deadline (a second each for the leader and the rest), and the store's last writes.
# With the grace it is how long closing takes at most.
CLOSING_SECONDS = 5.0


@final
class Supervisor:
    """The processes of one session.  `open_supervisor` makes one; there is no other way."""

    def __init__(self, works: Works, registry: Registry, new_id: Callable[[], UUID]) -> None:
        self._works = works
        self._registry = registry
        self._new_id = new_id
        self._closing_ends: float | None = None  # monotonic seconds, fixed by the first who closes
        self._late = False

    @property
    def outbox(self) -> StoreOutbox:
        """What is to be told: give it to a courier."""
        return self._works.outbox

    @property
    def limits(self) -> Limits:
        """What it allows."""
        return self._works.limits

    @property
    def containment(self) -> Containment:
        """How strongly it holds its processes."""
        return self._works.launcher.containment

    async def start(
        self,
        command: Command,
        *,
        owner: Owner | HasOwner,
        origin_execution_id: UUID | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        env_policy: EnvPolicy = "minimal",
        stdin: bytes | Literal["pipe"] | None = None,
        pty: TerminalSize | bool = False,
        timeout: float | None = None,
        background: bool = False,
        survivors: Survivors = "stop",
        name: str = "",
        split_streams: bool = False,
        output_limit: int | None = None,
        on_output_limit: OnOutputLimit = "rotate",
        resources: ResourceLimits | None = None,
    ) -> Process:
        """Start a process and return it once it runs and that is durable.  A checkpoint.

        - `command`: a str runs under `/bin/sh -c`; a sequence is executed as given, looked up in the job's own PATH.
        - `owner`: who is told; an Owner of this session, or a loop.
        - `origin_execution_id`: what asked for it; None mints one.
        - `cwd`: its working directory; None is the host's.
        - `env_policy`: which of the host's variables it gets: "minimal" (PATH HOME USER LANG LC_* TERM TMPDIR TZ),
          "inherit" (all) or "none"; `env` is added to them.
        - `stdin`: None reads as end of file at once; bytes are all there is to read; "pipe" reads what `send_input`
          is given, until `close_input`.
        - `pty`: a terminal instead of pipes, of that size (True: 24 rows of 80 columns): for input and all output, and
          the process's controlling one.
        - `timeout`: its lifetime in seconds; then it is stopped, and has timed out.
        - `background`: it is told as Backgrounded, not as Started.  That is all: no start waits for the end.
        - `survivors`: what becomes of processes that it leaves behind: "stop" or "keep" (until a later stop, or the
          supervisor's end).
        - `name`: what you call it, for people and models; several may have the same.
        - `split_streams`: stdout and stderr can be read one by one, and their order is only nearly that of the writing;
          else they are one stream, in exact order.
        - `output_limit`: bytes of output that are kept; None is `Limits.spool_bytes`.  Beyond it, "rotate" goes on and
          keeps the last ones, "stop" keeps the first ones and stops the process.
        - `resources`: limits of the system for it (open files, memory, ...), and its umask and niceness.

        Cancelled before it was spawned, no process is left, and its record is failed (`start_cancelled`) and told.
        Once it was spawned it is running, and its caller has no power over it: `list` shows it.  A native cancel of
        asyncio (`Task.cancel`, `asyncio.timeout`) does the same as that of a scope.

        Raises, with no record: `InvalidCommandError`, `QuotaExceededError`, `SupervisorError` (pty_unavailable,
        process_setup_failed, supervisor_shutting_down, ...).  Raises, with a failed record that is told like any other:
        `SpawnFailedError`, and `SupervisorError` (supervisor_shutting_down) where closing came in between.
        """
        self._check_open()
        order = judge_order(
            command,
            owner=owner,
            origin_execution_id=origin_execution_id,
            cwd=cwd,
            env=env,
            env_policy=env_policy,
            stdin=stdin,
            pty=pty,
            timeout=timeout,
            background=background,
            survivors=survivors,
            name=name,
            split_streams=split_streams,
            output_limit=output_limit,
            on_output_limit=on_output_limit,
            resources=resources,
            limits=self._works.limits,
            host_env=os.environ,
        )
        self._check_owner(order.owner)
        self._works.launcher.refuse(order.wishes)
        await checkpoint()
        self._check_open()
        given = open_input(self._works, order)
        try:
            job = self._admit(order, given)
        except BaseException:
            if given is not None:
                given.close()
            raise
        process = self._registry.process_of(job)  # now: it may have ended, and be evicted, before it is handed over
        await job.run(order)
        return process

    def get(self, handle: str, owner: Owner | HasOwner) -> Process:
        """The owner's process of that handle: starting, running, ended or restored.

        Raises `ProcessNotFoundError`, for somebody else's process exactly as for one that never was.
        """
        wanted = owner_of(owner)
        process = self._registry.find(handle)
        if process is None or process.owner != wanted:
            raise ProcessNotFoundError
        self._registry.touch(process.handle)  # the owner's alone: a stranger must not decide what is kept
        return process

    def list(self, owner: Owner | HasOwner) -> builtins.list[Process]:
        """The owner's processes that are known, oldest first."""
        wanted = owner_of(owner)
        return [process for process in self._registry.processes() if process.owner == wanted]

    def owners(self) -> builtins.list[Owner]:
        """Everybody who has a process that is known, by the age of their oldest."""
        return list(dict.fromkeys(process.owner for process in self._registry.processes()))

    @property
    def holding(self) -> int:
        """How many processes have something alive: those that run, and those that have ended and keep survivors."""
        return len(self._registry.holding())

    async def wait_any(self, processes: Sequence[Process]) -> builtins.list[Process]:
        """Return those of `processes` that have ended, in their order, once one has; [] for none.  A checkpoint."""
        await checkpoint()
        if processes and not any(process.outcome for process in processes):
            await first_of(*(process.wait for process in processes))
        return [process for process in processes if process.outcome]

    async def wait_all(self, processes: Sequence[Process]) -> builtins.list[Outcome]:
        """Return how each of `processes` ended, in their order, once all have.  A checkpoint."""
        await checkpoint()
        return [await process.wait() for process in processes]

    def pending(self) -> builtins.list[PendingDelivery]:
        """Every record that is not known to be delivered, and every last word that could not be stored yet."""
        held = self._works.outbox.undelivered()
        for job in self._registry.running():
            held += job.teller.unstored()
        return held

    async def aclose(self) -> None:
        """Admit nothing more, stop every process (runner_shutdown), and store their last words.

        Takes at most `Limits.grace_seconds` and `CLOSING_SECONDS`, counted from the first call: another one waits only
        for what is left of them.  The context manager calls it shielded; cancelled otherwise, what it has ordered goes
        on.  In a fork of the host it does nothing: the processes are the host's.
        """
        if self._works.forked:
            await checkpoint()
            return
        self._works.closing = True
        jobs = self._registry.holding()
        for job in jobs:
            job.shut_down()
        timers, grace = self._works.timers, self._works.limits.grace_seconds
        if self._closing_ends is None:
            self._closing_ends = timers.now() + grace + CLOSING_SECONDS
            timers.call_after(grace, lambda: _kill(jobs))
        left = self._closing_ends - timers.now()

        async def all_let_go() -> None:
            for job in jobs:
                await job.wait_let_go()

        if jobs and left > 0:
            await first_of(all_let_go, lambda: self._works.clock.sleep(left))
        else:
            await checkpoint()
        if self._registry.holding() and not self._late:
            self._late = True
            logger.error("closing has run out of time: not every process has ended, or its last word is not stored")

    # --- admission ----------------------------------------------------------------------------------------------------

    def _admit(self, order: Order, given: Input | None) -> Job:
        reservation = self._reserve(order)
        base = self._new_id()
        record = ProcessRecord(
            handle=new_handle(),
            base_id=process_ids(base).process,
            owner=order.owner,
            origin_execution_id=order.origin_execution_id or self._new_id(),
            name=order.name,
            program=order.program,
            created_at=self._works.clock.now(),
            split_streams=order.wishes.split_streams,
        )
        job = Job(self._works, record, reservation, self._registry.note_ended, given)
        self._registry.add(job)
        return job

    def _reserve(self, order: Order) -> Reservation:
        admission = self._works.admission
        try:
            return admission.reserve(order.owner.loop_id, order.output_limit)
        except QuotaExceededError as error:
            shortage = admission.output_shortage(order.output_limit)
            if error.code is not ErrorCode.OUTPUT_QUOTA_EXCEEDED or not self._registry.make_room(shortage):
                raise
        return admission.reserve(order.owner.loop_id, order.output_limit)

    def _check_open(self) -> None:
        self._works.refuse_fork()
        if self._works.closing:
            raise SupervisorError(ErrorCode.SUPERVISOR_SHUTTING_DOWN, "the supervisor is closing and starts nothing")

    def _check_owner(self, owner: Owner) -> None:
        if owner.session_id != self._works.session_id:
            raise SupervisorError(
                ErrorCode.INVALID_ARGUMENTS, "the owner is of another session; give a loop of this supervisor's session"
            )


def _kill(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.kill_now()
