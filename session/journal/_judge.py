"""What an append is answered: the rules that every backend shares, as pure functions over what it looks up.

Rules
- A unit is judged as a whole, before any of it is written, against the ledger as the units before it have left it.
- One namespace of ids for records of every kind.  The same id with the same kind and bytes is a duplicate, with any
  other a collision: routing (`loop_id`, ...) is not hashed.
- A process that has its last word has no other lifecycle record: a known one is a duplicate; any other, also under a
  known id, is a second terminal.  The notification about it is a command, and is free to follow.
- A record that is refused only because its unit is carries its unit's verdict.  A verdict against a record of the same
  unit, which is not durable, names sequence 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol
from uuid import UUID, uuid5

import attrs

from ...notifier import Appended, AppendResult, Collision, Duplicate, NewRecord, RecordKind, SecondTerminal

FINGERPRINT_BYTES = 16  # 128 bits: no accident, and whoever could forge one could write to the file anyway


@attrs.frozen
class Known:
    """What a ledger knows of an id: where its record is, its fingerprint, and the loop that it is for."""

    seq: int
    fingerprint: bytes
    loop_id: UUID | None


class Ledger(Protocol):
    """What must be looked up to judge a record."""

    def known(self, record_id: UUID) -> Known | None:
        """The record of that id, if there is one."""
        ...

    def last_word(self, subject: str) -> int | None:
        """The sequence of the process's terminal record, if there is one."""
        ...

    def consumed(self, command_id: UUID, loop_id: UUID | None) -> bool:
        """Whether a consumption of `command_id` settles it for that loop (see `settles`)."""
        ...


def fingerprint(record: NewRecord) -> bytes:
    """The hash of what must be equal for two records of one id to be the same: the kind and the stored bytes."""
    return blake2b(bytes((record.kind,)) + record.payload, digest_size=FINGERPRINT_BYTES).digest()


def is_lifecycle(record: NewRecord) -> bool:
    """Whether the record tells of a process's life, so that nothing of the sort may follow its last word."""
    return record.kind is RecordKind.EVENT and record.subject is not None


def is_last_word(record: NewRecord) -> bool:
    """Whether the record is its process's terminal one."""
    return record.terminal and is_lifecycle(record)


def notified_loop(record: NewRecord) -> UUID | None:
    """The loop for which the record is a notification, pending until it is consumed; None for any other record."""
    return record.loop_id if record.kind is RecordKind.COMMAND else None


def settles(consumer_loop: UUID | None, notified: UUID | None) -> bool:
    """Whether a consumption told on `consumer_loop` settles a notification of the loop `notified`.

    One that names no loop (`acknowledge`) settles it wherever it waits; else it must be the notification's own.
    """
    return consumer_loop is None or consumer_loop == notified


def fence_record(session_id: UUID, epoch: int) -> NewRecord:
    """The record that each opening writes; its id is a function of the epoch, so it cannot be written twice."""
    return NewRecord(uuid5(session_id, f"fence {epoch}"), RecordKind.FENCE, b'{"epoch":%d}' % epoch, public=False)


def judge_unit(unit: Sequence[NewRecord], ledger: Ledger, tip: int) -> tuple[list[AppendResult], list[NewRecord]]:
    """Answer each record of `unit`, and say which of them are to be written, at `tip + 1` and on, in order.

    The second list is empty where the unit is refused, and where all of it is known already.
    """
    within = _Within(ledger, tip)
    results = [within.judge(record) for record in unit]
    verdict = next((result for result in results if isinstance(result, Collision | SecondTerminal)), None)
    if verdict is None:
        return results, within.new
    return [within.refuse(result, verdict) for result in results], []


class _Within:
    """A ledger with the unit's own records on top, as if they were written."""

    def __init__(self, ledger: Ledger, tip: int) -> None:
        self.new: list[NewRecord] = []
        self._ledger = ledger
        self._tip = tip
        self._known: dict[UUID, Known] = {}
        self._last_words: set[str] = set()
        self._consumptions: set[tuple[UUID, UUID | None]] = set()

    def judge(self, record: NewRecord) -> AppendResult:
        known = self._known.get(record.record_id) or self._ledger.known(record.record_id)
        print_ = fingerprint(record)
        if known is not None and known.fingerprint == print_:
            return Duplicate(known.seq, self._consumed(record.record_id, known.loop_id))
        if is_lifecycle(record):
            last_word = self._last_word(record.subject)
            if last_word is not None:
                return SecondTerminal(last_word)
        if known is not None:
            return Collision(self._durable(known.seq))
        self._accept(record, print_)
        return Appended(self._tip + len(self.new))

    def refuse(self, result: AppendResult, verdict: AppendResult) -> AppendResult:
        """What a record of a refused unit is answered: nothing of the unit may look as if it were durable."""
        if isinstance(result, Appended) or (isinstance(result, Duplicate) and result.seq > self._tip):
            return verdict
        return result

    def _accept(self, record: NewRecord, print_: bytes) -> None:
        self.new.append(record)
        seq = self._tip + len(self.new)
        self._known[record.record_id] = Known(seq, print_, record.loop_id)
        if record.subject is not None and is_last_word(record):
            self._last_words.add(record.subject)
        if record.consumes is not None:
            self._consumptions.add((record.consumes, record.loop_id))

    def _last_word(self, subject: str | None) -> int | None:
        if subject is None:
            return None
        return 0 if subject in self._last_words else self._ledger.last_word(subject)

    def _consumed(self, command_id: UUID, loop_id: UUID | None) -> bool:
        here = any(command == command_id and settles(loop, loop_id) for command, loop in self._consumptions)
        return here or self._ledger.consumed(command_id, loop_id)

    def _durable(self, seq: int) -> int:
        return seq if seq <= self._tip else 0
