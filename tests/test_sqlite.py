"""The writers: order, batches, outcomes, cancellation, closing; and the connection they are made for."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from lastword._sqlite import MAX_BATCH, Failed, InlineWriter, ThreadWriter, Writer, WriterClosedError, connect

Handle = Callable[[Sequence[int]], Sequence[int | Failed]]


UNLUCKY = -13


class Doubler:
    """Doubles numbers; UNLUCKY fails.  Notes its batches and its thread, and can be held up."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.at_work = threading.Event()
        self.released = 0
        self.threads: set[int] = set()

    def handle(self, batch: Sequence[int]) -> list[int | Failed]:
        self.at_work.set()
        assert self.gate.wait(90)
        self.batches.append(list(batch))
        self.threads.add(threading.get_ident())
        return [Failed(ValueError("unlucky")) if job == UNLUCKY else 2 * job for job in batch]

    def release(self) -> None:
        self.released += 1

    async def until_at_work(self) -> None:
        await anyio.to_thread.run_sync(self.at_work.wait, 90)


def _inline(doubler: Doubler, after_batch: Callable[[], None] | None = None) -> Writer[int, int]:
    return InlineWriter(doubler.handle, doubler.release, after_batch=after_batch)


def _thread(doubler: Doubler, after_batch: Callable[[], None] | None = None) -> Writer[int, int]:
    return ThreadWriter(doubler.handle, doubler.release, name="doubler", after_batch=after_batch)


WRITERS = pytest.mark.parametrize("make", [_inline, _thread])


@WRITERS
async def test_jobs_are_done_in_order_and_answered(make: Callable[..., Writer[int, int]]) -> None:
    """Each submit returns its own job's result."""
    doubler = Doubler()
    writer = make(doubler)
    results: dict[int, int] = {}

    async def submit(job: int) -> None:
        results[job] = await writer.submit(job)

    async with anyio.create_task_group() as tasks:
        for job in range(20, 40):
            tasks.start_soon(submit, job)
    assert results == {job: 2 * job for job in range(20, 40)}
    assert sorted(job for batch in doubler.batches for job in batch) == list(range(20, 40))
    await writer.aclose()


@WRITERS
async def test_a_failed_job_raises_and_touches_no_other(make: Callable[..., Writer[int, int]]) -> None:
    """`Failed` is raised by the job's own submit."""
    writer = make(Doubler())
    with pytest.raises(ValueError, match="unlucky"):
        await writer.submit(UNLUCKY)
    assert await writer.submit(1) == 2
    await writer.aclose()


@WRITERS
async def test_what_the_handler_raises_is_every_jobs_outcome(make: Callable[..., Writer[int, int]]) -> None:
    """A handler that raises leaves the writer working."""

    class Broken(Doubler):
        def handle(self, batch: Sequence[int]) -> list[int | Failed]:
            if 1 in batch:
                raise KeyError("broken")
            return super().handle(batch)

    writer = make(Broken())
    with pytest.raises(KeyError):
        await writer.submit(1)
    assert await writer.submit(2) == 4
    await writer.aclose()


@WRITERS
async def test_a_closed_writer_takes_no_jobs(make: Callable[..., Writer[int, int]]) -> None:
    """Closing releases once, is idempotent, and refuses what comes later."""
    doubler = Doubler()
    writer = make(doubler)
    await writer.aclose()
    await writer.aclose()
    assert doubler.released == 1
    with pytest.raises(WriterClosedError, match="closed"):
        await writer.submit(1)
    writer.post(1)
    assert doubler.batches == []


@WRITERS
async def test_a_cancelled_submit_may_have_been_done(make: Callable[..., Writer[int, int]]) -> None:
    """Cancelled at once or while its batch is at work, the job is done all the same."""
    doubler = Doubler()
    writer = make(doubler)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await writer.submit(1)
    assert scope.cancelled_caught
    await writer.submit(2)
    assert [job for batch in doubler.batches for job in batch] == [1, 2]
    await writer.aclose()


@WRITERS
async def test_after_batch_comes_before_the_tasks_wake(make: Callable[..., Writer[int, int]]) -> None:
    """What follows a batch has happened when a submit returns, in the event loop's own thread."""
    doubler = Doubler()
    told: list[tuple[list[list[int]], int]] = []
    writer = make(doubler, lambda: told.append(([*doubler.batches], threading.get_ident())))
    await writer.submit(1)
    assert told == [([[1]], threading.get_ident())]
    writer.post(2)
    await writer.submit(3)
    assert told[-1][0][-1] == [3] or told[-1][0][-1] == [2, 3]
    await writer.aclose()


@WRITERS
async def test_a_posted_job_is_done_though_nobody_waits(
    make: Callable[..., Writer[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    """A posted job keeps its place in the order; its failure hurts nobody."""
    doubler = Doubler()
    writer = make(doubler)
    writer.post(UNLUCKY)
    writer.post(1)
    await writer.submit(2)
    assert [job for batch in doubler.batches for job in batch] == [UNLUCKY, 1, 2]
    await writer.aclose()
    assert not [record for record in caplog.records if record.levelno > logging.ERROR]


async def test_the_thread_batches_what_has_queued_up() -> None:
    """While one batch is at work the next gathers, and is one call of the handler, bounded by MAX_BATCH."""
    doubler = Doubler()
    writer = _thread(doubler)
    doubler.gate.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.submit, 1)
        await doubler.until_at_work()
        for job in range(2, MAX_BATCH + 12):
            tasks.start_soon(writer.submit, job)
        await anyio.wait_all_tasks_blocked()
        doubler.gate.set()
    assert [len(batch) for batch in doubler.batches] == [1, MAX_BATCH, 10]
    assert doubler.threads.isdisjoint({threading.get_ident()})
    await writer.aclose()


async def test_the_inline_writer_has_no_thread() -> None:
    """Simulations with virtual time need everything on the event loop's thread, done before the first checkpoint."""
    doubler = Doubler()
    writer = _inline(doubler)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.submit, 1)
        await anyio.wait_all_tasks_blocked()
    assert doubler.threads == {threading.get_ident()}
    await writer.aclose()


async def test_closing_lets_the_queue_finish_also_when_cancelled() -> None:
    """What was submitted is done before the release, however the closer is treated."""
    doubler = Doubler()
    writer = _thread(doubler)
    doubler.gate.clear()
    results: list[int] = []

    async def submit(job: int) -> None:
        results.append(await writer.submit(job))

    async with anyio.create_task_group() as tasks:
        for job in (1, 2, 3):
            tasks.start_soon(submit, job)
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as closing_tasks:
            closing_tasks.start_soon(writer.aclose)
            await anyio.wait_all_tasks_blocked()
            closing_tasks.cancel_scope.cancel()
            doubler.gate.set()
    assert sorted(results) == [2, 4, 6]
    assert doubler.released == 1


async def test_a_release_that_fails_is_logged_and_the_closing_ends(caplog: pytest.LogCaptureFixture) -> None:
    """Every job has had its outcome by then."""

    def release() -> None:
        raise OSError("stuck")

    writer: Writer[int, int] = ThreadWriter(Doubler().handle, release, name="doubler")
    assert await writer.submit(1) == 2
    await writer.aclose()
    assert "could not be released" in caplog.text


async def test_a_step_that_fails_after_a_batch_is_logged_and_keeps_no_task_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The tasks of the batch wake whatever came before them, and neither backend's loop sees the error."""

    def broken() -> None:
        raise RuntimeError("a bug")

    writer = _thread(Doubler(), broken)
    with anyio.fail_after(90):
        assert await writer.submit(1) == 2
        assert await writer.submit(2) == 4
    assert caplog.text.count("RuntimeError: a bug") == 2
    await writer.aclose()


@WRITERS
async def test_a_fork_is_refused(make: Callable[..., Writer[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """In a forked child the writer refuses at once, and closing it touches nothing of the parent's."""
    doubler = Doubler()
    writer = make(doubler)
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        with pytest.raises(WriterClosedError, match="fork"):
            await writer.submit(1)
        writer.post(1)
    assert doubler.batches == []
    await writer.aclose()


# --- connect ----------------------------------------------------------------------------------------------------------


def test_a_connection_is_durable_and_private(tmp_path: Path) -> None:
    """WAL and FULL, no implicit transaction, a file that only its owner can read."""
    path = tmp_path / "x.db"
    with closing(connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.isolation_level is None
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_existing_file_is_opened_as_it_is(tmp_path: Path) -> None:
    """Its content stays, and no descriptor of it is opened and closed beside SQLite."""
    path = tmp_path / "x.db"
    with closing(connect(path)) as first:
        first.execute("CREATE TABLE t (x)")
        with closing(connect(path)) as second:
            assert second.execute("SELECT count(*) FROM t").fetchone() == (0,)
        first.execute("INSERT INTO t VALUES (1)")
    with closing(sqlite3.connect(path)) as third:
        assert third.execute("SELECT * FROM t").fetchall() == [(1,)]


def test_a_connection_in_memory_needs_no_file() -> None:
    """For simulations."""
    with closing(connect(None)) as connection:
        connection.execute("CREATE TABLE t (x)")


def test_a_setting_that_does_not_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where WAL cannot be had, the file is refused instead of being used with less durability."""

    class Stubborn(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            return super().execute(sql.replace("journal_mode=WAL", "journal_mode=DELETE"), *parameters)

    real = sqlite3.connect

    def stubborn(path: Path, **options: Any) -> sqlite3.Connection:
        return real(path, factory=Stubborn, **options)

    monkeypatch.setattr(sqlite3, "connect", stubborn)
    with pytest.raises(sqlite3.NotSupportedError, match="not durable"):
        connect(tmp_path / "x.db")
