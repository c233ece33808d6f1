"""What a job reads: nothing (/dev/null), bytes that are all there before it starts, so that nobody has to pump, or
what comes while it runs (`_input`)."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._launcher import LaunchSpec


def stdin_of(spec: LaunchSpec) -> int:
    """A descriptor for what the job reads: of its input, or of the bytes that are all there.  The caller closes it.

    Raises OSError, also where the job was given up meanwhile and has no input any more.
    """
    if spec.input is None:
        return open_stdin(spec.stdin)
    if spec.input.given is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return os.dup(spec.input.given)


def open_stdin(data: bytes | None) -> int:
    """A descriptor that reads as `data`, then as end of file; None reads as end of file at once.  The caller closes it.

    The bytes are in a sealed memory file, or, where the system has none, in a temporary file without a name.  Raises
    OSError where there is no room or descriptor left.
    """
    if data is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    descriptor = _memory_file() if sys.platform == "linux" else _nameless_file()
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        if sys.platform == "linux":
            _seal(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _nameless_file() -> int:
    descriptor, path = tempfile.mkstemp(prefix="lastword-")
    os.unlink(path)  # noqa: PTH108 -- right after its creation; a Path would only add a step
    return descriptor


if sys.platform == "linux":
    import fcntl

    def _memory_file() -> int:
        return os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)

    def _seal(descriptor: int) -> None:
        # The job's children share the file: none may change what another reads.
        fcntl.fcntl(
            descriptor,
            fcntl.F_ADD_SEALS,
            fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE,
        )
