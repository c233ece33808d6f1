"""The one command that is journaled: a notification on its way to a loop.

A command is told apart by its header's id; a notification names itself.  Both must be the same id, so that a retry of
the notification is a retry of the command.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import final
from uuid import UUID

import attrs

from ._completion import ProcessCompletionNotification
from ._errors import CommandValidationError
from ._fields import is_id, is_none, required_id
from ._header import NO_CAUSE, Cause, is_agency, is_cause
from ._times import is_time, set_time


@final
@attrs.frozen(kw_only=True)
class CommandHeader:
    """A command's identity.  `agency` is a number from 0 to 255.

    A notification's `created_at` stays None: a time that is stamped anew would make of every retry another command.
    """

    command_id: UUID = attrs.field(converter=required_id)
    cause: Cause = NO_CAUSE
    agency: int = 0
    created_at: datetime | None = attrs.field(default=None, converter=set_time)


@final
@attrs.frozen(kw_only=True)
class ProcessNotification:
    """Tells a loop that a process of its has ended."""

    header: CommandHeader
    notification: ProcessCompletionNotification


def _is_header(value: object) -> bool:
    return isinstance(value, CommandHeader)


def _is_notification(value: object) -> bool:
    return isinstance(value, ProcessCompletionNotification)


COMMAND_RULES: tuple[tuple[str, Callable[[ProcessNotification], bool]], ...] = (
    ("header", lambda c: _is_header(c.header)),
    ("command_id", lambda c: is_id(c.header.command_id)),
    ("cause", lambda c: is_cause(c.header.cause)),
    ("agency", lambda c: is_agency(c.header.agency)),
    ("created_at", lambda c: is_none(c.header.created_at) or is_time(c.header.created_at)),
    ("notification", lambda c: _is_notification(c.notification)),
    ("notification", lambda c: c.notification.command_id == c.header.command_id),
)
"""Each rule with the field that it names, in the order in which they are asked; the notification's own rules follow."""


def validate_command(command: ProcessNotification) -> None:
    """Return if `command` breaks no rule.

    Raises `CommandValidationError` for the header and for a notification of another id, and the notification's own
    `ProcessLifecycleValidationError` for what is in it.  Takes anything.
    """
    if type(command) is not ProcessNotification:
        raise CommandValidationError(type(command).__name__, "type")
    for field, holds in COMMAND_RULES:
        if not holds(command):
            raise CommandValidationError("ProcessNotification", field)
    command.notification.validate()
