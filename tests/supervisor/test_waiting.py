"""The two things that everything waits by: timers and the reactor."""

from __future__ import annotations

import os

import anyio
import pytest

from lastword.adapters.testing import ManualClock
from lastword.supervisor._reactor import Reactor
from lastword.supervisor._timers import Timers

pytestmark = pytest.mark.usefixtures("each_tier")


async def test_timers_fire_in_order_and_not_when_cancelled() -> None:
    """Earliest first, whatever the order they were set in; one set later may be the earliest."""
    clock = ManualClock()
    timers = Timers(clock)
    fired: list[str] = []
    timers.call_after(3.0, lambda: fired.append("three"))
    cancelled = timers.call_after(2.0, lambda: fired.append("two"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(timers.run)
        await anyio.wait_all_tasks_blocked()
        timers.call_after(1.0, lambda: fired.append("one"))
        timers.call_after(0.0, lambda: fired.append("now"))
        await anyio.wait_all_tasks_blocked()
        assert fired == ["now"]
        cancelled.cancel()
        cancelled.cancel()
        for _ in range(3):
            clock.advance(1.0)
            await anyio.wait_all_tasks_blocked()
        assert fired == ["now", "one", "three"]
        tasks.cancel_scope.cancel()


async def test_timers_that_were_cancelled_wake_nobody() -> None:
    """Two hundred jobs that ended long before their timeouts leave nothing to wake up for."""

    class Counting(ManualClock):
        sleeps = 0

        async def sleep(self, seconds: float) -> None:
            self.sleeps += 1
            await super().sleep(seconds)

    clock = Counting()
    timers = Timers(clock)
    fired: list[float] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(timers.run)
        await anyio.wait_all_tasks_blocked()
        for number in range(200):
            timers.call_after(86_400.0 + number, lambda: fired.append(-1.0)).cancel()
            timers.call_after(number + 0.5, lambda: fired.append(clock.elapsed))
        cancelled = [timers.call_after(1000.0 + number, lambda: fired.append(-1.0)) for number in range(300)]
        for timer in cancelled:
            timer.cancel()
            timer.cancel()
        for _ in range(200):
            clock.advance(1.0)
            await anyio.wait_all_tasks_blocked()
        assert fired == [number + 1.0 for number in range(200)]
        clock.sleeps = 0
        for _ in range(1000):
            clock.advance(100.0)
            await anyio.wait_all_tasks_blocked()
        assert clock.sleeps <= 2
        assert len(fired) == 200
        tasks.cancel_scope.cancel()


async def test_a_callback_may_remove_another_descriptor() -> None:
    """Both are readable; the first removes the second, which is not called, even where its number is reused."""
    reactor = Reactor()
    pipes = [os.pipe() for _ in range(2)]
    called: list[int] = []

    def remove_the_other(index: int) -> None:
        called.append(index)
        for reading, _ in pipes:
            reactor.remove(reading)
        other = pipes[1 - index][0]
        os.dup2(pipes[index][0], other)
        reactor.add(other, lambda: called.append(-1))
        reactor.remove(other)
        done.set()

    done = anyio.Event()
    for index, (reading, writing) in enumerate(pipes):
        os.write(writing, b"x")
        reactor.add(reading, lambda index=index: remove_the_other(index))  # type: ignore[misc]  # a default binds it
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reactor.run)
        await done.wait()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    reactor.close()
    for pipe in pipes:
        for descriptor in pipe:
            os.close(descriptor)
    assert len(called) == 1
