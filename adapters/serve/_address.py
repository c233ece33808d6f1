"""Where a directory's server listens, and who is at the other end.

Rules
- The socket is a file of the state directory, which is private (0700), and is itself 0600 before anybody can connect.
- Whoever holds the directory is the only one who may listen there: so a socket that it finds is nobody's any more, and
  is replaced.
- A socket's path has 107 bytes (103 elsewhere than on Linux), and a folder's may have more.  Then the folder is reached
  by a short way for as long as the call takes: its descriptor under /proc/self/fd, or a link in a private temporary
  folder where there is no such thing.  The working directory, which is the whole process's, is left alone.
- Both ends look at the user id that the kernel names for the other, and go on only with their own.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ._errors import AddressError, ConnectionLostError, ForeignPeerError, NotServedError

SOCKET_FILE = "serve.sock"

_PATH_BYTES = 107 if sys.platform == "linux" else 103

# Connections that the kernel holds for a server that is busy for a moment.
_BACKLOG = 128

_DESCRIPTORS = Path("/proc/self/fd")


@contextmanager
def listening(directory: Path) -> Generator[socket.socket]:
    """Listen in `directory`, which the caller holds; the socket's file is removed at the end.

    Raises `AddressError`.
    """
    with _refusing(), _reached(directory) as path:
        _remove_stale(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.setblocking(False)
            listener.bind(path)
            os.chmod(path, 0o600)  # noqa: PTH101 -- before `listen`: until then nobody gets in
            made = _identity(directory)
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
    try:
        yield listener
    finally:
        # Another's hand may have put something else there.
        if made is not None and _identity(directory) == made:
            (directory / SOCKET_FILE).unlink(missing_ok=True)
        listener.close()


def connect_socket(directory: Path) -> socket.socket:
    """A connection to the server of `directory`, whose user is ours.

    Raises `NotServedError`, `ForeignPeerError`, `ConnectionLostError` (it takes nobody more at the moment), and
    `AddressError`.
    """
    with _refusing(), _reached(directory) as path:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            connection.connect(path)
            check_peer(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def check_peer(connection: socket.socket) -> None:
    """Raise `ForeignPeerError` unless the other end runs as our user."""
    if peer_uid(connection) != os.geteuid():
        raise ForeignPeerError


if sys.platform == "linux":

    def peer_uid(connection: socket.socket) -> int:
        """The user id that the kernel names for the other end."""
        _, uid, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(uid)

else:

    def peer_uid(connection: socket.socket) -> int:
        """The user id that the kernel names for the other end."""
        # LOCAL_PEERCRED (1) at SOL_LOCAL (0): struct xucred begins with its version and the user id.
        _, uid = struct.unpack("=II", connection.getsockopt(0, 1, 76)[:8])
        return int(uid)


@contextmanager
def _reached(directory: Path) -> Generator[str]:
    """A path of the directory's socket that is short enough, valid within the block."""
    plain = str(directory / SOCKET_FILE)
    if len(os.fsencode(plain)) <= _PATH_BYTES:
        yield plain
    elif _DESCRIPTORS.is_dir():
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield str(_DESCRIPTORS / str(descriptor) / SOCKET_FILE)
        finally:
            os.close(descriptor)
    else:
        with tempfile.TemporaryDirectory(prefix="lastword-") as folder:
            link = Path(folder, "d")
            link.symlink_to(directory)
            yield str(link / SOCKET_FILE)


@contextmanager
def _refusing() -> Generator[None]:
    """What the system says, by what it means; its own text would show a path."""
    try:
        yield
    except (FileNotFoundError, ConnectionRefusedError):
        raise NotServedError from None
    except BlockingIOError:
        raise ConnectionLostError("it has more connections waiting than it takes") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressError("another socket was put in its place just now") from None
        raise AddressError(error.strerror or type(error).__name__) from None


def _remove_stale(path: str) -> None:
    """Whoever listened there is gone: the directory is held by us."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise AddressError("something that is no socket has its name")
    os.unlink(path)  # noqa: PTH108 -- beside `lstat`, on the same words


def _identity(directory: Path) -> tuple[int, int] | None:
    try:
        status = (directory / SOCKET_FILE).lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
