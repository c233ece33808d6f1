"""Supervisors for tests: opened in one line, and closed with a count of everything that must not be left."""

from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import attrs
import psutil
import pytest

from lastword.notifier import (
    Event,
    Outbox,
    Owner,
    ProcessNotification,
    RecordKind,
    decode_command,
    decode_event,
)
from lastword.supervisor import Containment, Process, Supervisor, open_supervisor
from lastword.supervisor._record import ProcessRecord
from lastword.supervisor._store import Store
from lastword.supervisor.launch import ContainedLauncher, GroupLauncher, launcher_of

SESSION = UUID("0192f0c1-2345-7abc-8def-0123456789ab")
LOOP = UUID("0192f0c1-2345-7abc-8def-00000000000a")
OTHER_LOOP = UUID("0192f0c1-2345-7abc-8def-00000000000b")
OWNER = Owner(session_id=SESSION, loop_id=LOOP)
OTHER = Owner(session_id=SESSION, loop_id=OTHER_LOOP)

# Nothing here takes so long, on a machine with many others on it either: it only ends what hangs.
HANG_SECONDS = 90.0

_DESCRIPTORS = Path("/proc/self/fd")


@attrs.frozen
class _Held:
    descriptors: int
    threads: frozenset[str]
    children: frozenset[int]
    temporaries: frozenset[str]

    @classmethod
    def now(cls) -> _Held:
        return cls(
            sum(1 for _ in _DESCRIPTORS.iterdir()) if _DESCRIPTORS.exists() else 0,
            # The test runner itself drives trio from a thread of trio's pool (guest mode).
            frozenset(name for thread in threading.enumerate() if not (name := thread.name).startswith("Trio thread")),
            frozenset(pids_without_spares()),
            frozenset(file.name for file in Path(tempfile.gettempdir()).glob("lastword-*")),
        )


def pids_without_spares() -> set[int]:
    """All that descends from this process, but for what a zygote has forked ahead: that comes and goes by itself."""
    while True:
        with contextlib.suppress(psutil.NoSuchProcess):  # one has ended while it was looked at
            return {child.pid for child in psutil.Process().children(recursive=True) if not _is_spare(child)}


def _is_spare(child: psutil.Process) -> bool:
    # Named as its zygote until it has named itself.
    return child.name() in ("lastword-spare", "lastword-zygote") and child.ppid() != os.getpid()


@contextmanager
def nothing_left() -> Generator[None]:
    """No descriptor, thread, child, zombie or temporary file more at the end of the block than at its start."""
    before = _Held.now()
    yield
    for thread in threading.enumerate():
        # Python's own for a child, which ends a moment after that.
        if thread.name.startswith("asyncio-waitpid-") and thread.name not in before.threads:
            thread.join(HANG_SECONDS)
    after = _Held.now()
    assert after.descriptors <= before.descriptors, (before, after)
    assert after.threads <= before.threads, (before, after)
    assert after.children <= before.children, (before, after)
    assert after.temporaries <= before.temporaries, (before, after)


@contextmanager
def no_descriptor_left() -> Generator[None]:
    """This process cannot open another one while the block lasts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


tier: Containment | None = None
"""How supervisors of tests hold their processes (set by a fixture); None: as strongly as this machine can."""


def launcher_class() -> Any:
    """What spawns for the supervisors of the test, to be patched."""
    return GroupLauncher if tier is Containment.PROCESS_GROUP else ContainedLauncher


@asynccontextmanager
async def supervising(directory: Path | None = None, **options: Any) -> AsyncGenerator[Supervisor]:
    """A supervisor of `SESSION` for a block that must leave nothing, and must not hang."""
    if tier is not None:
        options.setdefault("launcher", launcher_of(tier))
    with nothing_left(), anyio.fail_after(HANG_SECONDS):
        async with open_supervisor(directory, session_id=SESSION, **options) as supervisor:
            yield supervisor


def told(outbox: Outbox) -> list[Event | ProcessNotification]:
    """Everything that is due, decoded, in the order in which a courier may deliver it; the outbox is empty after it."""
    return [decoded for unit in told_units(outbox) for decoded in unit]


def told_units(outbox: Outbox) -> list[list[Event | ProcessNotification]]:
    """As `told`, unit by unit."""
    units: list[list[Event | ProcessNotification]] = []
    while heads := outbox.heads():
        for head in heads:
            units.append(
                [
                    decode_command(record.payload)
                    if record.kind is RecordKind.COMMAND
                    else decode_event(record.payload)
                    for record in head.records
                ]
            )
            outbox.mark_delivered(head.position)
    return units


def names(items: list[Event | ProcessNotification]) -> list[str]:
    """The type names of `items`."""
    return [type(item).__name__ for item in items]


async def output_of(process: Process) -> bytes:
    """Everything that is kept of a process's output, to its end."""
    data = b""
    async for chunk in process.follow():
        data += chunk.data
    return data


async def wait_for_output(process: Process, needle: bytes) -> None:
    """Until the process has written `needle`."""
    while needle not in (chunk := await process.read_output(0, 1 << 20)).data:
        assert not chunk.ended, f"ended without {needle!r}: {chunk.data!r}"
        await process.wait_output(chunk.total)


def alive(pid: int) -> bool:
    """Whether `pid` is a process that has not ended."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


async def until(condition: Callable[[], bool]) -> None:
    """Until `condition` holds, for what tells nobody (another process's end); bounded by the caller's `fail_after`."""
    while not condition():  # noqa: ASYNC110 -- nobody is there to set an event
        await anyio.sleep(0.005)


@contextmanager
def failing_saves(
    monkeypatch: pytest.MonkeyPatch, when: Callable[[ProcessRecord], bool], *, committed: bool = False
) -> Generator[list[ProcessRecord]]:
    """While the block lasts the store fails for records that `when` holds of, after committing them or without."""
    failed: list[ProcessRecord] = []
    save = Store.save

    async def failing(self: Store, record: ProcessRecord, units: Any = ()) -> None:
        if not when(record):
            await save(self, record, units)
            return
        if committed:
            await save(self, record, units)
        failed.append(record)
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "save", failing)
        yield failed
