"""What durability costs: appends against the disk itself and against the naive way, restarting, and waking a loop.

    python bench/journal.py [--records 1000000] [--rounds 9]

Paired: each round times every variant once, in shuffled order, so that whatever slows the disk slows all alike; a ratio
is the median of the rounds' ratios.  Absolute times do not travel from one disk to another, ratios do.  It exits 0 also
where a bar is missed: figures are for reading.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import anyio
import anyio.lowlevel
import anyio.to_thread

from lastword.notifier import (
    NewRecord,
    OutboxUnit,
    Owner,
    ProcessCompletionNotification,
    ProcessState,
    RecordKind,
    SystemClock,
    TerminalReason,
    main_loop_id,
    new_handle,
    new_uuid7,
)
from lastword.session import open_session
from lastword.session._core import Core, SessionObserver
from lastword.session._records import notification_record
from lastword.session.journal import Journal, MemoryJournal, SqliteJournal
from lastword.supervisor._outbox import StoreOutbox
from lastword.supervisor._record import ProcessRecord
from lastword.supervisor._store import Store

TASKS = 64
EACH = 8
PAYLOAD = b"x" * 390  # the size of an event as it is written
SESSION = uuid4()


def record() -> NewRecord:
    """A record that no rule but idempotency concerns."""
    return NewRecord(new_uuid7(), RecordKind.EVENT, PAYLOAD)


def raw(folder: Path, count: int) -> float:
    """Seconds for each record, written and synced one at a time: the disk's own price."""
    descriptor = os.open(folder / f"raw-{uuid4()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        began = time.perf_counter()
        for _ in range(count):
            os.write(descriptor, PAYLOAD)
            os.fdatasync(descriptor)
        return (time.perf_counter() - began) / count
    finally:
        os.close(descriptor)


async def _all_at_once(append: Callable[[], Awaitable[object]], tasks: int, each: int) -> float:
    async def one() -> None:
        for _ in range(each):
            await append()

    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(tasks):
            group.start_soon(one)
    return (time.perf_counter() - began) / (tasks * each)


async def naive(folder: Path, tasks: int, each: int) -> float:
    """Seconds for each record by sqlite3's defaults: a thread hand-off and a commit per call, under a lock."""
    connection = sqlite3.connect(folder / f"naive-{uuid4()}", check_same_thread=False)
    connection.execute("CREATE TABLE record (seq INTEGER PRIMARY KEY, id BLOB UNIQUE, payload BLOB)")
    lock = threading.Lock()

    def insert() -> None:
        with lock, connection:
            connection.execute("INSERT INTO record (id, payload) VALUES (?, ?)", (uuid4().bytes, PAYLOAD))

    try:
        return await _all_at_once(lambda: anyio.to_thread.run_sync(insert), tasks, each)
    finally:
        connection.close()


async def ours(folder: Path, tasks: int, each: int) -> float:
    """Seconds for each record through the session's writer, handler and all."""
    journal = SqliteJournal(folder / f"ours-{uuid4()}" / "journal.db")
    core = Core(journal, clock=SystemClock(), rng=random.Random(), observer=SessionObserver(), inline=False)
    try:
        await core.start(SESSION, uuid4)
        return await _all_at_once(lambda: core.append([record()]), tasks, each)
    finally:
        await core.stop()


async def append_and_mark(folder: Path, count: int) -> float:
    """Seconds for each unit from the outbox into the journal and marked there, one at a time.

    As in life: a mark rides on the store's next write.  One such write, which takes all the marks, is in the time.
    """
    private = folder / f"both-{uuid4()}"
    private.mkdir(mode=0o700)
    store = Store(private / "store.db", SESSION)
    outbox = StoreOutbox(store)
    process = ProcessRecord(
        handle=new_handle(),
        base_id=new_uuid7(),
        owner=Owner(session_id=SESSION, loop_id=main_loop_id(SESSION)),
        origin_execution_id=uuid4(),
        name="",
        program="true",
        created_at=datetime.now(UTC),
    )
    units = [
        OutboxUnit(position=outbox.next_position(), subject=process.handle, records=(record(),)) for _ in range(count)
    ]
    core = Core(
        SqliteJournal(private / "journal.db"),
        clock=SystemClock(),
        rng=random.Random(),
        observer=SessionObserver(),
        inline=False,
    )
    try:
        await core.start(SESSION, uuid4)
        await store.save(process, units)
        outbox.add(units)
        began = time.perf_counter()
        for unit in units:
            await core.append(unit.records)
            outbox.mark_delivered(unit.position)
        await store.save(process)
        return (time.perf_counter() - began) / count
    finally:
        await core.stop()
        await store.aclose()


def appends(rounds: int) -> None:
    """64 tasks and one task, beside the raw disk and the naive way."""
    figures: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="lastword-bench-", dir=".") as name:
        folder = Path(name)
        variants: dict[str, Callable[[], float]] = {
            "raw": lambda: raw(folder, 200),
            "naive 64": lambda: anyio.run(naive, folder, TASKS, 4),
            "ours 64": lambda: anyio.run(ours, folder, TASKS, EACH),
            "ours 64 trio": lambda: anyio.run(ours, folder, TASKS, EACH, backend="trio"),
            "append + mark": lambda: anyio.run(append_and_mark, folder, 100),
        }
        for _ in range(rounds):
            for variant in random.sample(sorted(variants), len(variants)):
                figures.setdefault(variant, []).append(variants[variant]())
    for variant, seconds in figures.items():
        print(f"  {variant:14} {statistics.median(seconds) * 1e6:9.1f} us a record")
    for label, over, under, bar in (
        ("64 tasks / one-at-a-time fdatasync", "raw", "ours 64", ">= 1.5"),
        ("64 tasks / naive", "naive 64", "ours 64", ">= 8"),
        ("64 tasks on trio / fdatasync", "raw", "ours 64 trio", ">= 1.5"),
        ("append + mark / fdatasync", "append + mark", "raw", "<= 3.5"),
    ):
        ratio = statistics.median(a / b for a, b in zip(figures[over], figures[under], strict=True))
        print(f"  {label:38} {ratio:6.2f} x   (bar {bar})")


def notification(loop_id: UUID) -> ProcessCompletionNotification:
    """A completion of that loop."""
    return ProcessCompletionNotification(
        command_id=new_uuid7(),
        session_id=SESSION,
        loop_id=loop_id,
        process_handle=uuid4().hex,
        state=ProcessState.EXITED,
        reason=TerminalReason.EXITED,
    )


async def wake(journal: Journal, count: int) -> float:
    """The median of the seconds from a notify call to the return of a `receive` that was waiting."""
    spans: list[float] = []
    async with open_session(journal, session_id=SESSION) as session, anyio.create_task_group() as tasks:
        loop = session.open_loop()

        async def producer() -> None:
            for _ in range(count):
                await anyio.wait_all_tasks_blocked()
                began.append(time.perf_counter())
                await session.notify_process_completion(notification(loop.loop_id))

        began: list[float] = []
        tasks.start_soon(producer)
        for _ in range(count):
            notice = await loop.receive()
            spans.append(time.perf_counter() - began[-1])
            await notice.ack()
    return statistics.median(spans)


def fill(path: Path, records: int, pending: int) -> None:
    """A journal of that many records, of which the last `pending` wait for the main loop."""
    journal = SqliteJournal(path)
    journal.open(SESSION)
    loop_id = main_loop_id(SESSION)
    for start in range(0, records - pending, 512):
        journal.append_many([[record()] for _ in range(min(512, records - pending - start))])

    journal.append_many([[notification_record(notification(loop_id))] for _ in range(pending)])
    journal.close()


def memory() -> float:
    """The most mebibytes this program has held, since its own exec (`ru_maxrss` would count its parent's too)."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return 0.0 if found is None else int(found[1]) / 1024


async def restart(path: Path) -> tuple[float, float]:
    """Seconds to open and to have every pending notice in sight; and mebibytes of memory at the end."""
    began = time.perf_counter()
    async with open_session(SqliteJournal(path)) as session:
        loop = session.open_loop(capacity=1000)
        await loop.receive()
        while loop.held < 1000:
            await anyio.lowlevel.checkpoint()
        spent = time.perf_counter() - began
    return spent, memory()


def restarts(records: int) -> None:
    """Restart in a process of its own, with what it costs in memory beside an idle import."""
    with tempfile.TemporaryDirectory(prefix="lastword-bench-", dir=".") as name:
        path = Path(name) / "journal.db"
        fill(path, records, 1000)
        runs = [
            subprocess.run([sys.executable, __file__, "--restart", path], check=True, capture_output=True, text=True)
            for _ in range(5)
        ]
    figures = [tuple(float(part) for part in run.stdout.split()) for run in runs]
    seconds = statistics.median(spent for spent, _, _ in figures)
    grown = statistics.median(after - before for _, before, after in figures)
    print(f"  1,000 pending of {records:,}: {seconds * 1000:.1f} ms   (bar <= 100 ms)")
    print(f"  memory beyond the imports: {grown:.1f} MiB   (bar <= 40 MB)")


def syncs() -> None:
    """fsyncs for each commit, counted by strace where there is one."""
    strace = shutil.which("strace")
    if strace is None:
        print("  fsyncs for each commit: not counted (no strace)")
        return
    with tempfile.TemporaryDirectory(prefix="lastword-bench-", dir=".") as name:
        log = Path(name) / "strace"
        command = [sys.executable, __file__, "--commits", str(Path(name) / "journal.db")]
        subprocess.run([strace, "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(log), *command], check=True)
        count = sum("sync(" in line for line in log.read_text().splitlines())
    print(f"  fsyncs for each of 1,000 commits: {count / 1000:.3f}   (bar <= 1.1)")


def commits(path: Path) -> None:
    """A thousand commits of one record, for `syncs`."""
    journal = SqliteJournal(path)
    journal.open(SESSION)
    for _ in range(1000):
        journal.append_many([[record()]])
    journal.close()


def main() -> None:
    """Run what the arguments ask for; everything without any."""
    parser = argparse.ArgumentParser(description="What durability costs.")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--restart", type=Path)
    parser.add_argument("--commits", type=Path)
    arguments = parser.parse_args()
    if arguments.restart is not None:
        before = memory()
        spent, after = anyio.run(restart, arguments.restart)
        print(spent, before, after)
        return
    if arguments.commits is not None:
        commits(arguments.commits)
        return
    print("append")
    appends(arguments.rounds)
    syncs()
    print("notify to a waiting receive")
    print(f"  in memory: {anyio.run(wake, MemoryJournal(), 500) * 1000:.3f} ms   (bar <= 0.5 ms)")
    print("restart")
    restarts(arguments.records)


if __name__ == "__main__":
    main()
