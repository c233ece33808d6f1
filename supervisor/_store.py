"""The supervisor's private store: what is durable before a process is spawned, and its last word until it is told.

Theory of operation
- SQLite through the one owner (`_sqlite`).  A job is a function of the connection; each runs in a savepoint of its own,
  so that one that fails takes no other with it, and all of a batch are committed at once.
- `save` is idempotent: a row is put forward to the record's state or left alone where it is further already, and units
  are keyed by their position.  So after an unknown outcome the same call is simply made again.
- A commit that failed is unknown: the connection is dropped, and the next batch opens a new one, whose log begins anew.
- What can wait (delivery marks, evictions) is an errand: it rides on the next batch, and on the last one at closing.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, final
from uuid import UUID

from .._sqlite import Failed, InlineWriter, ThreadWriter, Writer, WriterClosedError, connect
from ..notifier import OutboxUnit, ProcessState
from ..notifier._crashpoints import CrashPoint, reached
from ._errors import ErrorCode, SupervisorError
from ._record import ProcessRecord
from ._rows import (
    INSERT_RECORD,
    INSERT_UNIT,
    SELECT_PROCESSES,
    SELECT_RECORDS,
    SELECT_UNITS,
    UPSERT_PROCESS,
    VERSION,
    process_row,
    record_row,
    steps,
    to_process,
    to_record,
)

STORE_ERRORS = (sqlite3.Error, WriterClosedError)
"""What a store's method raises where the store is unavailable; whether the work was done is unknown then."""

_Job: TypeAlias = Callable[[sqlite3.Connection], object]


@final
class Store:
    """Process records and the outbox's rows.  Made inside the event loop, and used from it alone."""

    def __init__(self, path: Path | None, session_id: UUID) -> None:
        """Open the store at `path` (None: in memory, with this object's life).

        Raises `SupervisorError`: invalid_settings where it is another session's or was written by a newer version,
        manifest_corrupt where it cannot be read.
        """
        self._path = path
        self._errands: deque[_Job] = deque()
        self._connection: sqlite3.Connection | None = None
        try:
            self._connection = connect(path)
            # A log that an earlier process has left: see `_reconnect`.
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            _prepare(self._connection, session_id)
        except BaseException as error:
            self._drop()
            if isinstance(error, sqlite3.Error):
                raise SupervisorError(
                    ErrorCode.MANIFEST_CORRUPT, f"the store cannot be opened ({error.sqlite_errorname})"
                ) from None
            raise
        self._writer: Writer[_Job, object] = (
            InlineWriter(self._handle, self._drop)
            if path is None
            else ThreadWriter(self._handle, self._drop, name="lastword-store")
        )

    def load(self) -> tuple[list[ProcessRecord], list[tuple[OutboxUnit, str | None]]]:
        """Everything that is stored: records, oldest first, and units in order (with the reason of a quarantine).

        Only before the first write.  Raises `SupervisorError` (manifest_corrupt).
        """
        connection = self._connection
        assert connection is not None  # noqa: S101 -- set by the constructor, and nothing has been written since
        try:
            processes = [to_process(row) for row in connection.execute(SELECT_PROCESSES)]
            records: dict[int, list[Any]] = {}
            for position, *row in connection.execute(SELECT_RECORDS):
                records.setdefault(position, []).append(to_record(row))
            units = [
                (OutboxUnit(position=position, subject=handle, records=tuple(records.get(position, ()))), error)
                for position, handle, error in connection.execute(SELECT_UNITS)
            ]
        except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
            raise SupervisorError(
                ErrorCode.MANIFEST_CORRUPT, f"the store cannot be read ({type(error).__name__})"
            ) from None
        return processes, units

    async def save(self, record: ProcessRecord, units: Sequence[OutboxUnit] = ()) -> None:
        """Put the record forward and add the units, in one transaction.

        Cancelled, or `STORE_ERRORS`: whether it was done is unknown; make the same call again.
        """

        def job(connection: sqlite3.Connection) -> None:
            connection.execute(UPSERT_PROCESS, process_row(record))
            for unit in units:
                connection.execute(INSERT_UNIT, (unit.position, unit.subject))
                connection.executemany(
                    INSERT_RECORD,
                    [(unit.position, *record_row(ordinal, told)) for ordinal, told in enumerate(unit.records)],
                )

        await self._writer.submit(job)

    async def state_of(self, handle: str) -> ProcessState | None:
        """The state that is durable, None where there is no such row."""

        def job(connection: sqlite3.Connection) -> object:
            return connection.execute("SELECT state FROM process WHERE handle = ?", (handle,)).fetchone()

        row: Any = await self._writer.submit(job)
        return None if row is None else ProcessState(row[0])

    async def quarantine(self, position: int, error: str) -> None:
        """Keep the unit and never offer it again."""
        await self._writer.submit(lambda c: _run(c, "UPDATE unit SET error = ? WHERE position = ?", (error, position)))

    def forget_unit(self, position: int) -> None:
        """The unit was delivered.  An errand."""

        def errand(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM record WHERE position = ?", (position,))
            connection.execute("DELETE FROM unit WHERE position = ?", (position,))

        self._errands.append(errand)

    def forget_process(self, handle: str) -> None:
        """The process is evicted; units of it that are not delivered stay.  An errand."""
        self._errands.append(lambda c: _run(c, "DELETE FROM process WHERE handle = ?", (handle,)))

    async def aclose(self) -> None:
        """Run the errands that are left, and release the database.  Idempotent, and not cut short by cancellation."""
        if self._errands:
            self._writer.post(lambda _: None)
        await self._writer.aclose()

    # --- in the owner's thread ----------------------------------------------------------------------------------------

    def _handle(self, jobs: Sequence[_Job]) -> list[object | Failed]:
        if self._connection is None:
            self._connection = _reconnect(self._path)
        connection = self._connection
        errands = [self._errands.popleft() for _ in range(len(self._errands))]
        try:
            connection.execute("BEGIN IMMEDIATE")
            for errand in errands:
                errand(connection)
            outcomes = [_savepoint(connection, job) for job in jobs]
            connection.execute("COMMIT")
        except BaseException:
            self._errands.extendleft(reversed(errands))
            self._recover(connection)
            raise
        if errands:
            reached(CrashPoint.MARK_WRITTEN)
        return outcomes

    def _recover(self, connection: sqlite3.Connection) -> None:
        if self._path is None:
            with contextlib.suppress(sqlite3.Error):
                connection.rollback()
        else:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _reconnect(path: Path | None) -> sqlite3.Connection:
    """Open the store again after a fault, with an empty log.

    A sync that has failed may have left the log's pages clean in the system's cache and absent from the disk: they read
    well, no later sync writes them, and a power cut takes every commit that was appended behind them.
    """
    connection = connect(path)
    try:
        (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise sqlite3.OperationalError("another program is reading the store; let it finish")
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, session_id: UUID) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise SupervisorError(
            ErrorCode.INVALID_SETTINGS, "the store was written by a newer version of this library; use that one"
        )
    if version > 0:
        (known,) = connection.execute("SELECT id FROM session").fetchone()
        if known != session_id.bytes:
            raise SupervisorError(ErrorCode.INVALID_SETTINGS, f"the store belongs to session {UUID(bytes=known)}")
    if version < VERSION:
        connection.execute("BEGIN IMMEDIATE")
        for step in steps()[version:]:
            for statement in step:
                connection.execute(statement)
        if version == 0:
            connection.execute("INSERT INTO session VALUES (?)", (session_id.bytes,))
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")


def _savepoint(connection: sqlite3.Connection, job: _Job) -> object | Failed:
    connection.execute("SAVEPOINT job")
    try:
        outcome = job(connection)
    except Exception as error:
        connection.execute("ROLLBACK TO job")
        outcome = Failed(error)
    connection.execute("RELEASE job")
    return outcome


def _run(connection: sqlite3.Connection, statement: str, values: tuple[object, ...]) -> None:
    connection.execute(statement, values)
