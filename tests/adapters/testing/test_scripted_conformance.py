"""A scripted job and a process that do the same cannot be told apart: each test is run with both."""

from __future__ import annotations

from pathlib import Path
from signal import Signals

import anyio
import pytest
from anyio.lowlevel import checkpoint
from scripted_ground import KINDS, Stage, staged

from lastword import ErrorCode, Outcome, Process, ProcessState, StopMode, SupervisorError, TerminalReason
from lastword.notifier import ProcessCompleted, ProcessStarted, ProcessStopRequested, WorkflowActivity
from lastword.session import EphemeralEvent
from lastword.supervisor import InputBackpressureError, StdinClosedError


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s")  # a socket's path must be short


def ending(outcome: Outcome | None) -> tuple[ProcessState, TerminalReason, int | None, int | None, int]:
    """What must be the same."""
    assert outcome is not None
    assert outcome.proven
    assert (outcome.survivors, outcome.output_open, outcome.output_error, outcome.diagnostic) == (0, False, None, "")
    assert outcome.started_at is not None
    return outcome.state, outcome.reason, outcome.exit_code, outcome.signal, outcome.total_bytes


EXITED = (ProcessState.EXITED, TerminalReason.EXITED)
TERMINATED = (ProcessState.TERMINATED, TerminalReason.TERMINATED)
INTERRUPTED = (ProcessState.INTERRUPTED, TerminalReason.INTERRUPTED)
KILLED = (ProcessState.KILLED, TerminalReason.KILLED)


async def events_of(stage: Stage, process: Process) -> list[type]:
    """What was told of it, in order."""
    events = [delivery.event async for delivery in stage.runtime.session.replay()]
    return [
        type(event)
        for event in events
        if not isinstance(event, WorkflowActivity | EphemeralEvent) and event.process.process_handle == process.handle
    ]


async def test_output_is_read_as_it_comes_and_after_the_end(kind: str, folder: Path) -> None:
    async with staged(kind, folder) as stage:
        process, life = await stage.start(name="builder")
        assert (process.name, process.state, process.outcome) == ("builder", ProcessState.RUNNING, None)
        nothing = await process.read_output()
        assert (nothing.data, nothing.total, nothing.ended) == (b"", 0, False)
        with pytest.raises(SupervisorError) as ahead:
            await process.read_output(1)
        assert ahead.value.code is ErrorCode.CURSOR_AHEAD
        await life.write(b"one\n")
        await process.wait_output(0)
        chunk = await process.read_output(1, 2)
        assert (chunk.data, chunk.start, chunk.next_cursor, chunk.total, chunk.ended) == (b"ne", 1, 3, 4, False)
        followed: list[bytes] = []
        async with anyio.create_task_group() as tasks:

            async def follow() -> None:
                followed.extend([chunk.data async for chunk in process.follow(4)])

            tasks.start_soon(follow)
            await life.write(b"two\n", "stderr")  # of one pipe, in order
            await process.wait_output(4)
            await life.write("é".encode()[:1])
            await life.write("é".encode()[1:])
            await life.exit(3)
        assert b"".join(followed) == "two\né".encode()
        assert b"\xc3" not in followed
        outcome = await process.wait()
        assert ending(outcome) == (*EXITED, 3, None, 10)
        assert process.outcome is outcome
        last = await process.read_output(8)
        assert (last.data, last.ended, last.total) == ("é".encode(), True, 10)
        await process.wait_output(10)


async def test_streams_are_read_apart(kind: str, folder: Path) -> None:
    async with staged(kind, folder) as stage:
        process, life = await stage.start(split_streams=True)
        for number, (data, stream) in enumerate([(b"out", "stdout"), (b"err", "stderr"), (b"put", "stdout")]):
            await life.write(data, "stderr" if stream == "stderr" else "stdout")
            await process.wait_output(3 * number)
        await life.exit(0)
        await process.wait()
        assert (await process.read_output(streams="both")).data == b"outerrput"
        assert (await process.read_output(streams="stderr")).data == b"err"
        first = await process.read_output(streams="stdout")
        second = await process.read_output(first.next_cursor, streams="stdout")
        assert first.data + second.data == b"output"


async def test_of_much_output_the_last_is_kept_or_the_first(kind: str, folder: Path) -> None:
    async with staged(kind, folder) as stage:
        process, life = await stage.start(output_limit=4096)
        for number in range(6):
            await life.write(bytes([65 + number]) * 4096)
        await life.exit(0)
        assert ending(await process.wait()) == (*EXITED, 0, None, 6 * 4096)
        chunk = await process.read_output(0, 1 << 20)
        assert (chunk.data, chunk.omitted) == (b"F" * 4096, (0, 5 * 4096))
        process, life = await stage.start(output_limit=4, on_output_limit="stop")
        await life.write(b"12345")
        assert ending(await process.wait()) == (ProcessState.TERMINATED, TerminalReason.OUTPUT_LIMIT, None, 15, 5)
        assert (await process.read_output()).data == b"1234"


async def test_its_own_end_is_an_exit_by_code_or_signal_and_its_owner_is_told(kind: str, folder: Path) -> None:
    async with staged(kind, folder) as stage:
        for end, told in (
            (0, (0, None)),
            (255, (255, None)),
            (Signals.SIGKILL, (None, 9)),
            (Signals.SIGTERM, (None, 15)),
        ):
            process, life = await stage.start()
            await (life.die(end) if isinstance(end, Signals) else life.exit(end))
            assert ending(await process.wait()) == (*EXITED, *told, 0)
            notice = await stage.runtime.loop.receive()
            assert notice.notification.process_handle == process.handle
            assert notice.notification.state is ProcessState.EXITED
            await notice.ack()
            assert await process.stop() is process.outcome  # nothing is signalled any more
            assert await events_of(stage, process) == [ProcessStarted, ProcessCompleted]
        assert await stage.runtime.pending() == []


async def test_a_stop_ends_it_by_the_signal_of_its_mode(kind: str, folder: Path) -> None:
    async with staged(kind, folder) as stage:
        for mode, told, number in (
            (StopMode.TERMINATE, TERMINATED, 15),
            (StopMode.INTERRUPT, INTERRUPTED, 2),
            (StopMode.KILL, KILLED, 9),
        ):
            process, _ = await stage.start()
            assert ending(await process.stop(mode)) == (*told, None, number, 0)
            await stage.runtime.loop.receive()  # everything is journaled by then
            assert await events_of(stage, process) == [ProcessStarted, ProcessStopRequested, ProcessCompleted]


async def test_a_stop_may_be_answered_by_an_exit(kind: str, folder: Path) -> None:
    async with staged(kind, folder) as stage:
        process, life = await stage.start()
        await life.answer(Signals.SIGTERM, 7)
        assert ending(await process.stop()) == (*TERMINATED, 7, None, 0)
        process, life = await stage.start()
        await life.answer(Signals.SIGINT, 130)
        assert ending(await process.stop(StopMode.INTERRUPT)) == (*INTERRUPTED, 130, None, 0)


async def test_a_stop_may_be_ignored_and_then_it_is_killed(kind: str, folder: Path) -> None:
    async with staged(kind, folder) as stage:
        process, life = await stage.start()
        await life.ignore(Signals.SIGINT)
        await life.ignore(Signals.SIGTERM)
        assert await process.stop(StopMode.INTERRUPT, grace=0.01) is None
        assert process.state is ProcessState.RUNNING
        await life.write(b"on")
        await process.wait_output(0)
        assert ending(await process.stop(grace=0.01)) == (*KILLED, None, 9, 2)


async def test_a_stop_in_vain_does_not_become_the_cause_of_a_later_end(kind: str, folder: Path) -> None:
    async with staged(kind, folder) as stage:
        process, life = await stage.start()
        await life.ignore(Signals.SIGINT)
        assert await process.stop(StopMode.INTERRUPT, grace=0.0) is None
        await life.exit(4)
        assert ending(await process.wait()) == (*EXITED, 4, None, 0)


async def test_its_time_may_be_over(kind: str, folder: Path) -> None:
    async with staged(kind, folder) as stage:
        process = await stage.runtime.start(["sleep", "100"], timeout=0.01)
        outcome = ending(await process.wait())
        assert outcome == (ProcessState.TIMED_OUT, TerminalReason.TIMED_OUT, None, 15, 0)


async def test_it_reads_what_it_is_sent(kind: str, folder: Path) -> None:
    async with staged(kind, folder) as stage:
        process, life = await stage.start(stdin="pipe")
        await process.send_input(b"hello ")
        assert await life.read() == b"hello "
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                await checkpoint()
                await process.send_input(b"world")

            tasks.start_soon(send)
            assert await life.read() == b"world"
        with pytest.raises(InputBackpressureError):
            await process.send_input(bytes(1 << 20))
        await process.close_input()
        assert await life.read() == b""
        with pytest.raises(StdinClosedError):
            await process.send_input(b"more")
        await life.exit(0)
        await process.wait()
        with pytest.raises(StdinClosedError):
            await process.send_input(b"more")


async def test_it_reads_what_it_was_given_or_nothing(kind: str, folder: Path) -> None:
    async with staged(kind, folder) as stage:
        process, life = await stage.start(stdin=b"given")
        assert [await life.read(), await life.read()] == [b"given", b""]
        with pytest.raises(StdinClosedError):
            await process.send_input(b"more")
        _, life = await stage.start()
        assert await life.read() == b""


async def test_the_block_s_end_stops_it(kind: str, folder: Path) -> None:
    async with staged(kind, folder) as stage:
        process, _ = await stage.start(background=True)
        assert process.backgrounded
    assert ending(process.outcome) == (ProcessState.TERMINATED, TerminalReason.RUNNER_SHUTDOWN, None, 15, 0)
