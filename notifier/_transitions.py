"""A process's states, and what can follow what, as one table.

How to read it: of each state, the states that can come next; what is not listed is illegal, and a state without a row
is a last word: nothing follows it.  The supervisor moves a process by `advance` alone, and the docs' diagram is drawn
from this table (docs/state_diagram.py): edit it here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ._enums import ProcessState
from ._errors import IllegalTransitionError

_S = ProcessState

INITIAL_STATE = _S.STARTING
"""Where every process begins: admitted and durable, not yet spawned."""

# fmt: off
TRANSITIONS: Mapping[ProcessState, frozenset[ProcessState]] = MappingProxyType({
    # Not spawned yet: it can only come up, or fail to, or be cut off by the death of its host.
    _S.STARTING: frozenset({
        _S.RUNNING,
        _S.FAILED,
        _S.LOST_ON_RESTORE,
    }),
    _S.RUNNING: frozenset({
        _S.EXITED,
        _S.FAILED,
        _S.TIMED_OUT,
        _S.INTERRUPTED,
        _S.TERMINATED,
        _S.KILLED,
        _S.LOST_ON_RESTORE,
    }),
})
# fmt: on


def advance(state: ProcessState, to: ProcessState) -> ProcessState:
    """`to`, if it can follow `state`; else `IllegalTransitionError`, and the process stays what it was."""
    if to not in TRANSITIONS.get(state, ()):
        raise IllegalTransitionError(state, to)
    return to
