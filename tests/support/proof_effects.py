"""Where the power can go: every effect of a life passes `Power.at`, which may end it, or make one act fail.

Theory
- An effect is whatever somebody outside can notice: a durable write (before it and after it), a dispatch, a notice
  handed out, an acknowledgement that returns, a mark.  They are numbered in the order in which they come; a life is
  repeatable, so the number names the effect.
- A crash is a `BaseException` that no `except Exception` of the code under proof can survive.  Until every task is gone
  some of them still clean up: without power their writes fail too, so nothing of that reaches the disk.
- Another host may take the journal in the middle of a life: this one must stop writing, and the next one goes on.
- A fault is survived: a commit that fails or whose answer is lost, a journal that is down for a while, a caller that
  is cancelled before or after its work was done.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Generic, TypeVar, final
from unittest.mock import patch
from uuid import UUID

import anyio
import attrs
from anyio.lowlevel import checkpoint

from lastword._sqlite import InlineWriter
from lastword.notifier import AppendResult, JournalUnavailableError, NewRecord, OutboxUnit
from lastword.session._commit import CommitHandler
from lastword.session._keeper import Step
from lastword.session.journal import Journal, Record
from lastword.supervisor._outbox import StoreOutbox

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

# How many calls of the journal fail while it is down: one append, its reopening, and the next append's reopening.
DOWN_CALLS = 3


class Crash(BaseException):
    """The power is gone."""


class Kind(StrEnum):
    """What happens at an effect."""

    CRASH = "crash"
    TAKEN_OVER = "another host takes the journal"
    FAILED = "the write fails, and is not durable"
    UNKNOWN = "the write is durable, and fails all the same"
    DOWN = "the journal is down for a while"
    CANCELLED_BEFORE = "the caller is cancelled before its work is done"
    CANCELLED_AFTER = "the caller is cancelled after its work was done"


WRITE_FAULTS = (Kind.FAILED, Kind.UNKNOWN)
JOURNAL_FAULTS = (*WRITE_FAULTS, Kind.DOWN)

# What a life does not go on from: another one must follow.
ENDS = (Kind.CRASH, Kind.TAKEN_OVER)
CALLER_FAULTS = (Kind.CANCELLED_BEFORE, Kind.CANCELLED_AFTER)


@attrs.frozen
class Effect:
    """One effect, the faults that could have happened at it, and what could have ended the life there."""

    name: str
    faults: tuple[Kind, ...]
    ends: tuple[Kind, ...] = (Kind.CRASH,)


@attrs.frozen
class Happening:
    """What is to happen at the effect of that number."""

    at: int
    kind: Kind


@final
class Power:
    """The power supply of one life, and the list of its effects."""

    def __init__(self, plan: Sequence[Happening]) -> None:
        self.trace: list[Effect] = []
        self.dead = False
        self.ready = False
        self.down = 0
        self.cancel_next: anyio.CancelScope | None = None
        self.take_over: Callable[[], None] | None = None
        self.photograph: Callable[[], None] | None = None
        self._plan = {happening.at: happening.kind for happening in plan}

    def check(self) -> None:
        """Raise `Crash` in whoever goes on without power."""
        if self.dead:
            raise Crash("no power")

    def at(self, name: str, faults: tuple[Kind, ...] = ()) -> Kind | None:
        """The effect `name` is about to happen; the fault to act out, if there is one.  Raises `Crash`."""
        self.check()
        if self.photograph is not None:
            self.photograph()
        kind = self._plan.get(len(self.trace))
        # Faults before the opening is done are no part of this: an opening that fails is not survived.
        may_be_taken_over = self.ready and self.take_over is not None and name == "journal appends"
        ends = ENDS if may_be_taken_over else (Kind.CRASH,)
        self.trace.append(Effect(name, faults if self.ready else (), ends))
        if kind is Kind.CRASH:
            self.dead = True
            raise Crash(name)
        if kind is Kind.TAKEN_OVER:
            assert self.take_over is not None
            self.take_over()
        return kind


class PoweredJournal:
    """A journal whose writes are effects."""

    def __init__(self, inner: Journal, power: Power, name: str) -> None:
        self.inner = inner
        self._power = power
        self._name = name

    def held_session(self) -> UUID | None:
        return None

    def open(self, session_id: UUID) -> int:
        self._power.at(f"{self._name} opens")
        epoch = self.inner.open(session_id)
        self._power.at(f"{self._name} is open")
        return epoch

    def reopen(self, epoch: int) -> None:
        self._fail_if_down()
        self._power.at(f"{self._name} reopens")
        self.inner.reopen(epoch)

    def epoch(self) -> int:
        return self.inner.epoch()

    def append_many(self, units: Sequence[Sequence[NewRecord]]) -> list[list[AppendResult]]:
        self._fail_if_down()
        kind = self._power.at(f"{self._name} appends", JOURNAL_FAULTS)
        if kind is Kind.DOWN:
            self._power.down = DOWN_CALLS
            self._fail_if_down()
        if kind is Kind.FAILED:
            raise JournalUnavailableError("the write has failed")
        results = self.inner.append_many(units)
        self._power.at(f"{self._name} has appended")
        if kind is Kind.UNKNOWN:
            raise JournalUnavailableError("nobody knows whether it was written")
        return results

    def read(self, after: int, limit: int) -> list[Record]:
        self._fail_if_down()
        return self.inner.read(after, limit)

    def pending(self, loop_id: UUID, after: int, limit: int) -> list[Record]:
        self._fail_if_down()
        return self.inner.pending(loop_id, after, limit)

    def loops(self) -> list[tuple[UUID, int]]:
        self._fail_if_down()
        return self.inner.loops()

    def unfinished(self) -> list[Record]:
        self._fail_if_down()
        return self.inner.unfinished()

    def close(self) -> None:
        """Nothing: what a close would do (a checkpoint of the log) does not happen when the power goes."""

    def _fail_if_down(self) -> None:
        if self._power.down:
            self._power.down -= 1
            raise JournalUnavailableError("the disk is gone")


class PoweredConnection(sqlite3.Connection):
    """The store's connection: a commit is an effect, and so is that it has returned."""

    power: Power | None = None
    committed: Callable[[], None] | None = None

    def close(self) -> None:
        """Nothing: what is on it is still to be judged; see `let_go`."""

    def let_go(self) -> None:
        """Close it."""
        super().close()

    def execute(self, *args: Any) -> sqlite3.Cursor:
        if args[0] != "COMMIT" or self.power is None:
            return super().execute(*args)
        kind = self.power.at("store commits", WRITE_FAULTS)
        if kind is Kind.FAILED:
            raise sqlite3.OperationalError("disk I/O error")
        cursor = super().execute(*args)
        if self.committed is not None:
            self.committed()
        self.power.at("store has committed")
        if kind is Kind.UNKNOWN:
            raise sqlite3.OperationalError("disk I/O error")
        return cursor


class PoweredOutbox:
    """The real outbox; its marks are effects."""

    def __init__(self, inner: StoreOutbox, power: Power) -> None:
        self._inner = inner
        self._power = power

    def heads(self) -> Sequence[OutboxUnit]:
        return self._inner.heads()

    async def wait_changed(self) -> None:
        await self._inner.wait_changed()

    async def wait_empty(self) -> None:
        await self._inner.wait_empty()

    def mark_delivered(self, position: int) -> None:
        self._power.at("mark")
        self._inner.mark_delivered(position)

    def mark_failed(self, position: int, error: str) -> None:
        self._inner.mark_failed(position, error)

    async def quarantine(self, position: int, error: str) -> None:
        self._power.at("quarantine")
        await self._inner.quarantine(position, error)


class GapWriter(InlineWriter[JobT, ResultT], Generic[JobT, ResultT]):
    """The inline writer with the gap that a thread has: between asking and doing, others may run, for so many turns.

    It is also where a caller is cancelled at the worst moment: its work is done, and it does not know.
    """

    power: Power
    turns: int

    async def submit(self, job: JobT) -> ResultT:
        scope, self.power.cancel_next = self.power.cancel_next, None
        for _ in range(self.turns):
            await checkpoint()
        if scope is not None:
            scope.cancel()
        return await super().submit(job)


@contextmanager
def powered(power: Power, connection: Callable[[], sqlite3.Connection], journal_turns: int) -> Generator[None]:
    """Have whatever is made inside pass its effects to `power`, and the store be what `connection` gives.

    A commit of the journal takes `journal_turns` of the event loop, one of the store takes one.

    The parts have no parameter for this, and should have none: it is their names that are exchanged.
    """

    class JournalWriter(GapWriter[Any, Any]):
        turns = journal_turns

    class StoreWriter(GapWriter[Any, Any]):
        turns = 1

    JournalWriter.power = StoreWriter.power = power
    apply = CommitHandler._apply  # pyright: ignore[reportPrivateUsage]  # the one place where a commit is told

    def apply_with_power(handler: CommitHandler, step: Step) -> None:
        power.at("dispatch")
        apply(handler, step)

    def connect(_path: object) -> sqlite3.Connection:
        return connection()

    with (
        patch("lastword.session._core.InlineWriter", JournalWriter),
        patch("lastword.supervisor._store.InlineWriter", StoreWriter),
        patch("lastword.supervisor._store.connect", connect),
        patch.object(CommitHandler, "_apply", apply_with_power),
    ):
        yield
