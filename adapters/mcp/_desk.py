"""Which last words the client has not confirmed yet, and the cursor by which it does.

Theory of operation

    notice      is in                 a tool result      goes on when
    journaled   journal               -                  the loop hands it out: held
    held        journal and desk      carries it         a cursor at or after it comes: settling
    settling    journal and desk      may carry it       its acknowledgement is durable: settled; or fails: held
    settled     journal, as consumed  never              -

- Every tool result carries all held notices, in the journal's order, and the cursor of the last of them.  So whoever
  knows a cursor has received a result with every notice up to it that was not settled then: a cursor that comes back
  is the receipt for them, and nothing else is.  That a result was written, or that the client calls again, proves
  nothing: the result may have been lost with the client, or be on its way still.
- A cursor cannot be guessed or made up: it has a part of the notification's random id.  One that fits no held notice
  (settled, or never given out) settles nothing.  One of an earlier life of the server fits, for what it stands for is
  in the journal.
- Where the server dies, or the client, or a request is cancelled: what was not settled is held again, and carried
  again.  At least once, never lost; `process_id` tells a repetition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import final

import anyio
from anyio.lowlevel import checkpoint

from ...notifier import LastwordError, ProcessCompletionNotification
from ...session import Loop, Notice

logger = logging.getLogger(__name__)


@final
class NoticeDesk:
    """The held notices of one loop; `run` fills it."""

    def __init__(self, loop: Loop, known: Callable[[], set[str]]) -> None:
        """`known`: the handles of all processes that are still known; of others nobody asks whether they were seen."""
        self._loop = loop
        self._known = known
        self._held: dict[int, Notice] = {}
        self._seen: set[str] = set()
        self._changed = anyio.Event()

    async def run(self, tell: Callable[[str], None]) -> None:
        """Take every notice that comes, and `tell` its process's handle; for ever.

        Raises `JournalFencedError` where somebody else has taken the session: nothing can be told any more.
        """
        async for notice in self._loop:
            self._held[notice.journal_seq] = notice
            self._seen = {*(self._seen & self._known()), notice.notification.process_handle}
            self._changed.set()
            self._changed = anyio.Event()
            tell(notice.notification.process_handle)

    @property
    def full(self) -> bool:
        """Whether further notices wait in the journal until some of these are acknowledged."""
        return len(self._held) >= self._loop.capacity

    def held(self) -> list[ProcessCompletionNotification]:
        """What is to be carried, in the journal's order."""
        return [notice.notification for _, notice in sorted(self._held.items())]

    def cursor(self) -> str | None:
        """What acknowledges all that is held now; None for nothing."""
        return cursor_of(self._held[max(self._held)]) if self._held else None

    async def acknowledge(self, cursor: str) -> None:
        """Settle what the cursor stands for: durable on return.  A checkpoint; cancelled, some of it may be settled.

        Where the journal cannot take it, it is held on, and acknowledged by any later cursor.
        """
        last = next((seq for seq, notice in self._held.items() if cursor_of(notice) == cursor), None)
        if last is None:
            await checkpoint()
            return
        async with anyio.create_task_group() as tasks:  # together: one commit takes them all
            for seq in sorted(self._held):
                if seq <= last:
                    tasks.start_soon(self._settle, seq)

    async def wait_held(self, count: int) -> None:
        """Return once at least `count` are held.  A checkpoint; the caller bounds it."""
        await checkpoint()
        while len(self._held) < count:
            await self._changed.wait()

    async def wait_seen(self, handles: set[str]) -> None:
        """Return once the notices of all these processes have come, settled since or not, or none can come, since the
        desk is full; the caller bounds it."""
        await checkpoint()
        while not (handles <= self._seen or self.full):
            await self._changed.wait()

    def seen(self, handle: str) -> bool:
        """Whether the process's notice has come."""
        return handle in self._seen

    async def _settle(self, seq: int) -> None:
        notice = self._held.get(seq)
        if notice is None:
            return  # another call has, with the same cursor
        try:
            await notice.ack()
        except LastwordError as error:
            logger.warning("a notice could not be acknowledged and will be told again: %s", type(error).__name__)
            return
        self._held.pop(seq, None)


def cursor_of(notice: Notice) -> str:
    """Where the notice is in the journal, and enough of its id that nobody hits on it."""
    return f"{notice.journal_seq}-{notice.notification.command_id.hex[20:30]}"
