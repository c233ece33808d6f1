"""A loop's live set: which of its pending rows are on offer now.  Pure; the loop and the commit handler act on it.

Theory
- The journal's pending rows of a loop are a queue; the window is its front, at most `capacity` of it, in ledger order.
- A slot is queued (nobody has it) or received (a notice has it).  It is freed when the row is consumed, by whomever;
  giving a notice back queues its slot again.
- `_after` is the last row that was ever put into the window, `_more` whether the journal has pending rows beyond.  As
  long as it has, a new row waits its turn there: so the order is the ledger's, and the window never guesses.
"""

from __future__ import annotations

from bisect import insort
from uuid import UUID

from .journal import Record


class Window:
    """The front of one loop's pending rows."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._slots: dict[int, Record] = {}
        self._by_command: dict[UUID, int] = {}
        self._queue: list[int] = []  # sequences, ascending
        self._received: dict[int, object] = {}
        self._after = 0
        self._more = True
        self._loading = False

    @property
    def held(self) -> int:
        """How many slots are taken, queued or received."""
        return len(self._slots)

    @property
    def full(self) -> bool:
        """Whether every slot is taken."""
        return len(self._slots) >= self.capacity

    @property
    def loading(self) -> bool:
        """Whether rows have been asked for and have not come yet."""
        return self._loading

    def holds(self, command_id: UUID) -> bool:
        """Whether the row is in the window, queued or received."""
        return command_id in self._by_command

    @property
    def stuck(self) -> bool:
        """Whether every slot has been received and none acknowledged: nothing can move until one is."""
        return len(self._received) == self.capacity

    def wanted(self) -> tuple[int, int] | None:
        """What to load next, as (after, limit); None where nothing is to be had, or room for it, or it is asked for.

        Asking is noted: until `loaded` or `load_failed` there is nothing more to want.
        """
        free = self.capacity - len(self._slots)
        if self._loading or not self._more or free <= 0:
            return None
        self._loading = True
        return self._after, free

    def loaded(self, records: list[Record], *, more: bool) -> None:
        """The rows that were wanted; `more`: there are further ones."""
        self._loading = False
        self._more = more
        for record in records:
            self._put(record)

    def load_failed(self) -> None:
        """The rows could not be read; they are still wanted."""
        self._loading = False

    def offer(self, record: Record) -> bool:
        """A row has become pending; whether it is in the window now."""
        if self._more or self.full:
            self._more = True
            return False
        self._put(record)
        return True

    def settle(self, command_id: UUID) -> None:
        """The row is consumed: its slot is free."""
        seq = self._by_command.pop(command_id, None)
        if seq is None:
            return
        del self._slots[seq]
        if self._received.pop(seq, None) is None:
            self._queue.remove(seq)

    def take(self, holder: object) -> Record | None:
        """The first queued row, now received by `holder`; None if there is none."""
        if not self._queue:
            return None
        seq = self._queue.pop(0)
        self._received[seq] = holder
        return self._slots[seq]

    def give_back(self, seq: int, holder: object) -> bool:
        """Queue the row again, if `holder` still has it; whether it had."""
        if self._received.get(seq) is not holder:
            return False
        del self._received[seq]
        insort(self._queue, seq)
        return True

    def _put(self, record: Record) -> None:
        if record.seq <= self._after:
            return  # it has been here: told once more after a fault, it must not be in two hands, or come back settled
        self._after = record.seq
        self._slots[record.seq] = record
        self._by_command[record.record_id] = record.seq
        insort(self._queue, record.seq)
