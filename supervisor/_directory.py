"""The state directory: one folder, one session, one live owner.

Rules
- Held by a POSIX record lock on a file of its own, opened once, and by a registry within the process: record locks do
  not exclude their own process, and closing any other descriptor of the file would drop them.  (flock would outlive a
  killed holder for as long as a child that was forked from it lives.)
- It names its session in `session.id`, durable before anything else is written: a restart is the same session.
- It is private: 0700, and every file of ours in it 0600.  A folder of somebody else's is refused, never re-moded.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import attrs

from .._readonly import open_regular
from ._errors import DirectoryInUseError, ErrorCode, SupervisorError, refusing

STORE = "supervisor.db"
OUTPUT = "output"
"""The supervisor's store, and the folder of ring files, in the directory."""

_LOCK = "lock"
_SESSION = "session.id"

# More than an id has, in any of its forms.
_SESSION_BYTES = 256

# (device, inode) of every directory that this process holds.
_held: set[tuple[int, int]] = set()

# Of all threads one at a time looks, or begins to hold: the end of a look would drop a lock that was taken meanwhile.
_turn = threading.Lock()
os.register_at_fork(before=_turn.acquire, after_in_parent=_turn.release, after_in_child=_turn.release)

# `struct flock` (fcntl.h) and the question "who holds any of it for writing", in the order of each system.
if sys.platform == "darwin":  # start, length, pid, type, whence
    _ASKED, _WHOLE_FILE, _PID = struct.Struct("@qqihh"), (0, 0, 0, fcntl.F_WRLCK, 0), 2
else:  # type, whence, start, length, pid
    _ASKED, _WHOLE_FILE, _PID = struct.Struct("@hhqqi0q"), (fcntl.F_WRLCK, 0, 0, 0, 0), 4


@attrs.frozen(kw_only=True)
class StateDirectory:
    """A directory that is held until the block ends."""

    path: Path
    session_id: UUID


@contextmanager
def hold_directory(
    path: str | os.PathLike[str], *, session_id: UUID | None, new_id: Callable[[], UUID]
) -> Generator[StateDirectory]:
    """Make `path` if it is missing, hold it, and tell whose session it is; let go at the end of the block.

    A new directory is given `session_id`, or a fresh one.  Raises `DirectoryInUseError` where a live owner holds it,
    and `SupervisorError` (invalid_settings) where it cannot be private, or belongs to another session than the one
    asked for.
    """
    directory = state_path(path)
    with refusing("the state directory"):
        _make_private(directory)
        status = directory.stat()
    key = (status.st_dev, status.st_ino)
    with _turn:
        if key in _held:
            raise DirectoryInUseError("this process")
        _held.add(key)
    try:
        with refusing("the lock of the state directory"):
            descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with refusing("the lock of the state directory"):
                _lock(descriptor)
            yield StateDirectory(path=directory, session_id=_session_of(directory, session_id, new_id))
        finally:
            os.close(descriptor)
    finally:
        _held.discard(key)


def state_path(path: str | os.PathLike[str]) -> Path:
    """Where a state directory is, or would be; nothing is looked at.

    Raises `SupervisorError` (invalid_settings) where that can be no path: of another type, with NUL, not encodable.
    """
    try:
        with refusing("the state directory"):
            directory = Path(os.path.abspath(path))  # noqa: PTH100 -- abspath: a link to a directory stays what it was
            if b"\0" in os.fsencode(directory):
                raise ValueError(path)
            return directory
    except TypeError:
        raise SupervisorError(ErrorCode.INVALID_SETTINGS, "the state directory must be a str or a Path") from None


def session_in(directory: Path) -> UUID | None:
    """The session that the directory names, None where it names none; only looks.

    Raises `SupervisorError`: manifest_corrupt where its name cannot be read, invalid_settings where we may not.
    """
    try:
        text = _read_short(directory / _SESSION)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        raise SupervisorError(
            ErrorCode.INVALID_SETTINGS, "the state directory may not be looked into; do so as the user who owns it"
        ) from None
    except (OSError, UnicodeError):
        raise SupervisorError(ErrorCode.MANIFEST_CORRUPT, "the directory's session id cannot be read") from None
    try:
        return UUID(text.strip())
    except ValueError:
        raise SupervisorError(ErrorCode.MANIFEST_CORRUPT, "the directory's session id is not an id") from None


def _read_short(file: Path) -> str:
    """The text of a small file, and of no pipe or device, which may never end."""
    descriptor = open_regular(file)
    try:
        return os.read(descriptor, _SESSION_BYTES).decode("ascii")
    finally:
        os.close(descriptor)


def is_held(directory: Path) -> bool:
    """Whether a live owner holds the directory; only looks, and is in nobody's way.  Raises `OSError`."""
    return holder_of(directory) is not None


def holder_of(directory: Path) -> int | None:
    """The process that holds the directory, None where nobody does; as `is_held`.  0: one that cannot be seen here."""
    status = directory.stat()
    with _turn:
        if (status.st_dev, status.st_ino) in _held:
            # Asking the system would answer for other processes alone, and closing the file would drop the lock.
            return os.getpid()
        try:
            descriptor = open_regular(directory / _LOCK)
        except FileNotFoundError:
            return None
        try:
            # Not a lock that is tried and given back: whoever opens the directory in that moment would be refused.
            answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _ASKED.pack(*_WHOLE_FILE))
        finally:
            os.close(descriptor)
    told = _ASKED.unpack(answer)
    return None if told[_WHOLE_FILE.index(fcntl.F_WRLCK)] == fcntl.F_UNLCK else told[_PID]


def _lock(descriptor: int) -> None:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        # POSIX lets a held record lock answer EAGAIN or EACCES.
        raise DirectoryInUseError("another process") from None


def _make_private(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.stat()
    if stat.S_IMODE(status.st_mode) & 0o077 == 0 and status.st_uid == os.geteuid():
        return
    # Ours by what it holds, or new by holding nothing: then it is ours to close to others.
    if status.st_uid == os.geteuid() and ((directory / _SESSION).exists() or not any(directory.iterdir())):
        directory.chmod(0o700)
        return
    raise SupervisorError(
        ErrorCode.INVALID_SETTINGS,
        "the state directory is open to other users and holds other files; give a new one, or chmod it to 0700",
    )


def _session_of(directory: Path, wanted: UUID | None, new_id: Callable[[], UUID]) -> UUID:
    """The session that the directory names; named durably now where it is new."""
    known = session_in(directory)
    if known is None:
        if wanted is None and any(directory.glob("*.db")):
            raise SupervisorError(
                ErrorCode.MANIFEST_CORRUPT,
                "the state directory has lost its session.id; put it back, or open it once with the session_id it had",
            )
        session_id = wanted if wanted is not None else new_id()
        with refusing("the state directory"):
            _write_durably(directory / _SESSION, f"{session_id}\n".encode("ascii"))
        return session_id
    if wanted is not None and wanted != known:
        raise SupervisorError(
            ErrorCode.INVALID_SETTINGS,
            f"the state directory belongs to session {known}; leave session_id out, or give another directory",
        )
    return known


def _write_durably(file: Path, content: bytes) -> None:
    """All of `content` under the name, or nothing, over a crash at any instant."""
    draft = file.with_suffix(".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    draft.replace(file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
