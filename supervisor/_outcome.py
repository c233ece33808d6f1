"""How a process ended: what the keeper saw and what was asked, judged once, in one place.

Rules
- The cause of a stop is the first request that ends a process for certain; an interrupt is one only where it worked.
- A stop is told only where a signal was delivered to the live leader; else it ended by itself, whatever was asked.
- `killed` is told only where the leader died of our SIGKILL.
- A status that nobody saw is never made up: not 0, not 255.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from signal import Signals
from typing import final

import attrs

from ..notifier import ProcessState, TerminalReason
from ._diagnostics import EXIT_UNKNOWN, SHIM_LOST
from ._limits import Containment
from .launch import ExitStatus, Report, StopMode
from .output import OutputFault


@final
@attrs.frozen(kw_only=True)
class Outcome:
    """How a process ended; richer than what goes over the wire.

    - `exit_code` or `signal`, never both: how the leader ended; both None where it was never spawned or nobody knows.
    - `survivors`: processes of its tree that were alive when the leader had ended by itself; after a stop, those that
      could not be ended.
    - `output_open`: somebody still held its output when the leader's was drained; what they write later is not kept.
    - `total_bytes`: all output, kept or not; `output_error` where the disk failed.
    - `containment`, `proven`: how its tree was held, and whether the kernel has said that nothing of it is left.
    - `diagnostic`: for failed and lost, a code and what belongs to it, such as "spawn_failed:not_found:ENOENT".
    """

    state: ProcessState
    reason: TerminalReason
    exit_code: int | None = None
    signal: int | None = None
    started_at: datetime | None = None
    finished_at: datetime
    survivors: int = 0
    output_open: bool = False
    total_bytes: int = 0
    output_error: OutputFault | None = None
    containment: Containment
    proven: bool = False
    diagnostic: str = ""

    @property
    def shell_code(self) -> int | None:
        """What a shell would show: the exit code, or 128 plus the signal; None where neither is known."""
        return self.exit_code if self.signal is None else 128 + self.signal

    @property
    def wire_exit_code(self) -> int | None:
        """What an event carries: the shell code where the process ended by itself, else nothing."""
        return self.shell_code if self.state is ProcessState.EXITED else None


class StopCause(Enum):
    """Why a process is asked to end."""

    INTERRUPT = "interrupt"
    TERMINATE = "terminate"
    KILL = "kill"
    TIMEOUT = "timeout"
    OUTPUT_LIMIT = "output limit"
    SHUTDOWN = "shutdown"

    @property
    def mode(self) -> StopMode:
        """What is done: the timeout, the output limit and shutting down count as terminate."""
        return _MODES.get(self, StopMode.TERMINATE)

    @property
    def requested(self) -> TerminalReason:
        """The reason that the StopRequested event carries: that of the mode."""
        return _REQUESTED[self.mode]


_MODES = {StopCause.INTERRUPT: StopMode.INTERRUPT, StopCause.KILL: StopMode.KILL}

_REQUESTED = {
    StopMode.INTERRUPT: TerminalReason.INTERRUPTED,
    StopMode.TERMINATE: TerminalReason.TERMINATED,
    StopMode.KILL: TerminalReason.KILLED,
}

CAUSES = {
    StopMode.INTERRUPT: StopCause.INTERRUPT,
    StopMode.TERMINATE: StopCause.TERMINATE,
    StopMode.KILL: StopCause.KILL,
}
"""Of each mode, the cause that a caller's request is."""


@final
@attrs.frozen(kw_only=True)
class Verdict:
    """State, reason, and for a failure the diagnostic's code."""

    state: ProcessState
    reason: TerminalReason
    code: str = ""


def failed(code: str) -> Verdict:
    """The verdict on a process that failed in the way that `code` names."""
    return Verdict(state=ProcessState.FAILED, reason=TerminalReason.FAILED, code=code)


def judge(report: Report, cause: StopCause | None) -> Verdict:
    """What `report` means for a process that was asked to end by `cause`.

    An interrupt counts where the leader died of it, or ended within its grace.
    """
    status, signalled = report.status, report.signalled
    if report.lost:
        return failed(SHIM_LOST)
    if cause is None or not signalled or _outran_the_kill(status, signalled):
        return _by_itself(status)
    match cause:
        case StopCause.TIMEOUT:
            return Verdict(state=ProcessState.TIMED_OUT, reason=TerminalReason.TIMED_OUT)
        case StopCause.INTERRUPT:
            died_of_it = status is not None and status.signal == Signals.SIGINT
            if died_of_it or report.in_time:
                return Verdict(state=ProcessState.INTERRUPTED, reason=TerminalReason.INTERRUPTED)
            return _by_itself(status)
        case StopCause.TERMINATE | StopCause.KILL | StopCause.OUTPUT_LIMIT | StopCause.SHUTDOWN:
            killed = Signals.SIGKILL in signalled and (status is None or status.signal == Signals.SIGKILL)
            state = ProcessState.KILLED if killed else ProcessState.TERMINATED
            reason = TerminalReason.KILLED if killed else TerminalReason.TERMINATED
            return Verdict(state=state, reason=_SPECIAL_REASONS.get(cause, reason))


def outcome_of(
    verdict: Verdict,
    report: Report | None,
    *,
    started_at: datetime | None,
    finished_at: datetime,
    containment: Containment,
) -> Outcome:
    """The outcome that `verdict` and what the keeper saw make; no report: never spawned, so nothing can be left."""
    if report is None:
        return Outcome(
            state=verdict.state,
            reason=verdict.reason,
            finished_at=finished_at,
            containment=containment,
            proven=True,
            diagnostic=verdict.code,
        )
    return Outcome(
        state=verdict.state,
        reason=verdict.reason,
        exit_code=None if report.status is None else report.status.exit_code,
        signal=None if report.status is None else report.status.signal,
        started_at=started_at,
        finished_at=finished_at,
        survivors=report.survivors,
        output_open=report.output_open,
        total_bytes=report.spool.total,
        output_error=report.spool.fault,
        containment=containment,
        proven=report.proven,
        diagnostic=verdict.code,
    )


_SPECIAL_REASONS = {
    StopCause.OUTPUT_LIMIT: TerminalReason.OUTPUT_LIMIT,
    StopCause.SHUTDOWN: TerminalReason.RUNNER_SHUTDOWN,
}


def _outran_the_kill(status: ExitStatus | None, signalled: frozenset[Signals]) -> bool:
    # Nobody can handle SIGKILL: who has an exit code although nothing else was sent had exited before it came.
    return signalled == frozenset({Signals.SIGKILL}) and status is not None and status.exit_code is not None


def _by_itself(status: ExitStatus | None) -> Verdict:
    if status is None:
        return failed(EXIT_UNKNOWN)
    return Verdict(state=ProcessState.EXITED, reason=TerminalReason.EXITED)
