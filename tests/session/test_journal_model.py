"""Both backends agree with a model that knows nothing of indexes, over any sequence of calls."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from lastword.notifier import (
    Appended,
    AppendResult,
    Collision,
    Duplicate,
    JournalFencedError,
    NewRecord,
    RecordKind,
    SecondTerminal,
)
from lastword.session.journal import Journal, MemoryJournal, MemoryLedger, SqliteJournal, verify

SESSION = UUID(int=99)
LOOPS = (UUID(int=201), UUID(int=202))
IDS = tuple(UUID(int=300 + i) for i in range(5))


class Model:
    """The rules, told as questions over a plain list: slow, and too short to hide anything."""

    def __init__(self) -> None:
        self.rows: list[NewRecord] = []

    def append(self, unit: Sequence[NewRecord]) -> list[AppendResult]:
        rows = list(self.rows)
        results = [self.judge(rows, record, len(self.rows)) for record in unit]
        bad = next((result for result in results if isinstance(result, Collision | SecondTerminal)), None)
        if bad is None:
            self.rows = rows
            return results
        durable = len(self.rows)
        return [
            bad if isinstance(result, Appended) or (isinstance(result, Duplicate) and result.seq > durable) else result
            for result in results
        ]

    @staticmethod
    def judge(rows: list[NewRecord], new: NewRecord, durable: int) -> AppendResult:
        def place(row: int) -> int:
            return row + 1 if row < durable else 0

        same_id = [at for at, row in enumerate(rows) if row.record_id == new.record_id]
        for at in same_id:
            if (rows[at].kind, rows[at].payload) == (new.kind, new.payload):
                return Duplicate(at + 1, Model.consumed(rows, rows[at]))
        if new.kind is RecordKind.EVENT and new.subject is not None:
            for at, row in enumerate(rows):
                if row.kind is RecordKind.EVENT and row.terminal and row.subject == new.subject:
                    return SecondTerminal(place(at))
        for at in same_id:
            return Collision(place(at))
        rows.append(new)
        return Appended(len(rows))

    @staticmethod
    def consumed(rows: list[NewRecord], row: NewRecord) -> bool:
        return any(
            other.consumes == row.record_id and (other.loop_id is None or other.loop_id == row.loop_id)
            for other in rows
        )

    def pending(self, loop_id: UUID) -> list[int]:
        return [
            at + 1
            for at, row in enumerate(self.rows)
            if row.kind is RecordKind.COMMAND and row.loop_id == loop_id and not self.consumed(self.rows, row)
        ]

    def unfinished(self) -> list[int]:
        seen: set[str] = set()
        found: list[int] = []
        for at, row in enumerate(self.rows):
            if row.kind is RecordKind.EVENT and row.subject is not None and row.subject not in seen:
                seen.add(row.subject)
                ended = any(
                    other.subject == row.subject
                    and (other.kind is RecordKind.COMMAND or (other.kind is RecordKind.EVENT and other.terminal))
                    for other in self.rows
                )
                if not ended:
                    found.append(at + 1)
        return found


@attrs.frozen
class Append:
    units: list[list[NewRecord]]


@attrs.frozen
class Open:
    """A new opener takes over; the older handle stays alive, a zombie."""


@attrs.frozen
class Reopen:
    """After a fault, with the same epoch."""


@attrs.frozen
class Restart:
    """Everything in memory is gone; the journal is opened again."""


def _records() -> st.SearchStrategy[NewRecord]:
    payloads = st.sampled_from([b"x", b"y"])
    ids = st.sampled_from(IDS)
    loops = st.sampled_from([None, *LOOPS])
    subjects = st.sampled_from([None, "h", "i"])
    consumed = st.one_of(st.none(), ids)
    return st.one_of(
        st.builds(
            NewRecord,
            ids,
            st.just(RecordKind.EVENT),
            payloads,
            loop_id=loops,
            subject=subjects,
            terminal=st.booleans(),
            consumes=consumed,
            public=st.booleans(),
        ),
        st.builds(
            NewRecord,
            ids,
            st.just(RecordKind.COMMAND),
            payloads,
            loop_id=loops,
            subject=subjects,
            consumes=consumed,
            public=st.just(False),
        ),
        st.builds(
            NewRecord,
            ids,
            st.just(RecordKind.CONSUMPTION),
            payloads,
            loop_id=loops,
            consumes=ids,
            public=st.just(False),
        ),
    )


OPERATIONS = st.lists(
    st.one_of(
        st.builds(Append, st.lists(st.lists(_records(), max_size=3), max_size=3)),
        st.builds(Append, st.lists(st.lists(_records(), max_size=3), max_size=3)),
        st.builds(Open),
        st.builds(Reopen),
        st.builds(Restart),
    ),
    max_size=12,
)


class Backend:
    """One journal, its current holder, and the holders that were fenced."""

    def __init__(self, path: Path | None) -> None:
        self.ledger = MemoryLedger()
        self.path = path
        self.zombies: list[Journal] = []
        self.journal = self.fresh()
        self.epoch = self.journal.open(SESSION)

    def fresh(self) -> Journal:
        return MemoryJournal(self.ledger) if self.path is None else SqliteJournal(self.path)

    def take_over(self) -> None:
        self.zombies.append(self.journal)
        self.journal = self.fresh()
        self.epoch = self.journal.open(SESSION)

    def restart(self) -> None:
        self.close()
        self.journal = self.fresh()
        self.epoch = self.journal.open(SESSION)

    def close(self) -> None:
        for journal in (*self.zombies, self.journal):
            journal.close()
        self.zombies.clear()


def _step(operation: Append | Open | Reopen | Restart, model: Model, backends: list[Backend]) -> None:
    match operation:
        case Append():
            expected = [model.append(unit) for unit in operation.units]
            for backend in backends:
                _refuse_the_zombies(backend, operation.units)
                assert backend.journal.append_many(operation.units) == expected
        case Open() | Restart():
            for backend in backends:
                if isinstance(operation, Open):
                    backend.take_over()
                else:
                    backend.restart()
            fence = backends[0].journal.read(len(model.rows), 10)
            assert [record.kind for record in fence] == [RecordKind.FENCE]
            model.rows.append(NewRecord(fence[0].record_id, fence[0].kind, fence[0].payload, public=False))
        case Reopen():
            for backend in backends:
                backend.journal.reopen(backend.epoch)


def _refuse_the_zombies(backend: Backend, units: list[list[NewRecord]]) -> None:
    for zombie in backend.zombies:
        try:
            zombie.append_many(units)
        except JournalFencedError:
            continue
        raise AssertionError("an older holder has written")


def _compare(model: Model, journal: Journal) -> None:
    rows = journal.read(0, 1000)
    assert [record.seq for record in rows] == list(range(1, len(model.rows) + 1))
    for record, row in zip(rows, model.rows, strict=True):
        for field in attrs.fields(NewRecord):
            assert getattr(record, field.name) == getattr(row, field.name)
    counts = {loop_id: len(model.pending(loop_id)) for loop_id in LOOPS}
    assert journal.loops() == [(loop_id, count) for loop_id, count in sorted(counts.items()) if count]
    for loop_id in LOOPS:
        assert [record.seq for record in journal.pending(loop_id, 0, 1000)] == model.pending(loop_id)
    assert [record.seq for record in journal.unfinished()] == model.unfinished()


@settings(max_examples=120)
@given(OPERATIONS)
def test_backends_agree_with_the_model(operations: list[Append | Open | Reopen | Restart]) -> None:
    """Whatever is appended, opened, reopened and restarted, in any order: same answers, same ledger, same pending."""
    with tempfile.TemporaryDirectory(prefix="lastword-") as folder:
        backends = [Backend(None), Backend(Path(folder) / "journal.db")]
        model = Model()
        (fence,) = backends[0].journal.read(0, 10)
        model.rows.append(NewRecord(fence.record_id, fence.kind, fence.payload, public=False))
        try:
            for operation in operations:
                _step(operation, model, backends)
                for backend in backends:
                    _compare(model, backend.journal)
            found = verify(Path(folder) / "journal.db")
            assert found.problems == ()
            assert (found.records, found.epoch) == (len(model.rows), backends[1].epoch)
        finally:
            for backend in backends:
                backend.close()
