"""Cancellation and closing at any moment: nothing hangs, nothing is left, everything is told (cancel, shutdown, wait,
lifetime)."""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from cases_ground import (
    every_tier,
    host,
    running,
    running_in,
    sizes,
    story_of,
    together,
    told_once,
    within,
    words,
)
from supervising import HANG_SECONDS, OWNER, SESSION, nothing_left, output_of, supervising, told, until, wait_for_output

import lastword
from lastword.notifier import ProcessCompleted, ProcessStarted, ProcessState, TerminalReason
from lastword.session.journal import MemoryJournal
from lastword.supervisor import Containment, Limits, Process, open_supervisor

S, R = ProcessState, TerminalReason


@every_tier
async def test_c22_wait_is_cancel_safe() -> None:
    """A cancelled wait signals nobody and loses nothing: every later one, whoever waits, gives one outcome."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER)
        with anyio.move_on_after(0.1) as scope:
            await process.wait()
        assert scope.cancelled_caught
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(process.wait)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        with anyio.move_on_after(0.05):
            await supervisor.wait_any([process])
        assert process.state is S.RUNNING
        outcome = await process.stop()
        assert outcome is not None
        assert (outcome.state, outcome.signal) == (S.TERMINATED, 15)
        assert await process.wait() is await process.wait() is outcome


# asyncio only: trio has no way to cancel a task but its scopes.
@every_tier
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_c22_a_native_cancel_of_a_wait() -> None:
    """As asyncio.wait_for and Task.cancel do it."""
    async with supervising() as supervisor:
        process = await supervisor.start("read line; exit 4", owner=OWNER, stdin="pipe")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.wait(), 0.05)
        tasks = [asyncio.get_running_loop().create_task(process.wait()) for _ in range(20)]
        await anyio.wait_all_tasks_blocked()
        for task in tasks[::2]:
            task.cancel()
        await process.close_input()
        outcomes = await asyncio.gather(*tasks[1::2])
        assert {outcome.exit_code for outcome in outcomes} == {4}
        assert all(outcome is process.outcome for outcome in outcomes)
        await asyncio.wait(tasks)


@every_tier
async def test_c26_a_job_outlives_the_turn(state: Path | None) -> None:
    """Its life is bound to the runtime, not to the task or the scope that started it, however those end."""
    jobs: list[Process] = []

    async def cancelled(runtime: lastword.Runtime, background: bool) -> None:
        async with anyio.create_task_group() as turn:
            jobs.append(await runtime.start("sleep 0.3; echo ok", background=background))
            turn.cancel_scope.cancel()
            await anyio.sleep_forever()

    async def crashed(runtime: lastword.Runtime) -> None:
        with pytest.raises(ExceptionGroup):
            async with anyio.create_task_group():
                jobs.append(await runtime.start("sleep 0.3; echo ok"))
                raise ZeroDivisionError

    async with running_in(state) as runtime:
        await cancelled(runtime, True)
        await cancelled(runtime, False)
        await crashed(runtime)
        for process in jobs:
            outcome = await process.wait()
            assert (outcome.state, outcome.exit_code) == (S.EXITED, 0)
            assert await output_of(process) == b"ok\n"
        assert set(await told_once(runtime, 3)) == {process.handle for process in jobs}


@every_tier
async def test_c70_cancelled_during_a_start(mark: str) -> None:
    """Wherever it falls, nothing runs without a handle, and every Started has its last word, once."""
    limits = Limits(running_per_loop=100, running_per_session=100, spool_bytes=4096)
    async with supervising(limits=limits) as supervisor:
        first = await supervisor.start("true", owner=OWNER)
        await first.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(supervisor.start, ["sleep", mark], owner=OWNER))
            while supervisor.list(OWNER) == [first]:
                await checkpoint()
            tasks.cancel_scope.cancel()
        (process,) = [one for one in supervisor.list(OWNER) if one is not first]
        await until(lambda: process.state is not S.STARTING)
        if process.state is S.RUNNING:
            # A spawn into a group waits for nothing, and a keeper may be faster than this program.
            await process.stop()
        else:
            assert (await process.wait()).diagnostic == "start_cancelled"
        for step in range(51):
            with anyio.move_on_after(step * 0.0001):
                await supervisor.start(["sleep", mark], owner=OWNER)
        known = [process for process in supervisor.list(OWNER) if process.outcome is None]
        await until(lambda: len(running(mark)) == len([one for one in known if one.outcome is None]))
    assert running(mark) == []
    _all_have_their_last_word(told(supervisor.outbox))


# asyncio only: see above.
@every_tier
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_c70_cancelled_natively_during_a_start(mark: str) -> None:
    """Through every shield; twice; and with the whole group of starts."""
    limits = Limits(running_per_loop=200, running_per_session=200, spool_bytes=4096)
    async with supervising(limits=limits) as supervisor:
        await (await supervisor.start("true", owner=OWNER)).wait()
        for step in range(0, 51, 2):
            tasks = [
                asyncio.get_running_loop().create_task(_start(lambda: supervisor.start(["sleep", mark], owner=OWNER)))
                for _ in range(3)
            ]
            await asyncio.sleep(step * 0.0001)
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0)
            for task in tasks[:1]:
                task.cancel()
            await asyncio.wait(tasks)
        known = [process for process in supervisor.list(OWNER) if process.outcome is None]
        await until(lambda: len(running(mark)) == len([one for one in known if one.outcome is None]))
    assert running(mark) == []
    _all_have_their_last_word(told(supervisor.outbox))


async def _start(start: Callable[[], Awaitable[Process]]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await start()


def _all_have_their_last_word(items: Sequence[object]) -> None:
    started = {item.process.process_handle for item in items if isinstance(item, ProcessStarted)}
    completed = [item.process.process_handle for item in items if isinstance(item, ProcessCompleted)]
    assert started <= set(completed)
    assert len(completed) == len(set(completed))


@every_tier
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@sizes(3, 100)
def test_c71_a_run_ends_after_many_starts_are_cancelled(count: int, backend: str, tier: Containment) -> None:
    """Twenty tasks start short jobs again and again, and are cancelled at some moment: the loop closes each time."""
    chance = random.Random(count)
    slowest = 0.0

    async def churn() -> float:
        limits = Limits(running_per_loop=20, retained_completed=5, spool_bytes=4096, grace_seconds=0.5)
        async with open_supervisor(None, session_id=SESSION, limits=limits) as supervisor:

            async def again() -> None:
                while True:
                    await (await supervisor.start(["sleep", "0.002"], owner=OWNER)).wait()

            with anyio.move_on_after(chance.uniform(0.1, 0.3)):
                async with anyio.create_task_group() as tasks:
                    for _ in range(20):
                        tasks.start_soon(again)
            began = time.monotonic()
        return began  # noqa: RET504 -- not the time of the return

    for _ in range(count):
        with nothing_left():
            began = anyio.run(churn, backend=backend)
            slowest = max(slowest, time.monotonic() - began)
    assert slowest < HANG_SECONDS
    print(f"\nc71 {backend} {tier.name}: {count} runs, the slowest closed in {slowest:.2f} s")  # noqa: T201 -- a figure


@every_tier
async def test_c72_nothing_is_left_to_complain_about(tier: Containment, anyio_backend_name: str, mark: str) -> None:
    """Pipes and terminals too, with input that waits: every warning is an error, and one that nobody can catch would be
    printed.  Nobody is left."""
    strict = {"PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1"}
    ends = {"return": (0, ""), "error": (1, "ZeroDivisionError")}
    with ExitStack() as stack:
        hosts = [
            stack.enter_context(
                host("leaves", tier, anyio_backend_name, then, mark, env=strict, stderr=subprocess.PIPE)
            )
            for then in ends
        ]
        for it, (code, word) in zip(hosts, ends.values(), strict=True):
            _, said = it.popen.communicate(timeout=100)
            assert it.popen.returncode == code, said
            assert word in said
            for complaint in ("Warning", "unraisable", "Exception ignored", "never", "is closed"):
                assert complaint not in said, said
        assert running(mark) == []


# --- C73: the end of a block, whatever ends it


Five = list[Process]


async def _five(runtime: lastword.Runtime, mark: str) -> Five:
    """Running; three of their kinds take time to end."""
    commands = (
        f"sleep {mark}",
        f"exec sleep {mark}",
        f"trap '' TERM; echo up; while :; do sleep {mark}; done",
        f"sleep {mark} & sleep {mark}",
        f"trap 'sleep 0.1; exit 0' TERM; echo up; while :; do sleep 0.05; : {mark}; done",
    )
    jobs = [await runtime.start(command) for command in commands]
    for process in jobs:
        if "trap" in commands[jobs.index(process)]:
            await wait_for_output(process, b"up\n")
    return jobs


async def _check_five(jobs: Five, mark: str, state: Path | None, journal: MemoryJournal | None) -> None:
    """All stopped by the shutdown, nobody left, and five last words in the journal."""
    assert running(mark) == []
    assert len(jobs) == 5
    for process in jobs:
        assert process.outcome is not None
        assert process.outcome.reason is R.RUNNER_SHUTDOWN
    async with lastword.open_runtime(state, journal=journal) as runtime:
        story = await story_of(runtime)
        for process in jobs:
            assert words(story[process.handle]) == ["ProcessStarted", "ProcessStopRequested", "ProcessCompleted"]
            assert story[process.handle][-1].process.reason is R.RUNNER_SHUTDOWN
        with within(5):
            assert set(await told_once(runtime, 5)) == {process.handle for process in jobs}


async def _ended_by_a_scope(run: Callable[[], Coroutine[Any, Any, None]], ready: anyio.Event) -> None:
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await ready.wait()
                scope.cancel()

            tasks.start_soon(cancel)
            await run()
    assert scope.cancelled_caught  # it is raised again


async def _ended_by_a_second_cancel(run: Callable[[], Coroutine[Any, Any, None]], ready: anyio.Event) -> None:
    """While it is closing already."""
    outer_caught = False
    with anyio.CancelScope() as outer:
        with anyio.CancelScope() as inner:
            async with anyio.create_task_group() as tasks:

                async def cancel() -> None:
                    await ready.wait()
                    inner.cancel()
                    with anyio.CancelScope(shield=True):
                        await anyio.sleep(0.05)
                        outer.cancel()
                        await anyio.sleep(0.05)
                        inner.cancel()

                tasks.start_soon(cancel)
                await run()
        outer_caught = True
        await anyio.sleep_forever()
    assert outer.cancelled_caught or not outer_caught


async def _ended_by_a_sibling(run: Callable[[], Coroutine[Any, Any, None]], ready: anyio.Event) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with anyio.create_task_group() as tasks:

            async def crash() -> None:
                await ready.wait()
                raise ZeroDivisionError("sibling")

            tasks.start_soon(crash)
            tasks.start_soon(run)
    assert [str(error) for error in caught.value.exceptions] == ["sibling"]


ENDS: dict[str, Callable[[Callable[[], Coroutine[Any, Any, None]], anyio.Event], Awaitable[None]]] = {
    "a cancelled scope": _ended_by_a_scope,
    "a second cancel": _ended_by_a_second_cancel,
    "a crashed sibling": _ended_by_a_sibling,
}


@every_tier
async def test_c73_a_block_that_is_cancelled_closes_all_the_same(state: Path | None, mark: str) -> None:
    """Five jobs run; the stop is shielded and bounded, everything is told, and what ended the block goes on."""

    async def end_by(number: int, end: str) -> None:
        own, place = f"{mark}{number}", None if state is None else state.with_name(f"state-{number}")
        jobs: Five = []
        journal = MemoryJournal() if state is None else None
        ready = anyio.Event()

        async def run() -> None:
            async with lastword.open_runtime(place, limits=Limits(grace_seconds=0.3), journal=journal) as runtime:
                jobs.extend(await _five(runtime, own))
                ready.set()
                await anyio.sleep_forever()

        with within(10):
            await ENDS[end](run, ready)
        await _check_five(jobs, own, place, journal)

    with nothing_left():
        await together(partial(end_by, number, end) for number, end in enumerate(ENDS))


@every_tier
async def test_c73_a_keyboard_interrupt_leaves_as_it_is(state: Path | None, mark: str) -> None:
    """After everything was stopped and told; a real Ctrl-C at every moment is in tests/test_interrupts.py."""
    jobs: Five = []
    journal = MemoryJournal() if state is None else None
    with nothing_left(), within(10), pytest.raises(KeyboardInterrupt):
        async with lastword.open_runtime(state, limits=Limits(grace_seconds=0.3), journal=journal) as runtime:
            jobs.extend(await _five(runtime, mark))
            raise KeyboardInterrupt
    await _check_five(jobs, mark, state, journal)


# asyncio only: see above.
@every_tier
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_c73_a_task_that_is_cancelled_natively_again_and_again(state: Path | None, mark: str) -> None:
    """Every few milliseconds while it closes."""
    jobs: Five = []
    journal = MemoryJournal() if state is None else None
    ready = anyio.Event()

    async def run() -> None:
        async with lastword.open_runtime(state, limits=Limits(grace_seconds=0.3), journal=journal) as runtime:
            jobs.extend(await _five(runtime, mark))
            ready.set()
            await anyio.sleep_forever()

    with nothing_left(), within(10):
        task = asyncio.get_running_loop().create_task(run())
        await ready.wait()
        while not task.done():
            task.cancel()
            await asyncio.sleep(0.005)
        assert task.cancelled()
    await _check_five(jobs, mark, state, journal)
