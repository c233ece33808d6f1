"""What follows a commit: broadcast, rows into windows, slots freed.  Done here, once per row, in the ledger's order.

Theory
- The keeper says what has become durable, from a cursor over the sequence, and this handler applies it, before the
  tasks that had asked for it wake.  It is called by the writer, never by a task that may be cancelled: whoever asked
  may be gone, and what is durable is told all the same.
- Everything here is synchronous and changes memory alone, so there is nothing to undo and nothing to wait for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import Enum
from uuid import UUID

import anyio

from ..notifier import JournalFencedError, LastwordError, RecordKind
from ..notifier._crashpoints import CrashPoint, reached
from ._hub import Hub
from ._inbox import Inbox
from ._keeper import Committed, Fenced, Load, Loaded, LoadFailed, Readable, Step, Writable
from .journal import Record
from .journal._judge import settles

logger = logging.getLogger(__name__)


class Placement(Enum):
    """What became of a notification when its row was handled."""

    OFFERED = "offered"
    """It is in its loop's window."""

    FULL = "full"
    """Its loop's window has no room: it waits in the journal."""

    COMING = "coming"
    """There is room, and whether it is next is being looked up; one of the others follows."""

    UNREAD = "unread"
    """There is room, and the journal could not be read: it comes when it can be."""

    CLOSED = "closed"
    """Its loop was open here, and is closed."""

    NOT_FOUND = "not found"
    """Its loop was never opened here."""

    UNSUPPORTED = "unsupported"
    """Its loop takes no notices."""

    SETTLED = "settled"
    """It had been consumed before it came; it reaches no loop."""


class Awaited:
    """A notification that somebody wants to know the placement of."""

    def __init__(self) -> None:
        self.placement: Placement | None = None
        self.askers = 0
        self._final = anyio.Event()

    def becomes(self, placement: Placement) -> None:
        """Note what has become of it."""
        self.placement = placement
        if placement is not Placement.COMING:
            self._final.set()

    async def settled(self) -> Placement | None:
        """Where it is, as soon as that is known; None if its row was never handled."""
        if self.placement is Placement.COMING:
            await self._final.wait()
        return self.placement


class CommitHandler:
    """Applies the keeper's steps to the hub and the loops of one session."""

    def __init__(
        self, take: Callable[[], Step | None], post: Callable[[Load], None], recovered: Callable[[], None]
    ) -> None:
        self.hub: Hub = Hub()
        self.inboxes: dict[UUID, Inbox] = {}
        self.fenced: JournalFencedError | None = None
        self._take = take
        self._post = post
        self._recovered = recovered
        self._closed_loops: set[UUID] = set()
        self._awaited: dict[UUID, Awaited] = {}
        self._coming: dict[UUID, Inbox] = {}  # of what is awaited: see `Placement.COMING`
        self._offered: dict[UUID, UUID | None] = {}  # by command: the loop that it was handed out on
        self._failing: set[Inbox] = set()
        self._fence = 0
        self._at_work = False

    def opened(self, fence: int) -> None:
        """The ledger's end when the session was opened: what is older may have been told by an earlier incarnation."""
        self._fence = fence
        self.hub.opened_at(fence)

    def follow(self) -> None:
        """Apply every step there is."""
        if self._at_work:  # a job that was posted from within, on a writer without a thread: its step is next anyway
            return
        self._at_work = True
        try:
            while (step := self._take()) is not None:
                try:
                    self._apply(step)
                except Exception:
                    # A bug must not keep the rows that come after it from their loops.
                    logger.exception("a step of the commit handler failed")
        finally:
            self._at_work = False

    def _apply(self, step: Step) -> None:
        match step:
            case Committed():
                self._committed(step)
            case Loaded():
                inbox = self._of(step.loop_id, step.ticket)
                if inbox is not None:
                    inbox.loaded(step.records, more=step.more)
                    self.load(inbox)
                    self._place_coming(inbox)
            case LoadFailed():
                inbox = self._of(step.loop_id, step.ticket)
                if inbox is not None:
                    inbox.load_failed()
                    self._failing.add(inbox)
                    self._answer_coming(inbox, Placement.UNREAD)
            case Fenced():
                self.fence(step.error)
            case Readable():
                self._retry_loads()
            case Writable():
                self._recovered()

    def _committed(self, step: Committed) -> None:
        for follow_up in (self._broadcast, self._consume, self._notify):
            try:
                follow_up(step)
            except Exception:
                # What a subscriber's side does wrong must not keep a notice from its loop.
                logger.exception("a part of a step of the commit handler failed, at sequence %d", step.record.seq)

    def _broadcast(self, step: Committed) -> None:
        self.hub.handle(step.record)

    def _consume(self, step: Committed) -> None:
        if step.record.consumes is not None:
            reached(CrashPoint.ACK_COMMITTED)
            self._settle(step.record.consumes, step.record.loop_id)

    def _notify(self, step: Committed) -> None:
        record = step.record
        if record.kind is RecordKind.COMMAND and record.loop_id is not None:
            reached(CrashPoint.NOTIFICATION_APPENDED)
            inbox = self.inboxes.get(record.loop_id)
            placement = self._place(step, inbox)
            awaited = self._awaited.get(record.record_id)
            if awaited is not None:
                awaited.becomes(placement)
                if placement is Placement.COMING and inbox is not None:
                    self._coming[record.record_id] = inbox

    def _retry_loads(self) -> None:
        """The journal works again: whoever waits for rows gets them without waiting for a backoff."""
        while self._failing:
            self.load(self._failing.pop())

    def _place(self, step: Committed, inbox: Inbox | None) -> Placement:
        loop_id = step.record.loop_id
        if not step.pending:
            return Placement.SETTLED
        if inbox is None:
            return Placement.CLOSED if loop_id in self._closed_loops else Placement.NOT_FOUND
        if not inbox.native:
            return Placement.UNSUPPORTED
        if inbox.offer(step.record):
            return Placement.OFFERED
        self.load(inbox)
        return Placement.FULL if inbox.window.full else Placement.COMING

    def _place_coming(self, inbox: Inbox) -> None:
        """Rows have come: say of what was coming to this loop whether it is among them."""
        window = inbox.window
        for command_id in [command_id for command_id, where in self._coming.items() if where is inbox]:
            if window.holds(command_id):
                self._answer(command_id, Placement.OFFERED)
            elif window.full:
                self._answer(command_id, Placement.FULL)
            elif not window.loading:
                self._answer(command_id, Placement.UNREAD)  # nothing more will come, so nobody may wait for it

    def _answer_coming(self, inbox: Inbox, placement: Placement) -> None:
        for command_id in [command_id for command_id, where in self._coming.items() if where is inbox]:
            self._answer(command_id, placement)

    def _answer(self, command_id: UUID, placement: Placement) -> None:
        del self._coming[command_id]
        self._awaited[command_id].becomes(placement)

    def _settle(self, command_id: UUID, consumer: UUID | None) -> None:
        """Free the slot, in the consumer's own loop, or wherever it is where the consumer names none."""
        if command_id in self._offered and settles(consumer, self._offered[command_id]):
            del self._offered[command_id]
        if command_id in self._coming and settles(consumer, self._coming[command_id].owner.loop_id):
            self._answer(command_id, Placement.SETTLED)
        for inbox in [self.inboxes.get(consumer)] if consumer is not None else list(self.inboxes.values()):
            if inbox is not None:
                inbox.window.settle(command_id)
                self.load(inbox)

    def load(self, inbox: Inbox) -> None:
        """Have the journal read for what the loop's window wants, if it wants anything."""
        wanted = inbox.wanted()
        if wanted is not None:
            after, limit = wanted
            self._post(Load(inbox.owner.loop_id, inbox, after, limit))

    def _of(self, loop_id: UUID, ticket: object) -> Inbox | None:
        """The loop that asked; None if it was closed since, even if another of its id is open now."""
        inbox = self.inboxes.get(loop_id)
        return inbox if inbox is ticket else None

    # --- loops

    def add(self, inbox: Inbox) -> None:
        """A loop is open."""
        self.inboxes[inbox.owner.loop_id] = inbox
        self._closed_loops.discard(inbox.owner.loop_id)
        self.load(inbox)

    def remove(self, inbox: Inbox) -> None:
        """A loop is closed."""
        if self.inboxes.get(inbox.owner.loop_id) is inbox:
            del self.inboxes[inbox.owner.loop_id]
            self._failing.discard(inbox)
            self._closed_loops.add(inbox.owner.loop_id)
            self._answer_coming(inbox, Placement.CLOSED)

    def handed_out(self, record: Record) -> bool:
        """Note that a row is handed out; whether it may have been before, here or by an earlier incarnation."""
        again = record.record_id in self._offered or record.seq < self._fence
        self._offered[record.record_id] = record.loop_id
        return again

    # --- answers

    @contextmanager
    def awaiting(self, command_id: UUID) -> Generator[Awaited]:
        """Keep what becomes of the notification when its row is handled, for as long as somebody wants to know."""
        awaited = self._awaited.setdefault(command_id, Awaited())
        awaited.askers += 1
        try:
            yield awaited
        finally:
            awaited.askers -= 1
            if not awaited.askers:
                del self._awaited[command_id]
                self._coming.pop(command_id, None)

    # --- the end

    def fence(self, error: JournalFencedError) -> None:
        """Another opener has the journal: whoever waits here is told, and nothing more is handed out."""
        self.fenced = error
        self.end(lambda: JournalFencedError(*error.args), error=lambda: JournalFencedError(*error.args))

    def end(self, why: Callable[[], LastwordError], *, error: Callable[[], LastwordError] | None = None) -> None:
        """End every loop and subscription; `why` is what receivers are told, `error` what subscribers are, if any."""
        for inbox in list(self.inboxes.values()):
            inbox.end(why)
        self.hub.close(error)
