"""The one command that is journaled: a notification on its way to a loop.

A command is told apart by its header's id; a notification names itself.  Both must be the same id, so that a retry of
the notification is a retry of the command.
"""

from __future__ import annotations

from datetime import datetime
from typing import final
from uuid import UUID

import attrs

from ._completion import ProcessCompletionNotification
from ._errors import CommandValidationError, ProcessLifecycleValidationError
from ._fields import is_id, is_optional_id, is_same_id, is_uint8, required_id, utf8_length
from ._header import NO_CAUSE, Cause, is_cause
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


def _first_invalid_field(c: ProcessNotification) -> str | None:
    """The rules, in the order of the contract; the notification's own follow."""
    header = c.header
    if type(header) is not CommandHeader:
        return "header"
    if not is_id(header.command_id):
        return "command_id"
    if not is_cause(header.cause):
        return "cause"
    if not is_uint8(header.agency):
        return "agency"
    if header.created_at is not None and not is_time(header.created_at):
        return "created_at"
    if type(c.notification) is not ProcessCompletionNotification:
        return "notification"
    if not is_same_id(c.notification.command_id, header.command_id):
        return "notification"
    return None


def refuse_unwritable(command: ProcessNotification) -> None:
    """Return if the wire has a place for whatever `command` holds, valid or not.

    Raises as `validate_command` does, with the first field that holds what cannot be written.
    """
    name = ProcessNotification.__name__
    if type(command) is not ProcessNotification:
        raise CommandValidationError(type(command).__name__, "type")
    header, notification = command.header, command.notification
    if type(header) is not CommandHeader:
        raise CommandValidationError(name, "header")
    for field, writable in (
        ("command_id", is_optional_id(header.command_id)),
        ("cause", is_cause(header.cause)),
        ("agency", is_uint8(header.agency)),
        ("created_at", header.created_at is None or is_time(header.created_at)),
        ("notification", type(notification) is ProcessCompletionNotification),
    ):
        if not writable:
            raise CommandValidationError(name, field)
    for field, writable in (
        ("command_id", is_optional_id(notification.command_id)),
        ("session_id", is_optional_id(notification.session_id)),
        ("loop_id", is_optional_id(notification.loop_id)),
        ("process_handle", utf8_length(notification.process_handle) is not None),
        ("state_reason", is_uint8(notification.state) and is_uint8(notification.reason)),
    ):
        if not writable:
            raise ProcessLifecycleValidationError(field)


def validate_command(command: ProcessNotification) -> None:
    """Return if `command` breaks no rule.

    Raises `CommandValidationError` for the header and for a notification of another id, and the notification's own
    `ProcessLifecycleValidationError` for what is in it.  Takes anything.
    """
    if type(command) is not ProcessNotification:
        raise CommandValidationError(type(command).__name__, "type")
    field = _first_invalid_field(command)
    if field is not None:
        raise CommandValidationError(ProcessNotification.__name__, field)
    command.notification.validate()
