"""An agent's inbox: a loop hands out notices, and each stays its holder's until it is acknowledged or given back.

Rules
- Receiving takes nothing from the journal.  Only an acknowledgement does, and it is durable when it returns.
- A cancelled `receive` has received nothing.
- There is no time limit on a notice: nobody offers it to another holder while the first is at work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, final
from uuid import UUID

import anyio
from anyio.lowlevel import checkpoint

from ..notifier import (
    LastwordError,
    Owner,
    ProcessCompletionNotification,
    ProcessNotificationUnsupportedError,
    decode_command,
)
from ._errors import LoopClosedError
from ._window import Window
from .journal import Record


class LoopKeeper(Protocol):
    """What a loop needs of its session."""

    async def consume(self, command_id: UUID, loop_id: UUID) -> None:
        """Make a consumption durable, and return when the loop's slot is free."""
        ...

    def offered(self, record: Record) -> bool:
        """Note that the row is handed out now; whether it may have been before."""
        ...

    def load(self, loop: Loop) -> None:
        """Load what the loop's window wants, if it wants anything."""
        ...

    async def pause(self, failures: int) -> None:
        """Wait as long as is right after so many failed loads."""
        ...

    def stuck(self, loop: Loop) -> None:
        """The loop's window is full of received notices."""
        ...

    def closed(self, loop: Loop) -> None:
        """The loop is closed."""
        ...


@final
class Notice:
    """A process's last word, handed to its owner.  It keeps its place until `ack()` or `release()`."""

    def __init__(
        self,
        loop: Loop,
        record: Record,
        holder: object,
        notification: ProcessCompletionNotification,
        *,
        redelivered: bool,
    ) -> None:
        self._loop = loop
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
        await self._loop.consume(self._record.record_id)
        self._acknowledged = True

    def release(self) -> None:
        """Offer it again, to whoever receives next, as redelivered.  Sync; without effect once it is not held."""
        self._loop.give_back(self._record.seq, self._holder)

    def __repr__(self) -> str:
        return f"<Notice {self._notification.command_id} at {self._record.seq}>"


@final
class Loop:
    """Where an owner is told.  Made by `Session.open_loop`; iterating it receives until it is closed."""

    def __init__(self, owner: Owner, window: Window, keeper: LoopKeeper, *, native: bool) -> None:
        self._owner = owner
        self._keeper = keeper
        self._native = native
        self._window = window
        self._changed = anyio.Event()
        self._end: Callable[[], LastwordError] | None = None
        self._failures = 0

    @property
    def loop_id(self) -> UUID:
        """The loop's id; the main loop's is the same for the session's whole life."""
        return self._owner.loop_id

    @property
    def owner(self) -> Owner:
        """Whose a process is that this loop is to be told of."""
        return self._owner

    @property
    def native(self) -> bool:
        """Whether the loop takes notices."""
        return self._native

    @property
    def capacity(self) -> int:
        """How many notices are on offer or in hand at once."""
        return self._window.capacity

    @property
    def held(self) -> int:
        """How many of these places are taken."""
        return self._window.held

    async def receive(self) -> Notice:
        """The next notice, in the order of the journal; waits for one.  A checkpoint.

        Cancelled: nothing is received.  Any number of tasks may receive.  Raises `LoopClosedError`,
        `ProcessNotificationUnsupportedError` for a loop that is not native, and `JournalFencedError` when another
        opener has taken the session.  A journal that cannot be read is waited for, with backoff.
        """
        await checkpoint()
        while (notice := self._take()) is None:
            changed = self._changed
            if self._failures:
                await self._pause(changed)
                if not changed.is_set():
                    self._keeper.load(self)
            else:
                await changed.wait()
        return notice

    def receive_nowait(self) -> Notice:
        """The next notice if one is on offer, else `anyio.WouldBlock`.  Sync; else as `receive`.

        A loop that was just opened has not seen the journal yet: its first rows come in a moment.
        """
        notice = self._take()
        if notice is None:
            raise anyio.WouldBlock
        return notice

    def __aiter__(self) -> Loop:
        return self

    async def __anext__(self) -> Notice:
        try:
            return await self.receive()
        except LoopClosedError:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Close the loop: who waits for a notice is told, and what was not acknowledged is offered at the next opening.

        Idempotent; a checkpoint.  Its notices can still be acknowledged.
        """
        self.end(_closed)
        await checkpoint()

    async def __aenter__(self) -> Loop:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def _take(self) -> Notice | None:
        """Hand out the first queued row, all in one step: nothing can be lost between the window and the receiver."""
        if self._end is not None:
            raise self._end()
        if not self._native:
            raise ProcessNotificationUnsupportedError("this loop was opened with native=False and takes no notices")
        holder = object()
        record = self._window.take(holder)
        if record is None:
            return None
        notification = decode_command(record.payload).notification
        if self._window.stuck:
            self._keeper.stuck(self)
        return Notice(self, record, holder, notification, redelivered=self._keeper.offered(record))

    async def _pause(self, changed: anyio.Event) -> None:
        """Wait out the backoff, or until something has changed."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_when, changed, tasks.cancel_scope)
            await self._keeper.pause(self._failures)
            tasks.cancel_scope.cancel()

    # --- for the notice

    async def consume(self, command_id: UUID) -> None:
        """See `Notice.ack`."""
        await self._keeper.consume(command_id, self.loop_id)

    def give_back(self, seq: int, holder: object) -> None:
        """See `Notice.release`."""
        if self._end is None and self._window.give_back(seq, holder):
            self._tell()

    # --- for the commit handler: what has happened, in the ledger's order

    def load(self) -> tuple[int, int] | None:
        """What the window wants now, as (after, limit); the answer comes through `loaded` or `load_failed`."""
        return self._window.wanted() if self._native and self._end is None else None

    def loaded(self, records: list[Record], *, more: bool) -> None:
        """Rows have moved into the window."""
        self._failures = 0
        self._window.loaded(records, more=more)
        self._tell()

    def load_failed(self) -> None:
        """The journal could not be read: whoever receives tries again, and so does the next commit."""
        self._failures += 1
        self._window.load_failed()
        self._tell()

    def offer(self, record: Record) -> bool:
        """A row has become pending for this loop; whether it is on offer now."""
        placed = self._window.offer(record)
        if placed:
            self._tell()
        return placed

    def settle(self, command_id: UUID) -> None:
        """A row is consumed."""
        self._window.settle(command_id)

    def end(self, why: Callable[[], LastwordError]) -> None:
        """Hand out nothing more; `why` makes the error that receiving raises from now on."""
        if self._end is None:
            self._end = why
            self._keeper.closed(self)
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


async def _cancel_when(changed: anyio.Event, scope: anyio.CancelScope) -> None:
    await changed.wait()
    scope.cancel()


def _closed() -> LastwordError:
    return LoopClosedError("the loop is closed; open it again to receive what it has not acknowledged")
