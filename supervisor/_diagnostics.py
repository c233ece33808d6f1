"""The few words that a failed or lost process carries on the wire: our own codes and the system's error names."""

from __future__ import annotations

from ..notifier import build_diagnostic

EXIT_UNKNOWN = "exit_unknown"
HOST_DIED = "host_died"
SHIM_LOST = "shim_lost"
START_CANCELLED = "start_cancelled"
STORE_UNAVAILABLE = "store_unavailable"
TREE_NOT_PROVEN = "tree_not_proven"
UNFORESEEN = "unforeseen"


def spawn_failed(kind: str, errno: int | None) -> str:
    """Why a process could not be spawned, such as "spawn_failed:not_found:ENOENT"."""
    return build_diagnostic(f"spawn_failed:{kind}", errno=errno)


def teardown_failed(errno: int | None) -> str:
    """Why a tree could not be ended: what the system answered to the signal, or that it took it to no effect."""
    return build_diagnostic("teardown_failed" if errno is not None else "teardown_failed:alive", errno=errno)
