"""The situations that only the session's side knows; the ones that a producer meets are in the contract.

What a caller can do about it decides the root: `JournalUnavailableError` (and so the corrupt file) may pass, and a
delivery is tried again; a journal of another session or of a newer version never becomes right by waiting.
"""

from __future__ import annotations

from uuid import UUID

from ..notifier import JournalUnavailableError, LastwordError
from ..notifier import ProcessNotificationDeliveryStoppedError as _DeliveryStoppedError


class JournalCorruptError(JournalUnavailableError):
    """The journal's file is not one that can be read any more; nothing was written.  Restore it from a copy."""


class JournalTooNewError(LastwordError):
    """The journal was written by a newer version of this library; it was left as it is.  Upgrade to open it."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(found, known)
        self.found = found
        self.known = known

    def __str__(self) -> str:
        return (
            f"the journal has schema version {self.found}, this library knows up to {self.known}; nothing was changed: "
            "upgrade lastword to open it"
        )


class JournalSessionError(LastwordError):
    """The journal belongs to another session; it was left as it is.  One journal holds one session."""

    def __init__(self, held: UUID, asked: UUID) -> None:
        super().__init__(held, asked)
        self.held = held
        self.asked = asked

    def __str__(self) -> str:
        return f"the journal belongs to session {self.held}, not to {self.asked}; open it with its own id or with none"


class SessionClosedError(_DeliveryStoppedError):
    """The session is closed, or was opened in the process that this one is a fork of; nothing was written."""


class LoopClosedError(LastwordError):
    """The loop is closed; what it held and had not acknowledged is offered again when the loop is opened again."""


class SubscriptionLostError(LastwordError):
    """The subscriber fell behind by more than its buffer and was let go; what was queued has been read.

    `resume_after` is the sequence of the last event that it was given (or of where it began): `watch(after=...)` or
    `replay(after=...)` from there misses nothing.
    """

    def __init__(self, resume_after: int) -> None:
        super().__init__(resume_after)
        self.resume_after = resume_after

    def __str__(self) -> str:
        return f"the subscriber fell behind and was let go; resume after sequence {self.resume_after}"


class SubscriptionUseError(LastwordError):
    """A subscription was iterated before its block was entered, or entered twice; it takes part for one block."""
