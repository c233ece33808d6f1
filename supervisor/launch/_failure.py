"""Why a program could not be executed, told apart truly, in words that show nothing of it.

One errno has several causes: ENOENT is a missing working directory, a missing program, or a program whose interpreter
is missing.  The system tells only the number; who it was about is found out beside it, by the step that failed, or by a
look at the file after the fact.  The latter is a race in theory (files come and go); it only ever changes the words.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .._errno import errno_name
from .._errors import SpawnFailureKind
from ..shim import _exec
from ._launcher import LaunchFailedError, LaunchSpec

_RESOURCES: Final = frozenset(
    {
        *(errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOBUFS),
        errno.ETOOMANYREFS,  # of descriptors that are on their way to others, a user may have as many as may be open
    }
)

_MESSAGES: Final[dict[SpawnFailureKind, str]] = {
    "cwd": "the working directory does not exist, is no directory, or may not be entered",
    "not_found": "no such program; the job's own PATH was searched",
    "not_executable": "the program exists but may not be executed, or is in no format that can be",
    "interpreter_missing": "the program exists, but the interpreter or loader that it names does not",
    "too_large": "the arguments and environment are too large: one may have at most 131072 bytes on Linux, and all "
    "together about 2 MiB; pass large data by stdin or a file.  Trying again will not help",
    "resources": "the system has no process, memory or descriptor left for it; try again when others have ended",
    "other": "the system refused to start it",
}

_SETTINGS: Final = {
    _exec.LIMITS: "a resource limit could not be set; one may not be raised above what this program has itself",
    _exec.NICE: "the niceness could not be set; only a privileged program may lower it",
    _exec.CGROUP: "the job could not join its control group",
}


_KEEPER: Final = (
    "the Python program that keeps processes could not be started: sys.executable must be an interpreter that has this "
    "program's standard library; put that right and try again"
)


def launch_failure(error: OSError, spec: LaunchSpec) -> LaunchFailedError:
    """What `error`, raised by `subprocess` when spawning `spec`, means."""
    # `subprocess` names the very object that it was given as cwd when entering it is what failed.
    if spec.cwd is not None and error.filename is spec.cwd:
        return _failure("cwd", error.errno)
    return _failure(_kind(error.errno, found=any(map(Path.is_file, _candidates(spec)))), error.errno)


def setup_failure(step: str, number: int, *, found: bool = False) -> LaunchFailedError:
    """What it means that a job's first `step` has failed with errno `number`; `found`: there is a file of its name."""
    if step == _exec.CWD:
        return _failure("cwd", number)
    if step == _exec.EXEC:
        return _failure(_kind(number, found=found), number)
    if number in _RESOURCES:
        return _failure("resources", number)
    return _failure("other", number, _SETTINGS.get(step))


def lost_failure() -> LaunchFailedError:
    """Its keeper was killed before it could say what became of the start; what it had begun was swept."""
    return LaunchFailedError("other", None, "its keeper was killed while it was being started; try again")


def keeper_failure(number: int | None) -> LaunchFailedError:
    """What starts the processes' keepers could not be started itself, or could not go on (errno `number`)."""
    if number in _RESOURCES:
        return _failure("resources", number)
    return _failure("other", number, _KEEPER)


def _failure(kind: SpawnFailureKind, number: int | None, message: str | None = None) -> LaunchFailedError:
    return LaunchFailedError(kind, number, f"{message or _MESSAGES[kind]} ({errno_name(number)})")


def _kind(number: int | None, *, found: bool) -> SpawnFailureKind:
    if number in (errno.ENOENT, errno.ENOTDIR):
        return "interpreter_missing" if found else "not_found"
    if number in (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.EISDIR):
        return "not_executable"
    if number == errno.E2BIG:
        return "too_large"
    return "resources" if number in _RESOURCES else "other"


def _candidates(spec: LaunchSpec) -> Iterator[Path]:
    """Where the program was looked for: as it is if it has a slash, else in the job's PATH; from the job's cwd."""
    program, base = spec.argv[0], spec.cwd or os.curdir
    folders = [""] if os.sep in program else os.get_exec_path(spec.env)
    for folder in folders:
        yield Path(base, folder, program)
