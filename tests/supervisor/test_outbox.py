"""The outbox as a courier sees it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from uuid import UUID

import anyio
import pytest
from supervising import SESSION

from lastword.notifier import NewRecord, Outbox, OutboxUnit, RecordKind
from lastword.supervisor import StoreOutbox
from lastword.supervisor._store import Store


def unit(position: int, subject: str) -> OutboxUnit:
    return OutboxUnit(
        position=position, subject=subject, records=(NewRecord(UUID(int=position), RecordKind.EVENT, b"x"),)
    )


@pytest.fixture
async def outbox() -> AsyncGenerator[StoreOutbox]:
    store = Store(None, SESSION)
    yield StoreOutbox(store)
    await store.aclose()


async def test_heads_are_the_first_of_each_process_in_order(outbox: StoreOutbox) -> None:
    """One process's order is kept, and none waits for another."""
    port: Outbox = outbox
    outbox.add([unit(1, "b"), unit(2, "a"), unit(3, "b"), unit(4, "a")])
    assert [head.position for head in port.heads()] == [1, 2]
    port.mark_delivered(1)
    assert [head.position for head in port.heads()] == [2, 3]
    port.mark_delivered(1)
    port.mark_delivered(77)
    await port.quarantine(2, "why")
    await port.quarantine(77, "why")
    assert [head.position for head in port.heads()] == [3, 4]


async def test_changes_are_told_once(outbox: StoreOutbox) -> None:
    """`wait_changed` returns at once for what was added since `heads` was called, and else waits."""
    with anyio.move_on_after(0.02) as idle:
        await outbox.wait_changed()
    assert idle.cancelled_caught
    outbox.add([unit(1, "a")])
    with anyio.fail_after(60):
        await outbox.wait_changed()
    outbox.heads()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.wait_changed)
        await anyio.wait_all_tasks_blocked()
        outbox.add([unit(2, "a")])


async def test_a_quarantine_wakes_for_the_next_head(outbox: StoreOutbox) -> None:
    """The unit behind it is a head that nobody has seen yet."""
    outbox.add([unit(1, "a"), unit(2, "a")])
    outbox.heads()
    await outbox.quarantine(1, "why")
    with anyio.fail_after(60):
        await outbox.wait_changed()


async def test_waiting_until_it_is_empty(outbox: StoreOutbox) -> None:
    """At once where there is no head; a quarantined unit is not waited for."""
    with anyio.fail_after(60):
        await outbox.wait_empty()
        outbox.add([unit(1, "a"), unit(2, "b")])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outbox.wait_empty)
            await anyio.wait_all_tasks_blocked()
            outbox.mark_delivered(2)
            await outbox.quarantine(1, "why")


async def test_failures_are_shown(outbox: StoreOutbox) -> None:
    """How often, and how the last time."""
    outbox.add([unit(1, "a")])
    outbox.mark_failed(1, "first")
    outbox.mark_failed(1, "second")
    outbox.mark_failed(77, "nobody")
    (entry,) = outbox.undelivered()
    assert (entry.attempts, entry.last_error, entry.status, entry.kind) == (2, "second", "waiting", "event")
