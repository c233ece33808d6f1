"""One life of a simulated host: the real session, loops, courier, store and teller, in the order of the real runtime.

Rules
- Everything is decided by the disk, the witness, the number of the life and the plan: the same life again has the same
  effects.  Ids, times and jitter are no exception.
- Nothing waits for real time: when every task waits, the clock is moved to the next deadline; when there is none, the
  life has come to rest.
- What is modelled and not real: the operating system, and which process is started when.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import selectors
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import anyio
import attrs
from proof_effects import (
    CALLER_FAULTS,
    Crash,
    Happening,
    Kind,
    Power,
    PoweredJournal,
    PoweredOutbox,
    powered,
)
from proof_ground import Ground, store_connection, store_image, store_key
from proof_scenarios import Fate, Scenario
from proof_witness import BrokenPromiseError, Promise, PromisedUnit, Witness, demand
from session_values import CREATED, LOOP_B, MAIN, SESSION, Job

from lastword.adapters.testing import ManualClock
from lastword.notifier import (
    Cause,
    Courier,
    IdempotencyCollisionError,
    JournalFencedError,
    JournalUnavailableError,
    LastwordError,
    LifecycleKind,
    NewRecord,
    Owner,
    ProcessNotificationDeliveryStoppedError,
    ProcessState,
    RecordKind,
    SecondTerminalError,
    TerminalReason,
    process_ids,
)
from lastword.session import EventFilter, Loop, LoopScope, Session, open_session
from lastword.session._records import event_record, notification_record
from lastword.session.journal import Record
from lastword.supervisor import Containment
from lastword.supervisor._outbox import StoreOutbox
from lastword.supervisor._outcome import Outcome
from lastword.supervisor._record import ProcessRecord
from lastword.supervisor._rows import SELECT_RECORDS, SELECT_UNITS, to_record
from lastword.supervisor._store import STORE_ERRORS, Store
from lastword.supervisor._teller import Teller
from lastword.supervisor._works import Works

# More turns than any life needs to come to rest; a life that takes them never will.
_MANY = 300

_OWNER = Owner(session_id=SESSION, loop_id=MAIN)


class _QuietSelector(selectors.DefaultSelector):
    """Never waits: where the loop would, everything is at rest."""

    quiet: Callable[[], None] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout != 0:
            assert self.quiet is not None, "everything waits, and nobody for that"
            self.quiet()
        return ready


class QuietLoop(asyncio.SelectorEventLoop):
    """An event loop that tells when all its tasks wait.  It takes tasks in turn, so a life is repeatable."""

    def __init__(self) -> None:
        self._quiet_selector = _QuietSelector()
        super().__init__(self._quiet_selector)

    async def wait_quiet(self) -> None:
        """Return when every other task waits."""
        quiet: asyncio.Future[None] = self.create_future()

        def now() -> None:
            if not quiet.done():
                quiet.set_result(None)

        self._quiet_selector.quiet = now
        try:
            await quiet
        finally:
            self._quiet_selector.quiet = None


@attrs.frozen
class Disk:
    """What a life finds: images of the journal and the store."""

    journal: object | None = None
    store: bytes | None = None


@attrs.frozen
class Left:
    """What a crash leaves: the disk, what is in its journal and its outbox, and what the witness knows."""

    disk: Disk
    ledger: tuple[Record, ...]
    held: frozenset[tuple[UUID, ...]]
    witness: Witness

    def key(self) -> object:
        """Equal where what follows is."""
        return self.ledger, store_key(self.disk.store), self.witness.key()

    def judge(self) -> None:
        """Raise `BrokenPromiseError` where the crash has broken a promise."""
        self.witness.judge_always(self.ledger, set(self.held))


@attrs.frozen
class Ended:
    """How a life has gone: its effects, what it left, and what a crash at each effect would have left."""

    power: Power
    left: Left
    crashed: bool
    photographs: list[Left]


class _BugHandler(logging.Handler):
    """Collects what the library logs with a traceback: a bug of somebody's."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.bugs: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        # The store's own trouble, which is acted out here, is logged with its traceback at the odd place.
        error = None if record.exc_info is None else record.exc_info[1]
        if error is not None and not isinstance(error, sqlite3.OperationalError):
            self.bugs.append(f"{record.getMessage()}: {error!r}")


@functools.cache
def fixed_job(number: int, loop_id: UUID = MAIN) -> Job:
    """The process of that number, the same in every life."""
    job = Job(loop_id, handle=f"process-{number}")
    job.ids = process_ids(UUID(int=0x018F_0000_0000_7000_8000_0000_0000_0000 + (number << 16)))
    return job


_STRANGE = 100


class Life:
    """One life, from the opening to the rest or the crash."""

    def __init__(
        self,
        scenario: Scenario,
        ground: Ground,
        disk: Disk,
        witness: Witness,
        number: int,
        plan: tuple[Happening, ...],
        *,
        photographed: bool = False,
    ) -> None:
        self.scenario = scenario
        self.ground = ground
        self.witness = witness
        self.number = number
        self.power = Power(plan)
        self.clock = ManualClock()
        self.clock.elapsed = 1000.0 * number
        self.waiting: list[anyio.Event] = []
        self.loops: list[Loop] = []
        self._connection = store_connection(disk.store)
        self._released = False
        self._taken_over_at: int | None = None
        self.power.take_over = self._take_over
        self.power.photograph = self._photograph if photographed else None
        self._photographs: list[Left] = []
        self._store = disk.store
        self._held: dict[tuple[UUID, ...], str | None] = self._stored_units()
        self._last_offered: dict[UUID, int] = {}
        self._heard: list[int] = []
        self._bugs = _BugHandler()

    async def run(self) -> Ended:
        """Live; raises `BrokenPromiseError` where a promise is broken."""
        crashed = False
        logger = logging.getLogger("lastword")
        logger.addHandler(self._bugs)
        try:
            with powered(self.power, lambda: self._connection, self.scenario.journal_turns):
                try:
                    await self._live()
                except BaseException as error:
                    broken = _find(error)
                    if broken is not None:
                        raise broken from None
                    if not self.power.dead:
                        raise
                    crashed = True
            return self._end(crashed=crashed)
        finally:
            logger.removeHandler(self._bugs)
            self._connection.let_go()
            self.ground.close()

    def _end(self, *, crashed: bool) -> Ended:
        demand(Promise.FORESEEN, not self._bugs.bugs, "; ".join(self._bugs.bugs))
        self._connection.power = None
        self._sees_store()
        left = self._left()
        ledger, held = left.ledger, self._held
        taken_at = self._taken_over_at
        demand(Promise.FENCED, taken_at in {None, len(ledger)}, "something was written after the journal was taken")
        left.judge()
        if not crashed:
            quarantined = {name: reason for name, reason in held.items() if reason is not None}
            demand(Promise.OUTBOX_ENDS, len(quarantined) == len(held), "a unit is in the outbox after the end")
            self.witness.judge_end(ledger, quarantined, self.ground.epoch())
        return Ended(self.power, left, crashed, self._photographs)

    def _left(self) -> Left:
        return Left(Disk(self.ground.image(), self._store), self.ground.ledger(), frozenset(self._held), self.witness)

    def _photograph(self) -> None:
        """What the disk holds at this moment is what a crash would leave: nothing else outlives one."""
        self._photographs.append(attrs.evolve(self._left(), witness=self.witness.copy()))

    # --- the order of the runtime

    async def _live(self) -> None:
        async with AsyncExitStack() as stack:
            zombie = await self._open_zombie(stack)
            self.witness.openings += 1
            session = await stack.enter_async_context(self._open("journal"))
            store = Store(None, SESSION)
            self._connection.power = self.power
            self._connection.committed = self._sees_store
            self._sees_store()
            outbox = StoreOutbox(store)
            works = cast(
                "Works", SimpleNamespace(store=store, outbox=outbox, clock=self.clock, rng=random.Random(self.number))
            )
            records, units = store.load()
            outbox.restore(units)
            for record in records:
                if record.outcome is None:
                    await self._conclude(works, Teller(works, record), ProcessState.LOST_ON_RESTORE)
            loop = session.open_loop(capacity=self.scenario.capacity)
            self.loops.append(loop)
            self.power.ready = True
            courier = Courier(
                PoweredOutbox(outbox, self.power), session, clock=self.clock, rng=random.Random(self.number)
            )
            async with anyio.create_task_group() as tasks:
                if zombie is not None:
                    tasks.start_soon(self._zombie, *zombie)
                tasks.start_soon(self._until_taken_over, self._agent, loop)
                tasks.start_soon(self._until_taken_over, self._listen, session)
                known = {record.handle for record in records}
                tasks.start_soon(self._until_taken_over, self._producers, tasks, session, works, known)
                tasks.start_soon(courier.run)
                await self._rest()
                tasks.cancel_scope.cancel()
            if self._taken_over_at is not None:
                stopped = courier.fenced is not None or not outbox.heads()
                demand(Promise.FENCED, stopped, "the journal was taken, and the courier has not noticed")
                self.power.dead = True
                raise Crash("taken over")
            events = [row.seq for row in self.ground.ledger() if row.kind is RecordKind.EVENT and row.public]
            demand(Promise.HEARD, self._heard == events, f"{events} is there, {self._heard} was heard")
            demand(Promise.OUTBOX_ENDS, not outbox.heads(), "all is quiet, and a unit waits in the outbox")
            self.loops.clear()
            # A closing that fails is a crash to whoever opens next, and crashes come here as everywhere.
            self.power.ready = False
            await store.aclose()
        if self.power.dead:
            raise Crash("while closing")

    def _open(self, name: str) -> Any:
        return open_session(
            PoweredJournal(self.ground.journal(), self.power, name),
            session_id=SESSION,
            clock=self.clock,
            rng=random.Random(self.number),
            inline=True,
        )

    def _take_over(self) -> None:
        """Another host opens the journal, and is gone before it has written."""
        self.witness.openings += 1
        self.ground.journal().open(SESSION)
        self._taken_over_at = len(self.ground.ledger())

    async def _until_taken_over(self, act: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Act; when the journal is taken, whoever wants something of it is told so, and stops."""
        try:
            await act(*args)
        except JournalFencedError:
            demand(Promise.FENCED, self._taken_over_at is not None, "the newest holder was refused")

    async def _rest(self) -> None:
        """Return when nothing more happens, however far the clock is moved."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, QuietLoop)
        for _ in range(_MANY):
            await loop.wait_quiet()
            if self.clock.next_deadline is None and self._taken_over_at is None:
                self._judge_live()
            if self.waiting:
                for event in self.waiting:
                    event.set()
                self.waiting.clear()
            elif self.clock.next_deadline is not None:
                self.clock.advance(self.clock.next_deadline - self.clock.monotonic())
            else:
                return
        raise BrokenPromiseError(Promise.FORESEEN, "the life does not come to rest")

    def _judge_live(self) -> None:
        ledger = self.ground.ledger()
        for loop in self.loops:
            pending = [
                record
                for record in ledger
                if record.kind is RecordKind.COMMAND
                and record.loop_id == loop.loop_id
                and not any(
                    other.consumes == record.record_id and other.loop_id in {None, record.loop_id} for other in ledger
                )
            ]
            expected = min(loop.capacity, len(pending))
            demand(Promise.LIVE, loop.held == expected, f"{loop.held} in the window, {len(pending)} pending")

    async def _quiet(self) -> None:
        """Wait until nothing else happens."""
        event = anyio.Event()
        self.waiting.append(event)
        await event.wait()

    async def _call(self, name: str, act: Callable[[], Awaitable[object]]) -> None:
        """Call until it has returned: it may be cancelled, and its journal may be down."""
        kind = self.power.at(name, CALLER_FAULTS)
        if kind is not None:
            with anyio.CancelScope() as scope:
                if kind is Kind.CANCELLED_BEFORE:
                    scope.cancel()
                else:
                    self.power.cancel_next = scope
                await act()
            if not scope.cancelled_caught:
                self.power.check()
                return
            await self._quiet()
        while True:
            try:
                await act()
            except JournalUnavailableError:
                await self.clock.sleep(0.01)
            else:
                self.power.check()
                return

    # --- the supervisor

    async def _producers(self, tasks: Any, session: Session, works: Works, known: set[str]) -> None:
        if self.scenario.collides:
            late = fixed_job(0).event_record(LifecycleKind.STARTED, created_at=CREATED.replace(hour=16))
            await self._finished(session, "somebody's Started", late)
        if self.scenario.supersedes:
            await self._finished(session, "somebody's last word", fixed_job(0).event_record(LifecycleKind.LOST))
        if self.scenario.settled is not None:
            await self._settle(session, self.scenario.settled)
        if self.scenario.stranger is not None:
            tasks.start_soon(self._until_taken_over, self._stranger, session, tasks)
        for number, fate in enumerate(self.scenario.fates):
            if fixed_job(number).handle not in known:
                await self._process(works, number, fate)

    async def _process(self, works: Works, number: int, fate: Fate) -> None:
        job = fixed_job(number)
        record = ProcessRecord(
            handle=job.handle,
            base_id=job.ids.process,
            owner=_OWNER,
            origin_execution_id=job.ids.process,
            name="",
            program="true",
            created_at=self.clock.now(),
        )
        teller = Teller(works, record)
        try:
            await teller.save_starting()
        except STORE_ERRORS:
            # Refused before anything was spawned; where it is durable all the same, the next life calls it lost.
            self.power.at("start refused")
            return
        if fate is Fate.NEVER_RUNS:
            await self._conclude(works, teller, ProcessState.FAILED)
            return
        try:
            await teller.save_running(self.clock.now(), backgrounded=False)
        except STORE_ERRORS:
            await self._conclude(works, teller, ProcessState.FAILED)
            return
        if fate is Fate.IS_STOPPED:
            teller.tell_backgrounded()
            await teller.flush()
            teller.tell_stop_requested(TerminalReason.TERMINATED)
            await teller.flush()
            await self._conclude(works, teller, ProcessState.TERMINATED)
        else:
            await self._conclude(works, teller, ProcessState.EXITED)

    async def _conclude(self, works: Works, teller: Teller, state: ProcessState) -> None:
        def outcome(record: ProcessRecord, now: datetime) -> Outcome:
            return Outcome(
                state=state,
                reason=TerminalReason[state.name],
                exit_code=0 if state is ProcessState.EXITED else None,
                started_at=record.started_at,
                finished_at=now,
                containment=Containment.PROCESS_GROUP,
                diagnostic="store_unavailable" if state is ProcessState.FAILED else "",
            )

        works.outbox.add(await teller.conclude(outcome, (0, 0), lambda: None))

    def _sees_store(self) -> None:
        """Right after a commit of the store: what is on its disk now."""
        self._store = store_image(self._connection)
        self._held = self._stored_units()

    def _stored_units(self) -> dict[tuple[UUID, ...], str | None]:
        """The units that the store holds, each with the reason of its quarantine; the witness has seen them."""
        if not self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'unit'").fetchall():
            return {}
        rows: dict[int, list[NewRecord]] = {}
        for position, *row in self._connection.execute(SELECT_RECORDS).fetchall():
            rows.setdefault(position, []).append(to_record(row))
        units = [
            (PromisedUnit(handle, tuple(rows.get(position, ()))), error)
            for position, handle, error in self._connection.execute(SELECT_UNITS).fetchall()
        ]
        self.witness.sees_outbox([unit for unit, _ in units])
        return {unit.name: error for unit, error in units}

    # --- the agent

    async def _agent(self, loop: Loop) -> None:
        while True:
            notice = await loop.receive()
            self.power.at("received")
            notification = notice.notification
            command = notification.command_id
            demand(Promise.ANSWERS_HOLD, notification.loop_id == loop.loop_id, "a notice of another loop")
            demand(Promise.SAID_SO, notice.redelivered or command not in self.witness.told, f"{command} again")
            self.witness.sees_told(notification, redelivered=notice.redelivered)
            last = self._last_offered.get(loop.loop_id, 0)
            demand(Promise.IN_ORDER, notice.journal_seq >= last, "a loop was told out of the ledger's order")
            self._last_offered[loop.loop_id] = notice.journal_seq
            self.power.at("in hand")
            if self.scenario.released and not self._released:
                self._released = True
                notice.release()
                continue
            self.witness.sees_asked(command)
            await self._call("ack", notice.ack)
            self.witness.sees_acknowledged(command)
            self.power.at("ack has returned")

    async def _settle(self, session: Session, how: str) -> None:
        """Settle the first process's notice before it comes."""
        command = fixed_job(0).ids.command
        self.witness.sees_asked(command)
        if how == "acknowledge":
            await self._call("acknowledge", lambda: session.acknowledge(command))
        else:
            event = fixed_job(_STRANGE + 1).event(LifecycleKind.STARTED, cause=Cause(command_id=command))
            await self._call("consuming event", lambda: session.publish_process_lifecycle(event))
        self.witness.sees_acknowledged(command)

    async def _listen(self, session: Session) -> None:
        """Somebody wants to hear everything, from the beginning."""
        watch = session.watch(EventFilter(enduring=LoopScope.all()))
        while True:
            try:
                delivery = await anext(watch)
            except JournalUnavailableError:
                await self.clock.sleep(0.01)
            else:
                self._heard.append(delivery.journal_seq)

    # --- other people

    async def _finished(self, session: Session, name: str, record: NewRecord) -> None:
        """Somebody delivers a finished record; whatever it is answered is right."""
        await self._call(name, lambda: session.deliver([record]))

    async def _stranger(self, session: Session, tasks: Any) -> None:
        """A producer that knows no outbox: it tries again in each life, and says something else each time."""
        job = fixed_job(_STRANGE, LOOP_B)
        if self.scenario.stranger == "open":
            self._open_other_loop(session, tasks)
        odd = self.number % 2 == 1
        at = CREATED.replace(minute=self.number)
        started = job.event(LifecycleKind.STARTED, created_at=at)
        await self._publishes(session, started)
        last_word = job.event(LifecycleKind.COMPLETED if odd else LifecycleKind.LOST, created_at=at)
        await self._publishes(session, last_word)
        notification = job.notification(ProcessState.EXITED if odd else ProcessState.KILLED)
        record = notification_record(notification)
        try:
            await self._call("stranger notifies", lambda: _notify(session, notification))
        except IdempotencyCollisionError:
            pass
        else:
            self.witness.sees_answer(record.record_id, record.payload)
        await self._quiet()
        late = job.event(LifecycleKind.STOP_REQUESTED, created_at=at)
        try:
            await self._call("stranger is late", lambda: session.publish_process_lifecycle(late))
        except SecondTerminalError:
            pass
        except IdempotencyCollisionError:
            demand(Promise.NOTHING_AFTER, False, "an event after the last word was taken in an earlier life")
        else:
            demand(Promise.NOTHING_AFTER, False, "an event after the last word was taken")
        self._open_other_loop(session, tasks)

    def _open_other_loop(self, session: Session, tasks: Any) -> None:
        loop = session.open_loop(LOOP_B, capacity=1)
        if loop not in self.loops:
            self.loops.append(loop)
            tasks.start_soon(self._until_taken_over, self._agent, loop)

    async def _publishes(self, session: Session, event: Any) -> None:
        record = event_record(event)
        try:
            await self._call(
                f"stranger publishes {type(event).__name__}", lambda: session.publish_process_lifecycle(event)
            )
        except (IdempotencyCollisionError, SecondTerminalError):
            return
        self.witness.sees_answer(record.record_id, record.payload)

    # --- an older holder

    async def _open_zombie(self, stack: AsyncExitStack) -> tuple[Session, list[Any]] | None:
        if not self.scenario.zombie:
            return None
        self.witness.openings += 1
        session: Session = await stack.enter_async_context(self._open("older journal"))
        notices: list[Any] = []
        loop = session.open_loop(capacity=self.scenario.capacity)
        try:
            notice = loop.receive_nowait()
        except anyio.WouldBlock:
            pass
        else:
            self.power.at("older agent received")
            self.witness.sees_told(notice.notification, redelivered=notice.redelivered)
            notices.append(notice)
        return session, notices

    async def _zombie(self, session: Session, notices: list[Any]) -> None:
        """It has not noticed that a new one has come, and goes on: whatever it tries is refused."""
        job = fixed_job(_STRANGE + 2)
        attempts: list[Callable[[], Awaitable[object]]] = [notice.ack for notice in notices]
        attempts.append(lambda: session.deliver(job.end_unit()))
        attempts.append(lambda: session.acknowledge(job.ids.command))
        for attempt in attempts:
            try:
                await self._call("older agent tries", attempt)
            except JournalFencedError:
                continue
            demand(Promise.FENCED, False, "an older holder has written")


async def _notify(session: Session, notification: Any) -> None:
    """Tell; that its loop cannot take it now does not matter, it is durable."""
    try:
        await session.notify_process_completion(notification)
    except (JournalFencedError, JournalUnavailableError, IdempotencyCollisionError):
        raise
    except (LastwordError, ProcessNotificationDeliveryStoppedError):
        pass


def _find(error: BaseException) -> BrokenPromiseError | None:
    """The first broken promise in a tree of groups."""
    if isinstance(error, BrokenPromiseError):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    group = cast("BaseExceptionGroup[BaseException]", error)
    return next((found for inner in group.exceptions if (found := _find(inner)) is not None), None)
