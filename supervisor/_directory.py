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
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import attrs

from ._errors import DirectoryInUseError, ErrorCode, SupervisorError, refusing

_LOCK = "lock"
_SESSION = "session.id"

# (device, inode) of every directory that this process holds.
_held: set[tuple[int, int]] = set()


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
    try:
        directory = Path(os.path.abspath(path))  # noqa: PTH100 -- abspath: a link to a directory stays what it was
    except TypeError:
        raise SupervisorError(ErrorCode.INVALID_SETTINGS, "the state directory must be a str or a Path") from None
    with refusing("the state directory"):
        _make_private(directory)
        status = directory.stat()
    key = (status.st_dev, status.st_ino)
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
    file = directory / _SESSION
    try:
        text = file.read_text(encoding="ascii")
    except FileNotFoundError:
        known = None
    except (OSError, UnicodeError):
        raise SupervisorError(ErrorCode.MANIFEST_CORRUPT, "the directory's session id cannot be read") from None
    else:
        try:
            known = UUID(text.strip())
        except ValueError:
            raise SupervisorError(ErrorCode.MANIFEST_CORRUPT, "the directory's session id is not an id") from None
    if known is None:
        if wanted is None and any(directory.glob("*.db")):
            raise SupervisorError(
                ErrorCode.MANIFEST_CORRUPT,
                "the state directory has lost its session.id; put it back, or open it once with the session_id it had",
            )
        session_id = wanted if wanted is not None else new_id()
        with refusing("the state directory"):
            _write_durably(file, f"{session_id}\n".encode("ascii"))
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
