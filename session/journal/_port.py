"""The journal's port: what a backend promises, and nothing of how.

Rules
- One journal holds one session, and has one writer at a time: the last that called `open`.  `open` adds one to the
  epoch; every write checks it inside its own transaction, so an older holder can never write again.
- Sequences start at 1 and have no gaps.  A record, once written, never changes and never goes.
- Everything is synchronous and called by one thread: the owner's (see `_sqlite.py` at the root), or the event loop's.
- `JournalUnavailableError` from `append_many` means *unknown*: the batch may be durable.  Call `reopen` with the same
  epoch and append the same batch again; the index answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable
from uuid import UUID

import attrs

from ...notifier import AppendResult, NewRecord, RecordKind


@attrs.frozen(kw_only=True)
class Record:
    """A durable record: what was appended, and its place in the ledger (`seq`, from 1)."""

    seq: int
    record_id: UUID
    kind: RecordKind
    payload: bytes = attrs.field(repr=False)
    loop_id: UUID | None
    subject: str | None
    terminal: bool
    consumes: UUID | None
    public: bool


@runtime_checkable
class Journal(Protocol):
    """An append-only ledger of one session."""

    def open(self, session_id: UUID) -> int:
        """Become the one writer: the epoch grows by one, a fence record tells it, and the new epoch is returned.

        The record is `fence_record(session_id, epoch)`, so that appending it once more tells where this opening begins.
        A new journal is made for `session_id`.  Raises `JournalUnavailableError`, `JournalCorruptError`,
        `JournalSessionError` where it belongs to another session, `JournalTooNewError`; the last two change nothing.
        """
        ...

    def reopen(self, epoch: int) -> None:
        """Drop what is held and open again, after a fault, as the holder of `epoch`; the epoch stays.

        Raises `JournalFencedError` if another opener has come since, else as `open`.
        """
        ...

    def epoch(self) -> int:
        """The epoch as the journal has it now: the holder's own, or a greater one that has fenced it."""
        ...

    def append_many(self, units: Sequence[Sequence[NewRecord]]) -> list[list[AppendResult]]:
        """Append the units in one transaction; all that is answered `Appended` is durable on return.

        Each unit is all or nothing, and never fails another: where a record of it collides or comes after its
        process's last word, nothing of the unit is written (see `judge_unit` for every rule).  Raises
        `JournalFencedError` (nothing was written) and `JournalUnavailableError` (unknown).
        """
        ...

    def read(self, after: int, limit: int) -> list[Record]:
        """At most `limit` records whose sequence is greater than `after`, in order; of every kind."""
        ...

    def pending(self, loop_id: UUID, after: int, limit: int) -> list[Record]:
        """At most `limit` notifications of the loop beyond `after` that nothing has consumed, in order."""
        ...

    def loops(self) -> list[tuple[UUID, int]]:
        """Each loop that has pending notifications, with their count, in order of the id."""
        ...

    def unfinished(self) -> list[Record]:
        """For each process that has neither a last word nor a notification, its first lifecycle record, in order."""
        ...

    def close(self) -> None:
        """Release everything; idempotent.  What is durable stays so."""
        ...


@runtime_checkable
class HoldsOneSession(Protocol):
    """A journal that can tell before it is opened whose it is; one backend for many sessions cannot."""

    def held_session(self) -> UUID | None:
        """The session that the journal belongs to; None for a new one.  Changes nothing; raises as `Journal.open`."""
        ...
