"""A journal is looked into without being opened: nobody is fenced, nothing is changed, nothing is guessed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from session_values import MAIN, SESSION, Job

from lastword.notifier import InvalidArgumentError, JournalUnavailableError
from lastword.session import JournalCorruptError
from lastword.session._records import consumption_record
from lastword.session.journal import SqliteJournal, open_reader


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.mark.parametrize("open_meanwhile", [True, False])
def test_records_and_what_is_unacknowledged_are_those_of_the_journal(path: Path, open_meanwhile: bool) -> None:
    journal = SqliteJournal(path)
    epoch = journal.open(SESSION)
    pending, settled = Job(), Job()
    journal.append_many([pending.start_unit(), settled.start_unit()])
    journal.append_many([pending.end_unit(), settled.end_unit(), [consumption_record(settled.ids.command, MAIN)]])
    everything = journal.read(0, 1000)
    waiting = journal.pending(MAIN, 0, 1000)
    if not open_meanwhile:
        journal.close()
    with open_reader(path) as reader:
        assert reader.session_id == SESSION
        assert list(reader.records()) == everything
        assert list(reader.records(everything[3].seq)) == everything[4:]
        assert reader.unacknowledged() == waiting
        assert [record.record_id for record in waiting] == [pending.ids.command]
        assert reader.holds(settled.ids.started)
        assert not reader.holds(SESSION)
        with pytest.raises(InvalidArgumentError):
            next(reader.records(-1))
    if open_meanwhile:
        assert journal.epoch() == epoch  # nobody was fenced
        journal.append_many([Job().start_unit()])
        journal.close()


def test_more_than_a_page_is_read_in_order(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.open(SESSION)
    journal.append_many([Job().end_unit() for _ in range(300)])
    journal.close()
    with open_reader(path) as reader:
        assert [record.seq for record in reader.records()] == list(range(1, 602))
        assert len(reader.unacknowledged()) == 300


def test_what_the_block_raises_leaves_as_it_is(path: Path) -> None:
    """A broken pipe of the reader's own is no fault of the journal's."""
    journal = SqliteJournal(path)
    journal.open(SESSION)
    journal.close()
    with pytest.raises(BrokenPipeError), open_reader(path):
        raise BrokenPipeError


def test_damage_is_told_where_it_is_met(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.open(SESSION)
    journal.append_many([Job().start_unit()])
    journal.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TRIGGER written_is_written")
        connection.execute("UPDATE record SET kind = 9 WHERE seq = 2")
    with open_reader(path) as reader, pytest.raises(JournalCorruptError, match="sequence 2"):
        list(reader.records())
    with open_reader(path) as reader:
        assert not list(reader.records(2))  # what is behind it can be read


def test_no_journal_is_made(path: Path) -> None:
    with pytest.raises(JournalUnavailableError, match="no such file"), open_reader(path):
        pass
    assert not path.exists()
