"""An agent's inbox: a loop hands out notices, and each stays its holder's until it is acknowledged or given back.

Rules
- Receiving takes nothing from the journal.  Only an acknowledgement does, and it is durable when it returns.
- A cancelled `receive` has received nothing.
- There is no time limit on a notice: nobody offers it to another holder while the first is at work.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, final
from uuid import UUID

import anyio
from anyio.lowlevel import checkpoint

from ..notifier import LastwordError, Owner, ProcessCompletionNotification, decode_command
from ..notifier._crashpoints import CrashPoint, reached
from ._errors import LoopClosedError
from .journal import Record

if TYPE_CHECKING:
    from ._inbox import Inbox


logger = logging.getLogger(__name__)


@final
class Notice:
    """A process's last word, handed to its owner.  It keeps its place until `ack()` or `release()`."""

    def __init__(
        self,
        inbox: Inbox,
        record: Record,
        holder: object,
        notification: ProcessCompletionNotification,
        *,
        redelivered: bool,
    ) -> None:
        self._inbox = inbox
        self._record = record
        self._holder = holder
        self._notification = notification
        self._redelivered = redelivered
        self._acknowledged = False

    @property
    def notification(self) -> ProcessCompletionNotification:
        """What is told."""
        return self._notification

    @property
    def journal_seq(self) -> int:
        """Where the notification is in the journal, from 1."""
        return self._record.seq

    @property
    def redelivered(self) -> bool:
        """Whether it may have been handed out before: it was released, its loop was closed, or the host restarted."""
        return self._redelivered

    async def ack(self) -> None:
        """Settle it for ever: durable on return, its place free, and twice is harmless.  A checkpoint.

        Cancelled: it may be settled all the same; call `ack()` again to know.  Works on a closed loop too.  Raises
        `JournalUnavailableError` (unknown: call again), `JournalFencedError`, `SessionClosedError`.
        """
        if self._acknowledged:
            await checkpoint()
            return
        reached(CrashPoint.ACK_ASKED)
        await self._inbox.consume(self._record.record_id)
        reached(CrashPoint.ACKED)
        self._acknowledged = True

    def release(self) -> None:
        """Offer it again, to whoever receives next, as redelivered.  Sync; without effect once it is not held."""
        self._inbox.give_back(self._record.seq, self._holder)

    def __repr__(self) -> str:
        return f"<Notice {self._record.record_id} at {self._record.seq}>"


@final
class Loop:
    """Where an owner is told.  Made by `Session.open_loop`; iterating it receives until it is closed."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    @property
    def loop_id(self) -> UUID:
        """The loop's id; the main loop's is the same for the session's whole life."""
        return self._inbox.owner.loop_id

    @property
    def owner(self) -> Owner:
        """Whose a process is that this loop is to be told of."""
        return self._inbox.owner

    @property
    def native(self) -> bool:
        """Whether the loop takes notices."""
        return self._inbox.native

    @property
    def capacity(self) -> int:
        """How many notices are on offer or in hand at once."""
        return self._inbox.window.capacity

    @property
    def held(self) -> int:
        """How many of these places are taken."""
        return self._inbox.window.held

    async def receive(self) -> Notice:
        """The next notice, in the order of the journal; waits for one.  A checkpoint.

        Cancelled: nothing is received.  Any number of tasks may receive.  Raises `LoopClosedError`,
        `ProcessNotificationUnsupportedError` for a loop that is not native, and `JournalFencedError` when another
        opener has taken the session.  A journal that cannot be read is waited for, with backoff.
        """
        await checkpoint()
        while (notice := self._take()) is None:
            await self._inbox.wait()
        return notice

    def receive_nowait(self) -> Notice:
        """The next notice if one is on offer, else `anyio.WouldBlock`.  Sync; else as `receive`.

        A loop that was just opened has not seen the journal yet: its first rows come in a moment.  A journal that could
        not be read is asked again by each call.
        """
        notice = self._take()
        if notice is None:
            self._inbox.ask()
            raise anyio.WouldBlock
        return notice

    def __aiter__(self) -> Loop:
        return self

    async def __anext__(self) -> Notice:
        """As `receive`; ends when the loop is closed."""
        try:
            return await self.receive()
        except LoopClosedError:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Close the loop: who waits for a notice is told, and what was not acknowledged is offered at the next opening.

        Idempotent; a checkpoint.  Its notices can still be acknowledged.
        """
        self._inbox.end(_closed)
        await checkpoint()

    async def __aenter__(self) -> Loop:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def _take(self) -> Notice | None:
        while True:
            holder = object()
            taken = self._inbox.take(holder)
            if taken is None:
                return None
            reached(CrashPoint.RECEIVED)
            record, again = taken
            try:
                notification = decode_command(record.payload).notification
            except LastwordError:
                # What is written here was checked on its way in: somebody else's hand, or a later version's command.
                # It keeps its place and stays pending, to be seen and settled by `acknowledge`; the others go on.
                logger.exception("the notification at sequence %d cannot be read and is passed over", record.seq)
                continue
            return Notice(self._inbox, record, holder, notification, redelivered=again)


def _closed() -> LastwordError:
    return LoopClosedError("the loop is closed; open it again to receive what it has not acknowledged")
