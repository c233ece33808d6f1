"""Reading events from the journal: to its end (`Replay`), or on into what comes (`Watch`).

Both are plain objects: nothing runs between two of their steps, and leaving one early leaks nothing.  A cancelled step
has taken nothing; the next one goes on where it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias, final

from anyio.lowlevel import checkpoint

from ._errors import SessionClosedError, SubscriptionLostError
from ._hub import public_delivery
from ._subscription import Delivery, EventFilter, Feed
from .journal import Record

# A page is a bounded piece of the writer's time, so that appends get their turn between two.
PAGE = 256

Read: TypeAlias = Callable[[int, int], Awaitable[list[Record]]]


@final
class Replay:
    """Every public event after a sequence, in order, up to the journal's end; made by `Session.replay`."""

    def __init__(self, read: Read, after: int) -> None:
        self._read = read
        self._after = after
        self._page: deque[Delivery] = deque()
        self._ended = False

    def __aiter__(self) -> Replay:
        return self

    async def __anext__(self) -> Delivery:
        """The next event.  A checkpoint.  Raises `JournalUnavailableError`: call again to go on."""
        await checkpoint()
        while not self._page:
            if self._ended:
                raise StopAsyncIteration
            await self._turn()
        return self._page.popleft()

    async def aclose(self) -> None:
        """Read no more.  Idempotent; a checkpoint."""
        self._ended = True
        self._page.clear()
        await checkpoint()

    async def _turn(self) -> None:
        after = self._after
        records = await self._read(after, PAGE)
        if self._after != after:
            return  # another task that iterates, too, has taken this page
        if records:
            self._after = records[-1].seq
        self._ended = self._ended or len(records) < PAGE
        self._page.extend(delivery for record in records if (delivery := public_delivery(record)) is not None)


@final
class Watch:
    """Every wanted event after a sequence: first from the journal, then as it comes, each once, without a gap.

    Made by `Session.watch`.  A reader that falls behind is not lost: it goes back to the journal, and misses ephemeral
    events alone.  It ends when it is closed and when the session is.
    """

    def __init__(self, read: Read, feed: Callable[[EventFilter], Feed], event_filter: EventFilter, after: int) -> None:
        self._read = read
        self._feed = feed
        self._filter = event_filter
        self._after = after
        self._page: deque[Delivery] = deque()
        self._behind = True
        self._live: Feed | None = None
        self._closed = False

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Delivery:
        """The next event; waits for one.  A checkpoint.  Raises `JournalUnavailableError`: call again to go on."""
        await checkpoint()
        while not self._closed:
            if self._page:
                return self._page.popleft()
            live = self._listen()
            if self._behind:
                try:
                    await self._turn()
                except SessionClosedError:
                    break
                continue
            try:
                delivery = await live.take()
            except SubscriptionLostError:
                self._live = None
                self._behind = True
                continue
            if delivery is None:
                break
            # What was committed between the subscription and the last page is in both.
            if delivery.journal_seq == 0:
                return delivery
            if delivery.journal_seq > self._after:
                self._after = delivery.journal_seq
                return delivery
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Watch no more.  Idempotent; a checkpoint."""
        self._closed = True
        self._page.clear()
        if self._live is not None:
            self._live.end()
        await checkpoint()

    def _listen(self) -> Feed:
        """The live half: it begins before the page that is read next, so nothing can fall between the two."""
        if self._live is None:
            self._live = self._feed(self._filter)
            self._live.start()
        return self._live

    async def _turn(self) -> None:
        after = self._after
        records = await self._read(after, PAGE)
        if self._after != after:
            return  # another task that iterates, too, has taken this page
        if records:
            self._after = records[-1].seq
        self._behind = len(records) == PAGE
        for record in records:
            delivery = public_delivery(record)
            if delivery is not None and self._filter.admits(delivery.event.header, ephemeral=False):
                self._page.append(delivery)
