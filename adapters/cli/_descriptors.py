"""Standard input, output and error are there, whatever this program was started with.

Where one of them was closed, the next file that is opened gets its number: a database, a socket, and then what a job
writes would go there.
"""

from __future__ import annotations

import os
import stat
import sys


def fill_descriptors() -> None:
    """Open what is closed of 0, 1 and 2, to nowhere; before anything else is opened."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # Python's word for one that was closed
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  # as above
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]  # as above
        sys.stderr = os.fdopen(2, "w", closefd=False)


def can_wait(descriptor: int) -> bool:
    """Whether an event loop can be told when it is readable or writable; a file always is, and cannot be waited for."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
