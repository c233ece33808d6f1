"""The journal in memory: for headless runtimes and tests.  Nothing of it outlives the process.

The records live in a `MemoryLedger`, which any number of journals can be opened on, as they can on one file: so the
fence, reopening and restarting mean here what they mean on disk.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from uuid import UUID

import attrs

from ...notifier import AppendResult, JournalFencedError, NewRecord, RecordKind
from .._errors import JournalSessionError
from ._judge import (
    Known,
    fence_record,
    fingerprint,
    is_last_word,
    is_lifecycle,
    judge_unit,
    notified_loop,
    settles,
)
from ._port import Record


class MemoryLedger:
    """The records of one session, and the indexes over them."""

    def __init__(self) -> None:
        self.session_id: UUID | None = None
        self.epoch = 0
        self.records: list[Record] = []
        self.waiting: dict[UUID, list[int]] = {}  # sequences, ascending
        self.unfinished: dict[str, Record] = {}
        self._known: dict[UUID, Known] = {}
        self._last_words: dict[str, int] = {}
        self._notified: set[str] = set()
        self._consumptions: dict[UUID, set[UUID | None]] = {}

    def known(self, record_id: UUID) -> Known | None:
        """See `Ledger`."""
        return self._known.get(record_id)

    def last_word(self, subject: str) -> int | None:
        """See `Ledger`."""
        return self._last_words.get(subject)

    def consumed(self, command_id: UUID, loop_id: UUID | None) -> bool:
        """See `Ledger`."""
        return any(settles(consumer, loop_id) for consumer in self._consumptions.get(command_id, ()))

    def write(self, new: NewRecord) -> None:
        """Append a record that has been judged, and bring the indexes up to date."""
        fields = {field.name: getattr(new, field.name) for field in attrs.fields(NewRecord)}
        record = Record(seq=len(self.records) + 1, **fields)
        self.records.append(record)
        self._known[new.record_id] = Known(record.seq, fingerprint(new), new.loop_id)
        if new.consumes is not None:
            self._consume(new.consumes, new.loop_id)
        loop_id = notified_loop(new)
        if loop_id is not None and not self.consumed(new.record_id, loop_id):
            self.waiting.setdefault(loop_id, []).append(record.seq)
        if new.subject is not None:
            self._follow(new, new.subject, record)

    def _consume(self, command_id: UUID, consumer: UUID | None) -> None:
        self._consumptions.setdefault(command_id, set()).add(consumer)
        known = self._known.get(command_id)
        if known is not None and known.loop_id is not None and settles(consumer, known.loop_id):
            waiting = self.waiting.get(known.loop_id, [])
            place = bisect_left(waiting, known.seq)
            if place < len(waiting) and waiting[place] == known.seq:
                del waiting[place]
                if not waiting:
                    del self.waiting[known.loop_id]

    def _follow(self, new: NewRecord, subject: str, record: Record) -> None:
        """Keep track of which processes lack their end."""
        if is_last_word(new):
            self._last_words[subject] = record.seq
        if new.kind is RecordKind.COMMAND:
            self._notified.add(subject)
        if subject in self._last_words or subject in self._notified:
            self.unfinished.pop(subject, None)
        elif is_lifecycle(new):
            self.unfinished.setdefault(subject, record)


class MemoryJournal:
    """A `Journal` over a `MemoryLedger`: its own, or one that is shared to model a restart or a second opener."""

    def __init__(self, ledger: MemoryLedger | None = None) -> None:
        self._ledger = MemoryLedger() if ledger is None else ledger
        self._epoch = 0

    @property
    def ledger(self) -> MemoryLedger:
        """Where the records are; another `MemoryJournal` on it is another opener of the same journal."""
        return self._ledger

    def held_session(self) -> UUID | None:
        """See `HoldsOneSession`."""
        return self._ledger.session_id

    def open(self, session_id: UUID) -> int:
        """See `Journal.open`."""
        ledger = self._ledger
        if ledger.session_id is None:
            ledger.session_id = session_id
        elif ledger.session_id != session_id:
            raise JournalSessionError(ledger.session_id, session_id)
        ledger.epoch += 1
        self._epoch = ledger.epoch
        self._append([fence_record(session_id, ledger.epoch)])
        return ledger.epoch

    def reopen(self, epoch: int) -> None:
        """See `Journal.reopen`."""
        self._epoch = epoch
        self._check_epoch()

    def epoch(self) -> int:
        """See `Journal.epoch`."""
        return self._ledger.epoch

    def append_many(self, units: Sequence[Sequence[NewRecord]]) -> list[list[AppendResult]]:
        """See `Journal.append_many`."""
        self._check_epoch()
        return [self._append(unit) for unit in units]

    def read(self, after: int, limit: int) -> list[Record]:
        """See `Journal.read`."""
        start = max(after, 0)
        return self._ledger.records[start : start + limit]

    def pending(self, loop_id: UUID, after: int, limit: int) -> list[Record]:
        """See `Journal.pending`."""
        waiting = self._ledger.waiting.get(loop_id, [])
        start = bisect_right(waiting, after)
        return [self._ledger.records[seq - 1] for seq in waiting[start : start + limit]]

    def loops(self) -> list[tuple[UUID, int]]:
        """See `Journal.loops`."""
        return sorted((loop_id, len(waiting)) for loop_id, waiting in self._ledger.waiting.items())

    def unfinished(self) -> list[Record]:
        """See `Journal.unfinished`."""
        return sorted(self._ledger.unfinished.values(), key=lambda record: record.seq)

    def close(self) -> None:
        """See `Journal.close`: the ledger stays, for whoever opens it next."""

    def _append(self, unit: Sequence[NewRecord]) -> list[AppendResult]:
        results, new = judge_unit(unit, self._ledger, len(self._ledger.records))
        for record in new:
            self._ledger.write(record)
        return results

    def _check_epoch(self) -> None:
        if self._epoch != self._ledger.epoch:
            raise JournalFencedError(
                f"epoch {self._epoch} is over: another opener holds epoch {self._ledger.epoch} of this journal"
            )
