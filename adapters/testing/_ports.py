"""The ports of `lastword.notifier`, in memory: for code that delivers or publishes.

Rules
- What is asked of a record, and what is answered to it, is what a session asks and answers: the same checks, and the
  journal that a runtime without a folder has.
- There are no loops behind it: a notification that is new is accepted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import final
from uuid import UUID

import attrs
from anyio.lowlevel import checkpoint

from ...notifier import (
    AppendResult,
    Collision,
    Disposition,
    Duplicate,
    Event,
    IdempotencyCollisionError,
    NewRecord,
    ProcessCompletionNotification,
    ProcessEvent,
    ProcessNotification,
    RecordKind,
    SecondTerminal,
    SecondTerminalError,
    WorkflowActivity,
    decode_command,
    decode_event,
    new_uuid7,
)
from ...session._records import check_owner, check_record, event_record, notification_record
from ...session.journal import MemoryJournal, Record


@final
class MemoryPorts:
    """All four ports of a session that has none of the rest.

    It is a `DeliverySink`, a `LifecyclePublisher`, a `CompletionNotifier` and a `WorkflowActivityPublisher`, and raises
    what a session does.  What it has taken is in `events` and `notifications`; a duplicate is not there twice.
    """

    def __init__(self, session_id: UUID | None = None) -> None:
        """`session_id`: whose records it takes; None: a fresh one."""
        self.session_id: UUID = new_uuid7() if session_id is None else session_id
        self._journal = MemoryJournal()
        self._journal.open(self.session_id)
        self._faults: deque[tuple[Exception, bool]] = deque()

    # --- for the test -------------------------------------------------------------------------------------------------

    @property
    def events(self) -> list[Event]:
        """Every event that it has taken, process's and workflow's, in order."""
        return [decode_event(record.payload) for record in self._records() if record.kind is RecordKind.EVENT]

    @property
    def notifications(self) -> list[ProcessNotification]:
        """Every notification that it has taken, in order."""
        return [decode_command(record.payload) for record in self._records() if record.kind is RecordKind.COMMAND]

    def fail_next(self, error: Exception, *, taken: bool = False) -> None:
        """Have the next call (after those that are to fail already) raise `error`.

        `taken`: only after it has taken what it was given, as where the answer of a journal is lost.
        """
        self._faults.append((error, taken))

    # --- the ports ----------------------------------------------------------------------------------------------------

    async def deliver(self, unit: Sequence[NewRecord]) -> list[AppendResult]:
        """See `DeliverySink.deliver`."""
        records = tuple(unit)
        for record in records:
            check_record(record, self.session_id)
        return await self._append(records)

    async def notify_process_completion(self, notification: ProcessCompletionNotification) -> Disposition:
        """See `CompletionNotifier.notify_process_completion`."""
        notification.validate()
        check_owner(notification.session_id, self.session_id)
        known = await self._publish(notification_record(notification))
        return Disposition.DUPLICATE if known else Disposition.ACCEPTED

    async def publish_process_lifecycle(self, event: ProcessEvent) -> None:
        """See `LifecyclePublisher.publish_process_lifecycle`."""
        check_owner(event.header.session_id, self.session_id)
        await self._publish(event_record(event))

    async def publish_workflow_activity(self, activity: WorkflowActivity) -> None:
        """See `WorkflowActivityPublisher.publish_workflow_activity`."""
        check_owner(activity.header.session_id, self.session_id)
        header = attrs.evolve(activity.header, created_at=activity.occurred_at)
        await self._publish(event_record(attrs.evolve(activity, header=header)))

    # --- small acts ---------------------------------------------------------------------------------------------------

    async def _publish(self, record: NewRecord) -> bool:
        """Append one record; whether it was known."""
        (result,) = await self._append((record,))
        if isinstance(result, Collision):
            raise IdempotencyCollisionError(record.record_id, result.seq)
        if isinstance(result, SecondTerminal):
            raise SecondTerminalError(result.seq)
        return isinstance(result, Duplicate)

    async def _append(self, unit: tuple[NewRecord, ...]) -> list[AppendResult]:
        await checkpoint()
        error, taken = self._faults.popleft() if self._faults else (None, True)
        if not taken:
            assert error is not None  # noqa: S101 -- only a fault takes nothing
            raise error
        (results,) = self._journal.append_many([unit])
        if error is not None:
            raise error
        return results

    def _records(self) -> list[Record]:
        return self._journal.ledger.records
