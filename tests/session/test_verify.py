"""`verify` finds every way in which a journal's file can lie, and leaves it as it is."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from session_values import MAIN, SESSION, Job

from lastword.notifier import JournalUnavailableError
from lastword.session import JournalCorruptError, JournalTooNewError
from lastword.session._records import consumption_record
from lastword.session.journal import SqliteJournal, verify

_TRIGGERS = ("DROP TRIGGER written_is_written", "DROP TRIGGER written_stays")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with a bit of everything, closed."""
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    for _ in range(2):
        journal.open(SESSION)
    pending, settled, running = Job(), Job(), Job()
    journal.append_many([job.start_unit() for job in (pending, settled, running)])
    journal.append_many([pending.end_unit(), settled.end_unit(), [consumption_record(settled.ids.command, MAIN)]])
    journal.close()
    return path


def _tamper(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_a_sound_journal_is_found_sound(path: Path) -> None:
    """Nothing is wrong, and what is in it is counted."""
    found = verify(path)
    assert found.sound
    assert (found.session_id, found.epoch, found.records, found.pending, found.unfinished) == (SESSION, 2, 10, 1, 1)


def test_a_journal_in_use_can_be_verified(path: Path) -> None:
    """Verifying takes nothing from whoever writes."""
    journal = SqliteJournal(path)
    assert journal.open(SESSION) == 3
    assert verify(path).sound
    journal.append_many([Job().end_unit()])
    assert verify(path).records == 13
    journal.close()


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        ((*_TRIGGERS, "DELETE FROM record WHERE seq = 4"), "sequence 5 is not where it should be"),
        ((*_TRIGGERS, "UPDATE record SET payload = x'00' WHERE seq = 3"), "sequence 3: its bytes"),
        ((*_TRIGGERS, "UPDATE record SET kind = 9 WHERE seq = 1"), "sequence 1: its bytes"),
        (("UPDATE record SET waiting = NULL WHERE waiting = 1",), "sequence 7: marked pending"),
        (("UPDATE record SET waiting = 1 WHERE seq = 9",), "sequence 9: marked pending"),
        (("UPDATE record SET waiting = 1 WHERE seq = 3",), "sequence 3: marked pending"),
        (("UPDATE record SET unfinished = NULL",), "sequence 5: marked as the first"),
        (("UPDATE record SET unfinished = 1 WHERE seq = 3",), "sequence 3: marked as the first"),
        (("UPDATE record SET unfinished = 1 WHERE seq = 6",), "sequence 6: marked as the first"),
        (
            (*_TRIGGERS, "UPDATE record SET subject = (SELECT subject FROM record WHERE seq = 6) WHERE seq = 8"),
            "UNIQUE",
        ),
        (
            (
                "INSERT INTO record SELECT 11, x'00112233445566778899aabbccddeeff', kind, fingerprint, payload, "
                "loop_id, subject, 0, consumes, public, NULL, NULL FROM record WHERE seq = 6",
            ),
            "sequence 11: a lifecycle record after",
        ),
        (("UPDATE session SET epoch = 3",), "epoch 3 has no fence"),
        (("UPDATE session SET epoch = 1",), "there are fences of epochs after 1"),
        (("DELETE FROM session",), "it names no session"),
    ],
)
def test_a_lie_is_found(path: Path, statements: tuple[str, ...], problem: str) -> None:
    """Each rule that the writer keeps is asked again; one that the file itself keeps cannot even be broken."""
    if problem == "UNIQUE":
        with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
            _tamper(path, *statements)
        return
    _tamper(path, *statements)
    before = path.read_bytes()
    found = verify(path)
    assert not found.sound
    assert any(told.startswith(problem) for told in found.problems), found.problems
    assert path.read_bytes() == before


def test_a_broken_file_has_a_bounded_report(path: Path) -> None:
    """A hundred problems are enough to see what is wrong."""
    journal = SqliteJournal(path)
    journal.open(SESSION)
    journal.append_many([Job().end_unit() for _ in range(200)])
    journal.close()
    _tamper(path, "UPDATE record SET waiting = NULL")
    assert len(verify(path).problems) == 100


def test_what_cannot_be_verified_is_told(tmp_path: Path, path: Path) -> None:
    """No file, no journal, a newer one."""
    with pytest.raises(JournalUnavailableError, match="no such file"):
        verify(tmp_path / "missing.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(JournalCorruptError):
        verify(tmp_path / "empty.db")
    (tmp_path / "garbage.db").write_bytes(b"garbage" * 1000)
    with pytest.raises(JournalCorruptError):
        verify(tmp_path / "garbage.db")
    _tamper(path, "PRAGMA user_version = 9")
    with pytest.raises(JournalTooNewError):
        verify(path)
    with pytest.raises(JournalUnavailableError, match="folder"):
        verify(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(JournalUnavailableError, match="pipe"):
        verify(tmp_path / "pipe")


# --- without a trace --------------------------------------------------------------------------------------------------


def _left(path: Path, folder: Path, state: str) -> Path:
    """A copy of a journal as it is found: closed, or cut off while it was open, with its index or without."""
    journal = SqliteJournal(path)
    journal.open(SESSION)
    journal.append_many([Job().end_unit()])
    if state == "closed":
        journal.close()
    shutil.copytree(path.parent, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(folder.name))
    journal.close()
    if state == "a log alone":
        (folder / "journal.db-shm").unlink()
    elif state == "an empty log":
        # As it is between two appends, when the last one was moved into the file.
        (folder / "journal.db-shm").unlink()
        shutil.copy(path, folder / path.name)
        (folder / "journal.db-wal").write_bytes(b"")
    return folder / path.name


STATES = ("closed", "a log alone", "a log and its index", "an empty log")


def _snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    # The index is shared memory: whoever reads may build it anew.
    return {
        file.name: (b"" if file.suffix.endswith("-shm") else file.read_bytes(), file.stat().st_mode)
        for file in folder.iterdir()
    }


@pytest.mark.parametrize("state", STATES)
def test_verifying_leaves_no_trace(path: Path, tmp_path: Path, state: str) -> None:
    """No byte of any file is another, no file more or less is there, and what is in the log is seen."""
    found = _left(path, tmp_path / "left", state)
    before = _snapshot(found.parent)
    for _ in range(2):
        verified = verify(found)
        assert (verified.problems, verified.records, verified.epoch) == ((), 13, 3)
    assert _snapshot(found.parent) == before


@pytest.fixture
def bare() -> Generator[Path]:
    """A folder that anybody may look into; those of pytest are its user's own."""
    folder = Path(tempfile.mkdtemp(prefix="lastword-test-", dir="/var/tmp"))
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


# Root may write everywhere: so it becomes somebody who may not, when all that is needed has been imported.
_VERIFIER = """
import os, sys, tempfile
from lastword.session.journal import verify
tempfile.gettempdir()
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
for _ in range(2):
    found = verify(sys.argv[1])
    print(found.records, found.problems)
"""


@pytest.mark.parametrize("folder_mode", [0o755, 0o555])
@pytest.mark.parametrize("state", [*STATES, "a log and an index of somebody else's"])
def test_neither_file_nor_folder_need_be_writable(path: Path, bare: Path, state: str, folder_mode: int) -> None:
    """A backup, a mounted image, somebody else's journal."""
    found = _left(path, bare, state)
    for file in bare.iterdir():
        file.chmod(0o000 if file.name.endswith("-shm") and state not in STATES else 0o444)
    bare.chmod(folder_mode)
    before = _snapshot(bare)
    done = subprocess.run(
        [sys.executable, "-c", _VERIFIER, str(found)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.splitlines() == ["13 ()"] * 2, done.stderr
    assert _snapshot(bare) == before


def test_a_link_is_verified_with_the_log_of_what_it_leads_to(path: Path, tmp_path: Path) -> None:
    """SQLite looks for the log there, and so does whoever copies it."""
    found = _left(path, tmp_path / "left", "a log alone")
    (tmp_path / "link").symlink_to(found)
    assert verify(tmp_path / "link").records == 13


@pytest.mark.parametrize("state", ["closed", "a log alone"])
def test_a_journal_that_is_opened_meanwhile_is_not_judged(
    path: Path, tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changes underneath looks damaged: that it was opened is told instead, and its locks are left alone."""
    found = _left(path, tmp_path / "left", state)
    journal = SqliteJournal(found)

    def opened_meanwhile(_: sqlite3.Connection) -> object:
        journal.open(SESSION)
        raise sqlite3.DatabaseError("looks damaged")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("lastword.session.journal._verify._verify", opened_meanwhile)
        with pytest.raises(JournalUnavailableError, match="opened meanwhile"):
            verify(found)
    tried = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    other = subprocess.run([sys.executable, "-c", tried, str(found)], capture_output=True, text=True, check=False)
    assert "BlockingIOError" in other.stderr
    assert verify(found).epoch == 4
    journal.close()
    assert verify(found).sound


def test_copies_that_meet_somebody_leave_no_more_open_than_one(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time somebody comes between the opening of what is copied and its end."""
    found = _left(path, tmp_path / "left", "a log alone")
    pread, times = os.pread, itertools.count(1)

    def read_meanwhile(descriptor: int, size: int, at: int) -> bytes:
        os.utime(found, ns=(next(times), next(times)))
        return pread(descriptor, size, at)

    gc.collect()  # what others have forgotten is closed now, and not meanwhile
    before, opened = psutil.Process().num_fds(), set[int]()
    for _ in range(4):
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(os, "pread", read_meanwhile)
            with pytest.raises(JournalUnavailableError, match="opened meanwhile"):
                verify(found)
        opened.add(psutil.Process().num_fds() - before)
    assert opened == {2}, "the file, and its log"
    assert verify(found).records == 13
    assert psutil.Process().num_fds() == before


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal", "journal.db-shm", "journal.db-journal"])
def test_a_pipe_in_a_folder_of_somebodys_is_refused_and_not_waited_for(path: Path, name: str) -> None:
    (path.parent / name).unlink(missing_ok=True)
    os.mkfifo(path.parent / name)
    code = "import sys; from lastword.session.journal import open_reader\nwith open_reader(sys.argv[1]): pass"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=100, check=False
    )
    assert "JournalUnavailableError" in done.stderr
