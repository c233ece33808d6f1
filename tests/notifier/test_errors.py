"""The errors: who is whose kind, what each carries, and that each can say what it is about."""

from __future__ import annotations

import inspect
from typing import Any
from uuid import UUID

import pytest

from lastword import notifier
from lastword.notifier import (
    Disposition,
    IdempotencyCollisionError,
    IllegalTransitionError,
    InvalidArgumentError,
    LastwordError,
    ProcessLifecycleValidationError,
    ProcessState,
    SecondTerminalError,
)

BASES = {
    "LastwordError": ("Exception",),
    "InvalidArgumentError": ("LastwordError", "ValueError"),
    "ProcessLifecycleValidationError": ("LastwordError",),
    "InvalidEventError": ("LastwordError",),
    "CommandValidationError": ("LastwordError",),
    "IllegalTransitionError": ("LastwordError",),
    "EventDecodeError": ("LastwordError",),
    "CommandDecodeError": ("LastwordError",),
    "UnknownEventTypeError": ("EventDecodeError",),
    "UnknownCommandTypeError": ("CommandDecodeError",),
    "UnsupportedSchemaError": ("EventDecodeError", "CommandDecodeError"),
    "RecordTooLargeError": ("EventDecodeError", "CommandDecodeError"),
    "DeliveryError": ("LastwordError",),
    "IdempotencyCollisionError": ("DeliveryError",),
    "SecondTerminalError": ("DeliveryError",),
    "ProcessNotificationOwnerMismatchError": ("DeliveryError",),
    "ProcessNotificationUnsupportedError": ("DeliveryError",),
    "ProcessNotificationDeliveryStoppedError": ("DeliveryError",),
    "LoopNotFoundError": ("DeliveryError",),
    "JournalUnavailableError": ("DeliveryError",),
    "JournalFencedError": ("DeliveryError",),
}

DISPOSITIONS = {
    "IdempotencyCollisionError": Disposition.COLLISION,
    "ProcessNotificationUnsupportedError": Disposition.STOPPED,
    "ProcessNotificationDeliveryStoppedError": Disposition.STOPPED,
    "LoopNotFoundError": Disposition.STOPPED,
}


def errors() -> dict[str, type[Exception]]:
    classes = inspect.getmembers(notifier, inspect.isclass)
    return {name: cls for name, cls in classes if issubclass(cls, Exception)}


def test_every_error_is_of_the_kinds_that_callers_catch() -> None:
    """Each by its direct bases, and there is no other."""
    assert {name: tuple(base.__name__ for base in cls.__bases__) for name, cls in errors().items()} == BASES


def test_a_delivery_error_carries_the_notifiers_answer() -> None:
    """Or None, where it gives no verdict."""
    carried = {name: getattr(cls, "disposition", None) for name, cls in errors().items()}
    assert {name: found for name, found in carried.items() if found is not None} == DISPOSITIONS


@pytest.mark.parametrize(
    ("error", "fields", "words"),
    [
        (InvalidArgumentError("f", "must be x"), ("f", "must be x"), "f: must be x"),
        (IllegalTransitionError(ProcessState.EXITED, ProcessState.RUNNING), None, "exited cannot become running"),
        (IllegalTransitionError(77, []), None, "77 cannot become"),  # type: ignore[arg-type] # untyped callers
        (IdempotencyCollisionError(UUID(int=1), 5), (UUID(int=1), 5), "sequence 5"),
        (SecondTerminalError(7), (7,), "sequence 7"),
        (ProcessLifecycleValidationError("kind"), ("kind",), "kind must be a LifecycleKind"),
        (ProcessLifecycleValidationError("loop_id"), ("loop_id",), "loop_id must be a UUID other than zero"),
        (ProcessLifecycleValidationError([]), ([],), "[] is no field"),  # type: ignore[arg-type] # untyped callers
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, Exception) else "",
)
def test_an_error_says_what_it_is_about(error: LastwordError, fields: tuple[Any, ...] | None, words: str) -> None:
    """In words and in `args`, so that it survives being pickled."""
    assert words in str(error)
    if fields is not None:
        assert error.args == fields
