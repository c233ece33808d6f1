"""What the supervisor refuses and what it reports, each named after its situation.

Rules of this file
- Every error carries a `code`: callers that do not care about the class match on that closed set.
- A class of its own only where callers catch it by itself.
- `args` (which `Exception.__init__` sets) are what its own constructor takes: so it can be copied, and sent elsewhere.
- Messages reach models: they say what was wrong and what to do next, and never show a command, an argument, an
  environment value, a host path or a process id.
- What the system said is raised `from None`, always: its own text shows a path.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from typing import Literal

from ..notifier import LastwordError


class ErrorCode(StrEnum):
    """The closed set of what can be wrong on the operating-system side."""

    INVALID_ARGUMENTS = "invalid_arguments"
    INVALID_SETTINGS = "invalid_settings"
    PROCESS_QUOTA_EXCEEDED = "process_quota_exceeded"
    OUTPUT_QUOTA_EXCEEDED = "output_quota_exceeded"
    LIFETIME_ENFORCEMENT_UNAVAILABLE = "lifetime_enforcement_unavailable"
    PROCESS_NOTIFICATIONS_UNSUPPORTED = "process_notifications_unsupported"
    SPAWN_FAILED = "spawn_failed"
    PROCESS_SETUP_FAILED = "process_setup_failed"
    PTY_UNAVAILABLE = "pty_unavailable"
    NOT_FOUND = "not_found"
    STDIN_CLOSED = "stdin_closed"
    INPUT_BACKPRESSURE = "input_backpressure"
    CURSOR_GAP = "cursor_gap"
    CURSOR_AHEAD = "cursor_ahead"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    TERMINATED = "terminated"
    KILLED = "killed"
    SUPERVISOR_SHUTTING_DOWN = "supervisor_shutting_down"
    MANIFEST_CORRUPT = "manifest_corrupt"
    SPOOL_CORRUPT = "spool_corrupt"
    LOST_ON_RESTORE = "lost_on_restore"
    TEARDOWN_FAILED = "teardown_failed"


SpawnFailureKind = Literal[
    "cwd", "not_found", "not_executable", "interpreter_missing", "too_large", "resources", "other"
]


class SupervisorError(LastwordError):
    """The root of what the supervisor raises; `code` says which situation it is."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@contextmanager
def refusing(what: str) -> Generator[None]:
    """What the system refuses in the block is a wrong setting: `what` cannot be used."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        raise SupervisorError(
            ErrorCode.INVALID_SETTINGS, f"{what} cannot be used ({reason}); put that right, or give another directory"
        ) from None


class DirectoryInUseError(SupervisorError):
    """The state directory is held by a live owner, here or in another process; `holder` says which in words."""

    def __init__(self, holder: str) -> None:
        super().__init__(
            ErrorCode.INVALID_SETTINGS,
            f"the state directory is in use by {holder}; close that runtime first, or give another directory",
        )
        Exception.__init__(self, holder)
        self.holder = holder


class ProcessNotFoundError(SupervisorError):
    """No such process for this owner: unknown, evicted, or somebody else's, which is answered exactly alike."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.NOT_FOUND, "this owner has no process of that handle; list() shows the ones that it has"
        )
        Exception.__init__(self)


class InvalidCommandError(SupervisorError):
    """An argument of `start` can never be right; `field` names it: "argv[1]", "env[NAME]", "owner", "timeout", ...

    Nothing was admitted and nothing recorded.  Trying again with the same value fails again.
    """

    def __init__(self, field: str, why: str) -> None:
        super().__init__(ErrorCode.INVALID_ARGUMENTS, f"{field}: {why}")
        Exception.__init__(self, field, why)
        self.field = field


class QuotaExceededError(SupervisorError):
    """Admitting this process would break a limit; nothing was recorded.  Wait for another process to end."""


class SpawnFailedError(SupervisorError):
    """The process was recorded and could not be spawned, or the store failed meanwhile; nothing of it is left running.

    `kind` says what was missing, `errno` is the system's number (None where there was none), `handle` names the
    record: it is failed, and its owner is told like of any other process.
    """

    def __init__(self, kind: SpawnFailureKind, errno: int | None, handle: str, message: str) -> None:
        super().__init__(ErrorCode.SPAWN_FAILED, message)
        Exception.__init__(self, kind, errno, handle, message)
        self.kind = kind
        self.errno = errno
        self.handle = handle


class StdinClosedError(SupervisorError):
    """The process takes no input: it was started without a pipe, its input was closed, or it has ended."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.STDIN_CLOSED, message)
        Exception.__init__(self, message)


class InputBackpressureError(SupervisorError):
    """The process does not read: `Limits.pending_input_bytes` are waiting already, and nothing more was taken."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INPUT_BACKPRESSURE, message)
        Exception.__init__(self, message)


class TeardownFailedError(SupervisorError):
    """A stop could not end the process within its grace and the kill deadline; it is still running.

    `errno` is what the system answered to the signal, None where the signal was taken and the process lives on.
    """

    def __init__(self, errno: int | None, message: str) -> None:
        super().__init__(ErrorCode.TEARDOWN_FAILED, message)
        Exception.__init__(self, errno, message)
        self.errno = errno
