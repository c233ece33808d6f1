"""The journal's owner: does what the writer hands it, and tells the event loop what has been committed.

Rules
- Everything here but `take` runs where the journal runs: in the writer's thread, one batch at a time.
- Jobs are done in the order of submission.  Appends that stand together are one transaction; a question between two of
  them sees exactly what came before it, so whoever reads a window reads it in step with the commits.
- What the event loop learns comes through `take`, in order: each committed row once, in the order of the ledger, from
  a cursor over the sequence.  A fault moves no cursor: what a lost commit had written is told after the reopening.
- A fault means that the outcome is unknown: the handle is dropped, the journal reopened with the same epoch, and the
  same batch appended once more.  If that fails too the callers are told, and the next batch begins with the reopening.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeAlias, TypeVar
from uuid import UUID

import attrs

from .._sqlite import Failed
from ..notifier import (
    Appended,
    AppendResult,
    Duplicate,
    JournalFencedError,
    JournalUnavailableError,
    LastwordError,
    NewRecord,
    RecordKind,
)
from ..notifier._crashpoints import CrashPoint, reached
from ._arguments import check_id
from ._errors import JournalCorruptError, SessionClosedError
from .journal import HoldsOneSession, Journal, Record, fence_record

logger = logging.getLogger(__name__)

# Rows per look at what was committed: a full batch of units of two, and no more memory than that.
PAGE = 1024

T = TypeVar("T")


# --- jobs -------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Open:
    """Open the journal, for that session or (None) for the one it holds, or else for a new one."""

    session_id: UUID | None
    new_id: Callable[[], UUID]


@attrs.frozen
class Append:
    """Append a unit; answered by its results."""

    unit: tuple[NewRecord, ...]


@attrs.frozen
class Ask:
    """Ask the journal something; answered by what it says."""

    question: Callable[[Journal], object]


@attrs.frozen
class Load:
    """Read the next rows of a window; answered by a step, `Loaded` or `LoadFailed`."""

    loop_id: UUID
    ticket: object
    after: int
    limit: int


Job: TypeAlias = Open | Append | Ask | Load


# --- steps ------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Committed:
    """A row is durable.  `pending`: it is a notification that nothing durable consumes."""

    record: Record
    pending: bool


@attrs.frozen
class Loaded:
    """The next rows of the window that `ticket` stands for; `more`: the journal has further ones."""

    loop_id: UUID
    ticket: object
    records: list[Record]
    more: bool


@attrs.frozen
class LoadFailed:
    """The window that `ticket` stands for could not be read now."""

    loop_id: UUID
    ticket: object


@attrs.frozen
class Fenced:
    """Another opener has the journal: nothing will be written here any more."""

    error: JournalFencedError


@attrs.frozen
class Readable:
    """Reading works again, after it had failed."""


@attrs.frozen
class Writable:
    """A write was committed, after one had failed.

    Only that: a full disk can be opened and read as often as one likes, and whoever was told that it is back would try,
    fail, have it opened again, be told, and never rest.
    """


Step: TypeAlias = Committed | Loaded | LoadFailed | Fenced | Readable | Writable


@attrs.frozen
class Opened:
    """Whose the journal is, and where the ledger ended when it was opened (this opening's fence)."""

    session_id: UUID
    epoch: int
    fence: int


class Keeper:
    """Owns one journal; `handle` and `release` are what a writer wants."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._epoch = 0
        self._cursor = 0
        self._open = False
        self._broken = False
        self._unread = self._unwritten = False  # a read, a write has failed, and none has succeeded since
        self._fenced: JournalFencedError | None = None
        self._steps: deque[Step] = deque()

    def take(self) -> Step | None:
        """In the event loop: the next thing that has happened, or None."""
        return self._steps.popleft() if self._steps else None

    def handle(self, batch: Sequence[Job]) -> list[object | Failed]:
        """Do the jobs, in order, and answer each."""
        outcomes: list[object | Failed] = []
        for together, jobs in groupby(batch, key=lambda job: isinstance(job, Append)):
            if together:
                outcomes += self._append([job.unit for job in jobs if isinstance(job, Append)])
            else:
                outcomes += [self._do(job) for job in jobs]
        return outcomes

    def release(self) -> None:
        """Close the journal.  What it raises is told and goes no further: what is committed stays so."""
        try:
            self._journal.close()
        except Exception:
            logger.exception("the journal could not be closed cleanly")

    # --- appending

    def _append(self, units: list[tuple[NewRecord, ...]]) -> list[object | Failed]:
        try:
            return list(self._steadily(lambda: self._commit(units)))
        except JournalCorruptError as error:
            failed: Exception = _own_copy(error)
        except LastwordError as error:
            return [Failed(_own_copy(error)) for _ in units]
        except Exception as error:
            if len(units) == 1:
                logger.exception("a unit could not be appended in a way that nobody foresaw")
            failed = error
        # Something in the journal is damaged, or nobody foresaw it; the transaction was rolled back.  A unit that no
        # database takes, or that meets what is damaged, must not take its batch with it: the others go one by one.
        if len(units) == 1:
            return [Failed(failed)]
        return [outcome for unit in units for outcome in self._append([unit])]

    def _commit(self, units: list[tuple[NewRecord, ...]]) -> list[list[AppendResult]]:
        try:
            results = self._journal.append_many(units)
        except JournalUnavailableError:
            self._unwritten = True
            raise
        reached(CrashPoint.COMMITTED)
        if self._unwritten:
            self._unwritten = False
            self._steps.append(Writable())
        self._tell_committed()
        self._note_readable()
        return results

    def _tell_committed(self) -> None:
        """Tell the event loop each row above the cursor."""
        while rows := self._journal.read(self._cursor, PAGE):
            pending = self._pending_among(rows)
            self._steps.extend(Committed(row, row.seq in pending) for row in rows)
            self._cursor = rows[-1].seq
            if len(rows) < PAGE:
                return

    def _pending_among(self, rows: list[Record]) -> set[int]:
        """Which of the rows are notifications that nothing consumes; a consumption may have come before its own."""
        notifications = [row for row in rows if row.kind is RecordKind.COMMAND and row.loop_id is not None]
        counts = Counter(row.loop_id for row in notifications if row.loop_id is not None)
        first = {row.loop_id: row.seq for row in reversed(notifications)}
        return {
            row.seq
            for loop_id, count in counts.items()
            for row in self._journal.pending(loop_id, first[loop_id] - 1, count)
        }

    # --- the rest

    def _do(self, job: Job) -> object | Failed:
        try:
            match job:
                case Open():
                    return self._first_open(job)
                case Ask():
                    return self._read(job.question)
                case Load():
                    self._load(job)
                    return None
                case Append():
                    return Failed(AssertionError("appends are done together"))
        except Exception as error:
            return Failed(error)

    def _first_open(self, job: Open) -> Opened:
        session_id = job.session_id
        if session_id is None and isinstance(self._journal, HoldsOneSession):
            session_id = self._journal.held_session()
        if session_id is None:
            session_id = job.new_id()
            check_id("new_id", session_id)
        self._epoch = self._journal.open(session_id)
        # The port has no question for the ledger's end; the fence of this very opening is there, or goes there.
        match self._journal.append_many([[fence_record(session_id, self._epoch)]]):
            case [[Appended(seq) | Duplicate(seq)]]:
                self._cursor = seq
                self._open = True
                return Opened(session_id, self._epoch, seq)
            case _:
                # Where nothing says that this opening has begun, whoever came before may write on.
                raise JournalCorruptError(
                    "opening the journal: it does not hold the fence of this opening, or another record has the "
                    "fence's id; restore it from a copy"
                )

    def _read(self, question: Callable[[Journal], T]) -> T:
        try:
            answer = self._steadily(lambda: question(self._journal))
        except JournalUnavailableError:
            self._unread = True
            raise
        self._note_readable()
        return answer

    def _note_readable(self) -> None:
        if self._unread:
            self._unread = False
            self._steps.append(Readable())

    def _load(self, job: Load) -> None:
        limit = min(job.limit, PAGE)
        try:
            # One more than is taken: so it is known whether there are further ones.
            rows = self._read(lambda journal: journal.pending(job.loop_id, job.after, limit + 1))
        except Exception as error:
            if not isinstance(error, LastwordError):
                logger.exception("a window could not be read in a way that nobody foresaw; it is tried again")
            elif isinstance(error, JournalCorruptError):
                # Whoever receives waits until the file is mended, and nobody else may come to be told.
                logger.error("a window could not be read; it is tried again: %s", error)  # noqa: TRY400 -- told well
            self._steps.append(LoadFailed(job.loop_id, job.ticket))
        else:
            self._steps.append(Loaded(job.loop_id, job.ticket, rows[:limit], len(rows) > limit))

    def _steadily(self, action: Callable[[], T]) -> T:
        """Do it on a sound handle; after a fault once more, on a new one."""
        try:
            try:
                self._ensure_sound()
                return action()
            except JournalUnavailableError:
                self._broken = True
                self._ensure_sound()
                return action()
        except JournalUnavailableError:
            self._broken = True
            # What the fault has left in the journal is told now if it can be: whoever asked may be gone, and nobody
            # else may come for a long time.
            with contextlib.suppress(JournalUnavailableError, JournalFencedError):
                self._ensure_sound()
            raise
        except JournalFencedError as error:
            if self._fenced is None:
                self._fenced = error
                self._steps.append(Fenced(error))
            raise

    def _ensure_sound(self) -> None:
        if self._fenced is not None:
            raise JournalFencedError(*self._fenced.args)
        if not self._open:
            raise SessionClosedError("the session's journal was never opened")
        if self._broken:
            self._journal.reopen(self._epoch)
            self._broken = False
            self._tell_committed()


def _own_copy(error: LastwordError) -> LastwordError:
    """An error of each task's own: raising one object in many of them would mix up their tracebacks."""
    twin = copy.copy(error)
    twin.__cause__ = error.__cause__
    return twin
