"""The hosts that the stateful model plays with: real sessions on one real journal file, and a courier.

Rules
- Everything here runs in the event loop, and is called from the machine's own thread by its portal.
- Time is the clock's; the journal works inline.  So a bounded number of turns brings everything to rest.
- Whatever is done is done on the present host; those that were taken over are zombies, and only try to write.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import UUID

import anyio
import attrs
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal
from anyio.lowlevel import checkpoint, current_token
from proof_ground import SqliteGround
from proof_model import LazyOutbox
from session_ground import FaultyJournal
from session_values import SESSION

from lastword.adapters.testing import ManualClock
from lastword.notifier import Courier, JournalUnavailableError
from lastword.session import Loop, Notice, Session, Subscription, open_session
from lastword.session.journal import Record

# More turns of the event loop than the longest chain of steps between two waits.
_TURNS = 40


@attrs.define
class OpenLoop:
    """A loop of the present host, and the notices that the agent has of it."""

    loop: Loop
    notices: dict[UUID, Notice] = attrs.field(factory=dict[UUID, Notice])


class Unanswered:
    """What a call comes to that was cancelled, or that the journal was not there for: nobody knows."""


UNANSWERED = Unanswered()


class Host:
    """One incarnation: a session, its loops, and what was handed out by it."""

    def __init__(self, journal: FaultyJournal, clock: ManualClock) -> None:
        self.journal = journal
        self.clock = clock
        self.loops: dict[UUID, OpenLoop] = {}
        self.closed: set[UUID] = set()
        self.handed_out: set[UUID] = set()
        self.fence = 0
        self.subscription: Subscription | None = None
        self.read_until = 0
        self.session: Session
        self._manager: AbstractAsyncContextManager[Session] = open_session(
            journal, session_id=SESSION, clock=clock, rng=random.Random(1), inline=True
        )

    async def open(self) -> None:
        """Become the journal's holder."""
        self.session = await self._manager.__aenter__()

    async def close(self) -> None:
        """Leave; where nothing can be written any more, nothing is."""
        await self._manager.__aexit__(None, None, None)


class Hosts:
    """The disk, the present host with its courier, and the zombies."""

    def __init__(self, backend: str) -> None:
        name = type(current_token().native_token).__module__
        assert name.startswith("trio") == (backend == "trio"), f"this does not run on {backend}"
        self.clock = ManualClock()
        self.outbox = LazyOutbox()
        self.ground = SqliteGround(None)
        self.zombies: list[Host] = []
        self.host: Host
        self._courier: anyio.CancelScope | None = None
        self._tasks: TaskGroup

    # --- lives

    async def serve(self, *, task_status: Any) -> None:
        """Hold the group in which couriers run."""
        async with anyio.create_task_group() as self._tasks:
            task_status.started()
            await anyio.sleep_forever()

    async def open(self) -> None:
        """A new host opens the journal as it finds it."""
        self.host = Host(FaultyJournal(self.ground.journal()), self.clock)
        await self.host.open()
        courier = Courier(self.outbox, self.host.session, clock=self.clock, rng=random.Random(1))
        self._courier = anyio.CancelScope()
        self._tasks.start_soon(self._carry, courier, self._courier)
        await self.settle()

    async def _carry(self, courier: Courier, scope: anyio.CancelScope) -> None:
        with scope:
            await courier.run()

    async def _stop_courier(self) -> None:
        assert self._courier is not None
        self._courier.cancel()
        await self.settle()

    async def crash(self) -> None:
        """The power goes: the files as they are, the log included, are all that is left."""
        assert self._courier is not None
        self._courier.cancel()  # it is waiting somewhere, and does nothing more
        image = self.ground.image()
        await self.settle()
        self.outbox.crash()
        for host in (self.host, *self.zombies):
            await host.close()
        self.zombies.clear()
        self.ground.close()
        self.ground = SqliteGround(image)
        await self.open()

    async def take_over(self) -> None:
        """A new host opens the journal while the old one is alive, and has not noticed."""
        await self._stop_courier()
        self.zombies.append(self.host)
        await self.open()

    async def end(self) -> None:
        """Close everything."""
        await self._stop_courier()
        for host in (self.host, *self.zombies):
            await host.close()
        self.ground.close()
        self._tasks.cancel_scope.cancel()

    # --- acts

    async def settle(self) -> None:
        """Let happen what can; while the journal is there, move the clock as far as anybody waits for it."""
        await self._turns()
        while self.clock.next_deadline is not None and not self.host.journal.down:
            self.clock.advance(self.clock.next_deadline - self.clock.monotonic())
            await self._turns()

    async def _turns(self) -> None:
        """Turn the event loop until the courier has got no further in so many turns."""
        before = -1
        while before != (before := len(self.outbox.waiting())):
            for _ in range(_TURNS):
                await checkpoint()

    async def call(self, act: Callable[[], Awaitable[object]], *, cancelled: bool) -> object:
        """Call; `UNANSWERED` where it was cancelled or the journal was not there, else what it returned or raised."""
        with anyio.CancelScope() as scope:
            if cancelled:
                scope.cancel()
            try:
                return await act()
            except JournalUnavailableError:
                return UNANSWERED
            except Exception as error:
                return error
        return UNANSWERED

    async def receive(self, loop: Loop) -> Notice | None:
        """The loop's next notice, None where there is none: by waiting, so that a window that failed is read again."""
        got: list[Notice] = []

        async def receive() -> None:
            got.append(await loop.receive())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            await self.settle()
            tasks.cancel_scope.cancel()
        return got[0] if got else None

    def ledger(self) -> tuple[Record, ...]:
        """What is really in the file."""
        return self.ground.ledger()


def start_hosts(portal: BlockingPortal, backend: str) -> Hosts:
    """The first host on an empty disk."""

    async def start() -> Hosts:
        return Hosts(backend)

    hosts = portal.call(start)
    portal.start_task(hosts.serve)
    portal.call(hosts.open)
    return hosts
