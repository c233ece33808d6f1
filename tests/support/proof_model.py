"""A session as it should be, in a few lines: what a ledger answers, what is pending, what a loop may hand out.

It knows nothing of windows, cursors, indexes or commits, only what they are for.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import anyio
import attrs
from anyio.lowlevel import checkpoint

from lastword.notifier import NewRecord, OutboxUnit, RecordKind
from lastword.session.journal import Record


class Model:
    """The ledger, and everything that follows from it."""

    def __init__(self) -> None:
        self.rows: list[Record] = []

    def find(self, record_id: UUID) -> Record | None:
        """The row of that id."""
        return next((row for row in self.rows if row.record_id == record_id), None)

    def answer(self, unit: Sequence[NewRecord]) -> tuple[list[str], list[NewRecord]]:
        """What an append of the unit is answered, and which of its records it would add."""
        answers: list[str] = []
        new: list[NewRecord] = []
        for record in unit:
            known = self.find(record.record_id)
            so_far: list[Record | NewRecord] = [*self.rows, *new]
            ended = any(row.subject == record.subject and row.terminal for row in so_far)
            if known is not None and (known.kind, known.payload) == (record.kind, record.payload):
                answers.append("Duplicate")
            elif record.kind is RecordKind.EVENT and record.subject is not None and ended:
                answers.append("SecondTerminal")
            elif known is not None:
                answers.append("Collision")
            else:
                answers.append("Appended")
                new.append(record)
        refused = next((answer for answer in answers if answer in {"Collision", "SecondTerminal"}), None)
        if refused is None:
            return answers, new
        return [refused if answer == "Appended" else answer for answer in answers], []

    def pending(self, loop_id: UUID) -> list[Record]:
        """The loop's notifications that nothing settles, in order."""
        return [
            row
            for row in self.rows
            if row.kind is RecordKind.COMMAND and row.loop_id == loop_id and not self.settled(row.record_id, loop_id)
        ]

    def settled(self, command_id: UUID, loop_id: UUID) -> bool:
        """Whether something in the ledger settles it."""
        return any(row.consumes == command_id and row.loop_id in {None, loop_id} for row in self.rows)

    def events(self, after: int) -> list[int]:
        """The sequences of what a subscriber to everything is told, after that one."""
        return [row.seq for row in self.rows if row.kind is RecordKind.EVENT and row.public and row.seq > after]

    def explain(self, ledger: Sequence[Record], units: Sequence[Sequence[NewRecord]]) -> None:
        """Take over the rows that are new in `ledger`: each must be a whole unit of `units`, and nothing else changed.

        The units are given in the order in which each process's own must come.
        """
        assert list(ledger[: len(self.rows)]) == self.rows, "what was written has changed"
        waiting = [tuple(unit) for unit in units]
        rest = list(ledger[len(self.rows) :])
        while rest:
            if rest[0].kind is RecordKind.FENCE:
                self.rows.append(rest.pop(0))
                continue
            for unit in waiting:
                _, new = self.answer(unit)
                if new and [_as_new(row) for row in rest[: len(new)]] == new:
                    self.rows += rest[: len(new)]
                    del rest[: len(new)]
                    waiting.remove(unit)
                    break
            else:
                raise AssertionError(f"nobody asked for {rest[0]}, or not for it alone")
        assert [row.seq for row in self.rows] == list(range(1, len(self.rows) + 1)), "the sequences have a gap"


def _as_new(row: Record) -> NewRecord:
    return NewRecord(**{field.name: getattr(row, field.name) for field in attrs.fields(NewRecord)})


class LazyOutbox:
    """An outbox whose units are durable at once, and whose marks are not until it is next written to."""

    def __init__(self) -> None:
        self.units: dict[int, OutboxUnit] = {}
        self.gone: dict[int, OutboxUnit] = {}
        self.quarantined: dict[int, str] = {}
        self._marked: set[int] = set()
        self._next = 1
        self._changed = anyio.Event()

    def add(self, subject: str, records: tuple[NewRecord, ...]) -> None:
        """A write: the unit is durable, and so are the marks until now."""
        self._flush()
        self.units[self._next] = OutboxUnit(position=self._next, subject=subject, records=records)
        self._next += 1
        self._changed.set()

    def crash(self) -> None:
        """Marks that were not durable are lost: their units are offered again."""
        self._marked.clear()
        self._changed = anyio.Event()

    def waiting(self) -> list[OutboxUnit]:
        """What is neither marked nor quarantined, in order."""
        return [
            unit
            for position, unit in self.units.items()
            if position not in self._marked and position not in self.quarantined
        ]

    def all(self) -> list[OutboxUnit]:
        """Every unit that ever was, in order."""
        return [*self.gone.values(), *self.units.values()]

    def marked(self) -> list[OutboxUnit]:
        """Everything that was ever marked, and is not to be offered again."""
        return [*self.gone.values(), *(self.units[position] for position in self._marked)]

    def _flush(self) -> None:
        for position in self._marked:
            self.gone[position] = self.units.pop(position)
        self._marked.clear()

    # --- the port

    def heads(self) -> Sequence[OutboxUnit]:
        self._changed = anyio.Event()
        heads: dict[str, OutboxUnit] = {}
        for unit in self.waiting():
            heads.setdefault(unit.subject, unit)
        return list(heads.values())

    async def wait_changed(self) -> None:
        await self._changed.wait()

    async def wait_empty(self) -> None:
        raise NotImplementedError("the courier never waits for this")

    def mark_delivered(self, position: int) -> None:
        self._marked.add(position)

    def mark_failed(self, position: int, error: str) -> None:
        pass

    async def quarantine(self, position: int, error: str) -> None:
        await checkpoint()
        self._flush()
        self.quarantined[position] = error
