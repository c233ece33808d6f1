"""From a process record to the exact bytes that are told of it.  Pure; called once for each unit: bytes are final.

A unit is one atomic append: [Started or Backgrounded], [a later Backgrounded], [StopRequested], and the last word with
its notification.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from ..notifier import (
    CommandHeader,
    LifecycleKind,
    NewRecord,
    ProcessCompletionNotification,
    ProcessLifecycleMetadata,
    ProcessNotification,
    ProcessState,
    RecordKind,
    TerminalReason,
    build_process_event,
    encode_command,
    encode_event,
)
from ._record import ProcessRecord

Unit = tuple[NewRecord, ...]


def started_unit(record: ProcessRecord) -> Unit:
    """That it runs: Backgrounded where it was started so, else Started."""
    assert record.started_at is not None  # noqa: S101 -- only a running record is told so
    if record.backgrounded:
        return backgrounded_unit(record, record.started_at)
    return (_event(record, LifecycleKind.STARTED, record.ids.started, record.started_at),)


def backgrounded_unit(record: ProcessRecord, at: datetime) -> Unit:
    """That nobody waits for it any more."""
    return (_event(record, LifecycleKind.BACKGROUNDED, record.ids.backgrounded, at),)


def stop_requested_unit(record: ProcessRecord, reason: TerminalReason, at: datetime) -> Unit:
    """That it was asked to end; `reason` is that of the first request's mode."""
    return (_event(record, LifecycleKind.STOP_REQUESTED, record.ids.stop_requested, at, reason=reason),)


def last_word_unit(record: ProcessRecord) -> Unit:
    """How it ended, and the notification to its owner."""
    outcome = record.outcome
    assert outcome is not None  # noqa: S101 -- only an ended record has a last word
    lost = outcome.state is ProcessState.LOST_ON_RESTORE
    event = _event(
        record,
        LifecycleKind.LOST if lost else LifecycleKind.COMPLETED,
        record.ids.lost if lost else record.ids.completed,
        outcome.finished_at,
        reason=outcome.reason,
    )
    notification = ProcessCompletionNotification(
        command_id=record.ids.command,
        session_id=record.owner.session_id,
        loop_id=record.owner.loop_id,
        process_handle=record.handle,
        state=outcome.state,
        reason=outcome.reason,
    )
    notification.validate()
    command = ProcessNotification(header=CommandHeader(command_id=record.ids.command), notification=notification)
    told = NewRecord(
        record.ids.command,
        RecordKind.COMMAND,
        encode_command(command),
        loop_id=record.owner.loop_id,
        subject=record.handle,
        public=False,
    )
    return (event, told)


def _event(
    record: ProcessRecord,
    kind: LifecycleKind,
    event_id: UUID,
    created_at: datetime,
    *,
    reason: TerminalReason = TerminalReason.NONE,
) -> NewRecord:
    outcome = record.outcome
    metadata = ProcessLifecycleMetadata(
        event_id=event_id,
        kind=kind,
        session_id=record.owner.session_id,
        loop_id=record.owner.loop_id,
        process_handle=record.handle,
        origin_execution_id=record.origin_execution_id,
        state=record.state,
        process_created_at=record.created_at,
        process_started_at=record.started_at,
        process_finished_at=None if outcome is None else outcome.finished_at,
        exit_code=None if outcome is None else outcome.wire_exit_code,
        reason=reason,
        diagnostic="" if outcome is None else outcome.diagnostic,
    )
    return NewRecord(
        event_id,
        RecordKind.EVENT,
        encode_event(build_process_event(metadata, created_at=created_at)),
        loop_id=record.owner.loop_id,
        subject=record.handle,
        terminal=outcome is not None,
    )
