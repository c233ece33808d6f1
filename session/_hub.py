"""Who is listening: the hub hands each event to every subscriber that wants it, in the journal's order.

It is called by the commit handler alone (for ephemeral events by their publisher), and never waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..notifier import EventDecodeError, InvalidEventError, LastwordError, RecordKind, Visibility, decode_event
from ._subscription import Delivery, EphemeralEvent, EventFilter, Feed
from .journal import Record

logger = logging.getLogger(__name__)


class Hub:
    """The subscribers of one session."""

    def __init__(self) -> None:
        self._feeds: dict[Feed, None] = {}
        self._tip = 0
        self._ended: Callable[[], LastwordError] | None = None
        self._closed = False

    def feed(self, event_filter: EventFilter) -> Feed:
        """A feed that has yet to start."""
        return Feed(event_filter, self._attach, self._detach)

    def handle(self, record: Record) -> None:
        """A record is durable: hand it on if it is a public event."""
        self._tip = record.seq
        if not self._feeds:
            return
        delivery = public_delivery(record)
        if delivery is not None:
            for feed in tuple(self._feeds):
                feed.offer(delivery, ephemeral=False)

    def send(self, event: EphemeralEvent) -> None:
        """Hand on an event that is not journaled."""
        delivery = Delivery(event, 0)
        for feed in tuple(self._feeds):
            feed.offer(delivery, ephemeral=True)

    def opened_at(self, seq: int) -> None:
        """The ledger's end when the session was opened."""
        self._tip = seq

    def close(self, error: Callable[[], LastwordError] | None = None) -> None:
        """End every subscription, the ones to come too, with `error` if there is one."""
        if not self._closed:
            self._closed = True
            self._ended = error
            for feed in tuple(self._feeds):
                feed.end(error)

    def _attach(self, feed: Feed) -> int:
        self._feeds[feed] = None
        if self._closed:
            feed.end(self._ended)
        return self._tip

    def _detach(self, feed: Feed) -> None:
        self._feeds.pop(feed, None)


def public_delivery(record: Record) -> Delivery | None:
    """What a subscriber may see of a record: None for commands, fences, consumptions and internal events."""
    if record.kind is not RecordKind.EVENT or not record.public:
        return None
    try:
        event = decode_event(record.payload)
    except (EventDecodeError, InvalidEventError):
        # What is written here was checked on its way in: somebody else's hand, or a later version's event.
        logger.exception("the event at sequence %d cannot be read and is left out", record.seq)
        return None
    return Delivery(event, record.seq) if event.header.visibility is Visibility.PUBLIC else None
