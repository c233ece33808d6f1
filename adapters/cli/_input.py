"""Standard input, on its way to a job.

A terminal is read only while this program is in its foreground: who reads from the background is stopped by it
(SIGTTIN), and `lastword run ... &` should run.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

import anyio

from ...notifier import LastwordError
from ._descriptors import can_wait
from ._job import Job

_READ_BYTES: Final = 64 * 1024

# Nobody tells when a shell has put this program into the foreground; somebody has typed at the shell meanwhile.
_BACKGROUND_SECONDS: Final = 0.25


async def pump_input(descriptor: int, job: Job) -> None:
    """Give the job all that comes, and then the end of it.

    Raises `LastwordError` where it cannot be sent; from a terminal a line that cannot be is passed over.
    """
    waits, terminal = can_wait(descriptor), os.isatty(descriptor)
    while True:
        if waits:
            await anyio.wait_readable(descriptor)
        if terminal and not _in_foreground(descriptor):
            await anyio.sleep(_BACKGROUND_SECONDS)
            continue
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:  # somebody else has made it non-blocking, and was faster
            continue
        except OSError:  # EIO: the terminal was closed
            data = b""
        if not data:
            await job.close_input()
            return
        try:
            if not await job.send(data):
                return
        except LastwordError:
            if not terminal:  # what is behind it may be another program, or a file that can be written to
                raise
            # A line that its terminal would cut; the user's own would do the same, and ring.
            with contextlib.suppress(OSError):
                os.write(descriptor, b"\a")


def _in_foreground(descriptor: int) -> bool:
    with contextlib.suppress(OSError):  # it is not the terminal of this session: nobody is stopped by reading it
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    return True
