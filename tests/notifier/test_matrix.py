"""The tables against the contract's sentences, written out a second time and in another way."""

from __future__ import annotations

import itertools

import pytest
from vector_values import notification_of, shaped

from lastword.notifier import (
    COMPLETION_REASONS,
    LIFECYCLE_SHAPES,
    LifecycleKind,
    ProcessLifecycleMetadata,
    ProcessLifecycleValidationError,
    ProcessState,
    TerminalReason,
)

K, S, R = LifecycleKind, ProcessState, TerminalReason

STOPPED_BY_US = {R.RUNNER_SHUTDOWN, R.OUTPUT_LIMIT}


def legal_triple(kind: int, state: int, reason: int) -> bool:
    """The contract's tuple table, as sentences."""
    if kind in (K.STARTED, K.BACKGROUNDED):
        return state == S.RUNNING and reason == R.NONE
    if kind == K.STOP_REQUESTED:
        return state in (S.STARTING, S.RUNNING) and reason in (R.INTERRUPTED, R.TERMINATED, R.KILLED)
    if kind == K.COMPLETED:
        by_name = state in set(ProcessState) and state not in (S.STARTING, S.RUNNING, S.LOST_ON_RESTORE)
        same = by_name and reason in set(TerminalReason) and S(state).name == R(reason).name
        return same or (state in (S.TERMINATED, S.KILLED) and reason in STOPPED_BY_US)
    return kind == K.LOST and state == S.LOST_ON_RESTORE and reason == R.LOST_ON_RESTORE


def fields_agree(kind: int, state: int, *, started: bool, finished: bool, coded: bool) -> bool:
    """The contract's presence table, as sentences."""
    if kind in (K.STARTED, K.BACKGROUNDED):
        return started and not finished and not coded
    if kind == K.STOP_REQUESTED:
        return started == (state == S.RUNNING) and not finished and not coded
    if kind == K.LOST or state == S.FAILED:
        return finished and not coded
    return finished and started and coded == (state == S.EXITED)


def first_field(made: ProcessLifecycleMetadata) -> str:
    try:
        made.validate()
    except ProcessLifecycleValidationError as error:
        return error.field
    return ""


def test_of_847_triples_the_19_of_the_contract_are_legal() -> None:
    """Every kind, state and reason from 0 to one past the last."""
    legal = 0
    for kind, state, reason in itertools.product(range(7), range(11), range(11)):
        started = fields_agree(kind, state, started=True, finished=state > 2, coded=state == 3)
        made = shaped(
            kind=kind,
            state=state,
            reason=reason,
            started=started,
            finished=state > 2,
            exit_code=7 if state == 3 else None,
        )
        if not 1 <= kind <= 5:
            expected = "kind"
        elif not 1 <= state <= 9:
            expected = "state"
        elif not legal_triple(kind, state, reason):
            expected = "state_reason"
        else:
            expected, legal = "", legal + 1
        assert (expected, kind, state, reason) == (first_field(made), kind, state, reason)
    assert legal == 19


def test_of_every_legal_triple_the_fields_are_there_as_the_contract_says() -> None:
    """Each presence of started, finished, exit code and diagnostic."""
    triples = [(k, s, r) for (k, s), shape in LIFECYCLE_SHAPES.items() for r in shape.reasons]
    assert len(triples) == 19
    for (kind, state, reason), started, finished, code, diagnostic in itertools.product(
        triples, (False, True), (False, True), (None, 0, 3), ("", "why")
    ):
        made = shaped(
            kind=kind,
            state=state,
            reason=reason,
            started=started,
            finished=finished,
            exit_code=code,
            diagnostic=diagnostic,
        )
        if diagnostic and kind != K.LOST and not (kind == K.COMPLETED and state == S.FAILED):
            expected = "diagnostic"
        elif not fields_agree(kind, state, started=started, finished=finished, coded=code is not None):
            expected = "lifecycle_fields"
        else:
            expected = ""
        assert (expected, made) == (first_field(made), made)


def test_of_121_pairs_a_completion_takes_the_11_of_the_contract() -> None:
    """The pairs of completed, and the one of lost."""
    legal = 0
    for state, reason in itertools.product(range(11), range(11)):
        form = {"command_id": "1" * 32, "session_id": "2" * 32, "loop_id": "3" * 32, "process_handle": "h"}
        made = notification_of({**form, "state": state, "reason": reason})
        if legal_triple(K.COMPLETED, state, reason) or legal_triple(K.LOST, state, reason):
            legal += 1
            made.validate()
            continue
        with pytest.raises(ProcessLifecycleValidationError) as caught:
            made.validate()
        assert caught.value.field == "state_reason"
    assert legal == 11
    assert sum(len(reasons) for reasons in COMPLETION_REASONS.values()) == 11


def test_a_diagnostic_before_the_tables_asks_for_kind_and_state_alone() -> None:
    """Of a pair without a row too: a lost process that is running may say why, and is refused for its state."""
    made = shaped(kind=5, state=2, reason=0, started=True, finished=False, exit_code=None, diagnostic="why")
    assert first_field(made) == "state_reason"
    made = shaped(kind=1, state=4, reason=0, started=True, finished=False, exit_code=None, diagnostic="why")
    assert first_field(made) == "diagnostic"
