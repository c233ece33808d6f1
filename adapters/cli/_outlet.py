"""Bytes to a descriptor of ours, without ever blocking the event loop: signals are heard while nobody reads.

A pipe or a terminal that can take something takes a page of a pipe's without blocking (PIPE_BUF, POSIX: 512 at least,
Linux 4096); a file takes everything at once.
"""

from __future__ import annotations

import os
import select
from typing import final

import anyio

from ._descriptors import can_wait
from ._errors import OURS, CommandFailedError, StdoutClosedError


@final
class Outlet:
    """One descriptor that is written to by one task."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waits = can_wait(descriptor)

    @property
    def descriptor(self) -> int:
        """Which one."""
        return self._descriptor

    async def write(self, data: bytes) -> None:
        """Write all of `data`.  Cancelled, some of it may be written.

        Raises `StdoutClosedError` where nobody reads it any more, a terminal that is gone included; and
        `CommandFailedError`.
        """
        rest = memoryview(data)
        try:
            while rest:
                if self._waits:
                    await anyio.wait_writable(self._descriptor)
                    rest = rest[self._some(rest[: select.PIPE_BUF]) :]
                else:
                    rest = rest[self._some(rest) :]
        except BrokenPipeError:
            raise StdoutClosedError from None
        except OSError as error:
            if os.isatty(self._descriptor) or self._waits:
                raise StdoutClosedError from None  # EIO: the terminal was closed
            raise CommandFailedError(f"its output cannot be written ({error.strerror})", OURS) from None

    def _some(self, data: memoryview) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:  # somebody else has made it non-blocking, and was faster
            return 0
