"""What is behind a session: its writer, its commit handler, and the loops' desk.

There is no task of the session's own: nothing to start, to supervise, or to lose.  Every write goes through the writer
to the keeper; what became durable comes back through the commit handler before the task that asked wakes.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, cast
from uuid import UUID

from .._sqlite import InlineWriter, ThreadWriter, Writer, WriterClosedError
from ..notifier import (
    Appended,
    AppendResult,
    Clock,
    Collision,
    Duplicate,
    IdempotencyCollisionError,
    JournalFencedError,
    NewRecord,
    Owner,
    SecondTerminal,
    SecondTerminalError,
    next_delay,
)
from ._commit import CommitHandler
from ._errors import LoopClosedError, SessionClosedError
from ._inbox import Inbox
from ._keeper import Append, Ask, Job, Keeper, Open, Opened
from ._records import consumption_record
from ._window import Window
from .journal import Journal, Record

T = TypeVar("T")

logger = logging.getLogger(__name__)


_CLOSED = "the session is closed and nothing was written; open it again and call again with the same ids"


class SessionObserver:
    """Is told what an operator may want to see; override what you need.  Called in the event loop: return at once."""

    def loop_stuck(self, loop_id: UUID, capacity: int) -> None:
        """All `capacity` notices of the loop are in hand and none is acknowledged: it is told nothing until one is."""

    def journal_recovered(self) -> None:
        """A write was committed after one had failed: whoever waits to try again may try now (`Courier.wake`)."""


class Core:
    """One open journal and what follows from it; also the `Desk` of its inboxes."""

    def __init__(
        self, journal: Journal, *, clock: Clock, rng: random.Random, observer: SessionObserver, inline: bool
    ) -> None:
        keeper = Keeper(journal)
        self.handler: CommitHandler = CommitHandler(keeper.take, lambda load: self._writer.post(load), self._recovered)
        self._writer: Writer[Job, object] = (
            InlineWriter(keeper.handle, keeper.release, after_batch=self.handler.follow)
            if inline
            else ThreadWriter(keeper.handle, keeper.release, name="lastword journal", after_batch=self.handler.follow)
        )
        self._clock = clock
        self._rng = rng
        self._observer = observer
        self._session_id: UUID | None = None
        self._closing = False

    @property
    def session_id(self) -> UUID:
        """Whose the journal is."""
        if self._session_id is None:
            raise SessionClosedError("the session is not open; use `async with open_session(...)`")
        return self._session_id

    # --- life

    async def start(self, session_id: UUID | None, new_id: Callable[[], UUID]) -> None:
        """Open the journal."""
        opened = await self._submit(Open(session_id, new_id))
        assert isinstance(opened, Opened)  # noqa: S101 -- what the keeper answers this job with
        self._session_id = opened.session_id
        self.handler.opened(opened.fence)

    async def stop(self) -> None:
        """Refuse what comes, finish and tell what is in flight, then end loops and subscriptions, close the journal.

        Not cut short by cancellation: what is in flight is bounded by the writer's queue.
        """
        self._closing = True
        try:
            await self._writer.aclose()
        finally:
            self.handler.end(_closed_loop)  # whoever waits is told, whatever has happened

    def check_open(self) -> None:
        """Raise `JournalFencedError` or `SessionClosedError` where nothing can be done any more."""
        if self.handler.fenced is not None:
            raise JournalFencedError(*self.handler.fenced.args)
        if self._closing:
            raise SessionClosedError(_CLOSED)

    def open_inbox(self, owner: Owner, *, capacity: int, native: bool) -> Inbox:
        """The inbox of that owner's loop: the one that is open, or a new one."""
        self.check_open()
        inbox = self.handler.inboxes.get(owner.loop_id)
        if inbox is None:
            inbox = Inbox(owner, Window(capacity), self, native=native)
            self.handler.add(inbox)
        return inbox

    # --- the journal

    async def append(self, unit: Sequence[NewRecord]) -> list[AppendResult]:
        """Append a unit; one result for each record."""
        return cast("list[AppendResult]", await self._submit(Append(tuple(unit))))

    async def publish(self, record: NewRecord) -> Appended | Duplicate:
        """Append one record, or raise what stands against it."""
        (result,) = await self.append([record])
        match result:
            case Collision():
                raise IdempotencyCollisionError(record.record_id, result.seq)
            case SecondTerminal():
                raise SecondTerminalError(result.seq)
            case Appended() | Duplicate():
                return result

    async def ask(self, question: Callable[[Journal], T]) -> T:
        """Ask the journal, in its turn."""
        return cast("T", await self._submit(Ask(question)))

    async def read(self, after: int, limit: int) -> list[Record]:
        """See `Journal.read`."""
        return await self.ask(lambda journal: journal.read(after, limit))

    async def _submit(self, job: Job) -> object:
        try:
            return await self._writer.submit(job)
        except WriterClosedError as error:
            raise SessionClosedError(f"{_CLOSED} ({error})") from None

    # --- the inboxes' desk

    async def consume(self, command_id: UUID, loop_id: UUID | None) -> None:
        """Make a consumption durable; the handler has freed its slot on return."""
        await self.publish(consumption_record(command_id, loop_id))

    def load(self, inbox: Inbox) -> None:
        """See `Desk`."""
        self.handler.load(inbox)

    def offered(self, record: Record) -> bool:
        """See `Desk`."""
        return self.handler.handed_out(record)

    async def pause(self, failures: int) -> None:
        """See `Desk`."""
        await self._clock.sleep(next_delay(failures, self._rng))

    def stuck(self, inbox: Inbox) -> None:
        """See `Desk`."""
        self._tell(partial(self._observer.loop_stuck, inbox.owner.loop_id, inbox.window.capacity))

    def _recovered(self) -> None:
        self._tell(self._observer.journal_recovered)

    def _tell(self, listener: Callable[[], None]) -> None:
        try:
            listener()
        except Exception:
            logger.exception("an observer of the session raised; delivery goes on")

    def closed(self, inbox: Inbox) -> None:
        """See `Desk`."""
        self.handler.remove(inbox)


def _closed_loop() -> LoopClosedError:
    return LoopClosedError("the session is closed; what the loop had not acknowledged is offered at the next opening")
