"""Why a program could not be executed, told apart truly.

One errno has several causes: ENOENT is a missing working directory, a missing program, or a program whose interpreter
is missing.  The system tells only the number; who it was about is found out here, after the fact.  That is a race in
theory (files come and go); it only ever changes the words, never whether the start has failed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from .._errors import SpawnFailureKind
from ._launcher import LaunchFailedError, LaunchSpec

_RESOURCES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC})

_MESSAGES: dict[SpawnFailureKind, str] = {
    "cwd": "the working directory does not exist, is no directory, or may not be entered",
    "not_found": "no such program; the job's own PATH was searched",
    "not_executable": "the program exists but may not be executed, or is in no format that can be",
    "interpreter_missing": "the program exists, but the interpreter or loader that it names does not",
    "too_large": "the arguments and environment are too large: one may have at most 131072 bytes on Linux, and all "
    "together about 2 MiB; pass large data by stdin or a file.  Trying again will not help",
    "resources": "the system has no process, memory or descriptor left for it; try again when others have ended",
    "other": "the system refused to start it",
}


def launch_failure(error: OSError, spec: LaunchSpec) -> LaunchFailedError:
    """What `error`, raised by spawning `spec`, means."""
    kind = _kind(error, spec)
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    return LaunchFailedError(kind, error.errno, f"{_MESSAGES[kind]} ({name})")


def _kind(error: OSError, spec: LaunchSpec) -> SpawnFailureKind:
    # `subprocess` names the very object that it was given as cwd when entering it is what failed.
    if spec.cwd is not None and error.filename is spec.cwd:
        return "cwd"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return "interpreter_missing" if any(map(Path.is_file, _candidates(spec))) else "not_found"
    if error.errno in (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.EISDIR):
        return "not_executable"
    if error.errno == errno.E2BIG:
        return "too_large"
    return "resources" if error.errno in _RESOURCES else "other"


def _candidates(spec: LaunchSpec) -> Iterator[Path]:
    """Where the program was looked for: as it is if it has a slash, else in the job's PATH; from the job's cwd."""
    program, base = spec.argv[0], spec.cwd or os.curdir
    folders = [""] if os.sep in program else os.get_exec_path(spec.env)
    for folder in folders:
        yield Path(base, folder, program)
