"""What is no argument at all is named at once, and nothing is done, logged or broken by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import anyio
import pytest
from session_ground import Ground
from session_values import Job

from lastword.notifier import InvalidArgumentError, LastwordError
from lastword.session import EventFilter, LoopScope, Session, open_session
from lastword.session.journal import MemoryJournal, SqliteJournal, verify

ZERO = UUID(int=0)


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("enduring", lambda: EventFilter(enduring=uuid4())),  # type: ignore[arg-type]  # the mistake is the test
        ("ephemeral", lambda: EventFilter(ephemeral="all")),  # type: ignore[arg-type]  # the mistake is the test
        ("loop_ids", lambda: LoopScope.of("main")),  # type: ignore[arg-type]  # the mistake is the test
        ("loop_ids", lambda: LoopScope.of(uuid4(), ZERO)),
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
        with anyio.fail_after(30):
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
