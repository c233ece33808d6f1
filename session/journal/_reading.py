"""Reading a journal that is not opened: it is only looked at, whoever has it open, and nothing is left behind.

`open_reader` shows what is in it, `verify` (`_verify`) judges it.  Both see it as it is at one moment.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Iterator
from os import PathLike
from pathlib import Path
from typing import final
from uuid import UUID

from ..._readonly import OpenedMeanwhileError
from ..._readonly import reading as reading_database
from ...notifier import JournalUnavailableError
from .._arguments import check_path, check_sequence
from .._errors import JournalCorruptError, JournalTooNewError
from . import _schema as sql
from ._faults import told
from ._filesystem import misplaced
from ._port import Record
from ._rows import decode_count, decode_record, decode_sequence, decode_session, text

# A bounded piece of memory, whatever the journal's length.
_PAGE = 256

_DOING = "reading the journal"


@contextlib.contextmanager
def reading(path: Path, doing: str) -> Generator[sqlite3.Connection]:
    """A connection that sees the journal as it is at one moment; `doing` begins what is raised.

    Raises `sqlite3.Error`, `OSError`, `JournalUnavailableError` where there is no file or it was opened meanwhile,
    `JournalCorruptError` where it is no journal at all, and `JournalTooNewError`.
    """
    wrong = misplaced(path)
    if wrong is not None:
        raise JournalUnavailableError(f"{doing}: {wrong}")
    if not path.exists():
        raise JournalUnavailableError(f"{doing}: there is no such file")
    try:
        with reading_database(path, text_factory=text) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > sql.VERSION:
                raise JournalTooNewError(version, sql.VERSION)
            if version <= 0:
                raise JournalCorruptError(f"{doing}: the file is not a journal")
            yield connection
    except OpenedMeanwhileError:
        raise JournalUnavailableError(f"{doing}: it was opened meanwhile; try again") from None


@final
class JournalReader:
    """A journal as it was at one moment; `open_reader` makes one, and there is no other way.

    Its methods raise `JournalCorruptError` for a row that cannot have been written there, and
    `JournalUnavailableError`.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def session_id(self) -> UUID | None:
        """Whose journal it is; None where it has never been opened."""
        with told(_DOING):
            session = decode_session(self._connection.execute(sql.SESSION).fetchmany(2))
        return None if session is None else session[0]

    @property
    def last_seq(self) -> int:
        """The place of the last record; 0 where there is none."""
        with told(_DOING):
            (last,) = self._connection.execute(sql.TIP).fetchone()
        return 0 if last is None else decode_sequence(last)

    def records(self, after: int = 0) -> Iterator[Record]:
        """Every record after that sequence, in order.  Raises `InvalidArgumentError` for what is no sequence."""
        check_sequence("after", after)
        page = self._page(sql.READ, after)
        while page:
            yield from page
            page = self._page(sql.READ, page[-1].seq)

    def unacknowledged(self) -> list[Record]:
        """Every notification that nothing consumes, of all loops, in order of the journal."""
        found: list[Record] = []
        with told(_DOING):
            loops = [decode_count(row) for row in self._connection.execute(sql.LOOPS)]
        for loop_id, _ in loops:
            page = self._page(sql.PENDING, loop_id.bytes, 0)
            while page:
                found += page
                page = self._page(sql.PENDING, loop_id.bytes, page[-1].seq)
        return sorted(found, key=lambda record: record.seq)

    def holds(self, record_id: UUID) -> bool:
        """Whether a record of that id is in the journal."""
        with told(_DOING):
            return self._connection.execute(sql.KNOWN, (record_id.bytes,)).fetchone() is not None

    def _page(self, statement: str, *values: object) -> list[Record]:
        with told(_DOING):
            return [decode_record(row) for row in self._connection.execute(statement, (*values, _PAGE))]


@contextlib.contextmanager
def open_reader(path: str | PathLike[str]) -> Generator[JournalReader]:
    """Look into the SQLite journal at `path`, for the time of a block, without changing it or its folder.

    Neither need be writable, and whoever has the journal open is not disturbed: it is seen as it is at one moment.
    Nothing is opened in the sense of the epoch: nobody is fenced.

    Raises `InvalidArgumentError` for what is no path, `JournalUnavailableError` where there is no file, it cannot be
    read now or was opened meanwhile (also at the block's end: what was read is worth nothing then), and
    `JournalCorruptError`, `JournalTooNewError`.
    """
    file = check_path("path", path)
    with contextlib.ExitStack() as stack:
        with told(_DOING):  # not around the block: what its author raises is no fault of the file's
            connection = stack.enter_context(reading(file, _DOING))
        yield JournalReader(connection)
