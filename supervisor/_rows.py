"""The store's tables, its version, and values to rows and back.

Ids are 16 bytes, times ISO 8601 with offset, enums numbers.  A change of the tables is a new step, never a change of an
old one: stores of every version are out there.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from ..notifier import NewRecord, Owner, ProcessState, RecordKind, TerminalReason
from ._limits import Containment
from ._outcome import Outcome
from ._record import ProcessRecord
from .output import OutputFault

_COLUMNS = (
    "handle",
    "base_id",
    "session_id",
    "loop_id",
    "origin_execution_id",
    "name",
    "program",
    "created_at",
    "state",
    "started_at",
    "backgrounded",
    "kept_bytes",
    "reason",
    "exit_code",
    "signal",
    "finished_at",
    "survivors",
    "output_open",
    "total_bytes",
    "fault_offset",
    "fault_code",
    "containment",
    "proven",
    "diagnostic",
    "kept_from",
    "split_streams",
)

_CREATE = (
    "CREATE TABLE session (id BLOB NOT NULL)",
    """CREATE TABLE process (
        handle, base_id, session_id, loop_id, origin_execution_id, name, program, created_at, state, started_at,
        backgrounded, kept_bytes, reason, exit_code, signal, finished_at, survivors, output_open, total_bytes,
        fault_offset, fault_code, containment, proven, diagnostic,
        PRIMARY KEY (handle)
    ) WITHOUT ROWID""",
    # No reference to process: evicting a process never removes what is still to be told of it.
    "CREATE TABLE unit (position INTEGER PRIMARY KEY, handle TEXT NOT NULL, error TEXT)",
    """CREATE TABLE record (
        position INTEGER NOT NULL,
        ordinal INTEGER NOT NULL,
        record_id BLOB NOT NULL,
        kind INTEGER NOT NULL,
        payload BLOB NOT NULL,
        loop_id BLOB,
        subject TEXT,
        terminal INTEGER NOT NULL,
        consumes BLOB,
        public INTEGER NOT NULL,
        PRIMARY KEY (position, ordinal)
    ) WITHOUT ROWID""",
)

# The output that is kept need not begin with the first byte any more.
_KEPT_FROM = ("ALTER TABLE process ADD COLUMN kept_from NOT NULL DEFAULT 0",)

# It is known of some whose each byte of the output is.
_SPLIT = ("ALTER TABLE process ADD COLUMN split_streams NOT NULL DEFAULT 0",)


def steps() -> tuple[tuple[str, ...], ...]:
    """What leads from each version to the next, from the empty file's (0) on; a step, once released, is final."""
    return (_CREATE, _KEPT_FROM, _SPLIT)


VERSION = len(steps())

# State never goes backward, and nothing follows a last word, whatever order retries come in.
UPSERT_PROCESS = (
    f"INSERT INTO process ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) "  # noqa: S608 -- only names and marks of this file
    "ON CONFLICT (handle) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in _COLUMNS[1:])
    + f" WHERE process.state < {int(ProcessState.EXITED)} AND process.state <= excluded.state"
)
INSERT_UNIT = "INSERT OR IGNORE INTO unit (position, handle) VALUES (?, ?)"
INSERT_RECORD = "INSERT OR IGNORE INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# Ids are ordered by time, so this is the order of creation.
SELECT_PROCESSES = f"SELECT {', '.join(_COLUMNS)} FROM process ORDER BY base_id"  # noqa: S608 -- only names of this file
SELECT_UNITS = "SELECT position, handle, error FROM unit ORDER BY position"
SELECT_RECORDS = (
    "SELECT position, record_id, kind, payload, loop_id, subject, terminal, consumes, public "
    "FROM record ORDER BY position, ordinal"
)


def process_row(record: ProcessRecord) -> tuple[object, ...]:
    """`record` in the order of the columns."""
    outcome = record.outcome
    fault = None if outcome is None else outcome.output_error
    known = (
        record.handle,
        record.base_id.bytes,
        record.owner.session_id.bytes,
        record.owner.loop_id.bytes,
        record.origin_execution_id.bytes,
        record.name,
        record.program,
        record.created_at.isoformat(),
        int(record.state),
        None if record.started_at is None else record.started_at.isoformat(),
        record.backgrounded,
        record.kept_bytes,
    )
    base, _ = record.kept
    if outcome is None:
        return (*known, *(None,) * (len(_COLUMNS) - len(known) - 2), base, record.split_streams)
    return (
        *known,
        int(outcome.reason),
        outcome.exit_code,
        outcome.signal,
        outcome.finished_at.isoformat(),
        outcome.survivors,
        outcome.output_open,
        outcome.total_bytes,
        None if fault is None else fault.offset,
        None if fault is None else fault.code,
        int(outcome.containment),
        outcome.proven,
        outcome.diagnostic,
        base,
        record.split_streams,
    )


def to_process(row: Sequence[Any]) -> ProcessRecord:
    """The record of a row; raises ValueError, TypeError or KeyError where it is none of ours."""
    at: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    state = ProcessState(at["state"])
    started_at = None if at["started_at"] is None else datetime.fromisoformat(at["started_at"])
    return ProcessRecord(
        handle=at["handle"],
        base_id=UUID(bytes=at["base_id"]),
        owner=Owner(session_id=UUID(bytes=at["session_id"]), loop_id=UUID(bytes=at["loop_id"])),
        origin_execution_id=UUID(bytes=at["origin_execution_id"]),
        name=at["name"],
        program=at["program"],
        created_at=datetime.fromisoformat(at["created_at"]),
        state=state,
        started_at=started_at,
        backgrounded=bool(at["backgrounded"]),
        kept=(at["kept_from"], at["kept_from"] + at["kept_bytes"]),
        split_streams=bool(at["split_streams"]),
        outcome=_to_outcome(at, state, started_at) if state.terminal else None,
    )


def _to_outcome(at: dict[str, Any], state: ProcessState, started_at: datetime | None) -> Outcome:
    fault = None
    if at["fault_code"] is not None:
        fault = OutputFault(offset=at["fault_offset"], code=at["fault_code"])
    return Outcome(
        state=state,
        reason=TerminalReason(at["reason"]),
        exit_code=at["exit_code"],
        signal=at["signal"],
        started_at=started_at,
        finished_at=datetime.fromisoformat(at["finished_at"]),
        survivors=at["survivors"],
        output_open=bool(at["output_open"]),
        total_bytes=at["total_bytes"],
        output_error=fault,
        containment=Containment(at["containment"]),
        proven=bool(at["proven"]),
        diagnostic=at["diagnostic"],
    )


def record_row(ordinal: int, record: NewRecord) -> tuple[object, ...]:
    """One record of a unit, after its position."""
    return (
        ordinal,
        record.record_id.bytes,
        int(record.kind),
        record.payload,
        None if record.loop_id is None else record.loop_id.bytes,
        record.subject,
        record.terminal,
        None if record.consumes is None else record.consumes.bytes,
        record.public,
    )


def to_record(row: Sequence[Any]) -> NewRecord:
    """The record of a row, without its position and ordinal."""
    record_id, kind, payload, loop_id, subject, terminal, consumes, public = row
    return NewRecord(
        UUID(bytes=record_id),
        RecordKind(kind),
        payload,
        loop_id=None if loop_id is None else UUID(bytes=loop_id),
        subject=subject,
        terminal=bool(terminal),
        consumes=None if consumes is None else UUID(bytes=consumes),
        public=bool(public),
    )
