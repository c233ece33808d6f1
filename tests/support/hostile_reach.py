"""What an ordinary user must reach to be a host: this Python and this library, which may be in a closed folder.

A checkout or an interpreter in root's home is closed to others.  Then such a folder is covered, for the calling process
and its children alone, by an empty one in which only what is needed appears, under its own name.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import lastword

_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18


def _needed() -> set[Path]:
    library = Path(lastword.__file__)
    return {
        Path(path).resolve()
        for path in (sys.prefix, sys.base_prefix, library.parents[1], library.resolve().parent, Path(__file__).parent)
    }


def _closed_above(path: Path) -> Path | None:
    """The outermost folder on the way to `path` that others may not enter."""
    return next((folder for folder in [*reversed(path.parents), path] if not folder.stat().st_mode & 0o001), None)


def open_to_everybody() -> None:
    """Let every user reach what is needed; takes root where something is closed.  Raises OSError where that fails."""
    needed = _needed()
    closed = {folder for path in needed if (folder := _closed_above(path)) is not None}
    if not closed:
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result: int, what: str) -> None:
        if result:
            raise OSError(ctypes.get_errno(), f"{os.strerror(ctypes.get_errno())} ({what})")

    check(libc.unshare(_CLONE_NEWNS), "a mount namespace")
    check(libc.mount(None, b"/", None, _MS_PRIVATE | _MS_REC, None), "private mounts")
    for folder in closed:
        inside = [path for path in needed if path.is_relative_to(folder)]
        if folder in inside:
            raise OSError(13, f"{os.strerror(13)} (an installation that is itself closed to others)")
        held = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in inside}
        check(libc.mount(b"none", os.fsencode(folder), b"tmpfs", 0, b"mode=755"), "a file system in memory")
        for path, descriptor in held.items():
            path.mkdir(parents=True, exist_ok=True)
            source = os.fsencode(f"/proc/self/fd/{descriptor}")
            check(libc.mount(source, os.fsencode(path), None, _MS_BIND | _MS_REC, None), "a bound folder")
            os.close(descriptor)
