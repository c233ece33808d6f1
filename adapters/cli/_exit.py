"""What a job's end is as an exit code, for `run` and `wait`.  Pure.

As timeout(1), env(1) and the shell say it: 124 its time was over, 125 it is lost or the fault is ours, 126 it cannot be
executed, 127 there is no such program, 128 + n it died of signal n; else its own.
"""

from __future__ import annotations

from typing import Final

import attrs

from ._errors import OURS

TIMED_OUT: Final = 124
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127

_SPAWN_CODES = {
    "not_found": NOT_FOUND,
    "not_executable": NOT_EXECUTABLE,
    "interpreter_missing": NOT_EXECUTABLE,
    "too_large": NOT_EXECUTABLE,
}


@attrs.frozen(kw_only=True)
class Ending:
    """What decides: of an `Outcome` here, or of one that came over a socket."""

    state: str
    shell_code: int | None
    diagnostic: str = ""


def exit_code_of(ending: Ending) -> int:
    """The exit code of a job that ended so."""
    if ending.state == "timed_out":
        return TIMED_OUT
    if ending.shell_code is not None:
        return ending.shell_code
    word, _, rest = ending.diagnostic.partition(":")
    return spawn_code(rest.partition(":")[0]) if word == "spawn_failed" else OURS


def spawn_code(kind: str | None) -> int:
    """The exit code of a spawn that failed in that way (`SpawnFailedError.kind`)."""
    return _SPAWN_CODES.get(kind or "", OURS)
