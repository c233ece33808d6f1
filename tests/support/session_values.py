"""Values that the session's tests talk about: one owner, processes that start and end, and their records."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

from lastword.notifier import (
    Cause,
    CommandHeader,
    EventHeader,
    LifecycleKind,
    NewRecord,
    ProcessCompleted,
    ProcessCompletionNotification,
    ProcessEvent,
    ProcessIds,
    ProcessLifecycleMetadata,
    ProcessNotification,
    ProcessState,
    RecordKind,
    TerminalReason,
    Visibility,
    WorkflowActivity,
    WorkflowActivityKind,
    WorkflowRunStatus,
    build_process_event,
    encode_command,
    encode_event,
    main_loop_id,
    new_uuid7,
    process_ids,
)

SESSION = UUID("11111111-2222-4333-8444-555555555555")
MAIN = main_loop_id(SESSION)
LOOP_A = UUID("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee")
LOOP_B = UUID("bbbbbbbb-bbbb-4ccc-8ddd-eeeeeeeeeeee")
CREATED = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


class Job:
    """One process: its ids and its handle, and what can be said of it."""

    def __init__(self, loop_id: UUID = MAIN, *, session_id: UUID = SESSION, handle: str | None = None) -> None:
        self.ids: ProcessIds = process_ids(new_uuid7())
        self.session_id = session_id
        self.loop_id = loop_id
        self.handle = uuid4().hex if handle is None else handle

    def metadata(self, kind: LifecycleKind, event_id: UUID | None = None) -> ProcessLifecycleMetadata:
        ended = kind in {LifecycleKind.COMPLETED, LifecycleKind.LOST}
        state, reason = {
            LifecycleKind.STARTED: (ProcessState.RUNNING, TerminalReason.NONE),
            LifecycleKind.BACKGROUNDED: (ProcessState.RUNNING, TerminalReason.NONE),
            LifecycleKind.STOP_REQUESTED: (ProcessState.RUNNING, TerminalReason.TERMINATED),
            LifecycleKind.COMPLETED: (ProcessState.EXITED, TerminalReason.EXITED),
            LifecycleKind.LOST: (ProcessState.LOST_ON_RESTORE, TerminalReason.LOST_ON_RESTORE),
        }[kind]
        own_id = {
            LifecycleKind.STARTED: self.ids.started,
            LifecycleKind.BACKGROUNDED: self.ids.backgrounded,
            LifecycleKind.STOP_REQUESTED: self.ids.stop_requested,
            LifecycleKind.COMPLETED: self.ids.completed,
            LifecycleKind.LOST: self.ids.lost,
        }[kind]
        return ProcessLifecycleMetadata(
            event_id=own_id if event_id is None else event_id,
            kind=kind,
            session_id=self.session_id,
            loop_id=self.loop_id,
            process_handle=self.handle,
            origin_execution_id=self.ids.process,
            state=state,
            process_created_at=CREATED,
            process_started_at=CREATED,
            process_finished_at=CREATED if ended else None,
            exit_code=0 if kind is LifecycleKind.COMPLETED else None,
            reason=reason,
        )

    def event(
        self,
        kind: LifecycleKind,
        *,
        created_at: datetime = CREATED,
        cause: Cause | None = None,
        visibility: Visibility = Visibility.PUBLIC,
    ) -> ProcessEvent:
        event = build_process_event(self.metadata(kind), created_at=created_at)
        header = EventHeader(
            event_id=event.header.event_id,
            session_id=self.session_id,
            loop_id=self.loop_id,
            created_at=created_at,
            cause=Cause() if cause is None else cause,
            visibility=visibility,
        )
        return type(event)(header=header, process=event.process)

    def started(self) -> ProcessEvent:
        return self.event(LifecycleKind.STARTED)

    def completed(self) -> ProcessEvent:
        return self.event(LifecycleKind.COMPLETED)

    def notification(self, state: ProcessState = ProcessState.EXITED) -> ProcessCompletionNotification:
        return ProcessCompletionNotification(
            command_id=self.ids.command,
            session_id=self.session_id,
            loop_id=self.loop_id,
            process_handle=self.handle,
            state=state,
            reason=TerminalReason.EXITED if state is ProcessState.EXITED else TerminalReason.KILLED,
        )

    def event_record(self, kind: LifecycleKind, *, created_at: datetime = CREATED) -> NewRecord:
        event = self.event(kind, created_at=created_at)
        return NewRecord(
            event.header.event_id,
            RecordKind.EVENT,
            encode_event(event),
            loop_id=self.loop_id,
            subject=self.handle,
            terminal=isinstance(event, ProcessCompleted) or kind is LifecycleKind.LOST,
        )

    def command_record(self, state: ProcessState = ProcessState.EXITED) -> NewRecord:
        command = ProcessNotification(
            header=CommandHeader(command_id=self.ids.command), notification=self.notification(state)
        )
        return NewRecord(
            self.ids.command,
            RecordKind.COMMAND,
            encode_command(command),
            loop_id=self.loop_id,
            subject=self.handle,
            public=False,
        )

    def start_unit(self) -> tuple[NewRecord, ...]:
        return (self.event_record(LifecycleKind.STARTED),)

    def end_unit(self) -> tuple[NewRecord, ...]:
        return (self.event_record(LifecycleKind.COMPLETED), self.command_record())


def activity(
    *, session_id: UUID = SESSION, event_id: UUID | None = None, cause: Cause | None = None
) -> WorkflowActivity:
    header = EventHeader(
        event_id=new_uuid7() if event_id is None else event_id,
        session_id=session_id,
        cause=Cause() if cause is None else cause,
    )
    return WorkflowActivity(
        header=header,
        run_id=UUID(int=7),
        workflow_name="nightly_build",
        workflow_version="1.2.3",
        kind=WorkflowActivityKind.VERTEX_COMPLETED,
        status=WorkflowRunStatus.RUNNING,
        message="ok",
        occurred_at=CREATED,
    )
