"""How an end is judged: the rules, one by one, without a process."""

from __future__ import annotations

from datetime import UTC, datetime
from signal import Signals

import attrs
import pytest

from lastword.notifier import COMPLETION_REASONS, ProcessState, TerminalReason
from lastword.supervisor import Containment, Outcome, StopMode
from lastword.supervisor._outcome import StopCause, Verdict, failed, judge
from lastword.supervisor.launch import ExitStatus, Report
from lastword.supervisor.output import SpoolState

S, R, C = ProcessState, TerminalReason, StopCause
INT, TERM, KILL, SEGV = Signals.SIGINT, Signals.SIGTERM, Signals.SIGKILL, Signals.SIGSEGV


def code(value: int) -> ExitStatus:
    return ExitStatus(exit_code=value, signal=None)


def died(number: Signals) -> ExitStatus:
    return ExitStatus(exit_code=None, signal=number)


@pytest.mark.parametrize(
    ("status", "signalled", "cause", "state", "reason"),
    [
        # By itself, whatever was asked, where nothing was delivered to it.
        (code(0), [], None, S.EXITED, R.EXITED),
        (died(KILL), [], None, S.EXITED, R.EXITED),
        (code(0), [], C.TERMINATE, S.EXITED, R.EXITED),
        (died(TERM), [], C.TIMEOUT, S.EXITED, R.EXITED),
        (None, [], None, S.FAILED, R.FAILED),
        (None, [], C.KILL, S.FAILED, R.FAILED),
        # Terminate, and its escalation.
        (died(TERM), [TERM], C.TERMINATE, S.TERMINATED, R.TERMINATED),
        (code(0), [TERM], C.TERMINATE, S.TERMINATED, R.TERMINATED),
        (code(9), [TERM, KILL], C.TERMINATE, S.TERMINATED, R.TERMINATED),
        (died(KILL), [TERM, KILL], C.TERMINATE, S.KILLED, R.KILLED),
        (died(KILL), [TERM], C.TERMINATE, S.TERMINATED, R.TERMINATED),  # the SIGKILL was somebody else's
        (died(SEGV), [TERM, KILL], C.TERMINATE, S.TERMINATED, R.TERMINATED),
        (None, [TERM], C.TERMINATE, S.TERMINATED, R.TERMINATED),
        # Kill.
        (died(KILL), [KILL], C.KILL, S.KILLED, R.KILLED),
        (died(SEGV), [KILL], C.KILL, S.TERMINATED, R.TERMINATED),
        (None, [KILL], C.KILL, S.KILLED, R.KILLED),
        (code(0), [KILL], C.KILL, S.EXITED, R.EXITED),  # nobody can handle SIGKILL: it had exited before
        # The other causes.
        (died(TERM), [TERM], C.TIMEOUT, S.TIMED_OUT, R.TIMED_OUT),
        (died(KILL), [TERM, KILL], C.TIMEOUT, S.TIMED_OUT, R.TIMED_OUT),
        (died(TERM), [TERM], C.SHUTDOWN, S.TERMINATED, R.RUNNER_SHUTDOWN),
        (died(KILL), [TERM, KILL], C.SHUTDOWN, S.KILLED, R.RUNNER_SHUTDOWN),
        (died(TERM), [TERM], C.OUTPUT_LIMIT, S.TERMINATED, R.OUTPUT_LIMIT),
        (died(KILL), [TERM, KILL], C.OUTPUT_LIMIT, S.KILLED, R.OUTPUT_LIMIT),
        # Interrupt: by it, or in time (the report says 10.0).
        (died(INT), [INT], C.INTERRUPT, S.INTERRUPTED, R.INTERRUPTED),
        (code(130), [INT], C.INTERRUPT, S.EXITED, R.EXITED),
        (None, [INT], C.INTERRUPT, S.FAILED, R.FAILED),
    ],
)
def test_verdicts(
    status: ExitStatus | None,
    signalled: list[Signals],
    cause: StopCause | None,
    state: ProcessState,
    reason: TerminalReason,
) -> None:
    """Status, what was delivered, and the cause decide; nothing is made up."""
    report = Report(
        status=status,
        signalled=frozenset(signalled),
        in_time=False,
        survivors=0,
        output_open=False,
        spool=SpoolState(),
        proven=False,
    )
    verdict = judge(report, cause)
    assert (verdict.state, verdict.reason) == (state, reason)
    assert verdict.reason in COMPLETION_REASONS[verdict.state]
    assert verdict.code == ("exit_unknown" if state is S.FAILED else "")
    if cause is C.INTERRUPT:
        assert judge(attrs.evolve(report, in_time=True), cause).state is S.INTERRUPTED


def test_modes_and_reasons_of_causes() -> None:
    """The timeout, the output limit and shutting down count as terminate."""
    assert {cause: (cause.mode, cause.requested) for cause in C} == {
        C.INTERRUPT: (StopMode.INTERRUPT, R.INTERRUPTED),
        C.TERMINATE: (StopMode.TERMINATE, R.TERMINATED),
        C.KILL: (StopMode.KILL, R.KILLED),
        C.TIMEOUT: (StopMode.TERMINATE, R.TERMINATED),
        C.OUTPUT_LIMIT: (StopMode.TERMINATE, R.TERMINATED),
        C.SHUTDOWN: (StopMode.TERMINATE, R.TERMINATED),
    }
    assert failed("x") == Verdict(state=S.FAILED, reason=R.FAILED, code="x")


def test_codes_of_an_outcome() -> None:
    """What a shell would show, and what the wire carries: only of what ended by itself."""
    at = datetime(2026, 3, 14, tzinfo=UTC)

    def outcome(state: ProcessState, exit_code: int | None, signal: int | None) -> Outcome:
        return Outcome(
            state=state,
            reason=R.NONE,
            exit_code=exit_code,
            signal=signal,
            finished_at=at,
            containment=Containment.PROCESS_GROUP,
        )

    assert [outcome(S.EXITED, 3, None).shell_code, outcome(S.EXITED, None, 9).shell_code] == [3, 137]
    assert [outcome(S.EXITED, 0, None).wire_exit_code, outcome(S.EXITED, None, 9).wire_exit_code] == [0, 137]
    assert [outcome(S.TERMINATED, 0, None).wire_exit_code, outcome(S.KILLED, None, 9).wire_exit_code] == [None, None]
    assert outcome(S.FAILED, None, None).shell_code is None
