"""`verify` finds every way in which a journal's file can lie, and leaves it as it is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

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
