"""Every error that the contract raises, named after its situation.

Rules of this file
- One root, `LastwordError`; whoever embeds us catches that and nothing of ours escapes.
- A validation error names the exact field, and for events the rule too: callers match on those, not on words.
- A delivery error carries a `disposition`: what the notifier answers for it, or None where the answer is "not judged".
- Messages say what was wrong and what to do next; never a command, output, host path or process id.
"""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from ._enums import Disposition, ProcessState


class LastwordError(Exception):
    """The root of every error that this library raises on purpose."""


class InvalidArgumentError(LastwordError, ValueError):
    """An argument can never be right; `field` names it.  Nothing was done."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(field, why)
        self.field = field
        self.why = why

    def __str__(self) -> str:
        return f"{self.field}: {self.why}"


# --- values -----------------------------------------------------------------------------------------------------------


_LIFECYCLE_RULES = {
    "kind": "must be a LifecycleKind",
    "state": "must be a ProcessState",
    "process_handle": "must be 1 to 128 of A-Z a-z 0-9 _ -",
    "process_created_at": "must be an aware datetime",
    "process_started_at": "must be an aware datetime, not before process_created_at",
    "process_finished_at": "must be an aware datetime, not before process_started_at",
    "diagnostic": "must be at most 512 bytes of UTF-8, and comes only with failed and lost",
    "exit_code": "must be an int of 32 bits, and on the wire come with has_exit_code",
    "state_reason": "must be a pair that goes with the kind (see LIFECYCLE_SHAPES)",
    "lifecycle_fields": "must be there, or not, as goes with kind and state (see LIFECYCLE_SHAPES)",
}
"""What each field asks for, for the message; those that are not listed are ids."""


class ProcessLifecycleValidationError(LastwordError):
    """A lifecycle metadata or completion notification breaks a rule; `field` (snake_case) is the first that does."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field

    def __str__(self) -> str:
        rule = _LIFECYCLE_RULES.get(self.field) if type(self.field) is str else "is no field"
        return f"process lifecycle: {self.field} {rule or 'must be a UUID other than zero'}"


class InvalidEventError(LastwordError):
    """An event breaks a rule.

    `event` is the type's name, `field` the first offending field in snake_case (the body of a process event is the one
    field `process`), `rule` one of "must be set", "must be zero", "is invalid", "is not a known event type".
    """

    def __init__(self, event: str, field: str, rule: str) -> None:
        super().__init__(event, field, rule)
        self.event = event
        self.field = field
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.event}: {self.field} {self.rule}" if self.field else f"{self.event} {self.rule}"


class CommandValidationError(LastwordError):
    """A command breaks a rule; `command` is the type's name, `field` (snake_case) the first one that does."""

    def __init__(self, command: str, field: str) -> None:
        super().__init__(command, field)
        self.command = command
        self.field = field

    def __str__(self) -> str:
        return f"{self.command}: field {self.field} is invalid"


class IllegalTransitionError(LastwordError):
    """A process was to go from `state` to `to`, and the state table has no such step; it stays in `state`."""

    def __init__(self, state: ProcessState, to: ProcessState) -> None:
        super().__init__(state, to)
        self.state = state
        self.to = to

    def __str__(self) -> str:
        return f"a process that is {_named(self.state)} cannot become {_named(self.to)}"


def _named(state: ProcessState) -> str:
    """A member's name in words, and anything else as it is: the error may be about a number that names none."""
    return state.name.lower().replace("_", " ") if isinstance(state, ProcessState) else repr(state)  # pyright: ignore[reportUnnecessaryIsInstance] - see above


# --- decoding ---------------------------------------------------------------------------------------------------------


class EventDecodeError(LastwordError):
    """The bytes are not an event as we write it: bad JSON, a wrong type, an unknown or repeated key, trailing data."""


class CommandDecodeError(LastwordError):
    """The bytes are not a command as we write it: bad JSON, a wrong type, an unknown or repeated key, trailing data."""


class UnknownEventTypeError(EventDecodeError):
    """The bytes are well formed, but their `type` names no event that this version knows."""


class UnknownCommandTypeError(CommandDecodeError):
    """The bytes are well formed, but their `type` names no command that this version knows."""


class UnsupportedSchemaError(EventDecodeError, CommandDecodeError):
    """The record's version `v` is newer than this library; upgrade it to read the record."""


class RecordTooLargeError(EventDecodeError, CommandDecodeError):
    """The record is larger than `MAX_EVENT_BYTES`; it was neither parsed nor written."""


# --- delivery ---------------------------------------------------------------------------------------------------------


class DeliveryError(LastwordError):
    """The root of what can go wrong between a record and the loop that is to be told.

    `disposition` is COLLISION, STOPPED, or None where the notifier gives no verdict.
    """

    disposition: ClassVar[Disposition | None] = None


class IdempotencyCollisionError(DeliveryError):
    """`record_id` is already durable at `sequence` with other bytes; the first stays valid and nothing was written."""

    disposition: ClassVar[Disposition | None] = Disposition.COLLISION

    def __init__(self, record_id: UUID, sequence: int) -> None:
        super().__init__(record_id, sequence)
        self.record_id = record_id
        self.sequence = sequence

    def __str__(self) -> str:
        return f"record {self.record_id} is already journaled at sequence {self.sequence} with a different payload"


class SecondTerminalError(DeliveryError):
    """The process already has a terminal record, at `sequence`; nothing follows a last word."""

    def __init__(self, sequence: int) -> None:
        super().__init__(sequence)
        self.sequence = sequence

    def __str__(self) -> str:
        return f"the process already has its last word, at sequence {self.sequence}"


class ProcessNotificationOwnerMismatchError(DeliveryError):
    """The notification or event names another session than the one it was handed to; nothing was written."""


class ProcessNotificationUnsupportedError(DeliveryError):
    """The loop takes no process notifications (it was opened with `native=False`)."""

    disposition: ClassVar[Disposition | None] = Disposition.STOPPED


class ProcessNotificationDeliveryStoppedError(DeliveryError):
    """It cannot be offered now: the loop is full or closed, or the session is closed.

    Where a loop is at fault the notification is durable, and is offered when the loop can take it.
    """

    disposition: ClassVar[Disposition | None] = Disposition.STOPPED


class LoopNotFoundError(DeliveryError):
    """The notification is durable, but no loop of that id is open: it will be offered when one is opened."""

    disposition: ClassVar[Disposition | None] = Disposition.STOPPED


class JournalUnavailableError(DeliveryError):
    """The journal could not be written or read; what was in flight is unknown: try again with the same record id."""


class JournalFencedError(DeliveryError):
    """Another opener has taken over the session's journal; this one must not write again."""
