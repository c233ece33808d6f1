"""What is behind a loop: its window, and who waits for it.  The commit handler fills it; the loop's holders empty it.

Everything here is synchronous and in the event loop, so between the window and a receiver nothing can be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

import anyio

from ..notifier import LastwordError, Owner, ProcessNotificationUnsupportedError
from ..notifier._first import first_of
from ._loop import Loop
from ._window import Window
from .journal import Record


class Desk(Protocol):
    """What an inbox needs of its session."""

    async def consume(self, command_id: UUID, loop_id: UUID | None) -> None:
        """Make a consumption durable, and return when the loop's slot is free."""
        ...

    def offered(self, record: Record) -> bool:
        """Note that the row is handed out now; whether it may have been before."""
        ...

    def load(self, inbox: Inbox) -> None:
        """Load what the window wants, if it wants anything."""
        ...

    async def pause(self, failures: int) -> None:
        """Wait as long as is right after so many failed loads."""
        ...

    def stuck(self, inbox: Inbox) -> None:
        """The window is full of received notices."""
        ...

    def closed(self, inbox: Inbox) -> None:
        """The inbox has ended."""
        ...


class Inbox:
    """One open loop's inside; `loop` is its face."""

    def __init__(self, owner: Owner, window: Window, desk: Desk, *, native: bool) -> None:
        self.owner = owner
        self.window = window
        self.native = native
        self.failures: int = 0
        self.changed: anyio.Event = anyio.Event()
        self._desk = desk
        self._end: Callable[[], LastwordError] | None = None
        self.loop: Loop = Loop(self)

    # --- for the loop and its notices

    def take(self, holder: object) -> tuple[Record, bool] | None:
        """Hand out the first queued row, and whether it may have been before; None if there is none."""
        if self._end is not None:
            raise self._end()
        if not self.native:
            raise ProcessNotificationUnsupportedError("this loop was opened with native=False and takes no notices")
        record = self.window.take(holder)
        if record is None:
            return None
        if self.window.stuck:
            self._desk.stuck(self)
        return record, self._desk.offered(record)

    def give_back(self, seq: int, holder: object) -> None:
        """Queue the row again, if `holder` still has it."""
        if self._end is None and self.window.give_back(seq, holder):
            self._tell()

    async def consume(self, command_id: UUID) -> None:
        """Settle a row of this loop."""
        await self._desk.consume(command_id, self.owner.loop_id)

    def ask(self) -> None:
        """Have rows read that could not be read before, for a holder that does not wait."""
        self._desk.load(self)

    async def wait(self) -> None:
        """Return when something has changed; where the window could not be read, try again after a pause."""
        changed = self.changed
        failures = self.failures  # of now: a load that succeeds meanwhile begins the count anew
        if not failures:
            await changed.wait()
            return
        await first_of(changed.wait, lambda: self._desk.pause(failures))
        if not changed.is_set():
            self._desk.load(self)

    # --- for the commit handler: what has happened, in the ledger's order

    def wanted(self) -> tuple[int, int] | None:
        """What the window wants now, as (after, limit); the answer comes through `loaded` or `load_failed`."""
        return self.window.wanted() if self.native and self._end is None else None

    def loaded(self, records: list[Record], *, more: bool) -> None:
        """Rows have moved into the window."""
        self.failures = 0
        self.window.loaded(records, more=more)
        self._tell()

    def load_failed(self) -> None:
        """The journal could not be read: whoever receives tries again, and so does the next commit."""
        self.failures += 1
        self.window.load_failed()
        self._tell()

    def offer(self, record: Record) -> bool:
        """A row has become pending for this loop; whether it is on offer now."""
        placed = self.window.offer(record)
        if placed:
            self._tell()
        return placed

    def end(self, why: Callable[[], LastwordError]) -> None:
        """Hand out nothing more; `why` makes the error that receiving raises from now on."""
        if self._end is None:
            self._end = why
            self._desk.closed(self)
            self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()
