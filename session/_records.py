"""From values to records and back: what is stored of each, and who may say it here.

Rules
- The bytes are the contract's, and nothing but the value decides them: so a retry is equal, and is known.
- A record that comes finished (from an outbox) is held to what its bytes say: the session, the id and the loop.
"""

from __future__ import annotations

from uuid import UUID

from ..notifier import (
    CommandHeader,
    CommandValidationError,
    Event,
    InvalidArgumentError,
    InvalidEventError,
    NewRecord,
    ProcessCompleted,
    ProcessCompletionNotification,
    ProcessLost,
    ProcessNotification,
    ProcessNotificationOwnerMismatchError,
    RecordKind,
    Visibility,
    WorkflowActivity,
    ack_id,
    decode_command,
    decode_event,
    encode_command,
    encode_event,
)
from ._arguments import check_type


def event_record(event: Event) -> NewRecord:
    """The record of `event`: about its process, consuming the notification that caused it, on its own loop alone."""
    header = event.header
    return NewRecord(
        header.event_id,
        RecordKind.EVENT,
        encode_event(event),
        loop_id=header.loop_id,
        subject=_subject(event),
        terminal=_is_last_word(event),
        consumes=_consumed(event),
        public=header.visibility is Visibility.PUBLIC,
    )


def notification_record(notification: ProcessCompletionNotification) -> NewRecord:
    """The record of the command that carries `notification`; it has no time of its own, so that a retry is equal."""
    header = CommandHeader(command_id=notification.command_id)
    return NewRecord(
        notification.command_id,
        RecordKind.COMMAND,
        encode_command(ProcessNotification(header=header, notification=notification)),
        loop_id=notification.loop_id,
        subject=notification.process_handle,
        public=False,
    )


def consumption_record(command_id: UUID, loop_id: UUID | None) -> NewRecord:
    """The record that settles the notification: on its loop, or (None) on whichever it waits for."""
    return NewRecord(
        ack_id(command_id),
        RecordKind.CONSUMPTION,
        str(command_id).encode("ascii"),
        loop_id=loop_id,
        consumes=command_id,
        public=False,
    )


def check_record(record: NewRecord, session_id: UUID) -> None:
    """Raise what is wrong with a record that comes finished; return if it may be appended to that session's journal.

    Raises `ProcessNotificationOwnerMismatchError` for another session's, the decoders' errors for bytes that say
    nothing, `InvalidEventError` or `CommandValidationError` where the record and its bytes differ, and
    `InvalidArgumentError` for what only a session itself writes.
    """
    check_type("unit", record, NewRecord)
    # What is no kind would be written as one, and no reader could read on beyond it.
    check_type("kind", record.kind, RecordKind)
    check_type("terminal", record.terminal, bool)
    check_type("public", record.public, bool)
    match record.kind:
        case RecordKind.EVENT:
            event = decode_event(record.payload)
            header = event.header
            check_owner(header.session_id, session_id)
            for field, same in (
                ("event_id", header.event_id == record.record_id),
                ("loop_id", header.loop_id == record.loop_id),
                ("process", _subject(event) == record.subject),
                ("kind", _is_last_word(event) == record.terminal),
                ("cause", _consumed(event) == record.consumes),
            ):
                if not same:
                    raise InvalidEventError(type(event).__name__, field, "is invalid")
        case RecordKind.COMMAND:
            notification = decode_command(record.payload).notification
            check_owner(notification.session_id, session_id)
            for field, same in (
                ("command_id", notification.command_id == record.record_id),
                ("notification", notification.loop_id == record.loop_id),
                ("notification", notification.process_handle == record.subject),
                ("notification", record.consumes is None and not record.terminal),
            ):
                if not same:
                    raise CommandValidationError(ProcessNotification.__name__, field)
        case RecordKind.CONSUMPTION | RecordKind.FENCE:
            # The session's own: an acknowledgement is asked for, and an opening is an opening.
            raise InvalidArgumentError("kind", f"a {record.kind.name.lower()} cannot be delivered")


def _consumed(event: Event) -> UUID | None:
    """The notification that the event settles; without a loop of its own it cannot be on the notification's."""
    return None if event.header.loop_id is None else event.header.cause.command_id


def check_owner(session_id: UUID, ours: UUID) -> None:
    """Raise `ProcessNotificationOwnerMismatchError` unless both are the same session."""
    if session_id != ours:
        raise ProcessNotificationOwnerMismatchError(f"it names session {session_id}, and this is {ours}")


def _subject(event: Event) -> str | None:
    """The handle of the process that the event is about; None for a workflow's."""
    return None if isinstance(event, WorkflowActivity) else event.process.process_handle


def _is_last_word(event: Event) -> bool:
    return isinstance(event, ProcessCompleted | ProcessLost)
