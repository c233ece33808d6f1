"""Whose turn it is to start or to end the server of a directory.

The directory's own lock decides who holds it; this only spares a starter a wrong answer.  Without it, whoever finds the
directory held could not tell a server that is about to listen, or about to be gone, from a host that never listens.
So a server has the turn from before it opens the runtime until it listens, and from before it stops listening until
the runtime is closed: who has the turn, and finds the directory held, finds a server that listens, or none at all.

A `flock` on the folder itself, which no file of the runtime's is; it ends with the process that has it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import final

import anyio

from ...notifier import Clock

# Longer than a runtime takes to close (its grace and ten seconds): after that nobody waits for the turn any more.
_TURN_SECONDS = 30.0

# Whoever else has it is looking whether the directory is free, which takes no time: and an end must not be held up.
END_SECONDS = 2.0

# There is nobody to tell when it is let go; it is held for a moment, and seldom wanted twice.
_PAUSE_SECONDS = 0.02


@final
class Turn:
    """The turn of one directory, to be taken and released."""

    def __init__(self, descriptor: int | None, clock: Clock) -> None:
        self._descriptor = descriptor
        self._clock = clock

    async def take(self, patience: float = _TURN_SECONDS) -> None:
        """Wait for the turn, and have it; after `patience` seconds go on without it."""
        with anyio.move_on_after(patience):
            while not self._try():
                await self._clock.sleep(_PAUSE_SECONDS)

    def release(self) -> None:
        """Let go; harmless where it is not had."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _try(self) -> bool:
        if self._descriptor is None:
            return True
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # a file system that cannot lock a folder: then there is no turn to wait for
        return True


@contextmanager
def turn_of(directory: Path, clock: Clock) -> Generator[Turn]:
    """The turn of `directory`, which is made if it is missing; what is wrong with it is the runtime's to tell."""
    descriptor: int | None = None
    with contextlib.suppress(OSError):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield Turn(descriptor, clock)
    finally:
        if descriptor is not None:
            os.close(descriptor)
