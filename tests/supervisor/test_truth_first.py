"""What a keeper wrote while its host was dead is told at the next opening; only where it wrote nothing, a loss is."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias
from unittest.mock import patch
from uuid import UUID

import pytest
from ring_ground import Act, System, written
from supervising import OWNER, SESSION, names, supervising, told

from lastword.notifier import (
    OutboxUnit,
    ProcessCompleted,
    ProcessLost,
    ProcessNotification,
    ProcessStarted,
    ProcessState,
    TerminalReason,
)
from lastword.supervisor import Outcome, OutputFault, SupervisorError
from lastword.supervisor._record import ProcessRecord
from lastword.supervisor._rows import steps
from lastword.supervisor._store import Store
from lastword.supervisor._units import started_unit
from lastword.supervisor.shim import _ring as writing
from lastword.supervisor.shim._ring import TEMPORARY_SUFFIX, RingWriter

CREATED = datetime(2026, 3, 14, 9, tzinfo=UTC)
STARTED = CREATED.replace(minute=1)
RECORD = ProcessRecord(
    handle="handle",
    base_id=UUID("0192f0c1-2345-7abc-8def-000000000100"),
    owner=OWNER,
    origin_execution_id=UUID(int=1),
    name="n",
    program="p",
    created_at=CREATED,
)
LIMIT = 100

Keep: TypeAlias = Callable[[RingWriter], None]


async def leave(folder: Path, keep: Keep, *, running: bool = True) -> Path:
    """A state folder as a host leaves it that dies now; `keep` is what the job's keeper still writes."""
    store = Store(folder / "supervisor.db", SESSION)
    await store.save(RECORD)
    if running:
        record = RECORD.running(STARTED, backgrounded=False)
        await store.save(record, [OutboxUnit(position=1, subject=RECORD.handle, records=started_unit(record))])
    await store.aclose()
    (folder / "output").mkdir(mode=0o700)
    writer = RingWriter(str(folder / "output" / RECORD.handle), LIMIT)
    keep(writer)
    writer.close()
    return folder


def kept(size: int = 5, status: int | None = None, *, by_host_death: bool = False) -> Keep:
    """A keeper that drained `size` bytes, and reaped the leader if there is a status; it died before it could seal."""

    def keep(writer: RingWriter) -> None:
        writer.append(memoryview(written(0, size)))
        writer.publish()
        if status is not None or by_host_death:
            writer.note_exit(status, by_host_death=by_host_death)

    return keep


def sealed(size: int = 5, status: int | None = None, *, by_host_death: bool = False, proven: bool = True) -> Keep:
    """The same, and it came to its end."""

    def keep(writer: RingWriter) -> None:
        kept(size, status, by_host_death=by_host_death)(writer)
        writer.seal(proven=proven)

    return keep


EXITED: dict[str, tuple[Keep, int | None, int | None, int, bool]] = {
    "exit code": (sealed(status=3 << 8), 3, None, 3, True),
    "exit code 0, and silent": (sealed(0, status=0), 0, None, 0, True),
    "somebody's signal": (sealed(status=9), None, 9, 137, True),
    "somebody's signal, with a core": (sealed(status=0x80 | 6), None, 6, 134, True),
    "survivors, or none that prove": (sealed(status=1 << 8, proven=False), 1, None, 1, False),
    "a keeper that died then": (kept(status=7 << 8), 7, None, 7, False),
}

LOST: dict[str, tuple[Keep, str, bool, int]] = {
    "killed with its host": (sealed(status=9, by_host_death=True), "host_died", True, 5),
    "killed with its host, not to the end": (kept(status=9, by_host_death=True), "tree_not_proven", False, 5),
    "a status that nobody knows": (sealed(), "exit_unknown", True, 5),
    "a status that is no end": (sealed(status=0x137F), "exit_unknown", True, 5),
    "a keeper that died before": (kept(), "tree_not_proven", False, 5),
    "nothing": (lambda _: None, "tree_not_proven", False, 0),
}


@pytest.mark.parametrize("kind", EXITED)
async def test_an_end_that_was_noted_is_told_as_the_end(kind: str, tmp_path: Path) -> None:
    """Exited, with its code or signal and its output; told once, by the ids that it always had."""
    keep, exit_code, signal, on_the_wire, proven = EXITED[kind]
    size = 0 if "silent" in kind else 5
    await leave(tmp_path, keep)
    async with supervising(tmp_path) as supervisor:
        process = supervisor.get(RECORD.handle, OWNER)
        outcome = await process.wait()
        assert (outcome.state, outcome.reason) == (ProcessState.EXITED, TerminalReason.EXITED)
        assert (outcome.exit_code, outcome.signal, outcome.proven) == (exit_code, signal, proven)
        assert (outcome.total_bytes, outcome.output_error, outcome.diagnostic) == (size, None, "")
        assert outcome.started_at == STARTED <= outcome.finished_at
        chunk = await process.read_output()
        assert (chunk.data, chunk.total, chunk.ended) == (written(0, size), size, True)
        started, completed, notification = told(supervisor.outbox)
        assert isinstance(started, ProcessStarted)
        assert isinstance(completed, ProcessCompleted)
        assert isinstance(notification, ProcessNotification)
        assert completed.process.event_id == RECORD.ids.completed
        assert completed.process.exit_code == on_the_wire
        assert notification.header.command_id == RECORD.ids.command
        assert notification.notification.state is ProcessState.EXITED
    async with supervising(tmp_path) as supervisor:
        assert await supervisor.get(RECORD.handle, OWNER).wait() == outcome
        assert told(supervisor.outbox) == []


@pytest.mark.parametrize("kind", LOST)
async def test_an_end_that_nobody_has_seen_is_lost(kind: str, tmp_path: Path) -> None:
    """Told as lost, with what is known: how much it wrote, and whether something of it may be left."""
    keep, diagnostic, proven, size = LOST[kind]
    await leave(tmp_path, keep)
    async with supervising(tmp_path) as supervisor:
        outcome = await supervisor.get(RECORD.handle, OWNER).wait()
        assert (outcome.state, outcome.reason) == (ProcessState.LOST_ON_RESTORE, TerminalReason.LOST_ON_RESTORE)
        assert (outcome.exit_code, outcome.signal, outcome.total_bytes) == (None, None, size)
        assert (outcome.diagnostic, outcome.proven) == (diagnostic, proven)
        assert (await supervisor.get(RECORD.handle, OWNER).read_output()).data == written(0, size)
        _, lost, notification = told(supervisor.outbox)
        assert isinstance(lost, ProcessLost)
        assert (lost.process.event_id, lost.process.diagnostic) == (RECORD.ids.lost, diagnostic)
        assert isinstance(notification, ProcessNotification)


async def test_a_file_that_is_no_ring_is_not_believed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is lost, with nothing kept; and what is in the place of its output is told without a path."""
    await leave(tmp_path, lambda _: None)
    (tmp_path / "output" / RECORD.handle).write_bytes(b"somebody else's" * 1_000)
    async with supervising(tmp_path) as supervisor:
        process = supervisor.get(RECORD.handle, OWNER)
        outcome = await process.wait()
        assert (outcome.state, outcome.total_bytes) == (ProcessState.LOST_ON_RESTORE, 0)
        chunk = await process.read_output()
        assert (chunk.data, chunk.ended) == (b"", True)
    assert "damaged, or not ours" in caplog.text
    assert str(tmp_path) not in caplog.text


async def test_what_ended_before_it_was_noted_that_it_runs_did_run(tmp_path: Path) -> None:
    """The host died between the spawn and its note: Started is told first, then the end, in one transaction."""
    await leave(tmp_path, sealed(status=4 << 8), running=False)
    async with supervising(tmp_path) as supervisor:
        outcome = await supervisor.get(RECORD.handle, OWNER).wait()
        assert (outcome.state, outcome.exit_code, outcome.started_at) == (ProcessState.EXITED, 4, CREATED)
        assert names(told(supervisor.outbox)) == ["ProcessStarted", "ProcessCompleted", "ProcessNotification"]


@pytest.mark.parametrize("kind", LOST)
async def test_what_was_lost_before_it_was_noted_that_it_runs_is_just_lost(kind: str, tmp_path: Path) -> None:
    """No Started is made up for it."""
    keep, diagnostic, *_ = LOST[kind]
    await leave(tmp_path, keep, running=False)
    async with supervising(tmp_path) as supervisor:
        outcome = await supervisor.get(RECORD.handle, OWNER).wait()
        assert (outcome.started_at, outcome.diagnostic) == (None, diagnostic)
        assert names(told(supervisor.outbox)) == ["ProcessLost", "ProcessNotification"]


@pytest.mark.parametrize("seal", [True, False])
async def test_a_ring_that_went_round_reads_as_the_last_bytes(seal: bool, tmp_path: Path) -> None:
    """Exactly the limit counts, also where nobody could seal it; omitted and kept are everything."""
    size = 300_000
    await leave(tmp_path, (sealed if seal else kept)(size, status=0))
    async with supervising(tmp_path) as supervisor:
        process = supervisor.get(RECORD.handle, OWNER)
        assert (await process.wait()).total_bytes == size
        chunk = await process.read_output()
        assert (chunk.data, chunk.omitted) == (written(size - LIMIT, size), (0, size - LIMIT))


async def test_a_disk_that_failed_is_told(tmp_path: Path) -> None:
    """The header has the fault, so it is in the outcome."""

    def keep(writer: RingWriter) -> None:
        system = System()
        with patch.object(writing, "os", system):
            writer.append(memoryview(written(0, 5)))
            system.plan = {system.calls: Act("short", 2), system.calls + 1: Act("fail", 0)}
            writer.append(memoryview(written(5, 12)))
            writer.note_exit(0, by_host_death=False)
            writer.seal(proven=True)
        assert writer.fault == (7, errno.ENOSPC)

    await leave(tmp_path, keep)
    fault = OutputFault(offset=7, code="ENOSPC")
    async with supervising(tmp_path) as supervisor:
        process = supervisor.get(RECORD.handle, OWNER)
        outcome = await process.wait()
        assert (outcome.state, outcome.total_bytes, outcome.output_error) == (ProcessState.EXITED, 12, fault)
        chunk = await process.read_output()
        assert (chunk.data, chunk.output_error) == (written(0, 7), fault)
        assert (await process.read_output(7)).omitted == (7, 12)


async def test_a_file_that_was_being_made_is_removed(tmp_path: Path) -> None:
    """Its writer died before it appeared, so it says nothing."""
    await leave(tmp_path, lambda _: None)
    (tmp_path / "output" / (RECORD.handle + TEMPORARY_SUFFIX)).write_bytes(b"half a header")
    async with supervising(tmp_path):
        assert list((tmp_path / "output").iterdir()) == []


# --- a store of version 1 ---------------------------------------------------------------------------------------------


def store_of_version_1(file: Path) -> None:
    """As the first version made it, with a process that had ended and one that had not."""
    connection = sqlite3.connect(file)
    for statement in steps()[0]:
        connection.execute(statement)
    connection.execute("INSERT INTO session VALUES (?)", (SESSION.bytes,))
    owner = (OWNER.session_id.bytes, OWNER.loop_id.bytes, UUID(int=1).bytes, "n", "p")
    times = (CREATED.isoformat(), STARTED.isoformat())
    row = ("ended", UUID(int=16 << 8).bytes, *owner, times[0], int(ProcessState.EXITED), times[1], False, 1_000)
    end = (int(TerminalReason.EXITED), 3, None, times[1], 0, False, 5_000, None, None, 1, False, "")
    connection.execute(f"INSERT INTO process VALUES ({', '.join('?' * 24)})", (*row, *end))
    row = ("ran", UUID(int=17 << 8).bytes, *owner, times[0], int(ProcessState.RUNNING), times[1], False, 0)
    connection.execute(f"INSERT INTO process VALUES ({', '.join('?' * 24)})", (*row, *(None,) * 12))
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()


async def test_a_store_of_version_1_is_brought_forward(tmp_path: Path) -> None:
    """Records are as they were; what they had kept is in no ring, so it is told as omitted; nothing is lost twice."""
    store_of_version_1(tmp_path / "supervisor.db")
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "ended").write_bytes(bytes(1_000))
    (tmp_path / "output" / "ran").write_bytes(bytes(10))
    outcomes: list[Outcome] = []
    for opening in range(2):
        async with supervising(tmp_path) as supervisor:
            ended, ran = (supervisor.get(handle, OWNER) for handle in ("ended", "ran"))
            outcome = await ended.wait()
            assert (outcome.exit_code, outcome.total_bytes) == (3, 5_000)
            chunk = await ended.read_output()
            assert (chunk.data, chunk.omitted, chunk.ended) == (b"", (0, 5_000), True)
            assert (await ran.wait()).state is ProcessState.LOST_ON_RESTORE
            outcomes.append(await ran.wait())
            assert names(told(supervisor.outbox)) == ([] if opening else ["ProcessLost", "ProcessNotification"])
            fresh = await supervisor.start("echo hi", owner=OWNER, output_limit=2)
            assert (await fresh.wait()).total_bytes == 3
            told(supervisor.outbox)
            assert (await fresh.read_output()).data == b"i\n"
    assert outcomes[0] == outcomes[1]


async def test_a_store_of_version_1_of_another_session_is_left_as_it_is(tmp_path: Path) -> None:
    """It is refused before it is changed."""
    store_of_version_1(tmp_path / "supervisor.db")
    before = _schema(tmp_path / "supervisor.db")
    with pytest.raises(SupervisorError, match="belongs to session"):
        Store(tmp_path / "supervisor.db", UUID(int=7))
    assert _schema(tmp_path / "supervisor.db") == before


async def test_a_step_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps are one transaction: the next opening makes them all."""
    store_of_version_1(tmp_path / "supervisor.db")
    before = _schema(tmp_path / "supervisor.db")
    with monkeypatch.context() as patching:
        broken = (*steps()[:-1], (*steps()[-1], "ALTER TABLE missing ADD COLUMN x"))
        patching.setattr("lastword.supervisor._store.steps", lambda: broken)
        with pytest.raises(SupervisorError, match="manifest_corrupt"):
            Store(tmp_path / "supervisor.db", SESSION)
    assert _schema(tmp_path / "supervisor.db") == before
    store = Store(tmp_path / "supervisor.db", SESSION)
    ended, _ = store.load()[0]
    assert ended.kept == (0, 1_000)
    await store.aclose()


def _schema(file: Path) -> list[object]:
    connection = sqlite3.connect(file)
    said = [*connection.execute("PRAGMA user_version"), *connection.execute("SELECT sql FROM sqlite_master ORDER BY 1")]
    connection.close()
    return said
