"""What only the file has: durability settings, modes, versions, and the ways in which a disk fails."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Generator
from contextlib import closing
from functools import partial
from pathlib import Path
from uuid import UUID

import anyio
import pytest
from session_values import MAIN, SESSION, Job

from lastword.notifier import (
    Appended,
    Duplicate,
    JournalFencedError,
    JournalUnavailableError,
    LifecycleKind,
    RecordKind,
)
from lastword.session import JournalCorruptError, JournalSessionError, JournalTooNewError, open_session
from lastword.session._records import consumption_record
from lastword.session.journal import SqliteJournal, verify
from lastword.session.journal import _schema as schema
from lastword.session.journal._filesystem import filesystem_of, network_filesystem


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the journal is to be; neither it nor its folder is there."""
    return tmp_path / "state" / "journal.db"


@pytest.fixture
def journal(path: Path) -> Generator[SqliteJournal]:
    """An open journal, closed at the end."""
    journal = SqliteJournal(path)
    journal.open(SESSION)
    yield journal
    journal.close()


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}


def _peek(path: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


def test_the_constructor_touches_nothing(path: Path) -> None:
    """A journal that nobody opens makes no file and no folder."""
    SqliteJournal(path).close()
    assert not path.parent.exists()


def test_file_and_folder_are_private(journal: SqliteJournal, path: Path) -> None:
    """0600 in a 0700 folder, the log and its index too."""
    journal.append_many([Job().end_unit()])
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_it_is_as_durable_as_sqlite_can_be(journal: SqliteJournal) -> None:
    """WAL, and every commit synced."""
    connection = journal._connection  # pyright: ignore[reportPrivateUsage]  # settings of a connection are its own
    assert connection is not None
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_what_is_written_never_changes_and_never_goes(journal: SqliteJournal, path: Path) -> None:
    """The database itself refuses to change or delete a record, and a second last word."""
    job = Job()
    journal.append_many([job.end_unit()])
    with closing(sqlite3.connect(path)) as connection:
        for statement in (
            "UPDATE record SET payload = x'00' WHERE seq = 2",
            "UPDATE record SET seq = 99 WHERE seq = 2",
            "DELETE FROM record",
            "INSERT INTO record SELECT 99, x'01', kind, fingerprint, payload, loop_id, subject, terminal, consumes, "
            "public, waiting, unfinished FROM record WHERE seq = 2",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (schema.KNOWN, "sqlite_autoindex_record_1"),
        (schema.LAST_WORD, "last_word"),
        (schema.NOTIFIED, "notified"),
        (schema.CONSUMED, "consumption"),
        (schema.PENDING, "waiting"),
        (schema.LOOPS, "waiting"),
        (schema.UNFINISHED, "unfinished"),
        (schema.UNFINISHED_OF, "unfinished"),
        (schema.FINISH, "unfinished"),
        (schema.SETTLE, "sqlite_autoindex_record_1"),
    ],
)
def test_every_question_has_its_index(journal: SqliteJournal, path: Path, statement: str, index: str) -> None:
    """No statement walks the history: what is pending, open or unfinished costs by its own number."""
    assert journal.epoch() == 1
    with closing(sqlite3.connect(path)) as connection:
        parameters = [None] * statement.count("?")
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
    assert any(f"INDEX {index}" in step[3] for step in plan), plan
    assert not any(step[3].startswith("SCAN record") and "INDEX" not in step[3] for step in plan)


def test_pending_leaves_the_index_when_it_is_consumed(journal: SqliteJournal, path: Path) -> None:
    """The marks are cleared, so the partial indexes hold what is pending and nothing else."""
    jobs = [Job() for _ in range(50)]
    journal.append_many([unit for job in jobs for unit in (job.start_unit(), job.end_unit())])
    assert _peek(path, "SELECT count(*) FROM record WHERE waiting = 1") == [(50,)]
    assert _peek(path, "SELECT count(*) FROM record WHERE unfinished = 1") == [(0,)]
    journal.append_many([[consumption_record(job.ids.command, MAIN)] for job in jobs[:-1]])
    assert _peek(path, "SELECT count(*) FROM record WHERE waiting = 1") == [(1,)]
    assert journal.loops() == [(MAIN, 1)]


# --- versions and owners ----------------------------------------------------------------------------------------------


def test_a_newer_file_is_refused_untouched(path: Path) -> None:
    """A later version's journal is named as such and left as it is, also with a log that was not checkpointed."""
    journal = SqliteJournal(path)
    journal.open(SESSION)
    journal.append_many([Job().end_unit()])
    copy = path.parent.parent / "copy"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")
        shutil.copytree(path.parent, copy)
    journal.close()
    (copy / "journal.db-shm").unlink()
    before = _snapshot(copy)
    assert len(before["journal.db-wal"]) > 0
    newer = SqliteJournal(copy / "journal.db")
    for call in (lambda: newer.open(SESSION), newer.held_session):
        with pytest.raises(JournalTooNewError) as caught:
            call()
        assert (caught.value.found, caught.value.known) == (7, schema.VERSION)
        assert "upgrade" in str(caught.value)
    assert _snapshot(copy) == before


NEXT_STEP = """
ALTER TABLE record ADD COLUMN note TEXT;
CREATE TABLE noted (seq INTEGER PRIMARY KEY) STRICT;
CREATE TRIGGER noted_when_written AFTER INSERT ON record
    BEGIN INSERT INTO noted VALUES (new.seq); UPDATE record SET waiting = waiting WHERE seq = new.seq; END;
"""


def _release(monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    """Pretend that a later version, with these steps, is the one at work."""
    steps = (*schema.steps(), *more)
    monkeypatch.setattr(schema, "steps", lambda: steps)
    monkeypatch.setattr(schema, "VERSION", len(steps))


def test_an_older_file_is_migrated_with_all_that_is_in_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records, epoch and pending notices stay; what the later version adds works, triggers too."""
    journal = SqliteJournal(path)
    journal.open(SESSION)
    journal.append_many([Job().end_unit()])
    before = journal.read(0, 100)
    journal.close()
    _release(monkeypatch, NEXT_STEP, "CREATE INDEX noted_by ON record (note);")
    for epoch in (2, 3):
        assert SqliteJournal(path).held_session() == SESSION
        journal = SqliteJournal(path)
        assert journal.open(SESSION) == epoch
        assert journal.read(0, len(before)) == before
        journal.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
        assert connection.execute("SELECT seq FROM noted").fetchall() == [(4,), (5,)]
    assert not verify(path).problems


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step is whole or not there, and the file still opens with the version that wrote it."""
    journal = SqliteJournal(path)
    journal.open(SESSION)
    journal.close()
    with monkeypatch.context() as later:
        _release(later, NEXT_STEP + "CREATE TABLE noted (again INTEGER);")
        with pytest.raises(JournalUnavailableError):
            SqliteJournal(path).open(SESSION)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'noted'").fetchall() == []
    journal = SqliteJournal(path)
    assert journal.open(SESSION) == 2
    journal.close()


async def test_a_relative_path_means_the_folder_of_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever goes elsewhere afterwards is told all the same."""
    monkeypatch.chdir(tmp_path)
    async with open_session(SqliteJournal("journal.db"), session_id=SESSION) as session:
        loop = session.open_loop()
        monkeypatch.chdir("/")
        await session.deliver(Job().end_unit())
        with anyio.fail_after(90):
            await loop.receive()


def test_somebody_elses_database_is_no_journal_and_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (a)")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(JournalCorruptError, match="not a journal"):
        SqliteJournal(path).open(SESSION)
    assert path.read_bytes() == before


async def test_another_sessions_file_is_refused_by_the_session_too(path: Path) -> None:
    """One journal holds one session; opening it without an id takes that session up."""
    async with open_session(SqliteJournal(path)) as session:
        held = session.session_id
    with pytest.raises(JournalSessionError):
        async with open_session(SqliteJournal(path), session_id=SESSION):
            pass
    async with open_session(SqliteJournal(path)) as session:
        assert session.session_id == held


async def test_a_new_journal_gets_a_session_of_its_own(path: Path) -> None:
    """Without an id, a fresh one is minted, by the caller's own mint if there is one."""
    async with open_session(SqliteJournal(path), new_id=lambda: UUID(int=5)) as session:
        assert session.session_id == UUID(int=5)


# --- faults -----------------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_journal_is_corrupt(path: Path) -> None:
    """Garbage is told as such, and stays."""
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"not a database at all" * 100)
    journal = SqliteJournal(path)
    with pytest.raises(JournalCorruptError, match="not a journal"):
        journal.open(SESSION)
    assert path.read_bytes().startswith(b"not a database")
    journal.close()


def test_a_damaged_page_is_corrupt(path: Path) -> None:
    """A page overwritten underneath is told as damage, when it is met."""
    journal = SqliteJournal(path)
    journal.open(SESSION)
    journal.append_many([Job().end_unit() for _ in range(200)])
    journal.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    journal = SqliteJournal(path)
    with pytest.raises(JournalCorruptError):
        journal.open(SESSION)
    journal.close()


def test_a_locked_file_is_told(journal: SqliteJournal, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program that holds the write lock is named as the cause, and the next try works when it is gone."""
    monkeypatch.setattr("lastword._sqlite.BUSY_TIMEOUT_SECONDS", 0.01)
    journal.reopen(1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalUnavailableError, match="locked"):
            journal.append_many([Job().end_unit()])
        other.execute("ROLLBACK")
    assert journal.append_many([Job().end_unit()]) == [[Appended(2), Appended(3)]]


def test_what_is_found_after_a_fault_is_written_anew(
    journal: SqliteJournal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log whose sync had failed may exist in the cache alone: reopening moves it into the database, synced."""
    job = Job()
    journal.append_many([job.end_unit()])
    with closing(sqlite3.connect(path)) as reader:  # keeps the closing handle from clearing the log by itself
        assert reader.execute("SELECT count(*) FROM record").fetchone() == (3,)
        assert path.with_name("journal.db-wal").stat().st_size > 0
        journal.reopen(1)
        assert path.with_name("journal.db-wal").stat().st_size == 0
        assert journal.append_many([job.end_unit()]) == [[Duplicate(2, consumed=False), Duplicate(3, consumed=False)]]
        journal.append_many([Job().end_unit()])
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM record").fetchone()
        monkeypatch.setattr("lastword._sqlite.BUSY_TIMEOUT_SECONDS", 0.01)
        with pytest.raises(JournalUnavailableError, match="reading it"):
            journal.reopen(1)
        reader.execute("ROLLBACK")
    journal.reopen(1)
    assert len(journal.read(0, 100)) == 5


def test_a_full_disk_is_told_and_keeps_what_was_durable(journal: SqliteJournal) -> None:
    """The batch that does not fit is refused, the journal stays whole, and goes on when there is room."""
    job = Job()
    journal.append_many([job.end_unit()])
    connection = journal._connection  # pyright: ignore[reportPrivateUsage]  # the limit is a connection's own setting
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(JournalUnavailableError, match="disk is full"):
        journal.append_many([Job().end_unit() for _ in range(500)])
    journal.reopen(1)
    assert len(journal.read(0, 100)) == 3
    assert journal.append_many([job.end_unit()]) == [[Duplicate(2, consumed=False), Duplicate(3, consumed=False)]]
    assert journal.append_many([Job().end_unit()]) == [[Appended(4), Appended(5)]]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A file where the folder should be is a situation, not an OSError."""
    (tmp_path / "file").write_text("")
    journal = SqliteJournal(tmp_path / "file" / "journal.db")
    with pytest.raises(JournalUnavailableError):
        journal.open(SESSION)


def test_a_path_that_names_no_file_is_told(tmp_path: Path) -> None:
    """A folder, or a pipe, which would be waited for, for ever: what it is and what to do, and not a disk's fault."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, words in ((tmp_path, "folder"), (pipe, "pipe")):
        journal = SqliteJournal(path)
        for call in (partial(journal.open, SESSION), journal.held_session, partial(journal.reopen, 1)):
            with pytest.raises(JournalUnavailableError, match=words) as caught:
                call()
            assert "disk" not in str(caught.value)
            assert str(tmp_path) not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]


def test_a_file_that_was_replaced_underneath_is_told(journal: SqliteJournal, path: Path) -> None:
    """What went into a file that nobody will find again is not called durable."""
    path.rename(path.with_name("gone.db"))
    with pytest.raises(JournalUnavailableError, match="replaced"):
        journal.append_many([Job().end_unit()])
    with pytest.raises(JournalUnavailableError, match="gone"):
        journal.reopen(1)
    with closing(sqlite3.connect(path)):
        path.touch()  # an empty file, as a careless restore leaves it
    with pytest.raises(JournalCorruptError, match="another one"):
        journal.reopen(1)
    assert path.stat().st_size == 0


@pytest.mark.parametrize("linked", [False, True])
def test_a_log_that_was_taken_away_is_told(tmp_path: Path, linked: bool) -> None:
    """Somebody tidied up: what went into a log that no name leads to is not called durable until it is in the file."""
    path = tmp_path / "journal.db"
    if linked:
        (tmp_path / "elsewhere").mkdir()
        path.symlink_to(tmp_path / "elsewhere" / "real.db")
    journal = SqliteJournal(path)
    journal.open(SESSION)
    job = Job()
    log = path.resolve().with_name(path.resolve().name + "-wal")
    assert journal.append_many([job.end_unit()]) == [[Appended(2), Appended(3)]]
    log.unlink()
    unit = Job().end_unit()
    with pytest.raises(JournalUnavailableError, match="replaced"):
        journal.append_many([unit])
    journal.reopen(1)
    assert journal.append_many([unit]) == [[Duplicate(4, consumed=False), Duplicate(5, consumed=False)]]
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in (path.resolve(), log):
        shutil.copy(file, copy)
    assert verify(copy / path.resolve().name).records == 5
    journal.close()


def test_it_must_be_opened_first(path: Path) -> None:
    """Using a journal that is not open is told, not guessed around."""
    journal = SqliteJournal(path)
    for call in (lambda: journal.append_many([[]]), lambda: journal.read(0, 1), journal.epoch):
        with pytest.raises(JournalUnavailableError, match="not open"):
            call()


def test_no_message_names_a_path(tmp_path: Path) -> None:
    """A model may see what a journal complains of."""
    for journal in (SqliteJournal(tmp_path), SqliteJournal(tmp_path / "missing.db")):
        with pytest.raises(JournalUnavailableError) as caught:
            journal.reopen(1)
        assert str(tmp_path) not in str(caught.value)


def test_a_crash_between_two_handles_loses_nothing(path: Path) -> None:
    """The files as they are at any moment after `append_many` hold what it answered: a copy of them is enough."""
    journal = SqliteJournal(path)
    journal.open(SESSION)
    job = Job()
    journal.append_many([job.start_unit()])
    journal.append_many([job.end_unit()])
    copy = path.parent.parent / "copy"
    shutil.copytree(path.parent, copy)
    journal.close()
    (copy / "journal.db-shm").unlink()
    restored = SqliteJournal(copy / "journal.db")
    assert restored.open(SESSION) == 2
    kinds = [record.kind for record in restored.read(0, 10)]
    assert kinds == [RecordKind.FENCE, RecordKind.EVENT, RecordKind.EVENT, RecordKind.COMMAND, RecordKind.FENCE]
    assert restored.append_many([[job.event_record(LifecycleKind.COMPLETED)]]) == [[Duplicate(3, consumed=False)]]
    restored.close()


def test_a_log_that_is_cut_short_keeps_a_prefix(path: Path) -> None:
    """A torn log loses its last commits at most, whole units at a time, and the file is sound."""
    journal = SqliteJournal(path)
    journal.open(SESSION)
    for _ in range(6):
        journal.append_many([Job().end_unit()])
    whole = [record.record_id for record in journal.read(0, 100)]
    files = {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}
    journal.close()
    log = files["journal.db-wal"]
    for number, length in enumerate(range(0, len(log), len(log) // 40)):
        copy = path.parent.parent / str(number) / "journal.db"
        copy.parent.mkdir()
        copy.write_bytes(files["journal.db"])
        copy.with_name("journal.db-wal").write_bytes(log[:length])
        cut = SqliteJournal(copy)
        epoch = cut.open(SESSION)
        found = [record.record_id for record in cut.read(0, 100)][:-1]
        if epoch == 2:
            assert found == whole[: len(found)]
            assert len(found) % 2 == 1  # the fence, and whole units
        else:
            assert found == []  # cut before the first opening was durable
        assert verify(copy).sound
        cut.close()


_MOUNTED = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /srv rw shared:2 master:1 - nfs4 server:/srv rw
31 30 0:26 / /srv/local rw - tmpfs tmpfs rw
32 22 0:27 / /with\040blank rw - fuse.sshfs there: rw
not a line
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/home/state", "ext4"),
        ("/srvother", "ext4"),
        ("/srv", "nfs4"),
        ("/srv/state", "nfs4"),
        ("/srv/local/state", "tmpfs"),
        ("/with blank/state", "fuse.sshfs"),
    ],
)
def test_the_mount_that_holds_a_folder_is_the_longest(folder: str, kind: str) -> None:
    """By whole parts of the path, with the blanks that mountinfo escapes."""
    assert filesystem_of(Path(folder), _MOUNTED) == kind


def test_a_network_file_system_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system tells, before anything is made of the file."""
    (path.parent.parent / "mounts").write_text(_MOUNTED)
    mounts = path.parent.parent / "mounts"
    assert network_filesystem(Path("/srv/state"), mounts) == "nfs4"
    assert network_filesystem(Path("/home"), mounts) is None
    assert network_filesystem(Path("/srv"), path.parent / "missing") is None

    def on_nfs(_: Path) -> str:
        return "nfs4"

    monkeypatch.setattr("lastword.session.journal._sqlite.network_filesystem", on_nfs)
    with pytest.raises(JournalUnavailableError, match="nfs4 is a network file system"):
        SqliteJournal(path).open(SESSION)
    assert not path.exists()


def test_a_handle_of_the_same_process_does_not_drop_the_locks_of_another(journal: SqliteJournal, path: Path) -> None:
    """Opening and looking at the file never closes a descriptor of it beside SQLite: POSIX locks would go with it."""
    second = SqliteJournal(path)
    assert second.held_session() == SESSION
    assert second.open(SESSION) == 2
    second.append_many([Job().end_unit()])
    second.close()
    # The first still holds the log: its unlinking by the last closer would have cut it off.
    with pytest.raises(JournalFencedError):
        journal.append_many([Job().end_unit()])
    assert len(journal.read(0, 10)) == 4
