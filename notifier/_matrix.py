"""Which lifecycle events can be, as one table: kind and state, then the reasons and the fields that go with them.

How to read it: a pair of kind and state that has no row is illegal; in a row, a reason that is not listed is illegal;
`started`, `finished` and `exit_code` say whether that field must be there, must not, or may.  19 triples of kind, state
and reason are legal.  The completion notification takes the pairs of state and reason of the rows that are last words.
The docs print this table from here (docs/contract_tables.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

import attrs

from ._enums import LifecycleKind, ProcessState, TerminalReason


class Presence(Enum):
    """Whether a field is there."""

    REQUIRED = "required"
    FORBIDDEN = "forbidden"
    OPTIONAL = "optional"

    def allows(self, present: bool) -> bool:
        """Whether a field that is there (`present`) or is not agrees with this."""
        return self is Presence.OPTIONAL or present == (self is Presence.REQUIRED)


@attrs.frozen(kw_only=True)
class Shape:
    """What goes with one pair of kind and state."""

    reasons: frozenset[TerminalReason]
    started: Presence
    finished: Presence
    exit_code: Presence


def _shape(*reasons: TerminalReason, started: Presence, finished: Presence, exit_code: Presence) -> Shape:
    return Shape(reasons=frozenset(reasons), started=started, finished=finished, exit_code=exit_code)


_K, _S, _R = LifecycleKind, ProcessState, TerminalReason
_YES, _NO, _MAY = Presence.REQUIRED, Presence.FORBIDDEN, Presence.OPTIONAL

# fmt: off
LIFECYCLE_SHAPES: Mapping[tuple[LifecycleKind, ProcessState], Shape] = MappingProxyType({
    (_K.STARTED, _S.RUNNING):
        _shape(_R.NONE, started=_YES, finished=_NO, exit_code=_NO),
    (_K.BACKGROUNDED, _S.RUNNING):
        _shape(_R.NONE, started=_YES, finished=_NO, exit_code=_NO),
    (_K.STOP_REQUESTED, _S.STARTING):
        _shape(_R.INTERRUPTED, _R.TERMINATED, _R.KILLED, started=_NO, finished=_NO, exit_code=_NO),
    (_K.STOP_REQUESTED, _S.RUNNING):
        _shape(_R.INTERRUPTED, _R.TERMINATED, _R.KILLED, started=_YES, finished=_NO, exit_code=_NO),
    (_K.COMPLETED, _S.EXITED):
        _shape(_R.EXITED, started=_YES, finished=_YES, exit_code=_YES),
    # Never spawned: it failed without having started.
    (_K.COMPLETED, _S.FAILED):
        _shape(_R.FAILED, started=_MAY, finished=_YES, exit_code=_NO),
    (_K.COMPLETED, _S.TIMED_OUT):
        _shape(_R.TIMED_OUT, started=_YES, finished=_YES, exit_code=_NO),
    (_K.COMPLETED, _S.INTERRUPTED):
        _shape(_R.INTERRUPTED, started=_YES, finished=_YES, exit_code=_NO),
    (_K.COMPLETED, _S.TERMINATED):
        _shape(_R.TERMINATED, _R.RUNNER_SHUTDOWN, _R.OUTPUT_LIMIT, started=_YES, finished=_YES, exit_code=_NO),
    (_K.COMPLETED, _S.KILLED):
        _shape(_R.KILLED, _R.RUNNER_SHUTDOWN, _R.OUTPUT_LIMIT, started=_YES, finished=_YES, exit_code=_NO),
    # The host died while it was starting or running.
    (_K.LOST, _S.LOST_ON_RESTORE):
        _shape(_R.LOST_ON_RESTORE, started=_MAY, finished=_YES, exit_code=_NO),
})
# fmt: on

COMPLETION_REASONS: Mapping[ProcessState, frozenset[TerminalReason]] = MappingProxyType(
    {state: shape.reasons for (kind, state), shape in LIFECYCLE_SHAPES.items() if kind in (_K.COMPLETED, _K.LOST)}
)
"""Of each state that a completion notification can tell, the reasons: 11 pairs."""


def may_carry_diagnostic(kind: LifecycleKind, state: ProcessState) -> bool:
    """Whether an event can carry a diagnostic: only one that tells a failure or a loss.

    Not in the table above, since it is asked before the table is: of pairs that have no row too.
    """
    return kind is _K.LOST or (kind is _K.COMPLETED and state is _S.FAILED)
