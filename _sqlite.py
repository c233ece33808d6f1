"""One owner for one database: group commit without a lock, a pool, or a thread per call.

Rules
- Only the owner touches the database.  Tasks hand it jobs through a queue, and each awaits its own outcome.
- Whatever queued up while the last batch was committed is the next batch: batching comes from the disk's own pace, so
  there is no linger timer.  One batch is one call of `handle` and one wake-up of the event loop.
- A cancelled `submit` has an unknown outcome: its job may be done all the same.  Submit the same job again and let the
  database's own unique ids answer; never assume that it did not happen.
- This module knows nothing of records or processes: the journal and the supervisor's store share it.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeAlias, TypeVar

import anyio
import attrs
from anyio.lowlevel import checkpoint, current_token

# More would hold up a batch's first job for the sake of its last; measured flat above this.
MAX_BATCH = 512

# Somebody's backup or a curious shell may hold the file for a moment; our own writes never wait for each other.
BUSY_TIMEOUT_SECONDS = 5.0

_FORKED = "this process is a fork of the one that opened the writer; open one of its own"

logger = logging.getLogger(__name__)

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")
JobContraT = TypeVar("JobContraT", contravariant=True)
ResultCoT = TypeVar("ResultCoT", covariant=True)


@attrs.frozen
class Failed:
    """An outcome that is an error: the job's `submit` raises it, and no other job of the batch is touched by it."""

    error: Exception


# Takes a batch and answers each job, in order.  What it raises instead becomes every job's outcome.
Handle: TypeAlias = Callable[[Sequence[JobT]], Sequence[ResultT | Failed]]


class WriterClosedError(Exception):
    """The writer takes no more jobs: it was closed, or this process is a fork of the one that opened it."""


class Writer(Protocol[JobContraT, ResultCoT]):
    """Jobs in, outcomes out, done in the order of submission."""

    async def submit(self, job: JobContraT) -> ResultCoT:
        """Have `job` done by the owner; return its result or raise its error.  A checkpoint.

        Cancelled: the job may be done all the same.  Raises `WriterClosedError` after `aclose`.
        """
        ...

    def post(self, job: JobContraT) -> None:
        """Queue `job` for its effect alone: nobody waits, its outcome is dropped.  Sync; ignored after `aclose`."""
        ...

    async def aclose(self) -> None:
        """Let what is queued finish, then release the database.  Idempotent; not cut short by cancellation."""
        ...


class InlineWriter(Generic[JobT, ResultT]):
    """A writer without a thread: each job is a batch of its own, done at once.  For simulations with virtual time.

    Also right where the database is plain memory, and a thread would only add its hand-off.
    """

    def __init__(
        self,
        handle: Handle[JobT, ResultT],
        release: Callable[[], None],
        *,
        after_batch: Callable[[], None] | None = None,
    ) -> None:
        self._handle = handle
        self._release = release
        self._after_batch = after_batch
        self._closed = False
        self._pid = os.getpid()

    async def submit(self, job: JobT) -> ResultT:
        """Do `job` now, then pass a checkpoint: as with the thread, a cancelled call has done its job."""
        if self._closed:
            raise WriterClosedError("the writer is closed")
        if os.getpid() != self._pid:
            raise WriterClosedError(_FORKED)
        (outcome,) = self._run(job)
        await checkpoint()
        if isinstance(outcome, Failed):
            raise outcome.error
        return outcome

    def post(self, job: JobT) -> None:
        """Do `job` now, for its effect alone; see `Writer.post`."""
        if self._closed or os.getpid() != self._pid:
            return
        try:
            self._run(job)
        except Exception:
            logger.exception("a job that nobody waits for has failed")

    def _run(self, job: JobT) -> Sequence[ResultT | Failed]:
        try:
            return self._handle([job])
        finally:
            if self._after_batch is not None:
                self._after_batch()

    async def aclose(self) -> None:
        """Release the database."""
        if not self._closed:
            self._closed = True
            self._release()


class _Ticket(Generic[JobT, ResultT]):
    """One submitted job and the event that its task waits for."""

    __slots__ = ("done", "job", "outcome")

    def __init__(self, job: JobT) -> None:
        self.job = job
        self.done = anyio.Event()
        self.outcome: ResultT | Failed | None = None


class ThreadWriter(Generic[JobT, ResultT]):
    """A writer with one daemon thread, started by the constructor, which must run inside the event loop.

    `release` is called in that thread after the last job, also when a job has failed.  `after_batch` is called in the
    event loop once per batch, in the batches' order, before any of their tasks wakes; it must be quick.
    """

    def __init__(
        self,
        handle: Handle[JobT, ResultT],
        release: Callable[[], None],
        *,
        name: str,
        after_batch: Callable[[], None] | None = None,
    ) -> None:
        self._handle = handle
        self._release = release
        self._after_batch = after_batch
        self._queue: queue.SimpleQueue[_Ticket[JobT, ResultT] | None] = queue.SimpleQueue()
        self._pid = os.getpid()
        self._closed = False
        self._ended = anyio.Event()
        self._wake = _thread_safe_call()
        # A daemon: where the loop was torn down without aclose (a second Ctrl-C), the interpreter must still exit.
        self._thread = threading.Thread(target=self._own, name=name, daemon=True)
        self._thread.start()

    async def submit(self, job: JobT) -> ResultT:
        """Queue `job` and wait until its batch is done; see `Writer.submit`."""
        if self._closed:
            raise WriterClosedError("the writer is closed")
        if os.getpid() != self._pid:
            raise WriterClosedError(_FORKED)
        ticket: _Ticket[JobT, ResultT] = _Ticket(job)
        self._queue.put(ticket)
        await ticket.done.wait()
        outcome = ticket.outcome
        if isinstance(outcome, Failed):
            raise outcome.error
        return outcome  # type: ignore[return-value]  # set before `done`; None is a legal result of a job

    def post(self, job: JobT) -> None:
        """Queue `job` for its effect alone; see `Writer.post`."""
        if not self._closed and os.getpid() == self._pid:
            self._queue.put(_Ticket(job))

    async def aclose(self) -> None:
        """Let what is queued finish, then end the thread; see `Writer.aclose`."""
        if os.getpid() != self._pid:
            self._closed = True  # the thread, and the database that it owns, stayed in the other process
            return
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        with anyio.CancelScope(shield=True):
            await self._ended.wait()
        self._thread.join()

    def _own(self) -> None:
        """The owner thread: batches until the end mark, then the release."""
        last = False
        while not last:
            batch, last = self._next_batch()
            if batch:
                self._do(batch)
        try:
            self._release()
        except Exception:
            # Every job has had its outcome; there is nobody left to raise to.
            logger.exception("the database could not be released cleanly")
        finally:
            self._tell(self._ended.set)

    def _next_batch(self) -> tuple[list[_Ticket[JobT, ResultT]], bool]:
        batch: list[_Ticket[JobT, ResultT]] = []
        item = self._queue.get()
        while item is not None:
            batch.append(item)
            if len(batch) == MAX_BATCH:
                return batch, False
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _do(self, batch: list[_Ticket[JobT, ResultT]]) -> None:
        outcomes: Sequence[ResultT | Failed]
        try:
            outcomes = self._handle([ticket.job for ticket in batch])
        except Exception as error:  # every waiting task's outcome, not ours to judge
            outcomes = [Failed(error)] * len(batch)
        for ticket, outcome in zip(batch, outcomes, strict=True):
            ticket.outcome = outcome
        self._tell(functools.partial(self._wake_all, batch))

    def _wake_all(self, batch: list[_Ticket[JobT, ResultT]]) -> None:
        """In the event loop: what follows the batch, then its tasks, whatever the former raised."""
        try:
            if self._after_batch is not None:
                self._after_batch()
        except Exception:
            # Raised further it would end the whole run on trio, and nothing but be logged on asyncio.
            logger.exception("what follows a batch has failed; its tasks go on")
        for ticket in batch:
            ticket.done.set()

    def _tell(self, callback: Callable[[], object]) -> None:
        # RuntimeError (trio: RunFinishedError, a subclass): the loop has ended.  Nobody waits any more, and what is
        # durable is durable.
        with contextlib.suppress(RuntimeError):
            self._wake(callback)


def _thread_safe_call() -> Callable[[Callable[[], object]], object]:
    """How a thread runs a callback in the current event loop; reached by attribute, so that no backend is imported."""
    token: object = current_token().native_token
    for name in ("call_soon_threadsafe", "run_sync_soon"):  # asyncio's loop; trio's token
        call: Callable[[Callable[[], object]], object] | None = getattr(token, name, None)
        if call is not None:
            return call
    raise RuntimeError(f"unknown event loop {type(token).__name__}; asyncio and trio are supported")


def connect(path: Path | None) -> sqlite3.Connection:
    """Open the database at `path` (None: in memory) for its one owner, as durable as SQLite can be.

    WAL with synchronous=FULL, both read back; no implicit transactions; the file is 0600 from its first byte.
    Raises `sqlite3.Error` as SQLite does, and `sqlite3.NotSupportedError` where a setting does not hold.
    """
    if path is None:
        return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    # Only a file that nobody can have open yet: closing a descriptor of it drops every POSIX lock that this process
    # holds on it, those of another connection included (SQLite, "how to corrupt": section 2.2).
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_TIMEOUT_SECONDS, check_same_thread=False)
    try:
        (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        connection.execute("PRAGMA synchronous=FULL")
        (level,) = connection.execute("PRAGMA synchronous").fetchone()
        if (mode, level) != ("wal", 2):
            raise sqlite3.NotSupportedError(f"journal_mode={mode} synchronous={level}: not durable on this file system")
    except BaseException:
        connection.close()
        raise
    return connection
