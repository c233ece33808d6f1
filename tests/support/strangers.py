"""User ids that nobody else has, so that what runs as one of them is ours, and its limits count us alone."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import Final

_PROC = Path("/proc")


def fresh_uid() -> int:
    """A user id that no process has: far above what systems give out, where the namespace has so many."""
    _, _, count = (int(word) for word in (_PROC / "self/uid_map").read_text().splitlines()[-1].split())
    low, high = (1_900_000_000, 2_000_000_000) if count > 2_000_000_000 else (count // 2, count)
    while True:
        uid = low + secrets.randbelow(high - low)
        if not of_uid(uid):
            return uid


def of_uid(uid: int) -> set[int]:
    """Who runs as `uid`."""
    found: set[int] = set()
    for path in _PROC.iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                lines = (path / "status").read_text().splitlines()
                # None of one that ends while it is read.
                real = next((line.split()[1] for line in lines if line.startswith("Uid:")), None)
                if real == str(uid):
                    found.add(int(path.name))
    return found


# Somebody who is nobody, for as long as this program runs.
STRANGER: Final = fresh_uid()
