"""Waits for the keepers of a supervisor that has died: until the last of them has left, its jobs may be alive.

They hold a shared lock for as long as they live, and end their jobs as soon as their host has died.  That nobody tells
of a lock that is free costs a look every few milliseconds, and only where one is held.

Where host, zygote and shims were all killed, control groups are left, and perhaps jobs in them.  Their names are in the
lock's file: who holds the lock alone ends what is in them, and removes them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from pathlib import Path
from typing import Final

from ...notifier import Clock
from ..shim._cgroup import JobCgroup
from ._site import GROUP_PREFIX, KEEPERS_LOCK

WAITING_SECONDS: Final = 10.0
"""For how long they are waited for, all together.  Who has not left by then holds something that cannot be ended."""

_LOOK_SECONDS: Final = 0.005

# No fewer: a machine that stood still in between has not waited for anybody.
_LOOKS: Final = 100

# The file is ours and private; but what is killed and removed by a name must look like ours, whatever has damaged it.
_GROUP: Final = re.compile(rb"(/[^/\0]+)+/" + GROUP_PREFIX.encode() + rb"[0-9a-f]{16}")


async def wait_for_old_shims(folder: Path, clock: Clock) -> bool:
    """Wait until nothing of an earlier supervisor of `folder` is alive; False where something still was in the end.

    Cancelled, nothing is held.  Raises OSError where the lock cannot be opened.
    """
    try:
        descriptor = os.open(folder / KEEPERS_LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    try:
        end, looks = clock.monotonic() + WAITING_SECONDS, 0

        def is_over() -> bool:
            nonlocal looks
            looks += 1
            return clock.monotonic() >= end and looks > _LOOKS

        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if is_over():
                    return False
                await clock.sleep(_LOOK_SECONDS)
            else:
                break
        groups = [
            JobCgroup(os.fsdecode(name)) for name in set(_contents(descriptor).split(b"\0")) if _GROUP.fullmatch(name)
        ]
        while left := [group for group in groups if not _clear(group)]:
            if is_over():
                return False
            groups = left
            await clock.sleep(_LOOK_SECONDS)
        os.ftruncate(descriptor, 0)
        return True
    finally:
        os.close(descriptor)


def _contents(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _clear(group: JobCgroup) -> bool:
    """Kill what is in it; whether it is gone."""
    with contextlib.suppress(OSError):
        group.kill()
    return not group.populated() and group.remove()
