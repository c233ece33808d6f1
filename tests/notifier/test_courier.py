"""The courier: at least once, in order per process, and never stuck on one of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint
from memory_outbox import MemoryOutbox

from lastword.adapters.testing import ManualClock
from lastword.notifier import (
    Appended,
    AppendResult,
    Collision,
    Courier,
    Duplicate,
    EventDecodeError,
    IdempotencyCollisionError,
    InvalidEventError,
    JournalFencedError,
    JournalUnavailableError,
    NewRecord,
    OutboxUnit,
    ProcessNotificationDeliveryStoppedError,
    ProcessNotificationOwnerMismatchError,
    ProcessNotificationUnsupportedError,
    SecondTerminal,
    SecondTerminalError,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

Answer = Callable[[Sequence[NewRecord]], list[AppendResult]]


class Sink:
    """Answers each unit by what the test has set for its subject; keeps every try."""

    def __init__(self) -> None:
        self.tries: list[tuple[str | None, bytes]] = []
        self.answers: dict[str, list[Exception | AppendResult]] = {}
        self.gate: anyio.Event | None = None
        self.inside = 0
        self.most_inside = 0

    async def deliver(self, unit: Sequence[NewRecord]) -> list[AppendResult]:
        subject = unit[0].subject
        self.tries.append((subject, b"|".join(record.payload for record in unit)))
        self.inside += 1
        self.most_inside = max(self.inside, self.most_inside)
        try:
            await checkpoint()
            if self.gate is not None:
                await self.gate.wait()
        finally:
            self.inside -= 1
        answers = self.answers.get(subject or "", [])
        answer = answers.pop(0) if answers else Appended(len(self.tries))
        if isinstance(answer, Exception):
            raise answer
        return [answer] * len(unit)


class Judged:
    """An observer that keeps what it was told."""

    def __init__(self) -> None:
        self.verdicts: list[tuple[str, Verdict]] = []

    def unit_judged(self, unit: OutboxUnit, verdict: Verdict, error: Exception | None) -> None:
        self.verdicts.append((unit.subject, verdict))


class Scene:
    """A courier at work, with everything around it in the test's hands."""

    def __init__(self) -> None:
        self.outbox = MemoryOutbox()
        self.sink = Sink()
        self.clock = ManualClock()
        self.judged = Judged()
        self.courier = Courier(self.outbox, self.sink, clock=self.clock, rng=Random(7), observer=self.judged)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        with anyio.fail_after(90):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.courier.run)
                yield
                tasks.cancel_scope.cancel()

    async def until_empty(self) -> None:
        """Let time pass, from deadline to deadline, until the outbox has no head."""
        while self.outbox.heads():
            await wait_all_tasks_blocked()
            deadline = self.clock.next_deadline
            if deadline is not None:
                self.clock.advance(max(0.0, deadline - self.clock.elapsed))
                await wait_all_tasks_blocked()


async def test_what_is_in_the_outbox_and_what_comes_later_is_delivered_in_order_per_process() -> None:
    scene = Scene()
    for payload in (b"1", b"2", b"3"):
        scene.outbox.add("a", payload)
    scene.outbox.add("b", b"x", b"y")
    async with scene.running():
        await scene.outbox.wait_empty()
        scene.outbox.add("a", b"4")
        await scene.outbox.wait_empty()
    assert [payload for subject, payload in scene.sink.tries if subject == "a"] == [b"1", b"2", b"3", b"4"]
    assert [payload for subject, payload in scene.sink.tries if subject == "b"] == [b"x|y"]
    assert sorted(scene.outbox.delivered) == [1, 2, 3, 4, 5]


async def test_heads_of_many_processes_are_offered_together() -> None:
    """One commit can then take them all."""
    scene = Scene()
    scene.sink.gate = anyio.Event()
    for number in range(20):
        scene.outbox.add(f"p{number}", b"word")
    async with scene.running():
        await wait_all_tasks_blocked()
        assert scene.sink.inside == 20
        scene.sink.gate.set()
        await scene.outbox.wait_empty()


@pytest.mark.parametrize(
    "error",
    [
        JournalUnavailableError("locked"),
        ProcessNotificationDeliveryStoppedError("full"),
        RuntimeError("nobody foresaw this"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_may_pass_is_tried_until_it_does_with_the_same_bytes(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    unit = scene.outbox.add("a", b"event", b"notification")
    scene.sink.answers["a"] = [error] * 8
    async with scene.running():
        await scene.until_empty()
    assert scene.sink.tries == [("a", b"event|notification")] * 9
    assert scene.outbox.delivered == [unit.position]
    assert len(scene.outbox.failed) == 8
    assert ("nobody foresaw" in caplog.text) == isinstance(error, RuntimeError)


async def test_no_try_comes_before_its_backoff_has_passed() -> None:
    scene = Scene()
    scene.outbox.add("a", b"1")
    scene.sink.answers["a"] = [JournalUnavailableError("locked")]
    async with scene.running():
        await wait_all_tasks_blocked()
        deadline = scene.clock.next_deadline
        assert deadline is not None
        assert 0.0 < deadline <= 0.05
        scene.clock.advance(deadline * 0.9)
        await wait_all_tasks_blocked()
        assert len(scene.sink.tries) == 1
        scene.clock.advance(deadline)
        await scene.outbox.wait_empty()
    assert len(scene.sink.tries) == 2


async def test_wake_cuts_every_backoff_short() -> None:
    scene = Scene()
    for subject in ("a", "b"):
        scene.outbox.add(subject, b"1")
        scene.sink.answers[subject] = [JournalUnavailableError("locked")]
    async with scene.running():
        await wait_all_tasks_blocked()
        assert len(scene.sink.tries) == 2
        scene.courier.wake()
        await scene.outbox.wait_empty()
    assert scene.clock.elapsed == 0.0


async def test_a_stuck_process_never_holds_up_another() -> None:
    scene = Scene()
    scene.outbox.add("stuck", b"1")
    scene.sink.answers["stuck"] = [JournalUnavailableError("locked")] * 1000
    async with scene.running():
        for number in range(5):
            unit = scene.outbox.add("free", str(number).encode())
            await wait_all_tasks_blocked()
            assert unit.position in scene.outbox.delivered
    assert [unit.subject for unit in scene.outbox.heads()] == ["stuck"]


@pytest.mark.parametrize(
    "answer",
    [
        Collision(3),
        IdempotencyCollisionError(uuid4(), 3),
        ProcessNotificationOwnerMismatchError("other session"),
        ProcessNotificationUnsupportedError("not native"),
        InvalidEventError("ProcessStarted", "process", "is invalid"),
        EventDecodeError("not json"),
    ],
    ids=lambda answer: type(answer).__name__,
)
async def test_what_can_never_pass_is_kept_aside_and_releases_the_next(answer: Exception | AppendResult) -> None:
    scene = Scene()
    bad = scene.outbox.add("a", b"bad")
    good = scene.outbox.add("a", b"good")
    scene.sink.answers["a"] = [answer]
    async with scene.running():
        await scene.outbox.wait_empty()
    assert list(scene.outbox.quarantined) == [bad.position]
    assert scene.outbox.delivered == [good.position]
    assert scene.judged.verdicts == [("a", Verdict.QUARANTINED), ("a", Verdict.DELIVERED)]


@pytest.mark.parametrize("answer", [SecondTerminal(3), SecondTerminalError(3)], ids=["result", "error"])
async def test_an_overtaken_last_word_is_neither_told_nor_quarantined(answer: Exception | AppendResult) -> None:
    scene = Scene()
    scene.outbox.add("a", b"event", b"notification")
    scene.sink.answers["a"] = [answer]
    async with scene.running():
        await scene.outbox.wait_empty()
    assert scene.outbox.quarantined == {}
    assert scene.judged.verdicts == [("a", Verdict.SUPERSEDED)]


async def test_a_duplicate_ends_the_work_like_an_append() -> None:
    scene = Scene()
    scene.outbox.add("a", b"1")
    scene.sink.answers["a"] = [Duplicate(3, consumed=True)]
    async with scene.running():
        await scene.outbox.wait_empty()
    assert scene.judged.verdicts == [("a", Verdict.DELIVERED)]


async def test_fenced_stops_the_courier_and_keeps_every_unit() -> None:
    scene = Scene()
    scene.outbox.add("a", b"1")
    scene.sink.answers["a"] = [JournalFencedError("epoch 2")]
    with anyio.fail_after(90):
        await scene.courier.run()
    assert isinstance(scene.courier.fenced, JournalFencedError)
    assert len(scene.outbox.heads()) == 1
    assert scene.outbox.quarantined == {}


async def test_a_cancelled_delivery_is_offered_again_by_the_next_courier() -> None:
    scene = Scene()
    scene.outbox.add("a", b"1")
    scene.sink.gate = anyio.Event()
    async with scene.running():
        await wait_all_tasks_blocked()
    assert scene.outbox.delivered == []
    scene.sink.gate = None
    second = Courier(scene.outbox, scene.sink, clock=scene.clock, rng=Random(7))
    with anyio.fail_after(90):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second.run)
            await scene.outbox.wait_empty()
            tasks.cancel_scope.cancel()
    assert scene.sink.tries == [("a", b"1"), ("a", b"1")]


async def test_an_observer_that_raises_does_not_end_the_courier(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def unit_judged(self, unit: OutboxUnit, verdict: Verdict, error: Exception | None) -> None:
            raise ValueError("a listener's fault")

    scene = Scene()
    scene.courier = Courier(scene.outbox, scene.sink, clock=scene.clock, rng=Random(7), observer=Broken())
    scene.outbox.add("a", b"1")
    scene.outbox.add("a", b"2")
    with caplog.at_level(logging.ERROR):
        async with scene.running():
            await scene.outbox.wait_empty()
    assert "delivery goes on" in caplog.text


async def test_a_failing_quarantine_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.outbox.add("a", b"1")
    scene.sink.answers["a"] = [Collision(3), Collision(3)]
    quarantine = scene.outbox.quarantine
    faults = [OSError("disk full")]

    async def failing(position: int, error: str) -> None:
        if faults:
            raise faults.pop()
        await quarantine(position, error)

    scene.outbox.quarantine = failing  # type: ignore[method-assign]  # the one fault that this test needs
    async with scene.running():
        await scene.until_empty()
    assert list(scene.outbox.quarantined) == [1]
    assert len(scene.sink.tries) == 2
