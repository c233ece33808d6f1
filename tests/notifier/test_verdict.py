"""What becomes of a unit: every error and every result has its row."""

from __future__ import annotations

from uuid import UUID

import pytest

from lastword.notifier import (
    Appended,
    AppendResult,
    Collision,
    CommandDecodeError,
    CommandValidationError,
    DeliveryError,
    Duplicate,
    EventDecodeError,
    IdempotencyCollisionError,
    InvalidEventError,
    JournalFencedError,
    JournalUnavailableError,
    LoopNotFoundError,
    ProcessLifecycleValidationError,
    ProcessNotificationDeliveryStoppedError,
    ProcessNotificationOwnerMismatchError,
    ProcessNotificationUnsupportedError,
    RecordTooLargeError,
    SecondTerminal,
    SecondTerminalError,
    UnknownCommandTypeError,
    UnknownEventTypeError,
    UnsupportedSchemaError,
    Verdict,
)
from lastword.notifier._verdict import judge_error, judge_results


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (JournalFencedError(), Verdict.FENCED),
        (JournalUnavailableError(), Verdict.RETRY),
        (ProcessNotificationDeliveryStoppedError(), Verdict.RETRY),
        (LoopNotFoundError(), Verdict.RETRY),
        (SecondTerminalError(1), Verdict.SUPERSEDED),
        (IdempotencyCollisionError(UUID(int=1), 1), Verdict.QUARANTINED),
        (ProcessNotificationOwnerMismatchError(), Verdict.QUARANTINED),
        (ProcessNotificationUnsupportedError(), Verdict.QUARANTINED),
        (ProcessLifecycleValidationError("kind"), Verdict.QUARANTINED),
        (InvalidEventError("ProcessLost", "process", "is invalid"), Verdict.QUARANTINED),
        (CommandValidationError("ProcessNotification", "header"), Verdict.QUARANTINED),
        (EventDecodeError(), Verdict.QUARANTINED),
        (CommandDecodeError(), Verdict.QUARANTINED),
        (UnknownEventTypeError(), Verdict.QUARANTINED),
        (UnknownCommandTypeError(), Verdict.QUARANTINED),
        (UnsupportedSchemaError(), Verdict.QUARANTINED),
        (RecordTooLargeError(), Verdict.QUARANTINED),
        (DeliveryError(), Verdict.BUG),
        (ValueError(), Verdict.BUG),
        (OSError(), Verdict.BUG),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, Exception) else "",
)
def test_every_error_has_its_verdict(error: Exception, verdict: Verdict) -> None:
    """What nobody foresaw is a bug, and is tried again."""
    assert judge_error(error) is verdict


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ([], Verdict.DELIVERED),
        ([Appended(1), Duplicate(2, consumed=True)], Verdict.DELIVERED),
        ([Appended(1), Collision(2)], Verdict.QUARANTINED),
        ([Collision(2), SecondTerminal(1)], Verdict.SUPERSEDED),
        ([SecondTerminal(1), Appended(2)], Verdict.SUPERSEDED),
    ],
    ids=str,
)
def test_results_have_their_verdict(results: list[AppendResult], verdict: Verdict) -> None:
    """A second terminal outranks a collision."""
    assert judge_results(results) is verdict
