"""The process's stdin and stdout as the wire: taken for the protocol alone, and for the rest of its life.

Rules
- Descriptor 0 reads as empty from then on, and descriptor 1 is stderr: what a library prints, or a child inherits,
  never gets between two messages, nor behind the last one.
- The wire itself is on descriptors of its own, which no child inherits, and stays in the mode it came in: whoever
  shares it, a terminal for example, must not find it non-blocking.
- Reading and writing can be cancelled at any moment.  (In a worker thread they could not: a server that is told to end
  would wait for the client's next line.)
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import sys
from collections.abc import Awaitable, Callable

import anyio
import attrs
from anyio.lowlevel import checkpoint

from ...notifier import LastwordError

_READ_BYTES = 64 * 1024

# A pipe that is writable takes so much without blocking, and a socket does too.
_WRITE_BYTES = select.PIPE_BUF


class NoWireError(LastwordError):
    """There is no stdin or no stdout to speak over."""


class WireBrokenError(Exception):
    """Nobody reads any more what is written."""


@attrs.frozen
class Wire:
    """Where bytes come from and lines go to."""

    reads: int
    writes: int

    async def read(self) -> bytes:
        """What has come, and b"" at the end.  Cancelled, nothing is read."""
        await _ready(anyio.wait_readable, self.reads)
        try:
            return os.read(self.reads, _READ_BYTES)
        except OSError as error:
            # A terminal that has hung up, or a socket whose other end was killed: nobody speaks any more.
            if error.errno not in {errno.EIO, errno.ECONNRESET}:
                raise
            return b""

    async def write(self, line: bytes) -> None:
        """Write a line and its end.  Raises `WireBrokenError`; cancelled, a part of it may be on the wire."""
        rest = memoryview(line + b"\n")
        while rest:
            await _ready(anyio.wait_writable, self.writes)
            try:
                written = os.write(self.writes, rest[:_WRITE_BYTES])
            except OSError as error:
                if error.errno not in {errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EIO}:
                    raise
                raise WireBrokenError from None
            rest = rest[written:]


async def _ready(wait: Callable[[int], Awaitable[None]], descriptor: int) -> None:
    try:
        await wait(descriptor)
    except PermissionError:
        await checkpoint()  # a file, or /dev/null: it cannot be waited for, and need not be


_CLOSED = "stdin or stdout is closed; a client speaks to this command over them"


def take_wire() -> Wire:
    """Take stdin and stdout, before anything else can write there.  Raises `NoWireError` where one is closed."""
    if sys.__stdin__ is None or sys.__stdout__ is None:  # closed at the start: whatever has the number now is no wire
        raise NoWireError(_CLOSED)
    try:
        reads = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        writes = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:
        raise NoWireError(_CLOSED) from None
    if sys.stdout is not None:
        sys.stdout.flush()
    _divert(0)
    try:
        os.dup2(2, 1, inheritable=True)
    except OSError:
        _divert(1)  # there is no stderr either
    return Wire(reads, writes)


def _divert(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nowhere, descriptor, inheritable=True)
    os.close(nowhere)
