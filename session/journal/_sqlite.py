"""The journal on disk: one SQLite file, written by one thread, durable when `append_many` returns.

Theory of operation
- WAL with synchronous=FULL: one fsync per commit, and a committed transaction survives a power cut.
- A write is BEGIN IMMEDIATE, the epoch's check, the judged inserts, COMMIT.  Any error between them leaves an unknown
  outcome: the handle is rolled back as well as it goes, and `reopen` takes a new one.
- A file that this version cannot read is told apart by a read-only look before anything is opened for writing.

To whoever edits: never open and close the file beside SQLite.  Closing any descriptor of a file drops all POSIX locks
that the process holds on it, those of SQLite's own connection included.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Sequence
from os import PathLike
from pathlib import Path
from uuid import UUID

from ..._sqlite import connect
from ...notifier import Appended, AppendResult, JournalFencedError, JournalUnavailableError, NewRecord, RecordKind
from ...notifier._crashpoints import CrashPoint, reached
from .._arguments import check_path
from .._errors import JournalCorruptError, JournalSessionError, JournalTooNewError
from . import _schema as sql
from ._faults import DamageError, told
from ._filesystem import misplaced, network_filesystem
from ._judge import Known, fence_record, fingerprint, is_last_word, is_lifecycle, judge_unit, notified_loop
from ._port import Record
from ._rows import Row, decode_count, decode_known, decode_record, decode_sequence, decode_session, text

_FOLDER_MODE = 0o700  # nobody else may list, read or replace what is in it


class SqliteJournal:
    """A `Journal` in the file at `path`; made, with its folder, by `open` and not by the constructor.

    Raises `InvalidArgumentError` for what is no path.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._path = check_path("path", path).absolute()  # of this moment: the host may go elsewhere
        self._connection: sqlite3.Connection | None = None
        self._epoch = 0
        self._session_id: UUID | None = None
        self._log = self._path
        self._identity: tuple[tuple[int, int], ...] | None = None

    def held_session(self) -> UUID | None:
        """See `HoldsOneSession`."""
        with told("looking at the journal"):
            return self._look()

    def open(self, session_id: UUID) -> int:
        """See `Journal.open`."""
        with told("opening the journal"):
            self._path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            network = network_filesystem(self._path.parent)
            if network is not None:
                raise JournalUnavailableError(
                    f"opening the journal: {network} is a network file system, on which it would not be safe; "
                    "put it on a local disk"
                )
            held = self._look()
            if held is not None and held != session_id:
                raise JournalSessionError(held, session_id)
            self._connect()
            try:
                epoch = self._take_over(session_id)
            except BaseException:
                self.close()  # what was not taken over is not held either
                raise
        self._session_id = session_id
        self._epoch = epoch
        return epoch

    def reopen(self, epoch: int) -> None:
        """See `Journal.reopen`.  The file must still be there: this never makes one."""
        self.close()
        with told("reopening the journal"):
            if not self._path.exists():
                raise JournalUnavailableError("reopening the journal: its file is gone; put it back")
            held = self._look()
            if held is None or self._session_id not in {None, held}:
                raise JournalCorruptError("reopening the journal: its file is another one now; put the right one back")
            connection = self._connect()
            _, now = _session(connection)
            self._session_id = held
            self._epoch = epoch
            if now != epoch:
                raise _fenced(epoch, now)
            _write_anew(connection)

    def epoch(self) -> int:
        """See `Journal.epoch`."""
        with told("reading the journal"):
            return _session(self._held())[1]

    def append_many(self, units: Sequence[Sequence[NewRecord]]) -> list[list[AppendResult]]:
        """See `Journal.append_many`."""
        with told("writing the journal"):
            connection = self._held()
            with _transaction(connection):
                _, now = _session(connection)
                if now != self._epoch:
                    raise _fenced(self._epoch, now)
                ledger = _SqliteLedger(connection)
                results = [ledger.append(unit) for unit in units]
            # After the commit: a file, or its log, that was replaced before it has taken the records with it.
            if self._identity != _identity(self._path, self._log):
                raise JournalUnavailableError("writing the journal: its file was replaced underneath; put it back")
        return results

    def read(self, after: int, limit: int) -> list[Record]:
        """See `Journal.read`."""
        return self._select(sql.READ, (after, limit))

    def pending(self, loop_id: UUID, after: int, limit: int) -> list[Record]:
        """See `Journal.pending`."""
        return self._select(sql.PENDING, (loop_id.bytes, after, limit))

    def loops(self) -> list[tuple[UUID, int]]:
        """See `Journal.loops`."""
        with told("reading the journal"):
            return [decode_count(row) for row in self._held().execute(sql.LOOPS).fetchall()]

    def unfinished(self) -> list[Record]:
        """See `Journal.unfinished`."""
        return self._select(sql.UNFINISHED, ())

    def close(self) -> None:
        """See `Journal.close`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # What is committed is durable in the log; a failing checkpoint or close takes nothing back.
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _take_over(self, session_id: UUID) -> int:
        connection = self._held()
        # A log that an earlier process has left: see `_write_anew`.  One that is alive answers for its own.
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        with _transaction(connection):
            held, _ = _session(connection)
            if held is None:
                if connection.execute(sql.TIP).fetchone() != (None,):
                    # Whoever it belonged to still has notices in it, and a new session would never be told of them.
                    raise DamageError("it holds records, and names no session")
                connection.execute(sql.NEW_SESSION, (session_id.bytes,))
            elif held != session_id:
                raise JournalSessionError(held, session_id)
            connection.execute(sql.BUMP_EPOCH)
            _, epoch = _session(connection)
            (result,) = _SqliteLedger(connection).append([fence_record(session_id, epoch)])
            if not isinstance(result, Appended):
                # Whoever held that epoch could go on writing beside us.
                raise DamageError(f"epoch {epoch} has its fence already: the epoch was set back")
        return epoch

    def _look(self) -> UUID | None:
        """Whose the file is, read without a chance to change it; None where it is new or missing."""
        wrong = misplaced(self._path)
        if wrong is not None:
            raise JournalUnavailableError(f"looking at the journal: {wrong}")
        if not self._path.exists() or not self._path.stat().st_size:
            return None
        connection = sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        with contextlib.closing(connection):
            connection.text_factory = text
            version = _version(connection)
            if version > sql.VERSION:
                raise JournalTooNewError(version, sql.VERSION)
            if version <= 0:
                if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None:
                    raise JournalCorruptError("the file is not a journal but another database; name another file")
                return None
            return _session(connection)[0]

    def _connect(self) -> sqlite3.Connection:
        self.close()
        connection = connect(self._path)
        try:
            connection.text_factory = text
            _migrate(connection)
            file = self._path.resolve()  # a link's log is beside what it leads to
            self._log = file.with_name(f"{file.name}-wal")
            self._identity = _identity(self._path, self._log)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _held(self) -> sqlite3.Connection:
        if self._connection is None:
            raise JournalUnavailableError("the journal is not open; call open or reopen")
        return self._connection

    def _select(self, statement: str, parameters: tuple[object, ...]) -> list[Record]:
        with told("reading the journal"):
            # All of them first: a statement that a damaged row left unfinished would hold the file as a reader does.
            return [decode_record(row) for row in self._held().execute(statement, parameters).fetchall()]


class _SqliteLedger:
    """The ledger inside one transaction; see `Ledger`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        (tip,) = connection.execute(sql.TIP).fetchone()
        self._tip: int = 0 if tip is None else decode_sequence(tip)

    def append(self, unit: Sequence[NewRecord]) -> list[AppendResult]:
        results, new = judge_unit(unit, self, self._tip)
        for record in new:
            self._write(record)
            if is_last_word(record):
                reached(CrashPoint.EVENT_APPENDED)
        return results

    def known(self, record_id: UUID) -> Known | None:
        row = self._connection.execute(sql.KNOWN, (record_id.bytes,)).fetchone()
        return None if row is None else decode_known(row)

    def last_word(self, subject: str) -> int | None:
        row = self._connection.execute(sql.LAST_WORD, (subject,)).fetchone()
        return None if row is None else decode_sequence(row[0])

    def consumed(self, command_id: UUID, loop_id: UUID | None) -> bool:
        return self._any(sql.CONSUMED, (command_id.bytes, _blob(loop_id)))

    def _write(self, new: NewRecord) -> None:
        self._tip += 1
        if new.consumes is not None:
            self._connection.execute(sql.SETTLE, (new.consumes.bytes, _blob(new.loop_id)))
        loop_id = notified_loop(new)
        waiting = loop_id is not None and not self._settled(new, loop_id)
        row = (
            self._tip,
            new.record_id.bytes,
            int(new.kind),
            fingerprint(new),
            new.payload,
            _blob(new.loop_id),
            new.subject,
            int(new.terminal),
            _blob(new.consumes),
            int(new.public),
            1 if waiting else None,
            1 if self._first_of_a_life(new) else None,
        )
        self._connection.execute(sql.INSERT, row)

    def _settled(self, new: NewRecord, loop_id: UUID) -> bool:
        """Whether the notification was consumed before it came, if only by naming itself."""
        itself = new.consumes == new.record_id
        return itself or self.consumed(new.record_id, loop_id)

    def _first_of_a_life(self, new: NewRecord) -> bool:
        """Whether the record is the first of a process that lacks its end; if it is the end, the mark is cleared."""
        subject = new.subject
        if subject is None:
            return False
        if is_last_word(new) or new.kind is RecordKind.COMMAND:
            self._connection.execute(sql.FINISH, (subject,))
            return False
        if not is_lifecycle(new):
            return False
        return not self._any(sql.UNFINISHED_OF, (subject,)) and not self._any(sql.NOTIFIED, (subject,))

    def _any(self, statement: str, parameters: tuple[object, ...]) -> bool:
        return self._connection.execute(statement, parameters).fetchone() is not None


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    """BEGIN IMMEDIATE to COMMIT; whatever is raised inside rolls back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After a failed write SQLite has often rolled back by itself, and then refuses to do it again.
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _write_anew(connection: sqlite3.Connection) -> None:
    """Move the log into the database and sync it, after a fault.

    A sync that has failed may have left the log's pages clean in the system's cache and absent from the disk: they read
    well, and no later sync would write them.  What was read back is written once more before it is called durable.
    """
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise JournalUnavailableError("reopening the journal: another program is reading it; let it finish")


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring an older or empty file to this version: each step whole, with the number that says so, or not at all."""
    steps = sql.steps()
    while _version(connection) < len(steps):
        with _transaction(connection):
            version = _version(connection)  # a second opener that came at the same moment may have done it by now
            if version < len(steps):
                for statement in sql.statements(steps[version]):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version + 1}")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _session(connection: sqlite3.Connection) -> tuple[UUID | None, int]:
    rows: list[Row] = connection.execute(sql.SESSION).fetchmany(2)
    return decode_session(rows) or (None, 0)


def _identity(path: Path, log: Path) -> tuple[tuple[int, int], ...] | None:
    """Which files the two paths name now; None where one of them names none."""
    try:
        found = [each.stat() for each in (path, log)]
    except FileNotFoundError:
        return None
    return tuple((status.st_dev, status.st_ino) for status in found)


def _blob(value: UUID | None) -> bytes | None:
    return None if value is None else value.bytes


def _fenced(held: int, now: int) -> JournalFencedError:
    return JournalFencedError(f"epoch {held} is over: another opener holds epoch {now} of this journal")
