"""The disk of a simulated host: what a crash leaves, and what the next life finds.

Rules
- An image is taken when nothing of a life can write any more, and before anything is closed: the journal's files are
  copied as they are, its log included; the store's database is taken as its pages are.
- Two images with the same key are the same disk, whatever way led there.
"""

from __future__ import annotations

import functools
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import attrs
from proof_effects import PoweredConnection
from session_values import SESSION

from lastword.notifier import NewRecord, RecordKind
from lastword.session.journal import Journal, MemoryJournal, MemoryLedger, Record, SqliteJournal

# Memory where there is some to be had as a folder: thousands of lives on a disk would prove nothing more.
_SHM = Path("/dev/shm")
FOLDER = str(_SHM) if _SHM.is_dir() else None

_COLUMNS = ("seq", "record_id", "kind", "payload", "loop_id", "subject", "terminal", "consumes", "public")
_FIELDS = tuple(field.name for field in attrs.fields(NewRecord))
_STORE_TABLES = ("process", "unit", "record")
_FILES = ("journal.db", "journal.db-wal")


class Ground(Protocol):
    """The journal's part of the disk, in use."""

    def journal(self) -> Journal:
        """Another handle of the journal."""
        ...

    def ledger(self) -> tuple[Record, ...]:
        """What is really in it."""
        ...

    def epoch(self) -> int:
        """The epoch that is really in it."""
        ...

    def image(self) -> object:
        """The journal's part of the disk, as it is now."""
        ...

    def close(self) -> None:
        """Let go of it; what happens to it now is nobody's business."""
        ...


@attrs.frozen
class MemoryImage:
    """The records, fences included, and the epoch."""

    records: tuple[Record, ...] = ()
    epoch: int = 0


class MemoryGround:
    """A journal in memory."""

    def __init__(self, image: object | None) -> None:
        self._ledger = MemoryLedger()
        if isinstance(image, MemoryImage) and image.epoch:
            self._ledger.session_id = SESSION
            self._ledger.epoch = image.epoch
            for record in image.records:
                self._ledger.write(NewRecord(**{name: getattr(record, name) for name in _FIELDS}))

    def journal(self) -> Journal:
        return MemoryJournal(self._ledger)

    def ledger(self) -> tuple[Record, ...]:
        return tuple(self._ledger.records)

    def epoch(self) -> int:
        return self._ledger.epoch

    def image(self) -> object:
        return MemoryImage(tuple(self._ledger.records), self._ledger.epoch)

    def close(self) -> None:
        pass


class SqliteGround:
    """A journal on disk, in a folder of its own; its image is its files, byte for byte."""

    def __init__(self, image: object | None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lastword-", dir=FOLDER)
        self._path = Path(self._folder.name) / _FILES[0]
        self._journals: list[SqliteJournal] = []
        if isinstance(image, dict):
            for name, content in image.items():  # pyright: ignore[reportUnknownVariableType]  # its own image, below
                self._path.with_name(str(name)).write_bytes(bytes(content))  # pyright: ignore[reportUnknownArgumentType]

    def journal(self) -> Journal:
        self._journals.append(SqliteJournal(self._path))
        return self._journals[-1]

    def ledger(self) -> tuple[Record, ...]:
        if not self.epoch():
            return ()
        with closing(sqlite3.connect(self._path)) as connection:
            rows = connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM record ORDER BY seq").fetchall()
        return tuple(map(_record, rows))

    def epoch(self) -> int:
        if not self._path.exists():
            return 0
        with closing(sqlite3.connect(self._path)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            row = connection.execute("SELECT epoch FROM session").fetchone() if version else None
        return 0 if row is None else int(row[0])

    def image(self) -> object:
        files = [self._path.with_name(name) for name in _FILES]
        return {file.name: file.read_bytes() for file in files if file.exists()}

    def close(self) -> None:
        for journal in self._journals:
            journal.close()
        self._folder.cleanup()


def _record(row: tuple[Any, ...]) -> Record:
    """A row as it is in the file, read past the code that is under proof."""
    at: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    at["record_id"] = UUID(bytes=at["record_id"])
    at["kind"] = RecordKind(at["kind"])
    for name in ("loop_id", "consumes"):
        at[name] = None if at[name] is None else UUID(bytes=at[name])
    for name in ("terminal", "public"):
        at[name] = bool(at[name])
    return Record(**at)


GROUNDS: dict[str, type[MemoryGround] | type[SqliteGround]] = {"memory": MemoryGround, "disk": SqliteGround}


def store_connection(image: bytes | None) -> PoweredConnection:
    """The store's database as it was; a new one for None."""
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=PoweredConnection)
    assert isinstance(connection, PoweredConnection)
    if image is not None:
        connection.deserialize(image)
    return connection


def store_image(connection: PoweredConnection) -> bytes | None:
    """The store's database as it is; None where it has not been made."""
    made = connection.execute("SELECT 1 FROM sqlite_master").fetchall()
    return bytes(connection.serialize()) if made else None


@functools.lru_cache(maxsize=10_000)
def store_key(image: bytes | None) -> str:
    """Its content, whatever way led to it."""
    if image is None:
        return ""
    connection = store_connection(image)
    try:
        return repr([connection.execute(f"SELECT * FROM {table}").fetchall() for table in _STORE_TABLES])
    finally:
        connection.let_go()
