"""What is no argument at all is named at once, and nothing is done, logged or broken by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import anyio
import attrs
import pytest
from session_ground import Ground
from session_values import MAIN, SESSION, Job

from lastword.notifier import Appended, EventHeader, InvalidArgumentError, LastwordError
from lastword.session import EphemeralEvent, EventFilter, LoopScope, Session, open_session
from lastword.session.journal import MemoryJournal, SqliteJournal, verify

ZERO = UUID(int=0)


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("enduring", lambda: EventFilter(enduring=uuid4())),  # type: ignore[arg-type]  # the mistake is the test
        ("ephemeral", lambda: EventFilter(ephemeral="all")),  # type: ignore[arg-type]  # the mistake is the test
        ("loop_ids", lambda: LoopScope.of("main")),  # type: ignore[arg-type]  # the mistake is the test
        ("loop_ids", lambda: LoopScope.of(uuid4(), ZERO)),
        ("loops", lambda: LoopScope("main")),  # type: ignore[arg-type]  # the mistake is the test
        ("loops", lambda: LoopScope(7)),  # type: ignore[arg-type]  # the mistake is the test
    ],
)
def test_a_filter_is_judged_where_it_is_made(field: str, make: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make()
    assert caught.value.field == field
    assert isinstance(caught.value, ValueError)


CALLS: list[tuple[str, Callable[[Any], object]]] = [
    ("loop_id", lambda session: session.open_loop("main")),
    ("loop_id", lambda session: session.open_loop(ZERO)),
    ("capacity", lambda session: session.open_loop(capacity=0)),
    ("capacity", lambda session: session.open_loop(capacity="many")),
    ("filter", lambda session: session.subscribe("x")),
    ("filter", lambda session: session.watch(None)),
    ("after", lambda session: session.watch(EventFilter(), after=-1)),
    ("after", lambda session: session.replay("all")),
    ("after", lambda session: session.replay(2**63)),
]


@pytest.mark.parametrize(("field", "call"), CALLS)
async def test_a_call_that_can_never_be_right_is_refused(
    field: str, call: Callable[[Any], object], ground: Ground
) -> None:
    async with ground.open() as session:
        with pytest.raises(InvalidArgumentError) as caught:
            call(session)
        assert caught.value.field == field
        loop = session.open_loop()
        await session.deliver(Job().end_unit())
        with anyio.fail_after(90):
            await loop.receive()


async def _acknowledge(session: Any) -> None:
    await session.acknowledge("x")


async def _notify(session: Any) -> None:
    await session.notify_process_completion("x")


async def _publish(session: Any) -> None:
    await session.publish_event("x")


async def _lifecycle(session: Any) -> None:
    await session.publish_process_lifecycle(None)


async def _activity(session: Any) -> None:
    await session.publish_workflow_activity(Job().event)


@pytest.mark.parametrize("call", [_acknowledge, _notify, _publish, _lifecycle, _activity])
async def test_a_value_of_the_wrong_kind_is_one_of_our_errors(call: Callable[[Session], Any], ground: Ground) -> None:
    async with ground.open() as session:
        with pytest.raises(LastwordError):
            await call(session)


@pytest.mark.parametrize("session_id", ["abc", ZERO, 7])
async def test_a_session_id_is_judged_before_the_journal_is_opened(session_id: Any) -> None:
    journal = MemoryJournal()
    with pytest.raises(InvalidArgumentError, match="session_id"):
        async with open_session(journal, session_id=session_id):
            pytest.fail("opened")
    assert journal.held_session() is None


class _PathOfBytes:
    def __fspath__(self) -> bytes:
        return b"journal.db"


@pytest.mark.parametrize("path", [None, 7, b"journal.db", "a\0b", "\ud800", _PathOfBytes(), ["journal.db"]])
def test_a_path_is_judged_where_it_is_given(path: Any) -> None:
    for call in (SqliteJournal, verify):
        with pytest.raises(InvalidArgumentError) as caught:
            call(path)
        assert caught.value.field == "path"


@pytest.mark.parametrize(
    "journal",
    [None, "journal.db", Path("journal.db"), 7, object(), MemoryJournal, SqliteJournal],
    ids=lambda given: type(given).__name__,
)
@pytest.mark.parametrize("inline", [None, True])
async def test_what_is_no_journal_is_told_as_such(
    journal: Any, inline: bool | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A path is the likely mistake, and the class of a journal the next; nothing is opened, started or logged."""
    with pytest.raises(InvalidArgumentError, match="SqliteJournal") as caught:
        async with open_session(journal, inline=inline):
            pytest.fail("opened")
    assert caught.value.field == "journal"
    assert not caplog.records


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("clock", 7),
        ("clock", "now"),
        ("rng", 7),
        ("observer", object()),
        ("new_id", 7),
        ("new_id", lambda: "an id"),
        ("new_id", lambda: ZERO),
        ("inline", "yes"),
    ],
)
async def test_what_a_session_is_to_work_with_is_judged_when_it_is_opened(field: str, value: Any) -> None:
    """And not when the first thing fails for the want of it."""
    journal = MemoryJournal()
    options: dict[str, Any] = {field: value}
    with pytest.raises(InvalidArgumentError) as caught:
        async with open_session(journal, **options):
            pytest.fail("opened")
    assert caught.value.field == field
    assert journal.held_session() is None


async def test_a_journal_object_is_for_one_session_at_a_time(ground: Ground) -> None:
    """Two sessions on one object would share its epoch, and neither would be fenced; a second object is an opener."""
    journal = ground.journal()
    async with ground.open(journal=journal) as session:
        with pytest.raises(InvalidArgumentError, match="another session"):
            async with ground.open(journal=journal):
                pytest.fail("opened")
        await session.deliver(Job().end_unit())
    with pytest.raises(ZeroDivisionError):
        async with ground.open(journal=journal):
            raise ZeroDivisionError
    async with ground.open(journal=journal) as session:
        assert len(await session.unacknowledged()) == 1


def _iterator(records: Iterable[object]) -> object:
    return (record for record in records)


@pytest.mark.parametrize("unit", [None, 7, [1], "x", [None]])
async def test_a_unit_of_anything_else_is_refused(unit: Any, ground: Ground) -> None:
    async with ground.open() as session:
        with pytest.raises(InvalidArgumentError, match="unit"):
            await session.deliver(unit)


@pytest.mark.parametrize(
    ("field", "value"), [("kind", 7), ("kind", 2), ("kind", "x"), ("public", "yes"), ("public", None), ("terminal", 0)]
)
async def test_a_record_that_no_reader_could_read_is_not_written(field: str, value: Any, ground: Ground) -> None:
    """A kind that is none would stand in the ledger for ever, and nobody could read on beyond it."""
    async with ground.open() as session:
        loop = session.open_loop()
        with pytest.raises(InvalidArgumentError) as caught:
            await session.deliver([attrs.evolve(Job().command_record(), **{field: value})])
        assert caught.value.field == field
        await session.deliver(Job().end_unit())
        with anyio.fail_after(90):
            await loop.receive()


async def test_the_records_of_an_iterator_are_delivered(ground: Ground) -> None:
    """It has them but once: looked at, and gone, they would be answered with nothing."""
    unit: Any = _iterator(Job().end_unit())
    async with ground.open() as session:
        assert await session.deliver(unit) == [Appended(2), Appended(3)]


async def test_an_ephemeral_event_for_no_loop_is_refused(ground: Ground) -> None:
    """Its publisher is told, and no subscriber is."""
    no_id: Any = ["main"]
    header = EventHeader(event_id=uuid4(), session_id=SESSION, loop_id=no_id)
    everything = EventFilter(ephemeral=LoopScope.of(MAIN))
    async with ground.open() as session, session.subscribe(everything):
        with pytest.raises(InvalidArgumentError, match="loop_id"):
            await session.publish_event(EphemeralEvent(header=header))
