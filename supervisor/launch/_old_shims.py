"""Waits for the keepers of a supervisor that has died: until the last of them has left, its jobs may be alive.

They hold a shared lock for as long as they live, and end their jobs as soon as their host has died.  That nobody tells
of a lock that is free costs a look every few milliseconds, and only where one is held.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from ...notifier import Clock
from ._site import KEEPERS_LOCK

WAITING_SECONDS: Final = 10.0
"""For how long they are waited for, all together.  Who has not left by then holds something that cannot be ended."""

_LOOK_SECONDS: Final = 0.005


async def wait_for_old_shims(folder: Path, clock: Clock) -> bool:
    """Wait until no shim of an earlier supervisor of `folder` is alive; False where one still was in the end.

    Cancelled, nothing is held.  Raises OSError where the lock cannot be opened.
    """
    try:
        descriptor = os.open(folder / KEEPERS_LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    try:
        end = clock.monotonic() + WAITING_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if clock.monotonic() >= end:
                    return False
                await clock.sleep(_LOOK_SECONDS)
            else:
                return True
    finally:
        os.close(descriptor)
