"""Where the supervisor's side and the session's side meet; neither knows the other.

The courier needs `DeliverySink` alone.  The other three are for producers of their own: they take values and answer
like the reference does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ._completion import ProcessCompletionNotification
from ._enums import Disposition
from ._events import ProcessEvent, WorkflowActivity
from ._records import AppendResult, NewRecord


class DeliverySink(Protocol):
    """Takes finished records."""

    async def deliver(self, unit: Sequence[NewRecord]) -> list[AppendResult]:
        """Append `unit` as one: all of it durable, or none; one result for each record, in order.

        Where any record of the unit collides or comes after a last word, nothing of it is written.  Cancelled: the
        outcome is unknown; deliver the same unit again and the index answers.  Raises a `DeliveryError` where no
        result can be had: `JournalUnavailableError` (try again), `JournalFencedError` (stop), others (never again).
        """
        ...


class LifecyclePublisher(Protocol):
    """Publishes what happens to processes."""

    async def publish_process_lifecycle(self, event: ProcessEvent) -> None:
        """Make `event` durable and broadcast it; its header is complete, `created_at` included, so a retry is equal."""
        ...


class CompletionNotifier(Protocol):
    """Tells a process's owner that it has ended."""

    async def notify_process_completion(self, notification: ProcessCompletionNotification) -> Disposition:
        """Make the notification durable and offer it to its loop: ACCEPTED or DUPLICATE, or a `DeliveryError`."""
        ...


class WorkflowActivityPublisher(Protocol):
    """Publishes what happens in workflows."""

    async def publish_workflow_activity(self, activity: WorkflowActivity) -> None:
        """Make `activity` durable and broadcast it, stamped with its own `occurred_at`, so that a retry is equal."""
        ...
