"""What went wrong, in words: SQLite's and the system's errors as situations that somebody can act on.

The words name what happened and what to do, never a path: a model may see them.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from ...notifier import JournalUnavailableError
from .._errors import JournalCorruptError

_PRIMARY = 0xFF  # the low byte of an extended result code is the primary one

_SITUATIONS = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space",
    sqlite3.SQLITE_IOERR: "the disk failed to read, write or sync; check it and its free space",
    sqlite3.SQLITE_BUSY: "another program holds the journal locked; let it finish",
    sqlite3.SQLITE_LOCKED: "another connection holds the journal locked; let it finish",
    sqlite3.SQLITE_READONLY: "the journal or its folder is read-only; make it writable",
    sqlite3.SQLITE_PERM: "this user may not open the journal; check its owner and mode",
    sqlite3.SQLITE_AUTH: "this user may not open the journal; check its owner and mode",
    sqlite3.SQLITE_CANTOPEN: "the journal cannot be opened; check that its folder exists and can be written",
    sqlite3.SQLITE_NOMEM: "memory ran out",
}
_CORRUPT = {
    sqlite3.SQLITE_CORRUPT: "the journal's file is damaged; restore it from a copy",
    sqlite3.SQLITE_NOTADB: "the journal's file is not a journal; restore it from a copy, or name another file",
}


# SQLite tells a missing table, index or column by no code of its own, and every statement is ours.
_NOT_OURS = ("no such table", "no such index", "no such column", "has no column named")


class DamageError(Exception):
    """What is stored cannot be what was written; says what is wrong, and where, and never what was found there."""

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(what, where)
        self.what = what
        self.where = where

    def at(self, where: str) -> DamageError:
        """The same, now that it is known where."""
        return DamageError(self.what, where)

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


@contextmanager
def told(doing: str) -> Generator[None]:
    """Turn what SQLite or the system raises inside into a `JournalUnavailableError` that says what happened.

    `DamageError` becomes a `JournalCorruptError`.  Whatever else is raised leaves as it is: a caller's own error is no
    fault of the file's.
    """
    try:
        yield
    except DamageError as error:
        raise JournalCorruptError(f"{doing}: the journal is damaged; restore it from a copy ({error})") from None
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0)
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        damage = _CORRUPT.get(code & _PRIMARY)
        if damage is None and any(words in str(error) for words in _NOT_OURS):
            damage = "the file's tables are not a journal's; restore it from a copy, or name another file"
        if damage is not None:
            raise JournalCorruptError(f"{doing}: {damage} ({name})") from error
        situation = _SITUATIONS.get(code & _PRIMARY, str(error))
        raise JournalUnavailableError(f"{doing}: {situation} ({name})") from error
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, type(error).__name__)
        raise JournalUnavailableError(f"{doing}: {error.strerror or 'the system refused'} ({name})") from error
