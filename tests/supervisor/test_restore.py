"""What the next opening finds: lost processes told with their own ids, unsent units, ended processes, kept output."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from uuid import UUID

import pytest
from supervising import LOOP, OWNER, SESSION, alive, names, nothing_left, output_of, supervising, told, until

from lastword.notifier import (
    Owner,
    ProcessCompleted,
    ProcessLost,
    ProcessNotification,
    ProcessState,
    TerminalReason,
    process_ids,
)
from lastword.supervisor import Containment, ErrorCode, Limits, ProcessNotFoundError, SupervisorError, open_supervisor

pytestmark = pytest.mark.usefixtures("each_tier")

HOST = f"""
import os, signal, sys
from pathlib import Path
from uuid import UUID
import anyio
from lastword.notifier import Owner
from lastword.supervisor import Containment, open_supervisor
from lastword.supervisor.launch import launcher_of

async def main():
    session = UUID("{SESSION}")
    owner = Owner(session_id=session, loop_id=UUID("{LOOP}"))
    async with open_supervisor(
        Path(sys.argv[1]), session_id=session, launcher=launcher_of(Containment[sys.argv[2]])
    ) as supervisor:
        ended = await supervisor.start("echo bye; exit 3", owner=owner, name="ended")
        await ended.wait()
        running = await supervisor.start(["sh", "-c", "echo $$; exec sleep 300"], owner=owner, name="running")
        await running.wait_output(0)
        chunk = await running.read_output()
        print(ended.handle, running.handle, running.command_id, chunk.data.decode().strip(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""

STRANGER = Owner(session_id=SESSION, loop_id=UUID(int=99))


async def test_a_killed_host_leaves_lost_processes_and_unsent_words(tmp_path: Path, each_tier: Containment) -> None:
    """SIGKILL of a real host: the next opening tells what was lost with the ids of then, once, and keeps the rest."""
    done = subprocess.run(
        [sys.executable, "-c", HOST, str(tmp_path), each_tier.name], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    ended_handle, lost_handle, command_id, pid = done.stdout.split()
    contained = each_tier is not Containment.PROCESS_GROUP
    if not contained:  # this tier cannot end what a dead host left; the test does
        os.kill(int(pid), signal.SIGKILL)
        await until(lambda: not alive(int(pid)))
    diagnostic = "host_died" if contained else "tree_not_proven"
    ids = process_ids(UUID(command_id))

    async with supervising(tmp_path) as supervisor:
        lost = supervisor.get(lost_handle, OWNER)
        assert not alive(int(pid))
        outcome = await lost.wait()
        assert (outcome.state, outcome.reason) == (ProcessState.LOST_ON_RESTORE, TerminalReason.LOST_ON_RESTORE)
        assert (outcome.diagnostic, outcome.proven) == (diagnostic, contained)
        assert (outcome.exit_code, outcome.signal) == (None, None)
        assert outcome.started_at == lost.started_at
        assert await output_of(lost) == f"{pid}\n".encode()
        ended = supervisor.get(ended_handle, OWNER)
        assert (ended.name, (await ended.wait()).exit_code) == ("ended", 3)
        assert await output_of(ended) == b"bye\n"
        assert [process.name for process in supervisor.list(OWNER)] == ["ended", "running"]

        items = told(supervisor.outbox)
        assert sorted(names(items)) == sorted(
            [
                "ProcessStarted",
                "ProcessCompleted",
                "ProcessNotification",
                "ProcessStarted",
                "ProcessLost",
                "ProcessNotification",
            ]
        )
        (event,) = [item for item in items if isinstance(item, ProcessLost)]
        assert event.header.event_id == ids.lost
        assert event.process.diagnostic == diagnostic
        assert ids.command in [i.notification.command_id for i in items if isinstance(i, ProcessNotification)]

    async with supervising(tmp_path) as supervisor:
        assert supervisor.pending() == []
        again = supervisor.get(lost_handle, OWNER)
        assert await again.wait() == outcome
        assert await again.stop() is again.outcome


async def test_units_are_byte_identical_after_a_restart(tmp_path: Path) -> None:
    """A retry is the same record, whichever incarnation makes it; a delivered one does not come back."""
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start("exit 3", owner=OWNER)
        await process.wait()
        (first,) = supervisor.outbox.heads()
        supervisor.outbox.mark_delivered(first.position)
        before = supervisor.outbox.heads()
    async with supervising(tmp_path) as supervisor:
        after = supervisor.outbox.heads()
        assert after == before
        assert [record.payload for record in after[0].records] == [record.payload for record in before[0].records]
        assert after[0].records[0].terminal
        assert not after[0].records[1].public
        # New units come after the old ones.
        other = await supervisor.start("exit 0", owner=OWNER)
        await other.wait()
        assert [head.subject for head in supervisor.outbox.heads()] == [process.handle, other.handle]


async def test_a_start_whose_record_alone_is_durable_is_lost(tmp_path: Path) -> None:
    """Recorded and never spawned, for all that anybody knows: lost, without a start time."""
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start("true", owner=OWNER)
        await process.wait()
        assert not (tmp_path / "output" / process.handle).exists()
        told(supervisor.outbox)
    connection = sqlite3.connect(tmp_path / "supervisor.db")
    connection.execute("UPDATE process SET state = 1, started_at = NULL")
    connection.commit()
    connection.close()
    async with supervising(tmp_path) as supervisor:
        outcome = await supervisor.get(process.handle, OWNER).wait()
        assert (outcome.state, outcome.started_at) == (ProcessState.LOST_ON_RESTORE, None)
        lost, notification = told(supervisor.outbox)
        assert isinstance(lost, ProcessLost)
        assert isinstance(notification, ProcessNotification)


async def test_quarantine_outlives_a_restart(tmp_path: Path) -> None:
    """A unit that can never be appended is kept, shown, and out of the way of the next one."""
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start("true", owner=OWNER)
        await process.wait()
        (started,) = supervisor.outbox.heads()
        await supervisor.outbox.quarantine(started.position, "a collision")
        (last,) = supervisor.outbox.heads()
        assert names(told(supervisor.outbox)) == ["ProcessCompleted", "ProcessNotification"]
        assert last.position > started.position
    async with supervising(tmp_path) as supervisor:
        assert supervisor.outbox.heads() == []
        (entry,) = supervisor.pending()
        assert (entry.status, entry.last_error, entry.kind) == ("quarantined", "a collision", "event")
        assert entry.record_id == started.records[0].record_id
        assert entry.process_handle == process.handle


async def test_retention_is_by_last_use_and_never_drops_what_is_to_be_told(tmp_path: Path) -> None:
    """The ended processes that were used last are kept; an evicted one leaves no row and no file, but its units."""
    async with supervising(tmp_path, limits=Limits(retained_completed=2)) as supervisor:
        first, second = [await supervisor.start("echo x", owner=OWNER) for _ in range(2)]
        await supervisor.wait_all([first, second])
        assert supervisor.get(first.handle, OWNER) is first  # used: `second` is the oldest now
        with pytest.raises(ProcessNotFoundError):
            supervisor.get(second.handle, STRANGER)  # and a stranger's look does not change that
        with pytest.raises(ProcessNotFoundError):
            supervisor.get([], OWNER)  # type: ignore[arg-type]  # the mistake is the test
        third = await supervisor.start("echo x", owner=OWNER)
        await third.wait()
        await supervisor.wait_all([third])
        assert supervisor.list(OWNER) == [first, third]
        with pytest.raises(ProcessNotFoundError):
            supervisor.get(second.handle, OWNER)
        with pytest.raises(ProcessNotFoundError):
            await second.read_output()
        assert second.outcome is not None
        assert {file.name for file in (tmp_path / "output").iterdir()} == {first.handle, third.handle}
        assert sum(entry.process_handle == second.handle for entry in supervisor.pending()) == 3
    connection = sqlite3.connect(tmp_path / "supervisor.db")
    rows = {handle for (handle,) in connection.execute("SELECT handle FROM process")}
    connection.close()
    assert rows == {first.handle, third.handle}
    async with supervising(tmp_path, limits=Limits(retained_completed=1)) as supervisor:
        assert [process.handle for process in supervisor.list(OWNER)] == [third.handle]
        assert sum(isinstance(item, ProcessCompleted) for item in told(supervisor.outbox)) == 3


async def test_what_is_in_the_folder_and_in_no_record_is_removed(tmp_path: Path) -> None:
    """A file whose record is gone belongs to nobody; a record whose file is gone reads as omitted."""
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start("echo hi", owner=OWNER)
        await process.wait()
    (tmp_path / "output" / process.handle).unlink()
    (tmp_path / "output" / ("A" * 22)).write_bytes(b"orphan")
    async with supervising(tmp_path) as supervisor:
        assert list((tmp_path / "output").iterdir()) == []
        chunk = await supervisor.get(process.handle, OWNER).read_output()
        assert (chunk.data, chunk.omitted, chunk.ended) == (b"", (0, 3), True)


async def test_a_store_of_another_session_or_version_or_none_at_all_is_refused(tmp_path: Path) -> None:
    """Typed errors at opening, and nothing is left open or changed."""

    async def code_of_opening(session_id: UUID = SESSION) -> ErrorCode:
        with pytest.raises(SupervisorError) as caught:
            async with open_supervisor(tmp_path, session_id=session_id):
                raise AssertionError("opened")
        assert str(tmp_path) not in str(caught.value)
        return caught.value.code

    async with supervising(tmp_path):
        pass
    file = tmp_path / "supervisor.db"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert await code_of_opening(UUID(int=7)) is ErrorCode.INVALID_SETTINGS
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert await code_of_opening() is ErrorCode.INVALID_SETTINGS
    file.write_bytes(b"not a database, and long enough to be seen as none" * 100)
    assert await code_of_opening() is ErrorCode.MANIFEST_CORRUPT


async def test_rows_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    """A damaged row is manifest_corrupt, not a traceback from deep inside."""
    async with supervising(tmp_path) as supervisor:
        await (await supervisor.start("true", owner=OWNER)).wait()
    connection = sqlite3.connect(tmp_path / "supervisor.db")
    connection.execute("UPDATE process SET base_id = x'00'")
    connection.commit()
    connection.close()
    with pytest.raises(SupervisorError) as caught:
        async with open_supervisor(tmp_path, session_id=SESSION):
            raise AssertionError("opened")
    assert caught.value.code is ErrorCode.MANIFEST_CORRUPT


async def test_a_folder_that_cannot_be_used_is_a_typed_error_that_shows_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in the way of the output, of the store, or of a temporary folder: invalid_settings, and no traceback."""
    (in_the_way := tmp_path / "state").mkdir()
    (in_the_way / "output").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    for directory in (in_the_way, tmp_path / "missing", None):
        with nothing_left(), pytest.raises(SupervisorError) as caught:
            async with open_supervisor(directory, session_id=SESSION):
                raise AssertionError("opened")
        assert caught.value.code is ErrorCode.INVALID_SETTINGS, directory
        assert str(tmp_path) not in str(caught.value)
        assert caught.value.__suppress_context__


async def test_what_is_no_file_of_ours_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A folder or a link where output is kept: left alone and logged without its path; one in the place of a process's
    output reads as omitted."""
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start("echo hi", owner=OWNER)
        await process.wait()
    output = tmp_path / "output"
    (output / process.handle).unlink()
    (output / process.handle).mkdir()
    (output / "folder").mkdir()
    (output / "link").symlink_to(tmp_path / "supervisor.db")
    async with supervising(tmp_path) as supervisor:
        chunk = await supervisor.get(process.handle, OWNER).read_output()
        assert (chunk.data, chunk.omitted, chunk.ended) == (b"", (0, 3), True)
    assert {file.name for file in output.iterdir()} == {process.handle, "folder", "link"}
    assert "not ours" in caplog.text
    assert str(tmp_path) not in caplog.text
