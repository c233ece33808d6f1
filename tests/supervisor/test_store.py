"""The store under failing disks: one job's fault is its own, a failed commit loses nothing."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import attrs
import pytest
from supervising import OWNER, SESSION, nothing_left

from lastword.notifier import NewRecord, OutboxUnit, ProcessState, RecordKind, TerminalReason
from lastword.supervisor import Containment, Outcome, OutputFault
from lastword.supervisor._record import ProcessRecord
from lastword.supervisor._store import Store

BASE = UUID("0192f0c1-2345-7abc-8def-000000000100")


def record(handle: str = "H") -> ProcessRecord:
    return ProcessRecord(
        handle=handle,
        base_id=BASE,
        owner=OWNER,
        origin_execution_id=UUID(int=1),
        name="n",
        program="p",
        created_at=datetime(2026, 3, 14, tzinfo=UTC),
    )


def unit(position: int) -> OutboxUnit:
    made = NewRecord(
        UUID(int=position),
        RecordKind.EVENT,
        b"payload",
        loop_id=OWNER.loop_id,
        subject="H",
        terminal=True,
        consumes=UUID(int=99),
        public=False,
    )
    return OutboxUnit(position=position, subject="H", records=(made, made))


@pytest.mark.parametrize("durable", [True, False])
async def test_what_is_saved_is_loaded(durable: bool, tmp_path: Path) -> None:
    """Every field of records and units, in order; the same save again changes nothing."""
    with nothing_left():
        store = Store(tmp_path / "s.db" if durable else None, SESSION)
        running = record().running(datetime(2026, 3, 15, tzinfo=UTC), backgrounded=True)
        for _ in range(2):
            await store.save(record())
            await store.save(running, [unit(2), unit(5)])
        assert store.load() == ([running], [(unit(2), None), (unit(5), None)])
        await store.quarantine(2, "why")
        store.forget_unit(5)
        assert [position.position for position, _ in store.load()[1]] == [2, 5]  # an errand waits for the next write
        store.forget_process("H")
        await store.save(record("other"))
        assert store.load() == ([record("other")], [(unit(2), "why")])
        await store.aclose()
        await store.aclose()


async def test_errands_run_at_closing(tmp_path: Path) -> None:
    """A mark that no write came after is not lost by closing."""
    store = Store(tmp_path / "s.db", SESSION)
    await store.save(record(), [unit(1)])
    store.forget_unit(1)
    await store.aclose()
    again = Store(tmp_path / "s.db", SESSION)
    assert again.load() == ([record()], [])
    await again.aclose()


class _Commits:
    """A connection whose commits fail at will, before they are done or after."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.fail: str | None = None

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        if statement == "COMMIT" and self.fail is not None:
            mode, self.fail = self.fail, None
            if mode == "after":
                self._connection.execute(statement)
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(statement, values)

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize("durable", [True, False])
async def test_a_failed_commit_is_unknown_and_can_be_made_again(mode: str, durable: bool, tmp_path: Path) -> None:
    """The connection is made anew, errands of the failed batch are not forgotten, and a repeat is idempotent."""
    store = Store(tmp_path / "s.db" if durable else None, SESSION)
    await store.save(record(), [unit(1)])
    store.forget_unit(1)
    broken = _Commits(getattr(store, "_connection"))  # noqa: B009 -- the fault is put under the store, on purpose
    broken.fail = mode
    setattr(store, "_connection", broken)  # noqa: B010 -- as above
    with pytest.raises(sqlite3.OperationalError):
        await store.save(record("next"), [unit(2)])
    await store.save(record("next"), [unit(2)])
    records, units = store.load()
    assert {each.handle for each in records} == {"H", "next"}
    assert units == [(unit(2), None)]
    assert await store.state_of("next") is ProcessState.STARTING
    await store.aclose()


async def test_one_jobs_fault_is_its_own(tmp_path: Path) -> None:
    """What cannot be stored fails alone: its batch is committed without it."""
    store = Store(tmp_path / "s.db", SESSION)
    bad = OutboxUnit(position=3, subject="H", records=(object(),))  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(AttributeError):
        await store.save(record("bad"), [bad])
    await store.save(record())
    assert store.load() == ([record()], [])
    await store.aclose()


async def test_state_never_goes_backward() -> None:
    """A late or repeated write of an earlier state changes nothing, and nothing follows a last word."""
    store = Store(None, SESSION)
    at = datetime(2026, 3, 15, tzinfo=UTC)
    starting, running = record(), record().running(at, backgrounded=False)
    outcome = Outcome(
        state=ProcessState.EXITED,
        reason=TerminalReason.EXITED,
        exit_code=3,
        started_at=at,
        finished_at=at,
        total_bytes=10,
        output_error=OutputFault(offset=4, code="ENOSPC"),
        containment=Containment.PROCESS_GROUP,
        diagnostic="d",
    )
    ended = running.ended(outcome, kept=(0, 4))
    other = running.ended(attrs.evolve(outcome, state=ProcessState.KILLED), kept=(0, 0))
    for step, expected in ((running, running), (starting, running), (ended, ended), (running, ended), (other, ended)):
        await store.save(step)
        assert store.load() == ([expected], [])
        assert await store.state_of("H") is expected.state
    assert await store.state_of("unknown") is None
    await store.aclose()
