"""Is a journal's file sound?  Every rule that the writer keeps, asked again of the whole file, which is only read.

The file's own integrity first (SQLite's check), then what the indexes and marks say against what the records say: the
writer keeps marks so that it need not walk the history; this walks it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from uuid import UUID

import attrs

from ...notifier import JournalUnavailableError, NewRecord, RecordKind
from .._errors import JournalCorruptError, JournalTooNewError
from . import _schema as sql
from ._faults import told
from ._judge import fence_record, fingerprint

# Enough to see what is wrong; a broken file can have as many as it has rows.
MOST_PROBLEMS = 100

_FIRSTS = "SELECT min(seq) AS seq FROM record WHERE kind = 1 AND subject IS NOT NULL GROUP BY subject"
_KINDS = frozenset(map(int, RecordKind))

_RULES: tuple[tuple[str, str], ...] = (
    ("sequence {0} is not where it should be", "SELECT seq FROM record ORDER BY seq"),
    (
        "sequence {0}: a lifecycle record after its process's last word",
        "SELECT late.seq FROM record AS late JOIN record AS word INDEXED BY last_word "
        "ON word.subject = late.subject AND word.kind = 1 AND word.terminal = 1 "
        "WHERE late.kind = 1 AND late.seq > word.seq ORDER BY late.seq",
    ),
    (
        "sequence {0}: marked pending, and is consumed or no notification, or the other way round",
        "SELECT seq FROM record AS r WHERE (waiting IS NOT NULL) != (kind = 2 AND loop_id IS NOT NULL AND NOT EXISTS "
        "(SELECT 1 FROM record AS c INDEXED BY consumption WHERE c.consumes = r.record_id AND c.consumes IS NOT NULL "
        "AND (c.loop_id IS NULL OR c.loop_id = r.loop_id))) ORDER BY seq",
    ),
    (
        "sequence {0}: marked as the first of an unfinished process, and is not, or the other way round",
        f"SELECT first.seq FROM ({_FIRSTS}) AS first JOIN record AS r ON r.seq = first.seq "  # noqa: S608 -- from above
        "WHERE (r.unfinished IS NOT NULL) != (NOT EXISTS (SELECT 1 FROM record AS e INDEXED BY last_word "
        "WHERE e.subject = r.subject AND e.kind = 1 AND e.terminal = 1) AND NOT EXISTS (SELECT 1 FROM record AS e "
        "INDEXED BY notified WHERE e.subject = r.subject AND e.kind = 2 AND e.subject IS NOT NULL)) "
        f"UNION SELECT seq FROM record WHERE unfinished IS NOT NULL AND seq NOT IN (SELECT seq FROM ({_FIRSTS}))",
    ),
)


@attrs.frozen(kw_only=True)
class Verification:
    """What `verify` found.  `problems` is empty for a sound journal; else its first hundred faults, in words."""

    session_id: UUID | None
    epoch: int
    records: int
    pending: int
    unfinished: int
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(path: str | PathLike[str]) -> Verification:
    """Check the SQLite journal at `path`, without changing it; takes time by its length.

    Raises `JournalUnavailableError` where there is none or it cannot be read, `JournalCorruptError` where it is no
    journal at all, `JournalTooNewError`.
    """
    file = Path(path)
    with told("verifying the journal"):
        if not file.exists():
            raise JournalUnavailableError("verifying the journal: there is no such file")
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        with contextlib.closing(connection):
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > sql.VERSION:
                raise JournalTooNewError(version, sql.VERSION)
            if version == 0:
                raise JournalCorruptError("verifying the journal: the file is not a journal")
            connection.execute("BEGIN")  # one view of it all, whoever writes meanwhile
            return _verify(connection)


def _verify(connection: sqlite3.Connection) -> Verification:
    row = connection.execute(sql.SESSION).fetchone()
    problems: list[str] = []
    for problem in _problems(connection, row):
        problems.append(problem)
        if len(problems) == MOST_PROBLEMS:
            break
    return Verification(
        session_id=None if row is None else UUID(bytes=row[0]),
        epoch=0 if row is None else row[1],
        records=_count(connection, "SELECT count(*) FROM record"),
        pending=_count(connection, "SELECT count(*) FROM record WHERE waiting = 1"),
        unfinished=_count(connection, "SELECT count(*) FROM record WHERE unfinished = 1"),
        problems=tuple(problems),
    )


def _problems(connection: sqlite3.Connection, session: tuple[bytes, int] | None) -> Iterator[str]:
    for (finding,) in connection.execute("PRAGMA integrity_check"):
        if finding != "ok":
            yield f"the file: {finding}"
    (dense, *others) = _RULES
    for place, (seq,) in enumerate(connection.execute(dense[1]), start=1):
        if seq != place:
            yield dense[0].format(seq)
            break
    for words, statement in others:
        for (seq,) in connection.execute(statement):
            yield words.format(seq)
    yield from _stored_wrongly(connection)
    if session is not None:
        yield from _fences(connection, UUID(bytes=session[0]), session[1])


def _stored_wrongly(connection: sqlite3.Connection) -> Iterator[str]:
    """Records whose bytes are not the ones that were fingerprinted."""
    for seq, record_id, kind, payload, stored in connection.execute(
        "SELECT seq, record_id, kind, payload, fingerprint FROM record ORDER BY seq"
    ):
        if kind not in _KINDS or fingerprint(NewRecord(UUID(bytes=record_id), RecordKind(kind), payload)) != stored:
            yield f"sequence {seq}: its bytes are not the ones that were written"


def _fences(connection: sqlite3.Connection, session_id: UUID, epoch: int) -> Iterator[str]:
    """Each epoch must have its fence, in order."""
    last = 0
    for number in range(1, epoch + 1):
        row = connection.execute(sql.KNOWN, (fence_record(session_id, number).record_id.bytes,)).fetchone()
        if row is None or row[0] <= last:
            yield f"epoch {number} has no fence in its place"
        else:
            last = row[0]


def _count(connection: sqlite3.Connection, statement: str) -> int:
    (count,) = connection.execute(statement).fetchone()
    return int(count)
