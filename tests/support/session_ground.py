"""Where sessions are opened in tests: a journal that outlives them, on either backend, with either writer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
from session_values import SESSION

from lastword.notifier import AppendResult, JournalUnavailableError, NewRecord
from lastword.session import Session, open_session
from lastword.session.journal import Journal, MemoryJournal, MemoryLedger, Record, SqliteJournal


@attrs.define
class Ground:
    """One journal's storage; `open()` is a new incarnation of its session."""

    journal: Callable[[], Journal]
    inline: bool

    def open(self, **options: Any) -> AbstractAsyncContextManager[Session]:
        chosen: dict[str, Any] = {"session_id": SESSION, "inline": self.inline} | options
        journal: Journal = chosen.pop("journal", None) or self.journal()
        return open_session(journal, **chosen)


GROUNDS = ("memory-inline", "memory-thread", "sqlite-inline", "sqlite-thread")


def ground(name: str, folder: Path) -> Ground:
    """The ground of that name, its files (if any) in `folder`."""
    backend, writer = name.split("-")
    if backend == "sqlite":
        return Ground(lambda: SqliteJournal(folder / "journal.db"), writer == "inline")
    ledger = MemoryLedger()
    return Ground(lambda: MemoryJournal(ledger), writer == "inline")


class FaultyJournal:
    """A journal that fails as it is told to: each entry of `faults` is how one call of `append_many` goes.

    "before": unavailable, nothing was written.  "after": unavailable, and all of it is durable.  None: it goes well.
    `down`: everything is unavailable, reopening too.  `gate`: appending waits for it (in the writer's thread).
    """

    def __init__(self, inner: Journal) -> None:
        self.inner = inner
        self.faults: deque[str | None] = deque()
        self.down = False
        self.gate: threading.Event | None = None
        self.at_gate = threading.Event()
        self.reopened: list[int] = []
        self.batches: list[int] = []

    def open(self, session_id: UUID) -> int:
        return self.inner.open(session_id)

    def reopen(self, epoch: int) -> None:
        self._check()
        self.reopened.append(epoch)
        self.inner.reopen(epoch)

    def epoch(self) -> int:
        return self.inner.epoch()

    def append_many(self, units: Sequence[Sequence[NewRecord]]) -> list[list[AppendResult]]:
        self.batches.append(len(units))
        if self.gate is not None:
            self.at_gate.set()
            assert self.gate.wait(90)
        self._check()
        fault = self.faults.popleft() if self.faults else None
        if fault == "before":
            raise JournalUnavailableError("the disk is full")
        results = self.inner.append_many(units)
        if fault == "after":
            raise JournalUnavailableError("the disk failed to sync")
        return results

    def read(self, after: int, limit: int) -> list[Record]:
        self._check()
        return self.inner.read(after, limit)

    def pending(self, loop_id: UUID, after: int, limit: int) -> list[Record]:
        self._check()
        return self.inner.pending(loop_id, after, limit)

    def loops(self) -> list[tuple[UUID, int]]:
        self._check()
        return self.inner.loops()

    def unfinished(self) -> list[Record]:
        self._check()
        return self.inner.unfinished()

    def close(self) -> None:
        self.inner.close()

    def _check(self) -> None:
        if self.down:
            raise JournalUnavailableError("the disk is gone")
