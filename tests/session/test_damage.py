"""Any hand may have been in the file: what cannot be right is told as damage, by every call, and found by `verify`."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from session_values import LOOP_A, MAIN, SESSION, Job

from lastword.adapters.testing import ManualClock
from lastword.notifier import LastwordError
from lastword.session import JournalCorruptError, Loop, Notice, Session, open_session
from lastword.session._records import consumption_record
from lastword.session.journal import SqliteJournal, verify

# A file that takes any value anywhere, as another program, or a bit that fell over, makes it.
_LAX = (
    "DROP TRIGGER written_is_written",
    "DROP TRIGGER written_stays",
    "PRAGMA writable_schema = ON",
    "UPDATE sqlite_schema SET sql = replace(replace(sql, 'STRICT', ''), 'NOT NULL', '') WHERE type = 'table'",
)

SECRET = "hunter2"
PENDING, RUNNING = Job(), Job()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with something of every kind: 1 fence, 2 running, 3-4 pending on MAIN, 5-7 settled, 8 pending."""
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    journal.open(SESSION)
    settled = Job(LOOP_A)
    journal.append_many([RUNNING.start_unit(), PENDING.end_unit(), settled.end_unit()])
    journal.append_many([[consumption_record(settled.ids.command, LOOP_A)], [Job(LOOP_A).command_record()]])
    journal.close()
    return path


def _do(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def _damage(path: Path, *statements: str) -> None:
    _do(path, *_LAX)
    _do(path, *statements)  # by a connection of its own: the schema is read when it opens


_NO_ID = ("x'00'", "x'00112233445566778899aabbccddeeff00'", f"'{SECRET}'", "7", "x''")

OF_A_RECORD = [
    *(("record_id", value) for value in (*_NO_ID, "NULL")),
    *(("loop_id", value) for value in _NO_ID),
    *(("consumes", value) for value in _NO_ID),
    *(("kind", value) for value in ("0", "9", "-1", "NULL", f"'{SECRET}'", "2.5", "x'02'")),
    *(("payload", value) for value in ("NULL", f"'{SECRET}'", "7")),
    *(("subject", value) for value in ("x'41'", "CAST(x'ff41' AS TEXT)")),
    *((flag, value) for flag in ("terminal", "public") for value in ("NULL", "2", "-1", f"'{SECRET}'")),
]
OF_A_FINGERPRINT = [("fingerprint", value) for value in ("x'00'", "NULL", f"'{SECRET}'", "7")]
OF_A_MARK = [(mark, value) for mark in ("waiting", "unfinished") for value in ("2", "0", f"'{SECRET}'")]
OF_A_SESSION = [
    *(("id", value) for value in (*_NO_ID, "NULL")),
    *(("epoch", value) for value in ("NULL", f"'{SECRET}'", "-1", "0", "1.5", "9223372036854775807")),
]

CALLS: dict[str, Callable[[SqliteJournal], object]] = {
    "epoch": lambda journal: journal.epoch(),
    "read": lambda journal: journal.read(0, 100),
    "pending": lambda journal: [journal.pending(loop, 0, 100) for loop in (MAIN, LOOP_A)],
    "loops": lambda journal: journal.loops(),
    "unfinished": lambda journal: journal.unfinished(),
    "append a start again": lambda journal: journal.append_many([RUNNING.start_unit()]),
    "append an end": lambda journal: journal.append_many([RUNNING.end_unit()]),
    "append an end again": lambda journal: journal.append_many([PENDING.end_unit()]),
    "acknowledge": lambda journal: journal.append_many([[consumption_record(PENDING.ids.command, MAIN)]]),
    "reopen": lambda journal: journal.reopen(2),
}


def _told(path: Path) -> set[str]:
    """Which calls tell of damage; whatever else they raise fails the test."""
    raised: dict[str, LastwordError] = {}
    journal = SqliteJournal(path)
    openings: dict[str, Callable[[SqliteJournal], object]] = {
        "held_session": lambda journal: journal.held_session(),
        "open": lambda journal: journal.open(SESSION),
    }
    for name, call in (openings | CALLS).items():
        try:
            call(journal)
        except LastwordError as error:
            raised[name] = error
    journal.close()
    told = {name for name, why in raised.items() if isinstance(why, JournalCorruptError)}
    for name, why in raised.items():
        assert SECRET not in str(why)
        assert name in told or "open" in told  # what was not opened refuses everything
    return told


def _found(path: Path) -> str:
    """What `verify` finds, in words."""
    try:
        found = verify(path)
    except JournalCorruptError as error:
        return str(error)
    assert not found.sound
    words = "\n".join(found.problems)
    assert SECRET not in words
    return words


@pytest.mark.parametrize(("column", "value"), OF_A_RECORD)
def test_a_damaged_record_is_told_by_whoever_reads_it(path: Path, column: str, value: str) -> None:
    """Every column, with what cannot have been written there; and `verify` says where."""
    _damage(path, f"UPDATE record SET {column} = {value} WHERE seq = 4")
    assert "sequence 4" in _found(path)
    told = _told(path)
    assert "read" in told
    assert "pending" in told or column == "loop_id"
    assert "open" not in told


@pytest.mark.parametrize(("column", "value"), OF_A_RECORD)
def test_a_damaged_unfinished_record_is_told(path: Path, column: str, value: str) -> None:
    """What a restart asks for first is judged like everything else."""
    _damage(path, f"UPDATE record SET {column} = {value} WHERE seq = 2")
    assert "sequence 2" in _found(path)
    assert {"read", "unfinished"} <= _told(path)


@pytest.mark.parametrize(("column", "value"), OF_A_FINGERPRINT)
def test_a_damaged_fingerprint_is_no_collision(path: Path, column: str, value: str) -> None:
    """A collision would be for ever; damage can be mended."""
    _damage(path, f"UPDATE record SET {column} = {value} WHERE seq = 4")
    assert "sequence 4" in _found(path)
    assert "append an end again" in _told(path)


@pytest.mark.parametrize(("column", "value"), OF_A_MARK)
def test_a_damaged_mark_is_found(path: Path, column: str, value: str) -> None:
    _damage(path, f"UPDATE record SET {column} = {value} WHERE seq = 4")
    assert "sequence 4" in _found(path)
    assert not _told(path)


@pytest.mark.parametrize(("column", "value"), OF_A_SESSION)
def test_a_damaged_session_is_told_before_anything_is_done(path: Path, column: str, value: str) -> None:
    """Nobody can say whose the journal is, or which epoch comes next."""
    _damage(path, f"UPDATE session SET {column} = {value}")
    before = path.read_bytes()
    assert "its session" in _found(path)
    assert {"held_session", "open", "reopen"} <= _told(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("seq", ["0", "-4", "9223372036854775807"])
def test_a_sequence_that_is_none_is_told(path: Path, seq: str) -> None:
    """Also one after which there could be no next."""
    _damage(path, f"UPDATE record SET seq = {seq} WHERE seq = 8")
    assert f"sequence {seq} is not where it should be" in _found(path)
    if int(seq) > 0:
        assert {"open", "held_session"} & _told(path)
    else:
        _told(path)


@pytest.mark.parametrize(
    "statements",
    [
        ("INSERT INTO session SELECT id, epoch + 1 FROM session",),
        ("DELETE FROM session",),
        ("DROP TABLE session",),
        ("DROP TABLE record",),
        ("DROP INDEX waiting",),
        ("ALTER TABLE record RENAME COLUMN consumes TO eats",),
        ("PRAGMA user_version = -1",),
    ],
)
def test_tables_that_are_not_a_journals_are_told(path: Path, statements: tuple[str, ...]) -> None:
    """Something is missing, or there is too much of it."""
    _do(path, *statements)
    assert _found(path)
    assert _told(path)


@pytest.mark.parametrize(("kind", "name"), [("TRIGGER", "written_stays"), ("INDEX", "waiting")])
def test_what_was_made_and_is_gone_is_found(path: Path, kind: str, name: str) -> None:
    """What nobody misses at once is missed by `verify`; what somebody has added is no fault."""
    _do(path, "CREATE INDEX theirs ON record (public)", f"DROP {kind} {name}")
    (problem,) = [line for line in _found(path).splitlines() if line.startswith("the file")]
    assert problem == f"the file: {kind.lower()} {name} is not there as it was made"


async def test_a_journal_without_its_session_is_not_given_to_another(path: Path) -> None:
    """The notices in it would wait for loops that never open."""
    _do(path, "DELETE FROM session")
    with pytest.raises(JournalCorruptError, match="names no session"):
        async with open_session(SqliteJournal(path)):
            pytest.fail("opened")


def test_an_epoch_that_was_set_back_is_told_and_not_taken_again(path: Path) -> None:
    """Two holders of one epoch could both write."""
    journal = SqliteJournal(path)
    assert journal.open(SESSION) == 2
    journal.close()
    _damage(path, "UPDATE session SET epoch = 1")
    assert "fences of epochs after 1" in _found(path)
    for _ in range(2):
        with pytest.raises(JournalCorruptError, match="epoch 2"):
            SqliteJournal(path).open(SESSION)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT epoch FROM session").fetchone() == (1,)


def test_a_callers_own_error_is_no_damage(tmp_path: Path) -> None:
    """Only what was stored is judged."""
    journal = SqliteJournal(tmp_path / "journal.db")
    journal.open(SESSION)
    wrong: Any = "x"
    for call in (lambda: journal.pending(wrong, 0, 1), lambda: journal.append_many([[wrong]])):
        with pytest.raises(AttributeError):
            call()
    journal.close()


async def _unacknowledged(session: Session) -> object:
    return await session.unacknowledged()


async def _replay(session: Session) -> object:
    return [delivery async for delivery in session.replay()]


async def _unfinished(session: Session) -> object:
    return await session.unfinished()


async def _loops(session: Session) -> object:
    return await session.loops()


async def _again(session: Session) -> object:
    return await session.deliver(PENDING.end_unit())


@pytest.mark.parametrize(
    ("statement", "calls"),
    [
        ("UPDATE record SET record_id = x'00' WHERE seq = 4", (_unacknowledged, _replay)),
        ("UPDATE record SET loop_id = x'00' WHERE seq = 4", (_unacknowledged, _replay, _loops, _again)),
        ("UPDATE record SET subject = CAST(x'ff' AS TEXT) WHERE seq = 2", (_replay, _unfinished)),
    ],
)
@pytest.mark.parametrize("inline", [False, True])
async def test_a_session_tells_damage_and_goes_on(
    path: Path, statement: str, calls: tuple[Any, ...], inline: bool
) -> None:
    """Whoever asks for the damaged row is told; a new last word gets home all the same."""
    _damage(path, statement)
    async with open_session(SqliteJournal(path), inline=inline) as session:
        for _ in range(2):
            for call in calls:
                with pytest.raises(JournalCorruptError):
                    await call(session)
        job = Job(SESSION)
        await session.deliver(job.end_unit())
        with anyio.fail_after(90):
            notice = await session.open_loop(SESSION).receive()
        await notice.ack()


@pytest.mark.parametrize("statement", ["UPDATE session SET id = x'00'", "UPDATE session SET epoch = 'x'"])
async def test_a_session_that_cannot_be_told_does_not_open(path: Path, statement: str) -> None:
    _damage(path, statement)
    with pytest.raises(JournalCorruptError):
        async with open_session(SqliteJournal(path)):
            pytest.fail("opened")


async def test_damage_that_one_unit_meets_does_not_take_its_batch_with_it(path: Path) -> None:
    """What was committed together goes one by one where the journal is damaged."""
    _damage(path, "UPDATE record SET fingerprint = x'00' WHERE seq = 4")
    failed: list[LastwordError] = []
    good = [Job() for _ in range(4)]
    async with open_session(SqliteJournal(path)) as session:

        async def deliver(job: Job) -> None:
            try:
                await session.deliver(job.end_unit())
            except JournalCorruptError as error:
                failed.append(error)

        async with anyio.create_task_group() as tasks:
            for job in (*good, PENDING):
                tasks.start_soon(deliver, job)
        assert len(failed) == 1
        assert len(await session.unacknowledged()) == 6


async def test_a_loop_behind_a_damaged_row_waits_until_it_is_mended(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is passed over and nothing forgotten; that it waits, and for what, is in the log."""
    _damage(path, "UPDATE record SET record_id = x'00' WHERE seq = 4")
    clock = ManualClock()
    told: list[Notice] = []

    async def receive(loop: Loop) -> None:
        told.append(await loop.receive())

    with anyio.fail_after(90):
        async with open_session(SqliteJournal(path), clock=clock, rng=random.Random(1)) as session:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(receive, session.open_loop())
                while clock.next_deadline is None:
                    await anyio.wait_all_tasks_blocked()
                assert "sequence 4: record_id" in caplog.text
                _do(path, f"UPDATE record SET record_id = x'{PENDING.ids.command.hex}' WHERE seq = 4")
                clock.advance(clock.next_deadline - clock.monotonic())
            assert told[0].notification == PENDING.notification()
            await told[0].ack()
