"""The witness: stands outside, forgets nothing in a crash, and judges what it has seen.

Rules
- What it knows comes from outside the code under proof: from what the store and the journal really hold, and from what
  the agent and the producers were really told.
- Each promise has a name (`Promise`), and a broken one is a `BrokenPromiseError` with that name: so a mutant is caught
  for what is wrong with it, and not because it fell over.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from uuid import UUID

import attrs

from lastword.notifier import NewRecord, ProcessCompletionNotification, RecordKind, decode_command
from lastword.session.journal import Record


class Promise(StrEnum):
    """What is promised."""

    NOT_LOST = "a notice that was promised is told, and is there until it is acknowledged"
    SAME_PAYLOAD = "a notice is never told with another payload"
    NOT_AGAIN = "a notice is not told again after its acknowledgement has returned"
    SAID_SO = "a notice that is told again says so"
    ONE_OF_EACH = "a process has one terminal event, one notice, and at most one of each other event"
    IN_ORDER = "what is told of a process is told in the order in which it happened"
    NOTHING_AFTER = "nothing follows a terminal event"
    TOGETHER = "a terminal event and its notice are durable together"
    OUTBOX_ENDS = "a unit leaves the outbox because it was delivered, superseded, or quarantined with a reason"
    FENCED = "an older holder writes nothing after a new one has opened"
    ONE_EPOCH_EACH = "each opening has one epoch, and nothing else has one"
    ANSWERS_HOLD = "what a producer was answered is so"
    HEARD = "a watcher hears every public event there is, each once and in order"
    LIVE = "when all is quiet, every loop has on offer or in hand what the journal has pending for it"
    FORESEEN = "nothing fails in a way that nobody foresaw"


class BrokenPromiseError(AssertionError):
    """A promise is broken."""

    def __init__(self, promise: Promise, what: str) -> None:
        super().__init__(promise, what)
        self.promise = promise
        self.what = what

    def __str__(self) -> str:
        return f"broken: {self.promise.value}: {self.what}"


_watched: ContextVar[frozenset[Promise]] = ContextVar("_watched", default=frozenset(Promise))


@contextmanager
def watching(*promises: Promise) -> Generator[None]:
    """Inside, only these promises are demanded: so it is seen that each is able to bite alone."""
    token = _watched.set(frozenset(promises))
    try:
        yield
    finally:
        _watched.reset(token)


def demand(promise: Promise, kept: bool, what: str) -> None:
    """Raise `BrokenPromiseError` unless it is kept."""
    if not kept and promise in _watched.get():
        raise BrokenPromiseError(promise, what)


@attrs.frozen
class PromisedUnit:
    """A unit that was durable in the outbox at some time."""

    subject: str
    records: tuple[NewRecord, ...]

    @property
    def name(self) -> tuple[UUID, ...]:
        """What tells it from every other unit; positions may be used again once their row is gone."""
        return tuple(record.record_id for record in self.records)


@attrs.define
class Witness:
    """What was promised, told, acknowledged and answered so far, over all lives."""

    promised: dict[tuple[UUID, ...], PromisedUnit] = attrs.field(factory=dict[tuple[UUID, ...], PromisedUnit])
    told: dict[UUID, ProcessCompletionNotification] = attrs.field(factory=dict[UUID, ProcessCompletionNotification])
    asked: frozenset[UUID] = frozenset()
    acknowledged: frozenset[UUID] = frozenset()
    answered: dict[UUID, bytes] = attrs.field(factory=dict[UUID, bytes])
    openings: int = 0

    def copy(self) -> Witness:
        """What is known at this moment."""
        return attrs.evolve(self, promised=dict(self.promised), told=dict(self.told), answered=dict(self.answered))

    def key(self) -> object:
        """Equal for witnesses that know the same."""
        return (
            tuple(self.promised.values()),
            tuple(sorted((command.bytes, notice.state) for command, notice in self.told.items())),
            self.asked,
            self.acknowledged,
            tuple(sorted((record.bytes, payload) for record, payload in self.answered.items())),
        )

    # --- what it sees

    def sees_outbox(self, units: Sequence[PromisedUnit]) -> None:
        """These units are durable in the store now, in this order."""
        for unit in units:
            self.promised.setdefault(unit.name, unit)

    def sees_told(self, notification: ProcessCompletionNotification, *, redelivered: bool) -> None:
        """An agent has been told."""
        command = notification.command_id
        demand(Promise.NOT_AGAIN, command not in self.acknowledged, f"{command} was acknowledged and is told again")
        before = self.told.setdefault(command, notification)
        demand(Promise.SAME_PAYLOAD, before == notification, f"{command} was told as {before}, now {notification}")

    def sees_asked(self, command: UUID) -> None:
        """Somebody who knows of the notice, or wants none, is about to acknowledge it: now it may be settled."""
        self.asked |= {command}

    def sees_acknowledged(self, command: UUID) -> None:
        """An acknowledgement has returned."""
        self.acknowledged |= {command}

    def sees_answer(self, record_id: UUID, payload: bytes) -> None:
        """A producer was answered that its record is durable."""
        before = self.answered.setdefault(record_id, payload)
        demand(Promise.ANSWERS_HOLD, before == payload, f"two payloads of {record_id} were both taken")

    # --- how it judges

    def judge_always(self, ledger: Sequence[Record], held: set[tuple[UUID, ...]]) -> None:
        """What holds at every moment, in the middle of a crash, too; `held`: the units that the store still has."""
        by_id = {record.record_id: record for record in ledger}
        self._judge_lives(ledger)
        for unit in self.promised.values():
            if unit.name in held:
                continue
            gone_well = _delivered(unit, by_id) or _superseded(unit, ledger)
            demand(Promise.OUTBOX_ENDS, gone_well, f"a unit of {unit.subject} left the outbox and is nowhere")
        for record_id, payload in self.answered.items():
            found = by_id.get(record_id)
            demand(Promise.ANSWERS_HOLD, found is not None and found.payload == payload, f"{record_id} is not so")
        for command, notification in self.told.items():
            found = by_id.get(command)
            demand(Promise.NOT_LOST, found is not None, f"{command} was told and is not in the journal")
            same = found is None or decode_command(found.payload).notification == notification
            demand(Promise.SAME_PAYLOAD, same, f"{command} was told with another payload than the journal's")
        fences = sum(record.kind is RecordKind.FENCE for record in ledger)
        demand(Promise.ONE_EPOCH_EACH, fences <= self.openings, f"{fences} epochs, {self.openings} openings")

    def judge_end(self, ledger: Sequence[Record], quarantined: dict[tuple[UUID, ...], str], epoch: int) -> None:
        """What holds when a life has come to rest and was closed."""
        by_id = {record.record_id: record for record in ledger}
        self.judge_always(ledger, set(quarantined))
        for unit in self.promised.values():
            reason = quarantined.get(unit.name)
            ended = bool(reason) if reason is not None else _delivered(unit, by_id) or _superseded(unit, ledger)
            demand(Promise.OUTBOX_ENDS, ended, f"a unit of {unit.subject} has no end")
        consumed = {record.consumes for record in ledger}
        for record in ledger:
            if record.kind is RecordKind.COMMAND:
                command = record.record_id
                demand(Promise.NOT_LOST, command in self.asked, f"{command} is durable, and nobody has acknowledged it")
                demand(Promise.NOT_LOST, command in consumed, f"{command} is durable, and is not settled in the end")
        demand(Promise.ONE_EPOCH_EACH, epoch <= self.openings, f"epoch {epoch} after {self.openings} openings")

    def _judge_lives(self, ledger: Sequence[Record]) -> None:
        """Each process's records, in the ledger's order."""
        order = {record.record_id: place for place, record in enumerate(ledger)}
        ended: set[str] = set()
        seen: set[tuple[str, str]] = set()
        for record in ledger:
            if record.subject is None:
                continue
            if record.kind is RecordKind.EVENT:
                after = record.subject in ended
                demand(
                    Promise.ONE_OF_EACH if record.terminal else Promise.NOTHING_AFTER,
                    not after,
                    f"{record.subject} has had its last word before {record.seq}",
                )
                if record.terminal:
                    ended.add(record.subject)
            # Seven roles, one id each: the last byte.
            role = (record.subject, f"{record.kind.name} {record.record_id.bytes[-1]}")
            if record.kind is RecordKind.COMMAND:
                role = (record.subject, "notice")
            demand(Promise.ONE_OF_EACH, role not in seen, f"{role} twice, the second time at {record.seq}")
            seen.add(role)
        last: dict[str, int] = {}
        for unit in self.promised.values():
            ids = [record.record_id for record in unit.records]
            there = [record_id for record_id in ids if record_id in order]
            if len(unit.records) > 1 and there:
                together = len(there) == len(ids) or _superseded(unit, ledger)
                demand(Promise.TOGETHER, together, f"half of a last word of {unit.subject} is durable")
            for record_id in there:
                in_order = order[record_id] > last.get(unit.subject, -1)
                demand(Promise.IN_ORDER, in_order, f"{unit.subject}: {record_id} came too early")
                last[unit.subject] = order[record_id]


def _delivered(unit: PromisedUnit, by_id: dict[UUID, Record]) -> bool:
    def there(record: NewRecord) -> bool:
        found = by_id.get(record.record_id)
        return found is not None and found.payload == record.payload

    return all(map(there, unit.records))


def _superseded(unit: PromisedUnit, ledger: Sequence[Record]) -> bool:
    """Whether the process has another last word in the journal than this unit's."""
    own = {record.record_id: record.payload for record in unit.records}
    return any(
        record.subject == unit.subject and record.terminal and own.get(record.record_id) != record.payload
        for record in ledger
    )
