"""The session: one journal, and everything that is told from it.

Theory of operation
- Every write goes through one writer to one keeper, which owns the journal; what became durable comes back through the
  commit handler before the task that asked wakes.  So a call that has returned has been told to everybody.
- There is no task of the session's own: nothing to start, to supervise, or to lose.
- A cancelled call has an unknown outcome; calling again with the same ids is always right.

To whoever edits: nothing may be told that was not read back from the journal, and never by the task that asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import final
from uuid import UUID

import attrs
from anyio.lowlevel import checkpoint

from ..notifier import (
    AppendResult,
    Disposition,
    Duplicate,
    Event,
    EventHeader,
    InvalidArgumentError,
    InvalidEventError,
    LoopNotFoundError,
    NewRecord,
    Owner,
    ProcessCompletionNotification,
    ProcessEvent,
    ProcessNotificationDeliveryStoppedError,
    ProcessNotificationUnsupportedError,
    Visibility,
    WorkflowActivity,
    main_loop_id,
    validate_event,
)
from ._arguments import check_id, check_sequence, check_type
from ._commit import Placement
from ._core import Core
from ._loop import Loop
from ._records import check_owner, check_record, event_record, notification_record
from ._replay import Replay, Watch
from ._subscription import EphemeralEvent, EventFilter, Subscription
from .journal import Journal, Record

# The reference's live set: what a model can be told at once without losing sight of it.
DEFAULT_CAPACITY = 64

# A page is a bounded piece of the writer's time.
PAGE = 256


@final
class Session:
    """A durable session; `open_session` makes one, and there is no other way.

    It is the courier's `DeliverySink`, and the `LifecyclePublisher`, `CompletionNotifier` and
    `WorkflowActivityPublisher` of other producers.  Every method that writes raises, beside what it names:
    `JournalUnavailableError` (unknown: call again), `JournalFencedError` (another opener has taken the session; stop),
    `SessionClosedError`.  Cancelled, its outcome is unknown: call again with the same ids.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    @property
    def session_id(self) -> UUID:
        """The session's id, which its journal keeps."""
        return self._core.session_id

    # --- loops

    def open_loop(self, loop_id: UUID | None = None, *, capacity: int = DEFAULT_CAPACITY, native: bool = True) -> Loop:
        """Open a loop, or return the one of that id that is open (as it is); sync.

        None is the main loop, whose id is the same for the session's whole life.  What was waiting for the loop is
        offered first, at most `capacity` notices at a time.  A loop with `native=False` takes no notices: they wait in
        the journal.  Raises `InvalidArgumentError` for what is no UUID, or a capacity below 1.
        """
        if loop_id is not None:
            check_id("loop_id", loop_id)
        if type(capacity) is not int or capacity < 1:
            raise InvalidArgumentError("capacity", "must be a whole number, at least 1")
        owner = Owner(session_id=self.session_id, loop_id=main_loop_id(self.session_id) if loop_id is None else loop_id)
        return self._core.open_inbox(owner, capacity=capacity, native=native).loop

    async def loops(self) -> list[tuple[UUID, int]]:
        """Each loop that has pending notifications, open or not, with how many; in order of the id."""
        return await self._core.ask(lambda journal: journal.loops())

    async def unacknowledged(self) -> list[Record]:
        """Every notification that nothing consumes, of all loops, in order of the journal."""
        found: list[Record] = []
        for loop_id, _ in await self.loops():
            after = 0
            while page := await self._core.ask(partial(_pending, loop_id, after)):
                found += page
                after = page[-1].seq
        return sorted(found, key=lambda record: record.seq)

    async def unfinished(self) -> list[Record]:
        """For each process that has neither a last word nor a notification here, its first lifecycle record."""
        return await self._core.ask(lambda journal: journal.unfinished())

    async def acknowledge(self, command_id: UUID) -> None:
        """Settle a notification whose loop never comes back, wherever it waits; before it comes, too.

        Durable on return, and twice is harmless.  Raises `InvalidArgumentError` for what is no UUID.
        """
        check_id("command_id", command_id)
        await self._core.consume(command_id, None)

    # --- producers

    async def deliver(self, unit: Sequence[NewRecord]) -> list[AppendResult]:
        """Append finished records as one; see `DeliverySink`.

        Raises what is wrong with a record that is not what its bytes say, or is another session's (see
        `check_record`); nothing of the unit is written then.
        """
        self._core.check_open()
        check_type("unit", unit, Iterable)
        records = tuple(unit)  # an iterator, too, has its records but once
        for record in records:
            check_record(record, self.session_id)
        return await self._core.append(records)

    async def notify_process_completion(self, notification: ProcessCompletionNotification) -> Disposition:
        """Make the notification durable, then offer it to its loop.

        ACCEPTED: it is new, and on offer.  DUPLICATE: the journal has it, or its consumption, already.  Raises
        `ProcessLifecycleValidationError` and `ProcessNotificationOwnerMismatchError` (nothing was written),
        `IdempotencyCollisionError` (another payload has its id), and, where it is durable but its loop cannot take it
        now, `LoopNotFoundError`, `ProcessNotificationDeliveryStoppedError` (full, closed, or the journal cannot be
        read) or `ProcessNotificationUnsupportedError`.
        """
        check_type("notification", notification, ProcessCompletionNotification)
        notification.validate()
        check_owner(notification.session_id, self.session_id)
        record = notification_record(notification)
        with self._core.handler.awaiting(notification.command_id) as awaited:
            result = await self._core.publish(record)
            return Disposition.DUPLICATE if isinstance(result, Duplicate) else _answer(await awaited.settled())

    async def publish_process_lifecycle(self, event: ProcessEvent) -> None:
        """Make the event durable and broadcast it; a retry with the same bytes changes nothing.

        Raises `ProcessNotificationOwnerMismatchError`, `InvalidEventError`, `IdempotencyCollisionError`, and
        `SecondTerminalError` where the process has its last word already.
        """
        await self.publish_event(event)

    async def publish_workflow_activity(self, activity: WorkflowActivity) -> None:
        """Make the activity durable and broadcast it, made at its `occurred_at`, so that a retry is equal.

        Raises as `publish_process_lifecycle`.  What is in flight when the session closes is still told.
        """
        check_type("activity", activity, WorkflowActivity)
        check_type("header", activity.header, EventHeader)
        check_owner(activity.header.session_id, self.session_id)
        header = attrs.evolve(activity.header, created_at=activity.occurred_at)
        await self.publish_event(attrs.evolve(activity, header=header))

    async def publish_event(self, event: Event | EphemeralEvent) -> None:
        """Make the event durable and broadcast it; an `EphemeralEvent` is only broadcast, as sequence 0.

        With `cause.command_id` it also consumes that notification, if its own loop is the notification's.  Raises as
        `publish_process_lifecycle`; `InvalidEventError` for an internal one.
        """
        self._core.check_open()
        _check_event(event)
        check_type("header", event.header, EventHeader)
        check_owner(event.header.session_id, self.session_id)
        if isinstance(event, EphemeralEvent):
            _check_public(event)
            if event.header.loop_id is not None:
                check_id("loop_id", event.header.loop_id)
            self._core.handler.hub.send(event)
            await checkpoint()
            return
        validate_event(event)
        _check_public(event)
        await self._core.publish(event_record(event))

    # --- readers

    def subscribe(self, filter: EventFilter) -> Subscription:  # noqa: A002 -- the field's word, and the public name
        """What comes from now on, as an async context manager whose value is an async iterator of `Delivery`.

            async with session.subscribe(EventFilter(enduring=LoopScope.all())) as deliveries:
                async for delivery in deliveries: ...

        Raises `InvalidArgumentError` for what is no `EventFilter`.
        """
        check_type("filter", filter, EventFilter)
        return Subscription(self._core.handler.hub.feed(filter))

    def replay(self, after: int = 0) -> Replay:
        """Every public event after that sequence, up to the journal's end.

        Raises `InvalidArgumentError` for what is no sequence.
        """
        check_sequence("after", after)
        return Replay(self._core.read, after)

    def watch(self, filter: EventFilter, after: int = 0) -> Watch:  # noqa: A002 -- the field's word, and the public name
        """Every wanted event after that sequence, and then what comes, without a gap.

        Raises `InvalidArgumentError` for what is no `EventFilter` or no sequence.
        """
        check_type("filter", filter, EventFilter)
        check_sequence("after", after)
        return Watch(self._core.read, self._core.handler.hub.feed, filter, after)


def _pending(loop_id: UUID, after: int, journal: Journal) -> list[Record]:
    return journal.pending(loop_id, after, PAGE)


def _check_event(value: object) -> None:
    if not isinstance(value, EphemeralEvent | Event):
        raise InvalidEventError(type(value).__name__, "", "is not a known event type")


def _check_public(event: Event | EphemeralEvent) -> None:
    if event.header.visibility is not Visibility.PUBLIC:
        raise InvalidEventError(type(event).__name__, "visibility", "is invalid")


def _answer(placement: Placement | None) -> Disposition:
    """What a producer is told of a notification that is new and durable."""
    match placement:
        case Placement.OFFERED:
            return Disposition.ACCEPTED
        case Placement.SETTLED:
            return Disposition.DUPLICATE
        case Placement.NOT_FOUND:
            raise LoopNotFoundError("no loop of that id is open; the notification waits in the journal")
        case Placement.UNSUPPORTED:
            raise ProcessNotificationUnsupportedError("the loop takes no notices; the notification waits")
        case Placement.CLOSED:
            raise ProcessNotificationDeliveryStoppedError("the loop is closed; the notification waits in the journal")
        case Placement.FULL:
            raise ProcessNotificationDeliveryStoppedError("the loop is full; the notification waits in the journal")
        case Placement.UNREAD | Placement.COMING | None:
            raise ProcessNotificationDeliveryStoppedError(
                "it is not known whether the loop has it on offer yet, for the journal could not be read back; the "
                "notification waits in the journal"
            )
