"""A state directory is looked into while somebody holds it, after its host's death, and closed: and stays as it is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from supervising import OWNER, SESSION, supervising, wait_for_output

from lastword.notifier import ProcessState
from lastword.supervisor import ErrorCode, SupervisorError, hold_directory, view_directory
from lastword.supervisor._directory import STORE
from lastword.supervisor.launch._site import KEEPERS_LOCK

HOST = """
import sys, anyio, lastword
async def main():
    async with lastword.open_runtime(sys.argv[1]) as runtime:
        process = await runtime.start("echo hello; sleep 600", name="sleeper")
        await process.wait_output(5)
        print(process.handle, flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


def _snapshot(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """Every file and what is in it, but for SQLite's index, which it makes anew for whoever reads after a crash."""
    return {
        file.name: (file.stat().st_mode, None if file.is_dir() or file.name.endswith("-shm") else file.read_bytes())
        for file in folder.rglob("*")
    }


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A state directory that names its session, held by nobody."""
    with hold_directory(tmp_path / "state", session_id=SESSION, new_id=uuid4):
        pass
    return tmp_path / "state"


async def test_what_runs_and_what_has_ended_is_seen_beside_its_supervisor(directory: Path) -> None:
    async with supervising(directory) as supervisor:
        ended = await supervisor.start("printf done; exit 3", owner=OWNER, name="ended")
        outcome = await ended.wait()
        running = await supervisor.start("printf more; sleep 600", owner=OWNER, background=True)
        await wait_for_output(running, b"more")
        seen = view_directory(directory)
        assert [view.handle for view in seen.processes] == [ended.handle, running.handle]
        first, second = seen.processes
        assert (first.name, first.program, first.state) == ("ended", "sh", ProcessState.EXITED)
        assert (first.outcome, first.owner, first.command_id) == (outcome, OWNER, ended.command_id)
        chunk = first.read_output()
        assert (chunk.data, chunk.ended) == (b"done", True)
        assert (second.state, second.outcome, second.backgrounded) == (ProcessState.RUNNING, None, True)
        chunk = second.read_output(2)
        assert (chunk.data, chunk.ended, chunk.total) == (b"re", False, 4)
        with pytest.raises(SupervisorError) as caught:
            second.read_output(5)
        assert caught.value.code is ErrorCode.CURSOR_AHEAD
        # Nobody takes the units here: the two of the ended one (three records) and the running one's first.
        assert [(each.process_handle, each.kind, each.status) for each in seen.undelivered] == [
            (ended.handle, "event", "waiting"),
            (ended.handle, "event", "waiting"),
            (ended.handle, "notification", "waiting"),
            (running.handle, "event", "waiting"),
        ]


def test_a_dead_hosts_directory_is_seen_as_it_was_left_and_nothing_in_it_changes(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with subprocess.Popen([sys.executable, "-c", HOST, str(folder)], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        handle = host.stdout.readline().strip()
        assert view_directory(folder).held
        host.send_signal(signal.SIGKILL)
        host.wait()
    with (folder / KEEPERS_LOCK).open() as lock:  # they write the ring's last header, and let go when all is over
        fcntl.flock(lock, fcntl.LOCK_EX)
    before = _snapshot(folder)
    seen = view_directory(folder)
    assert not seen.held
    (view,) = seen.processes
    assert (view.handle, view.name, view.state, view.outcome) == (handle, "sleeper", ProcessState.RUNNING, None)
    assert view.read_output().data == b"hello\n"
    assert _snapshot(folder) == before


async def test_a_handle_that_is_a_way_out_of_the_folder_is_not_followed(directory: Path) -> None:
    async with supervising(directory) as supervisor:
        process = await supervisor.start("true", owner=OWNER)
        await process.wait()
    with contextlib.closing(sqlite3.connect(directory / STORE)) as store, store:
        assert store.execute("UPDATE process SET handle = '../../elsewhere'").rowcount == 1
    with pytest.raises(SupervisorError) as caught:
        view_directory(directory)
    assert caught.value.code is ErrorCode.MANIFEST_CORRUPT


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", [os.mkfifo, _endless], ids=["a pipe", "an endless device"])
@pytest.mark.parametrize("name", ["session.id", "lock", STORE, f"{STORE}-wal", f"{STORE}-shm"])
def test_what_is_no_file_in_somebodys_directory_is_refused_and_not_waited_for(
    directory: Path, name: str, kind: Callable[[Path], None]
) -> None:
    """Root looks into it: of another process, since this one could not end the wait."""
    sqlite3.connect(directory / STORE).close()
    (directory / name).unlink(missing_ok=True)
    kind(directory / name)
    asked = "import sys; from lastword.supervisor import view_directory; view_directory(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", asked, str(directory)], capture_output=True, text=True, timeout=200, check=False
    )
    assert "SupervisorError" in done.stderr.splitlines()[-1]


def test_what_is_no_state_directory_is_told_and_not_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "absent", tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(SupervisorError, match="no state directory") as caught:
            view_directory(place)
        assert caught.value.code is ErrorCode.INVALID_SETTINGS
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_one_that_may_not_be_looked_into_is_not_told_as_damaged(directory: Path) -> None:
    directory.chmod(0)
    with unprivileged(), pytest.raises(SupervisorError, match="may not be looked into") as caught:
        view_directory(directory)
    assert caught.value.code is ErrorCode.INVALID_SETTINGS
    directory.chmod(0o700)


@contextmanager
def unprivileged() -> Generator[None]:
    """As a user whom permissions bind."""
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        yield
    finally:
        os.seteuid(user)


async def test_what_cannot_be_read_of_an_output_is_refused_by_the_argument(directory: Path) -> None:
    """As a process refuses it, whether there is anything to read or not."""
    async with supervising(directory) as supervisor:
        process = await supervisor.start("echo output", owner=OWNER)
        await process.wait()
        (view,) = view_directory(directory).processes
        for cursor, most, word in ((-1, 1, "cursor"), (0, 0, "max_bytes"), (0, -1, "max_bytes"), (7, 0, "max_bytes")):
            with pytest.raises(SupervisorError, match=word) as caught:
                view.read_output(cursor, most)
            assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
        with pytest.raises(SupervisorError, match="streams") as caught:
            view.read_output(streams="stderr")
        assert caught.value.code is ErrorCode.INVALID_ARGUMENTS


def test_a_new_directory_without_a_store_has_no_processes(directory: Path) -> None:
    seen = view_directory(directory)
    assert (seen.session_id, seen.held, seen.processes, seen.undelivered) == (SESSION, False, (), ())


def test_the_holder_is_seen_in_this_process_and_keeps_its_lock(directory: Path) -> None:
    """Asking the system would drop it: closing any descriptor of a file drops the process's locks on it."""
    with hold_directory(directory, session_id=None, new_id=uuid4):
        assert view_directory(directory).held
        assert _is_held_for_others(directory)
    assert not view_directory(directory).held


def _is_held_for_others(directory: Path) -> bool:
    """What another process is told."""
    asked = "import sys; from lastword.supervisor import view_directory; print(view_directory(sys.argv[1]).held)"
    told = subprocess.run([sys.executable, "-c", asked, str(directory)], capture_output=True, text=True, check=True)
    return {"True\n": True, "False\n": False}[told.stdout]


def test_a_look_does_not_take_the_lock_from_a_thread_that_comes_meanwhile(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the look's end, or its lock would go with the file that is looked at."""
    came, held, over = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        came.set()
        with hold_directory(directory, session_id=None, new_id=uuid4):
            held.set()
            over.wait()

    ask: Callable[..., Any] = fcntl.fcntl
    other = threading.Thread(target=hold)

    def asked_in_between(*arguments: Any) -> Any:
        other.start()
        came.wait()
        held.wait(0.2)  # what must not come
        return ask(*arguments)

    with hold_directory(directory, session_id=None, new_id=uuid4):
        pass  # there is a file to look at
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "fcntl", asked_in_between)
        assert not view_directory(directory).held
    try:
        assert held.wait(60)
        assert _is_held_for_others(directory)
    finally:
        over.set()
        other.join()


@pytest.mark.parametrize("damage", [b"", b"x" * 4096])
def test_a_damaged_store_is_told_without_a_path(directory: Path, damage: bytes) -> None:
    (directory / "supervisor.db").write_bytes(b"SQLite format 3\0" + damage)
    with pytest.raises(SupervisorError) as caught:
        view_directory(directory)
    assert caught.value.code is ErrorCode.MANIFEST_CORRUPT
    assert str(directory) not in str(caught.value)
