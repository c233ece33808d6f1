"""A process's states: what follows what."""

from __future__ import annotations

import itertools
import re

import pytest

from lastword.notifier import (
    INITIAL_STATE,
    TRANSITIONS,
    IllegalTransitionError,
    LastwordError,
    ProcessState,
    advance,
)

# The contract's own lines, kept as text so that the table is compared with them and not with itself.
CONTRACT = """
starting -> running | failed | lost_on_restore
running  -> exited | failed | timed_out | interrupted | terminated | killed | lost_on_restore
"""


def contracted() -> set[tuple[ProcessState, ProcessState]]:
    pairs: set[tuple[ProcessState, ProcessState]] = set()
    for line in CONTRACT.strip().splitlines():
        state, following = re.split(r"\s*->\s*", line)
        pairs |= {(ProcessState[state.upper()], ProcessState[word.upper()]) for word in following.split(" | ")}
    return pairs


def test_every_step_is_legal_or_not_as_the_contract_says() -> None:
    """All 81 pairs; an illegal one names both states and changes nothing."""
    legal = contracted()
    for state, to in itertools.product(ProcessState, ProcessState):
        if (state, to) in legal:
            assert advance(state, to) is to
            continue
        with pytest.raises(IllegalTransitionError) as caught:
            advance(state, to)
        assert (state, to) == (caught.value.state, caught.value.to)
        assert isinstance(caught.value, LastwordError)


def test_nothing_follows_a_last_word_and_something_follows_all_else() -> None:
    """The table's rows are exactly the states that are not terminal."""
    assert {state for state in ProcessState if not state.terminal} == set(TRANSITIONS)


def test_every_state_can_be_reached() -> None:
    """From the first one, by the table alone."""
    reached, todo = {INITIAL_STATE}, [INITIAL_STATE]
    while todo:
        for state in TRANSITIONS.get(todo.pop(), frozenset[ProcessState]()) - reached:
            reached.add(state)
            todo.append(state)
    assert reached == set(ProcessState)


def test_an_illegal_step_says_so_in_words() -> None:
    """For a log, and for whoever passes a number that names no state."""
    with pytest.raises(IllegalTransitionError, match="a process that is timed out cannot become running"):
        advance(ProcessState.TIMED_OUT, ProcessState.RUNNING)
    with pytest.raises(IllegalTransitionError, match="cannot become 77"):
        advance(ProcessState.RUNNING, 77)  # type: ignore[arg-type] # what an untyped caller may pass
