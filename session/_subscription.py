"""What a subscriber asks for, and the buffer that it reads from.

Rules
- Sending never waits for a subscriber.  A full buffer drops what may be dropped (ephemeral), and for an enduring event
  ends the subscription: what is queued stays readable, then `SubscriptionLostError` names where to resume.
- Internal events reach nobody.  Events of the session itself (no loop) reach everybody.  A loop's events reach whoever
  has asked for that loop, in the event's class.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import final
from uuid import UUID

import anyio
import attrs
from anyio.lowlevel import checkpoint

from ..notifier import Event, EventHeader, InvalidArgumentError, LastwordError, Visibility
from ._arguments import check_id
from ._errors import SubscriptionLostError, SubscriptionUseError

# The reference's size: enough for a burst, small enough that a reader that sleeps is noticed.
BUFFER = 256


@attrs.frozen(kw_only=True)
class EphemeralEvent:
    """A base for a caller's own events that nobody needs twice (progress, a token): never journaled, and droppable."""

    header: EventHeader


_NONE: frozenset[UUID] = frozenset()


def _is_set_of_ids(_: object, __: object, value: object) -> None:
    if value is not None and not isinstance(value, frozenset):
        raise InvalidArgumentError("loops", "use LoopScope.all(), .none(), or .of(loop_id, ...)")


@final
@attrs.frozen
class LoopScope:
    """Which loops: `LoopScope.all()`, `.of(*ids)`, `.none()`."""

    _loops: frozenset[UUID] | None = attrs.field(default=_NONE, validator=_is_set_of_ids)

    @classmethod
    def all(cls) -> LoopScope:
        """Every loop, the ones to come too."""
        return cls(None)

    @classmethod
    def of(cls, *loop_ids: UUID) -> LoopScope:
        """These loops, by their ids.  Raises `InvalidArgumentError` for what is no UUID."""
        for loop_id in loop_ids:
            check_id("loop_ids", loop_id)
        return cls(frozenset(loop_ids))

    @classmethod
    def none(cls) -> LoopScope:
        """No loop."""
        return cls(_NONE)

    def __contains__(self, loop_id: object) -> bool:
        return self._loops is None or loop_id in self._loops


_NO_LOOP = LoopScope.none()


def _is_scope(_: object, field: attrs.Attribute[LoopScope], value: object) -> None:
    if not isinstance(value, LoopScope):
        raise InvalidArgumentError(field.name, "must be LoopScope.all(), .none(), or .of(loop_id, ...)")


@final
@attrs.frozen(kw_only=True)
class EventFilter:
    """Which loops' events to deliver, by class; the session's own events always come.

    The default is these alone: to hear of processes say `EventFilter(enduring=LoopScope.all())`.  Raises
    `InvalidArgumentError` for what is no `LoopScope`.
    """

    enduring: LoopScope = attrs.field(default=_NO_LOOP, validator=_is_scope)
    ephemeral: LoopScope = attrs.field(default=_NO_LOOP, validator=_is_scope)

    def admits(self, header: EventHeader, *, ephemeral: bool) -> bool:
        """Whether an event with this header, in this class, is to be delivered."""
        if header.visibility is not Visibility.PUBLIC:
            return False
        if header.loop_id is None:
            return True
        return header.loop_id in (self.ephemeral if ephemeral else self.enduring)


@final
@attrs.frozen
class Delivery:
    """An event and its place in the journal, from 1; 0 for an ephemeral event, which has none."""

    event: Event | EphemeralEvent
    journal_seq: int


@final
class Subscription:
    """An iterator of `Delivery`, made by `Session.subscribe`; it takes part while its `async with` block runs.

    It ends when it is closed and when the session is; with `SubscriptionLostError` when it fell behind; with
    `JournalFencedError` when another opener has taken the session.  What is queued by then is delivered first.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._entered = False

    async def __aenter__(self) -> Subscription:
        if self._entered:
            raise SubscriptionUseError("the subscription was entered before; subscribe once more for another block")
        self._entered = True
        self._feed.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._feed.end()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Delivery:
        """The next delivery; waits for one.  A checkpoint.  Cancelled: nothing is taken.

        Raises `SubscriptionUseError` where the block was never entered: nothing would ever come.
        """
        if not self._entered and not self._feed.ended:
            raise SubscriptionUseError("the subscription was not entered; iterate it inside its `async with` block")
        delivery = await self._feed.take()
        if delivery is None:
            raise StopAsyncIteration
        return delivery

    async def aclose(self) -> None:
        """Take part no longer; what is queued stays readable.  Idempotent; a checkpoint."""
        self._feed.end()
        await checkpoint()


class Feed:
    """A subscription's inside: its filter and its buffer, which the hub fills.  Sync but for `take`."""

    def __init__(
        self, event_filter: EventFilter, attach: Callable[[Feed], int], detach: Callable[[Feed], None]
    ) -> None:
        self._filter = event_filter
        self._attach = attach
        self._detach = detach
        self._buffer: deque[Delivery] = deque()
        self._ended = False
        self._error: Callable[[], LastwordError] | None = None
        self._changed = anyio.Event()
        self._last = 0

    @property
    def ended(self) -> bool:
        """Whether it takes part no longer."""
        return self._ended

    async def take(self) -> Delivery | None:
        """The next delivery; waits for one; None at the end, or the error that ended it.  A checkpoint."""
        await checkpoint()
        while not self._buffer:
            if self._error is not None:
                raise self._error()
            if self._ended:
                return None
            await self._changed.wait()
        return self._buffer.popleft()

    def start(self) -> None:
        """Take part, from the next event on; not where it was ended before."""
        if not self._ended:
            self._last = self._attach(self)

    def offer(self, delivery: Delivery, *, ephemeral: bool) -> None:
        """Queue the event if it is wanted and there is room; see the rules above."""
        if self._ended or not self._filter.admits(delivery.event.header, ephemeral=ephemeral):
            return
        if len(self._buffer) < BUFFER:
            self._buffer.append(delivery)
            self._last = max(self._last, delivery.journal_seq)
            self._tell()
        elif not ephemeral:
            resume_after = self._last
            self.end(lambda: SubscriptionLostError(resume_after))

    def end(self, error: Callable[[], LastwordError] | None = None) -> None:
        """Take part no longer; the first cause is the one that is told."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._detach(self)
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
