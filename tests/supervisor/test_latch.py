"""Waiting for what happens once, and taking turns, without an event for each process."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from lastword.supervisor._latch import Latch
from lastword.supervisor._turn import Turn


async def test_all_who_wait_go_on_and_whoever_comes_later_does_not_wait() -> None:
    """Before, at and after the moment itself."""
    latch = Latch()
    went_on: list[int] = []

    async def waiter(number: int) -> None:
        await latch.wait()
        went_on.append(number)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(waiter, number)
            await anyio.wait_all_tasks_blocked()
            assert not latch.is_set()
            assert went_on == []
            latch.set()
            assert latch.is_set()
        latch.set()
        await latch.wait()
    assert sorted(went_on) == [0, 1, 2]


async def test_a_wait_is_a_checkpoint_even_where_nothing_is_waited_for() -> None:
    """A cancelled scope is left there."""
    latch = Latch()
    latch.set()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await latch.wait()
        pytest.fail("it went on although it was cancelled")
    assert scope.cancelled_caught


async def test_who_gives_up_waiting_takes_nobody_with_it() -> None:
    """The event that one has made is another's, too."""
    latch = Latch()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(latch.wait)
            with anyio.move_on_after(0):
                await latch.wait()
            await anyio.wait_all_tasks_blocked()
            latch.set()


async def test_one_at_a_time_and_none_is_forgotten() -> None:
    """Also where one of them fails inside, and one gives up before its turn."""
    turn = Turn()
    inside: list[int] = []
    done: list[int] = []

    async def take(number: int) -> None:
        async with turn:
            inside.append(number)
            assert len(inside) == 1
            await anyio.lowlevel.checkpoint()
            inside.remove(number)
            done.append(number)

    with anyio.fail_after(60):
        with pytest.raises(ZeroDivisionError):
            async with turn:
                raise ZeroDivisionError
        async with anyio.create_task_group() as tasks, turn:
            for number in range(5):
                tasks.start_soon(take, number)
            await anyio.wait_all_tasks_blocked()
            with anyio.move_on_after(0):
                await take(5)
            assert done == []
    assert sorted(done) == [0, 1, 2, 3, 4]
