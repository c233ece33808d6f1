"""How a job has ended: in one short line for a model or a person, and as a number.  The one place for both.  Pure.

    exited 3
    exited by SIGKILL
    exited 137 (SIGKILL, if by a signal)      of an event, which has no more than the shell's code
    timed out, exit code 0                    of one that was stopped: the code with which it exited, if it did
    terminated (its host was closed)          where the reason says more than the state
    failed (spawn_failed:not_found:ENOENT)
    lost with its host

As a number it is what timeout(1), env(1) and the shell make of it: 124 its time was over, 125 it is lost or the fault
is ours, 126 it cannot be executed, 127 there is no such program, 128 + n it died of signal n; else its own.

Nothing of the core is loaded here, for the command line says how a job ended without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from ._signals import signal_name

if TYPE_CHECKING:
    from ..notifier import ProcessCompletionNotification, ProcessLifecycleMetadata
    from ..supervisor import Outcome

TIMED_OUT: Final = 124
OURS: Final = 125
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127


@final
@attrs.frozen(kw_only=True)
class Ending:
    """What is known of the end; `state` and `reason` are the names of the core's enums in lower case.

    `exit_code` or `signal`, never both, is how the leader ended; `shell_code` is what a shell would show of it, which
    alone may be known.
    """

    state: str
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    shell_code: int | None = None
    diagnostic: str = ""

    @classmethod
    def of_outcome(cls, outcome: Outcome) -> Ending:
        """Of a process that is known."""
        return cls(
            state=outcome.state.name.lower(),
            reason=outcome.reason.name.lower(),
            exit_code=outcome.exit_code,
            signal=outcome.signal,
            shell_code=outcome.shell_code,
            diagnostic=outcome.diagnostic,
        )

    @classmethod
    def of_event(cls, told: ProcessLifecycleMetadata) -> Ending:
        """What a terminal event says."""
        return cls(
            state=told.state.name.lower(),
            reason=told.reason.name.lower(),
            shell_code=told.exit_code,
            diagnostic=told.diagnostic,
        )

    @classmethod
    def of_notification(cls, told: ProcessCompletionNotification) -> Ending:
        """What a notification says, which has no code."""
        return cls(state=told.state.name.lower(), reason=told.reason.name.lower())

    @property
    def words(self) -> str:
        """How it ended, in one line."""
        words = "lost with its host" if self.state == "lost_on_restore" else self.state.replace("_", " ")
        if self.state == "exited":
            words += self._how_exited()
        elif self.exit_code is not None:
            words += f", exit code {self.exit_code}"
        for more in (_REASONS.get(self.reason, ""), self.diagnostic):
            if more and more != _SAID_ALREADY:
                words += f" ({more})"
        return words

    @property
    def shown_code(self) -> int | None:
        """What a shell would show of one that ended by itself; of one that was stopped the code it exited with."""
        return self.shell_code if self.state == "exited" else self.exit_code

    @property
    def status(self) -> int:
        """The exit code of whoever stands for the job: a number in any case."""
        if self.state == "timed_out":
            return TIMED_OUT
        if self.shell_code is not None:
            return self.shell_code
        word, _, rest = self.diagnostic.partition(":")
        return spawn_status(rest.partition(":")[0]) if word == "spawn_failed" else OURS

    def _how_exited(self) -> str:
        if self.signal is not None:
            return f" by {signal_name(self.signal)}"
        code = self.shell_code
        if code is None:
            return ""
        return f" {code}" if code <= 128 or self.exit_code is not None else f" {code} ({_if_signalled(code)})"


def spawn_status(kind: str | None) -> int:
    """The exit code for a spawn that failed in that way (`SpawnFailedError.kind`)."""
    return _SPAWN_STATUS.get(kind or "", OURS)


def refusal_status(code: str, kind: str | None = None) -> int:
    """The exit code for a start that was refused with that error code, or failed in that way: 2, the line is wrong."""
    return 2 if code in {"invalid_arguments", "invalid_request"} else spawn_status(kind)


def _if_signalled(code: int) -> str:
    return f"{signal_name(code - 128)}, if by a signal"


# What "lost with its host" says.
_SAID_ALREADY = "host_died"

_REASONS = {
    "runner_shutdown": "its host was closed",
    "output_limit": "it wrote more than it was allowed to",
}

_SPAWN_STATUS = {
    "not_found": NOT_FOUND,
    "not_executable": NOT_EXECUTABLE,
    "interpreter_missing": NOT_EXECUTABLE,
    "too_large": NOT_EXECUTABLE,
}
