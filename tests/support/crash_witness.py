"""The witness outside: it reads what dead hosts have left, and judges what all their lives together have told.

It looks with plain SQLite, read-only, after each life; what it has seen once must be there for ever.  `judge` asks for
everything that is promised: no last word lost, none with another payload, none told again after its acknowledgement had
returned, one terminal event for each process, and each process's order kept.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs

from lastword.notifier import (
    NewRecord,
    ProcessCompleted,
    ProcessEvent,
    ProcessLost,
    ProcessState,
    RecordKind,
    decode_command,
    decode_event,
    process_ids,
)
from lastword.session.journal import verify

JOURNAL, STORE, DIARY = "journal.db", "supervisor.db", "diary"

# In this order, each at most once, but for the last word, which is always there; its notification is next to it.
LIVES = ("ProcessStarted", "ProcessBackgrounded", "ProcessStopRequested")


@attrs.frozen
class Row:
    """A record of the journal."""

    seq: int
    record_id: UUID
    kind: RecordKind
    payload: bytes
    subject: str | None
    terminal: bool
    consumes: UUID | None

    @property
    def name(self) -> str:
        """What it tells: the event's name, or the kind of record."""
        return type(decode_event(self.payload)).__name__ if self.kind is RecordKind.EVENT else self.kind.name


@attrs.frozen(kw_only=True)
class Figures:
    """What has happened, in numbers."""

    lives: int
    processes: int
    lost: int
    told: int
    told_again: int
    acked: int

    def __str__(self) -> str:
        return (
            f"{self.processes} processes in {self.lives} lives, {self.lost} of them lost with a host; {self.told} "
            f"notices told, {self.told_again} of them again before their ack had returned, {self.acked} acks returned"
        )


class Witness:
    """Sees one folder over all lives of its hosts."""

    def __init__(self, folder: Path, state: Path | None = None) -> None:
        self._folder = folder
        self._state = folder / "state" if state is None else state
        self.rows: list[Row] = []
        self._stories: dict[str, list[Row]] = {}
        self._consumptions: Counter[UUID | None] = Counter()
        self._payloads: dict[UUID, bytes] = {}
        self.bases: dict[str, UUID] = {}
        self.states: dict[str, ProcessState] = {}
        self.units: dict[str, list[NewRecord]] = {}

    def look(self) -> None:
        """See what is on disk now; what was there before must be there as it was."""
        rows = list(self._journal())
        assert rows[: len(self.rows)] == self.rows, "the journal has changed what it had"
        self.rows = rows
        self._stories = {}
        for row in rows:
            if row.subject is not None:
                self._stories.setdefault(row.subject, []).append(row)
        self._consumptions = Counter(row.consumes for row in rows)
        self._payloads = {row.record_id: row.payload for row in rows}
        if rows:
            assert verify(self._state / JOURNAL).problems == ()
        self.states, self.units = {}, {}
        with _reading(self._state / STORE) as store:
            if store is None:
                return
            for handle, base, state in store.execute("SELECT handle, base_id, state FROM process"):
                assert self.bases.setdefault(handle, UUID(bytes=base)) == UUID(bytes=base), "new ids for a process"
                self.states[handle] = ProcessState(state)
            for subject, record_id, kind, payload in store.execute(
                "SELECT unit.handle, record_id, kind, payload FROM unit JOIN record USING (position) "
                "ORDER BY position, ordinal"
            ):
                record = NewRecord(UUID(bytes=record_id), RecordKind(kind), payload)
                self.units.setdefault(subject, []).append(record)

    def diary(self) -> list[dict[str, Any]]:
        """What the hosts have said, oldest first."""
        try:
            text = (self._folder / DIARY).read_bytes()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith(b"\n")]

    def said(self, word: str) -> list[dict[str, Any]]:
        """The lines of one kind."""
        return [line for line in self.diary() if line["said"] == word]

    def story(self, handle: str) -> list[Row]:
        """What the journal has of a process."""
        return self._stories.get(handle, [])

    def consumed(self, command_id: UUID) -> int:
        """How often the notification was consumed."""
        return self._consumptions[command_id]

    # --- the judgement

    def judge(self) -> Figures:
        """Everything is told, once and for all: for when a last life has come to rest."""
        self.look()
        started = {line["handle"] for line in self.said("started")}
        for row in self.rows:
            if row.subject is not None:
                # One that began, ended and was evicted within one life is in the journal alone.
                self.bases.setdefault(row.subject, process_ids(row.record_id).process)
        assert started <= set(self.bases), "a start that returned before the process was stored"
        lost = sum(self._judge_process(handle) for handle in self.bases)
        assert [record for records in self.units.values() for record in records if not self._known(record)] == []
        told, again, acked = self._judge_diary()
        opened = len(self.said("open"))
        return Figures(lives=opened, processes=len(self.bases), lost=lost, told=told, told_again=again, acked=acked)

    def _judge_process(self, handle: str) -> bool:
        """One last word, of its own ids, in order, with its notification, consumed once; whether it is Lost."""
        ids = process_ids(self.bases[handle])
        story = self.story(handle)
        names = [row.name for row in story]
        assert names[-1:] == ["COMMAND"], f"{handle} was never told: {names}"
        *before, event_row, command_row = story
        event = decode_event(event_row.payload)
        assert isinstance(event, ProcessCompleted | ProcessLost), names
        assert not any(row.terminal for row in before), f"two last words: {names}"
        assert command_row.seq == event_row.seq + 1, "a last word apart from its notification"
        places = [LIVES.index(row.name) for row in before]
        assert places == sorted(set(places)), f"out of order: {names}"
        if event.process.process_started_at is not None:
            assert {"ProcessStarted", "ProcessBackgrounded"} & set(names), f"ran, and its start was never told: {names}"
        completed = isinstance(event, ProcessCompleted)
        expected = {
            "ProcessStarted": ids.started,
            "ProcessBackgrounded": ids.backgrounded,
            "ProcessStopRequested": ids.stop_requested,
            "ProcessCompleted": ids.completed,
            "ProcessLost": ids.lost,
            "COMMAND": ids.command,
        }
        assert [row.record_id for row in story] == [expected[name] for name in names], f"not its own ids: {names}"
        notification = decode_command(command_row.payload).notification
        assert (notification.state, notification.reason) == (event.process.state, event.process.reason)
        assert (notification.state is ProcessState.LOST_ON_RESTORE) is not completed
        assert self.consumed(ids.command) == 1, f"{handle}: consumed {self.consumed(ids.command)} times"
        return not completed

    def _judge_diary(self) -> tuple[int, int, int]:
        """What the hosts have heard is what the journal holds, and silence follows an ack."""
        told: dict[str, int] = {}
        acked: set[str] = set()
        commands = {str(row.record_id): row for row in self.rows if row.kind is RecordKind.COMMAND}
        for line in self.diary():
            if line["said"] == "told":
                row = commands[line["command"]]
                notification = decode_command(row.payload).notification
                assert line["command"] not in acked, f"told again after its ack had returned: {line}"
                assert line["again"] or line["command"] not in told, f"told again, and not said so: {line}"
                assert (line["handle"], line["state"], line["reason"], line["seq"]) == (
                    notification.process_handle,
                    notification.state,
                    notification.reason,
                    row.seq,
                ), "told with another payload"
                told[line["command"]] = told.get(line["command"], 0) + 1
            elif line["said"] == "acked":
                acked.add(line["command"])
            elif line["said"] == "started":
                self._judge_outcome(line["handle"], line["code"])
            elif line["said"] == "ended":
                event = self._last_word(line["handle"])
                assert (event.state.name, event.exit_code) == (line["state"], line["code"]), "not what wait() returned"
        assert set(told) == set(commands), "consumed, and never told"
        return sum(told.values()), sum(told.values()) - len(told), len(acked)

    def _judge_outcome(self, handle: str, code: int | None) -> None:
        """A job's last word is what it did, unless its host was killed meanwhile."""
        event = self._last_word(handle)
        assert event.state is not ProcessState.FAILED
        if event.state is ProcessState.EXITED:
            assert event.exit_code == code, "another exit code"

    def _last_word(self, handle: str) -> Any:
        (row,) = (row for row in self.story(handle) if row.terminal)
        event = decode_event(row.payload)
        assert isinstance(event, ProcessEvent)
        return event.process

    def _known(self, record: NewRecord) -> bool:
        """Whether the journal has what the outbox still holds, byte for byte: then its mark alone is missing."""
        return self._payloads.get(record.record_id) == record.payload

    def _journal(self) -> Iterator[Row]:
        with _reading(self._state / JOURNAL) as journal:
            if journal is None:
                return
            for seq, record_id, kind, payload, subject, terminal, consumes in journal.execute(
                "SELECT seq, record_id, kind, payload, subject, terminal, consumes FROM record ORDER BY seq"
            ):
                yield Row(
                    seq,
                    UUID(bytes=record_id),
                    RecordKind(kind),
                    payload,
                    subject,
                    bool(terminal),
                    None if consumes is None else UUID(bytes=consumes),
                )


@contextlib.contextmanager
def _reading(path: Path) -> Generator[sqlite3.Connection | None]:
    """The database at `path`, to read only; None where a host died before it had tables."""
    if not path.exists():
        yield None
        return
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield connection if tables else None
