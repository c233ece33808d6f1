"""The few words that a failed or lost process carries on the wire: our own codes and the system's error names."""

from __future__ import annotations

import errno as errnos

EXIT_UNKNOWN = "exit_unknown"
START_CANCELLED = "start_cancelled"
STORE_UNAVAILABLE = "store_unavailable"
TREE_NOT_PROVEN = "tree_not_proven"


def spawn_failed(kind: str, errno: int | None) -> str:
    """Why a process could not be spawned, such as "spawn_failed:not_found:ENOENT"."""
    return f"spawn_failed:{kind}" if errno is None else f"spawn_failed:{kind}:{_name(errno)}"


def teardown_failed(errno: int | None) -> str:
    """Why a tree could not be ended: what the system answered to the signal, or that it took it to no effect."""
    return "teardown_failed:alive" if errno is None else f"teardown_failed:{_name(errno)}"


def _name(errno: int) -> str:
    return errnos.errorcode.get(errno, str(errno))
