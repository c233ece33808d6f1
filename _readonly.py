"""Reading a database without a trace: neither its file nor its folder is changed, or need be writable.

Theory of operation
- SQLite reads a file in WAL mode through an index beside it (`-shm`), and makes one, and a log, where there is none:
  impossible in a read-only folder, and a litter that may stand in the owner's way in any other.  So:
- Log and index are both there: somebody has it open, or died with it.  SQLite's own way makes nothing new.
- No log, or an empty one: the file alone is all there is, and is read as one that nobody changes (`immutable`).
- A log without its index (a copy, a restored backup): both are copied to a private folder, and the copy is read.
- In the last two cases nobody had it open.  If somebody came meanwhile, what was read is worth nothing: that
  is told, and nothing else.

- Who made the folder may not be trusted: what is no regular file is refused, a pipe above all, since whoever opens it
  waits for its other end.

To whoever edits: closing a file beside SQLite drops the POSIX locks that this process holds on it.  SQLite itself knows
that, of its own connections.  Of a file that is copied nobody in this process has it open where we close it; whoever
comes meanwhile is the reason why `_let_go` looks first.  What it keeps is used again, so it does not add up.  This
module knows nothing of records or processes: the journal and the supervisor's store share it, as they share `_sqlite`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TypeAlias

_LOG, _INDEX, _ROLLBACK = "-wal", "-shm", "-journal"

# Descriptors that must not be closed, since somebody in this process may have taken locks on the same file meanwhile:
# by (device, inode), for the next copy of it.
_kept_open: dict[tuple[int, int], list[int]] = {}

_COPIED_BYTES = 1024 * 1024

_State: TypeAlias = tuple[tuple[str, int, int, int], ...]
_Text: TypeAlias = Callable[[bytes], object] | None


class OpenedMeanwhileError(Exception):
    """The database was opened or written while it was read as one that nobody changes: what was read is worth nothing.

    Reading again is the answer.
    """


def open_regular(file: Path) -> int:
    """A descriptor that reads it, for whoever closes it.  Raises `OSError`, for what is no regular file, too."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file")


@contextlib.contextmanager
def reading(path: Path, *, text_factory: _Text = None) -> Generator[sqlite3.Connection]:
    """A connection that sees the database at `path`, which is there, as it is at one moment.

    Raises `sqlite3.Error`, `OSError` and `OpenedMeanwhileError`.
    """
    file = path.resolve()  # SQLite, too, looks for a link's log beside what it leads to
    _check_regular(file)
    shared = _shared(file, text_factory)
    if shared is not None:
        with contextlib.closing(shared):
            yield shared
        return
    before = _state(file)
    try:
        with _alone(file, before, text_factory) as connection:
            yield connection
    except Exception:
        _check_untouched(file, before)  # in place of what was raised: what changes underneath looks damaged
        raise
    _check_untouched(file, before)


def _shared(file: Path, text: _Text) -> sqlite3.Connection | None:
    """A view beside whoever has it open; None where nobody has, or none can be had in this folder."""
    if not _beside(file, _LOG).exists() or not _beside(file, _INDEX).exists():
        return None
    connection = _connect(file, "mode=ro", text)
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
            return None
        raise
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _alone(file: Path, before: _State, text: _Text) -> Generator[sqlite3.Connection]:
    """A view of a database that nobody has open."""
    logs = [log for log in (_beside(file, _LOG), _beside(file, _ROLLBACK)) if log.exists() and log.stat().st_size]
    if not logs:
        with contextlib.closing(_connect(file, "mode=ro&immutable=1", text)) as connection:
            yield connection
        return
    with tempfile.TemporaryDirectory(prefix="lastword-") as folder:
        for original in (file, *logs):
            source = _take(original)
            try:
                _copy(source, Path(folder, original.name))
            finally:
                _let_go(source, file, before)
        with contextlib.closing(_connect(Path(folder, file.name), "mode=rw", text)) as connection:
            yield connection


def _connect(file: Path, how: str, text: _Text) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{file.as_uri()}?{how}", uri=True, isolation_level=None)
    if text is not None:
        connection.text_factory = text
    return connection


def _take(file: Path) -> int:
    """One that was kept, or another."""
    status = file.stat()
    try:
        return _kept_open[status.st_dev, status.st_ino].pop()
    except (KeyError, IndexError):
        return open_regular(file)


def _copy(source: int, target: Path) -> None:
    at = 0
    with target.open("wb") as copy:
        while data := os.pread(source, _COPIED_BYTES, at):
            at += copy.write(data)


def _let_go(source: int, file: Path, before: _State) -> None:
    if _state(file) == before:
        os.close(source)
    else:
        status = os.fstat(source)
        _kept_open.setdefault((status.st_dev, status.st_ino), []).append(source)


def _check_untouched(file: Path, before: _State) -> None:
    if _state(file) != before:
        raise OpenedMeanwhileError


def _check_regular(file: Path) -> None:
    for suffix in ("", _LOG, _INDEX, _ROLLBACK):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(_beside(file, suffix).stat().st_mode):
                raise OSError(errno.EINVAL, "not a regular file")


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)


def _state(file: Path) -> _State:
    """What changes when somebody opens or writes it."""
    found: list[tuple[str, int, int, int]] = []
    for suffix in ("", _LOG, _INDEX, _ROLLBACK):
        with contextlib.suppress(FileNotFoundError):
            status = _beside(file, suffix).stat()
            found.append((suffix, status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)
