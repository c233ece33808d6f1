"""The SQLite journal's tables, its version, and every statement over them.

Rules
- `record` is append-only: a trigger refuses to change or delete what was written.  Two columns alone may be cleared,
  and say nothing new: `waiting` (a notification that nothing consumes) and `unfinished` (the first lifecycle record of
  a process that lacks its end).  Each has a partial index, so what is pending costs by what is pending.
- The UNIQUE index on `record_id` is the idempotency index; that on `subject` where `terminal` makes a second last word
  impossible, whatever the code above it does.
- Where an order by `seq` would tempt the planner to walk the history, the index is named (INDEXED BY).
- A change of the tables is a new step, never a change of an old one: files of every version are out there.
- UUIDs are 16-byte blobs: a third of the text's size, and time-ordered ones keep the index local.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator

CREATE = """
CREATE TABLE session (
    id BLOB NOT NULL,
    epoch INTEGER NOT NULL
) STRICT;
CREATE TABLE record (
    seq INTEGER PRIMARY KEY,
    record_id BLOB NOT NULL UNIQUE,
    kind INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    payload BLOB NOT NULL,
    loop_id BLOB,
    subject TEXT,
    terminal INTEGER NOT NULL,
    consumes BLOB,
    public INTEGER NOT NULL,
    waiting INTEGER,
    unfinished INTEGER
) STRICT;
CREATE UNIQUE INDEX last_word ON record (subject) WHERE kind = 1 AND terminal = 1;
CREATE INDEX notified ON record (subject) WHERE kind = 2 AND subject IS NOT NULL;
CREATE INDEX consumption ON record (consumes) WHERE consumes IS NOT NULL;
CREATE INDEX waiting ON record (loop_id, seq) WHERE waiting = 1;
CREATE UNIQUE INDEX unfinished ON record (subject) WHERE unfinished = 1;
CREATE TRIGGER written_is_written
    BEFORE UPDATE OF seq, record_id, kind, fingerprint, payload, loop_id, subject, terminal, consumes, public ON record
    BEGIN SELECT RAISE(ABORT, 'a record never changes'); END;
CREATE TRIGGER written_stays
    BEFORE DELETE ON record
    BEGIN SELECT RAISE(ABORT, 'a record never goes'); END;
"""


def steps() -> tuple[str, ...]:
    """What leads from each version to the next, from the empty file's (0) on; a step, once released, is final."""
    return (CREATE,)


VERSION = len(steps())


def statements(script: str) -> Generator[str]:
    """The statements of a script, one by one: `executescript` would end the transaction that they are to be in."""
    statement = ""
    for part in script.split(";"):
        statement += f"{part};"
        if sqlite3.complete_statement(statement):  # a trigger has semicolons of its own
            if statement.strip() != ";":
                yield statement
            statement = ""


_COLUMNS = "seq, record_id, kind, payload, loop_id, subject, terminal, consumes, public"

SESSION = "SELECT id, epoch FROM session"
NEW_SESSION = "INSERT INTO session (id, epoch) VALUES (?, 0)"
BUMP_EPOCH = "UPDATE session SET epoch = epoch + 1"
TIP = "SELECT max(seq) FROM record"

KNOWN = "SELECT seq, fingerprint, loop_id FROM record WHERE record_id = ?"
LAST_WORD = "SELECT seq FROM record WHERE subject = ? AND kind = 1 AND terminal = 1"
NOTIFIED = "SELECT 1 FROM record WHERE subject = ? AND kind = 2 AND subject IS NOT NULL"
CONSUMED = "SELECT 1 FROM record WHERE consumes = ? AND consumes IS NOT NULL AND (loop_id IS NULL OR loop_id IS ?)"
UNFINISHED_OF = "SELECT 1 FROM record WHERE subject = ? AND unfinished = 1"

INSERT = (
    "INSERT INTO record (seq, record_id, kind, fingerprint, payload, loop_id, subject, terminal, consumes, public, "
    "waiting, unfinished) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
SETTLE = "UPDATE record SET waiting = NULL WHERE record_id = ? AND waiting = 1 AND loop_id = coalesce(?, loop_id)"
FINISH = "UPDATE record SET unfinished = NULL WHERE subject = ? AND unfinished = 1"

EVERYTHING = f"SELECT {_COLUMNS}, fingerprint, waiting, unfinished FROM record ORDER BY seq"  # noqa: S608 -- columns from above
READ = f"SELECT {_COLUMNS} FROM record WHERE seq > ? ORDER BY seq LIMIT ?"  # noqa: S608 -- columns from above
PENDING = (
    f"SELECT {_COLUMNS} FROM record INDEXED BY waiting "  # noqa: S608 -- columns from above
    "WHERE waiting = 1 AND loop_id = ? AND seq > ? ORDER BY seq LIMIT ?"
)
LOOPS = "SELECT loop_id, count(*) FROM record INDEXED BY waiting WHERE waiting = 1 GROUP BY loop_id ORDER BY loop_id"
UNFINISHED = f"SELECT {_COLUMNS} FROM record INDEXED BY unfinished WHERE unfinished = 1 ORDER BY seq"  # noqa: S608 -- columns from above
