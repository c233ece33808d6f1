"""Is a journal's file sound?  Every rule that the writer keeps, asked again of the whole file, which is only read.

The file's own integrity first (SQLite's check), then what the indexes and marks say against what the records say: the
writer keeps marks so that it need not walk the history; this walks it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from itertools import islice
from os import PathLike
from uuid import UUID

import attrs

from ...notifier import NewRecord, RecordKind
from .._arguments import check_path
from . import _schema as sql
from ._faults import DamageError, told
from ._judge import fence_record, fingerprint
from ._reading import reading
from ._rows import decode_fingerprint, decode_mark, decode_record, decode_session

# Enough to see what is wrong; a broken file can have as many as it has rows.
MOST_PROBLEMS = 100

_DOING = "verifying the journal"

_MADE = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"
_FIRSTS = "SELECT min(seq) AS seq FROM record WHERE kind = 1 AND subject IS NOT NULL GROUP BY subject"

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
    """Check the SQLite journal at `path`, without changing it or its folder; takes time by its length.

    Neither need be writable.  A journal in use is seen as it was at one moment.  What another program has left in its
    log, where nobody has it open, is read in a copy, in the system's temporary folder.

    Raises `InvalidArgumentError` for what is no path, `JournalUnavailableError` where there is no file or it cannot be
    read now, `JournalCorruptError` where it is no journal at all, and `JournalTooNewError`.
    """
    file = check_path("path", path)
    with told(_DOING), reading(file, _DOING) as connection:
        return _verify(connection)


def _verify(connection: sqlite3.Connection) -> Verification:
    session: tuple[UUID, int] | None = None
    problems: list[str] = []
    try:
        session = decode_session(connection.execute(sql.SESSION).fetchmany(2))
    except DamageError as damage:
        problems.append(str(damage))
    problems += islice(_problems(connection, session), MOST_PROBLEMS - len(problems))
    return Verification(
        session_id=None if session is None else session[0],
        epoch=0 if session is None else session[1],
        records=_count(connection, "SELECT count(*) FROM record"),
        pending=_count(connection, "SELECT count(*) FROM record WHERE waiting = 1"),
        unfinished=_count(connection, "SELECT count(*) FROM record WHERE unfinished = 1"),
        problems=tuple(problems),
    )


def _problems(connection: sqlite3.Connection, session: tuple[UUID, int] | None) -> Iterator[str]:
    for (finding,) in connection.execute("PRAGMA integrity_check"):
        if finding != "ok":
            yield f"the file: {finding}"
    yield from _made_otherwise(connection)
    (dense, *others) = _RULES
    for place, (seq,) in enumerate(connection.execute(dense[1]), start=1):
        if seq != place:
            yield dense[0].format(_shown(seq))
            break
    for words, statement in others:
        for (seq,) in connection.execute(statement):
            yield words.format(_shown(seq))
    yield from _stored_wrongly(connection)
    if session is not None:
        yield from _fences(connection, *session)
    elif _count(connection, "SELECT count(*) FROM record") and not _count(connection, "SELECT count(*) FROM session"):
        yield "it names no session"


def _made_otherwise(connection: sqlite3.Connection) -> Iterator[str]:
    """What this version makes in a new file, and is not in this one, or is another; more may be there."""
    with contextlib.closing(sqlite3.connect(":memory:")) as model:
        for step in sql.steps():
            for statement in sql.statements(step):
                model.execute(statement)
        made = model.execute(_MADE).fetchall()
    found = set(connection.execute(_MADE))
    for kind, name, statement in made:
        if (kind, name, statement) not in found:
            yield f"the file: {kind} {name} is not there as it was made"


def _stored_wrongly(connection: sqlite3.Connection) -> Iterator[str]:
    """Records that cannot be read, or whose bytes are not the ones that were fingerprinted."""
    for *columns, stored, waiting, unfinished in connection.execute(sql.EVERYTHING):
        problem = f"sequence {_shown(columns[0])}: its bytes are not the ones that were written"
        try:
            record = decode_record(columns)
            decode_mark("waiting", waiting)
            decode_mark("unfinished", unfinished)
            if fingerprint(NewRecord(record.record_id, record.kind, record.payload)) != decode_fingerprint(stored):
                yield problem
        except DamageError as damage:
            yield f"{problem} ({damage.what})"


def _fences(connection: sqlite3.Connection, session_id: UUID, epoch: int) -> Iterator[str]:
    """Each epoch must have its fence, in order, and no other has one."""
    last = 0
    for number in range(1, epoch + 1):
        row = connection.execute(sql.KNOWN, (fence_record(session_id, number).record_id.bytes,)).fetchone()
        if row is None or type(row[0]) is not int or row[0] <= last:
            yield f"epoch {number} has no fence in its place"
        else:
            last = row[0]
    if _count(connection, f"SELECT count(*) FROM record WHERE kind = {RecordKind.FENCE:d}") > epoch:  # noqa: S608 -- a number
        yield f"there are fences of epochs after {epoch}"


def _shown(seq: object) -> str:
    """A sequence for a report; what is none may be anything that somebody wrote there."""
    return str(seq) if type(seq) is int else "that is no number"


def _count(connection: sqlite3.Connection, statement: str) -> int:
    (count,) = connection.execute(statement).fetchone()
    return int(count)
