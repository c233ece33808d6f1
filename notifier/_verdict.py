"""What becomes of a unit, decided from what the sink answered.  Pure: the courier acts on it.

One table for the errors (`_BY_ERROR`), one rule for the results.  Absence from the table means a bug of somebody's:
the unit is kept and tried again, and the error is logged with its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ._errors import (
    CommandDecodeError,
    CommandValidationError,
    EventDecodeError,
    IdempotencyCollisionError,
    InvalidArgumentError,
    InvalidEventError,
    JournalFencedError,
    JournalUnavailableError,
    LoopNotFoundError,
    ProcessLifecycleValidationError,
    ProcessNotificationDeliveryStoppedError,
    ProcessNotificationOwnerMismatchError,
    ProcessNotificationUnsupportedError,
    SecondTerminalError,
)
from ._records import AppendResult, Collision, SecondTerminal


class Verdict(Enum):
    """What becomes of a unit."""

    DELIVERED = "delivered"
    """Every record is durable at the receiver, now or already: the unit's work is done."""

    SUPERSEDED = "superseded"
    """The process has another last word there: this one is not told, and is not an error."""

    RETRY = "retry"
    """Not now: try again, with backoff, for as long as it takes."""

    QUARANTINED = "quarantined"
    """Never: keep it, show it, and let the process's next unit pass."""

    FENCED = "fenced"
    """Another host owns the session: stop, keep everything, and judge again when this one owns it."""

    BUG = "bug"
    """Nobody foresaw this: log it, keep the unit, try again with backoff."""


_BY_ERROR: tuple[tuple[type[Exception], Verdict], ...] = (
    (JournalFencedError, Verdict.FENCED),
    (JournalUnavailableError, Verdict.RETRY),
    (ProcessNotificationDeliveryStoppedError, Verdict.RETRY),
    (LoopNotFoundError, Verdict.RETRY),
    (SecondTerminalError, Verdict.SUPERSEDED),
    (IdempotencyCollisionError, Verdict.QUARANTINED),
    (ProcessNotificationOwnerMismatchError, Verdict.QUARANTINED),
    (ProcessNotificationUnsupportedError, Verdict.QUARANTINED),
    (ProcessLifecycleValidationError, Verdict.QUARANTINED),
    (InvalidArgumentError, Verdict.QUARANTINED),
    (InvalidEventError, Verdict.QUARANTINED),
    (CommandValidationError, Verdict.QUARANTINED),
    (EventDecodeError, Verdict.QUARANTINED),
    (CommandDecodeError, Verdict.QUARANTINED),
)


def judge_error(error: Exception) -> Verdict:
    """The verdict on a unit whose delivery raised `error`."""
    for situation, verdict in _BY_ERROR:
        if isinstance(error, situation):
            return verdict
    return Verdict.BUG


def judge_results(results: Sequence[AppendResult]) -> Verdict:
    """The verdict on a unit whose records were answered by `results`.

    A second terminal outranks a collision: the whole unit, its notification too, has been overtaken.
    """
    if any(isinstance(result, SecondTerminal) for result in results):
        return Verdict.SUPERSEDED
    if any(isinstance(result, Collision) for result in results):
        return Verdict.QUARANTINED
    return Verdict.DELIVERED
