"""The composition root: the only module that sees both the supervisor and the session.

Theory of operation
- A runtime is one task, `_serve`, that opens everything in order (directory, session, supervisor, courier) and closes
  it in reverse.  Opening can be cancelled; from the moment the runtime is handed over the task is shielded, and only
  the end of the block ends it.  So closing outlasts cancelled scopes, repeated native cancels, and one Ctrl-C.
- Closing is bounded: the supervisor stops its processes within their grace, then the courier has a few seconds to bring
  the last words home.  What could not be journaled by then is still in the store, and is delivered when the directory
  is opened again.
- What the block raised leaves as it is: never wrapped in a group.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from os import PathLike
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Literal, TypedDict, Unpack, cast, final
from uuid import UUID

import anyio
import attrs
from anyio.abc import TaskGroup

from .notifier import Clock, Courier, OutboxUnit, Owner, PendingDelivery, SystemClock, Verdict, new_uuid7
from .notifier._first import first_of
from .notifier._interrupts import protect, uninterrupted
from .session import Loop, Session, SessionObserver, open_session
from .session.journal import Journal, MemoryJournal, SqliteJournal
from .supervisor import (
    Containment,
    EnvPolicy,
    ErrorCode,
    HasOwner,
    LauncherFactory,
    Limits,
    OnOutputLimit,
    Process,
    ResourceLimits,
    Supervisor,
    SupervisorError,
    Survivors,
    TerminalSize,
    hold_directory,
    open_supervisor,
)

logger = logging.getLogger(__name__)

# Beyond the supervisor's own bound (grace, then the kill): how long closing waits for the journal.
DELIVERY_SECONDS = 5.0

_JOURNAL_FILE = "journal.db"
_SQLITE_URL = "sqlite:///"


class Observer(SessionObserver):
    """Is told what an operator may want to see; override what you need.

    Called in the event loop, so return at once.  What it raises is logged, and stops nothing.
    """

    def unit_judged(self, unit: OutboxUnit, verdict: Verdict, error: Exception | None) -> None:
        """The courier has offered `unit` to the journal once more; `error` is what was raised, where something was.

        QUARANTINED: it can never be journaled, and is kept and listed by `Runtime.pending`.
        """


class StartOptions(TypedDict, total=False):
    """The options of `Supervisor.start`, for `Runtime.start`; see there."""

    origin_execution_id: UUID | None
    cwd: str | PathLike[str] | None
    env: Mapping[str, str] | None
    env_policy: EnvPolicy
    stdin: bytes | Literal["pipe"] | None
    pty: TerminalSize | bool
    timeout: float | None
    background: bool
    survivors: Survivors
    name: str
    split_streams: bool
    output_limit: int | None
    on_output_limit: OnOutputLimit
    resources: ResourceLimits | None


@final
class Runtime:
    """A supervisor and a session that deliver to each other; `open_runtime` makes one, and there is no other way."""

    def __init__(self, session: Session, supervisor: Supervisor, clock: Clock | None = None) -> None:
        self._session = session
        self._supervisor = supervisor
        self._clock = SystemClock() if clock is None else clock
        self._loop = session.open_loop()

    def __repr__(self) -> str:
        return f"<Runtime of session {self._session.session_id}>"

    @property
    def session(self) -> Session:
        """The durable side: journal, subscriptions, loops."""
        return self._session

    @property
    def supervisor(self) -> Supervisor:
        """The operating-system side: processes."""
        return self._supervisor

    @property
    def clock(self) -> Clock:
        """Where its time comes from: what is built on a runtime waits by this one, too."""
        return self._clock

    @property
    def loop(self) -> Loop:
        """The session's main loop: its id is the same for the session's whole life."""
        return self._loop

    async def start(
        self, command: str | Sequence[str], *, owner: Owner | HasOwner | None = None, **options: Unpack[StartOptions]
    ) -> Process:
        """Start a process that `owner` (None: the main loop) is told of; all else is as `Supervisor.start` says.

        Options: `cwd`, `env`, `env_policy`, `stdin`, `timeout` (seconds), `background`, `survivors`, `name`,
        `output_limit` (bytes), `on_output_limit`, `resources`, `pty`, `split_streams`, `origin_execution_id`.
        """
        return await self._supervisor.start(command, owner=self._loop if owner is None else owner, **options)

    async def pending(self) -> list[PendingDelivery]:
        """Everything whose way home is not finished: what is not journaled, then what is not acknowledged, in order.

        The former are events and notifications, the latter notifications alone.  A checkpoint.  Raises
        `JournalUnavailableError` where the journal cannot be read now.
        """
        undelivered = self._supervisor.pending()
        # Read after the outbox: what is journaled in between is listed twice rather than not at all; the later wins.
        journaled = [
            PendingDelivery(
                record_id=record.record_id,
                kind="notification",
                process_handle=record.subject or "",
                status="unacknowledged",
            )
            for record in await self._session.unacknowledged()
        ]
        known = {record.record_id for record in journaled}
        return [record for record in undelivered if record.record_id not in known] + journaled


def open_runtime(
    directory: str | PathLike[str] | None = None,
    *,
    session_id: UUID | None = None,
    limits: Limits | None = None,
    journal: Journal | str | None = None,
    require: Containment | None = None,
    observer: Observer | None = None,
    clock: Clock | None = None,
    rng: Random | None = None,
    launcher: LauncherFactory | None = None,
) -> AbstractAsyncContextManager[Runtime, None]:
    """Run background jobs for as long as the block lasts: `async with open_runtime("folder") as runtime`.

    - `directory`: where everything durable is; made if it is missing, private (0700).  An existing one is restored: the
      same session, lost processes told, unacknowledged notices pending.  None: nothing is durable, and nothing outlives
      the block.
    - `session_id`: the session of a new directory (None: a fresh one); an existing one must have it.
    - `journal`: a backend, or a URL ("sqlite:///relative/or//absolute.db"); None: `journal.db` in the directory.  One
      that outlives the block needs a directory that does, too.
    - `require`: the weakest containment that is accepted.
    - `observer`: is told what an operator may want to see.
    - `clock`, `rng`: where time and jitter come from; for tests.
    - `launcher`: what spawns, in place of the strongest that the machine has; for tests (`lastword.adapters.testing`).

    Leaving the block stops every process (reason `runner_shutdown`), journals their last words and closes; it takes at
    most the grace and ten seconds, outlasts cancellation, and re-raises what the block raised as it is.  What the
    journal could not take by then is told at the next opening; without a directory there is none, and it is lost.

    The block is entered and left in one task.  Another thread reaches the runtime through `anyio.from_thread.run`, and
    no other way; a forked child not at all.

    Raises `DirectoryInUseError` where a live runtime has the directory, `SupervisorError` (invalid_settings,
    manifest_corrupt, lifetime_enforcement_unavailable), and the journal's errors.  Cancelled while opening: nothing is
    open.
    """
    if directory is not None and not isinstance(directory, str) and not hasattr(directory, "__fspath__"):
        raise _refused(f"directory must be a path, not {type(directory).__name__}")
    settings: list[tuple[str, object, type]] = [
        ("session_id", session_id, UUID),
        ("limits", limits, Limits),
        ("require", require, Containment),
        ("observer", observer, Observer),
        ("rng", rng, Random),
    ]
    for name, value, kind in settings:
        if value is not None and not isinstance(value, kind):
            raise _refused(f"{name} must be {kind.__name__}, not {type(value).__name__}")
    if launcher is not None and not callable(launcher):
        raise _refused(f"launcher must make one for a supervisor, and {type(launcher).__name__} cannot be called")
    for name, port, methods in (("clock", clock, Clock), ("journal", journal, Journal)):
        if port is not None and not isinstance(port, str) and not _has_all(port, methods):
            raise _refused(f"{name} must be a {methods.__name__}, and {type(port).__name__} is none")
    return _RuntimeManager(
        _Plan(
            directory=directory,
            session_id=session_id,
            limits=limits,
            journal=_choose_journal(directory, journal),
            require=require,
            observer=Observer() if observer is None else observer,
            clock=SystemClock() if clock is None else clock,
            rng=Random() if rng is None else rng,  # noqa: S311 -- spreads retries, guards nothing
            launcher=launcher,
        )
    )


def _refused(why: str) -> SupervisorError:
    return SupervisorError(ErrorCode.INVALID_SETTINGS, why)


def _has_all(value: object, port: type) -> bool:
    """Whether `value` has every method of the protocol; that they do what it says is its author's affair."""
    return all(callable(getattr(value, name, None)) for name in dir(port) if not name.startswith("_"))


@attrs.frozen(kw_only=True)
class _Plan:
    """What `open_runtime` was asked for, judged."""

    directory: str | PathLike[str] | None
    session_id: UUID | None
    limits: Limits | None
    journal: Journal | None
    require: Containment | None
    observer: Observer
    clock: Clock
    rng: Random
    launcher: LauncherFactory | None


def _choose_journal(directory: str | PathLike[str] | None, journal: Journal | str | None) -> Journal | None:
    """The backend; None for the directory's own."""
    if isinstance(journal, str):
        if not journal.startswith(_SQLITE_URL) or journal == _SQLITE_URL:
            raise _refused('the journal URL is not one of ours; give "sqlite:///path/to/journal.db"')
        journal = SqliteJournal(journal.removeprefix(_SQLITE_URL))
    if directory is None:
        if journal is not None and not isinstance(journal, MemoryJournal):
            raise _refused(
                "a journal that outlives the block needs a directory that does, or what is not yet journaled is lost: "
                "give one, or leave the journal out"
            )
        return MemoryJournal() if journal is None else journal
    return journal


class _Relay(Observer):
    """Tells the courier that the journal is back, and the host's observer everything."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.courier: Courier | None = None

    def loop_stuck(self, loop_id: UUID, capacity: int) -> None:
        self._observer.loop_stuck(loop_id, capacity)

    def journal_recovered(self) -> None:
        if self.courier is not None:
            self.courier.wake()  # so that no backoff is waited out for nothing
        self._observer.journal_recovered()

    def unit_judged(self, unit: OutboxUnit, verdict: Verdict, error: Exception | None) -> None:
        self._observer.unit_judged(unit, verdict, error)


class _RuntimeManager(AbstractAsyncContextManager[Runtime, None]):
    """Holds the task that is the runtime; see the head of this file."""

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._group: TaskGroup | None = None
        self._runtime: Runtime | None = None
        self._opened = anyio.Event()
        self._leave = anyio.Event()

    @uninterrupted
    async def __aenter__(self) -> Runtime:
        protect()
        if self._group is not None:
            raise RuntimeError("this runtime was opened before; call open_runtime() for another one")
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        # Not `TaskGroup.start`: its hand-over can be cancelled after the task has shielded itself, and then each would
        # wait for the other.  Here the task looks at `_leave` when it is open, whatever has become of us meanwhile.
        self._group.start_soon(self._serve)
        try:
            await self._opened.wait()
        except BaseException as error:
            self._leave.set()
            await self._join(error)
            raise
        assert self._runtime is not None  # noqa: S101 -- there before `_opened` is set
        return self._runtime

    @uninterrupted
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave.set()
        await self._join(error)

    async def _join(self, error: BaseException | None) -> None:
        """Wait for the task's end; `error` is what the block raised, and goes on by itself."""
        assert self._group is not None  # noqa: S101 -- both callers have entered it
        try:
            kind = None if error is None else type(error)
            await self._group.__aexit__(kind, error, None if error is None else error.__traceback__)
        except BaseExceptionGroup as group:
            ours = [raised for raised in group.exceptions if not _leaves(raised) <= _leaves(error)]
            if not ours:
                return
            if error is None or isinstance(error, anyio.get_cancelled_exc_class()):
                if len(ours) > 1:
                    raise
                raise ours[0] from ours[0].__cause__
            # The block's own error is what its author looks for; ours must not be lost behind it.
            logger.exception("closing the runtime has failed", exc_info=ours[0])

    @uninterrupted
    async def _serve(self) -> None:
        plan = self._plan
        with anyio.CancelScope() as scope:
            async with AsyncExitStack() as stack:
                path, session_id = None, plan.session_id
                if plan.directory is not None:
                    hold = hold_directory(plan.directory, session_id=session_id, new_id=new_uuid7)
                    held = stack.enter_context(hold)
                    path, session_id = held.path, held.session_id
                relay = _Relay(plan.observer)
                session = await stack.enter_async_context(
                    open_session(
                        _journal_of(plan, path),
                        session_id=session_id,
                        clock=plan.clock,
                        rng=plan.rng,
                        observer=relay,
                    )
                )
                supervisor = await stack.enter_async_context(
                    open_supervisor(
                        path,
                        session_id=session.session_id,
                        limits=plan.limits,
                        require=plan.require,
                        launcher=plan.launcher,
                        clock=plan.clock,
                        rng=plan.rng,
                    )
                )
                relay.courier = Courier(supervisor.outbox, session, clock=plan.clock, rng=plan.rng, observer=relay)
                scope.shield = True
                await self._deliver(Runtime(session, supervisor, plan.clock), relay.courier)

    async def _deliver(self, runtime: Runtime, courier: Courier) -> None:
        """Hand the runtime over, and bring every last word home until the block is left and they are all there."""
        supervisor = runtime.supervisor
        fenced = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_carry, courier, fenced)
            self._runtime = runtime
            self._opened.set()
            await self._leave.wait()
            await supervisor.aclose()
            await first_of(supervisor.outbox.wait_empty, fenced.wait, lambda: self._plan.clock.sleep(DELIVERY_SECONDS))
            tasks.cancel_scope.cancel()
        waiting = len(supervisor.outbox.heads())
        if waiting:
            rest = "are lost with it" if self._plan.directory is None else "are kept, and told when it is opened again"
            logger.error("closed with the last words of %d processes not journaled; they %s", waiting, rest)


@uninterrupted
async def _carry(courier: Courier, fenced: anyio.Event) -> None:
    await courier.run()
    fenced.set()


def _leaves(error: BaseException | None) -> set[int]:
    """Which errors are in it: a group is taken apart and put together anew on its way through a task group."""
    if isinstance(error, BaseExceptionGroup):
        members = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return {leaf for member in members for leaf in _leaves(member)}
    return set() if error is None else {id(error)}


def _journal_of(plan: _Plan, path: Path | None) -> Journal:
    if plan.journal is not None:
        return plan.journal
    assert path is not None  # noqa: S101 -- `_choose_journal` gives a journal to whoever has no directory
    return SqliteJournal(path / _JOURNAL_FILE)
