"""A pipe for input: what is taken and when, and what waits where there is no room.

Where a process must not read yet, it opens a FIFO first, which waits for the test to open the other end.
"""

from __future__ import annotations

import fcntl
import os
import signal
import tracemalloc
from pathlib import Path

import anyio
import pytest
from input_ground import PIPE_BYTES, closed, fill, opened
from supervising import OWNER, output_of, supervising, wait_for_output

from lastword.notifier import ProcessState
from lastword.supervisor import (
    Containment,
    ErrorCode,
    InputBackpressureError,
    Limits,
    StdinClosedError,
    SupervisorError,
)
from lastword.supervisor._reactor import Reactor
from lastword.supervisor.launch import (
    _input,  # pyright: ignore[reportPrivateUsage] -- whose allocations are counted
    open_pipe,
)

S = ProcessState


# --- what is sent


async def test_all_that_was_sent_is_read_and_then_the_end(each_tier: Containment) -> None:
    """In order, in any pieces; the end can be asked for again, and after it nothing is taken."""
    data = os.urandom(900_000)
    async with supervising() as supervisor:
        process = await supervisor.start("cat", owner=OWNER, stdin="pipe")
        await process.send_input(b"")
        for start, end in ((0, 1), (1, 5000), (5000, 900_000)):
            await process.send_input(data[start:end])
        await process.close_input()
        assert "closed" in await closed(process)
        await process.close_input()
        assert (await process.wait()).exit_code == 0
        assert await output_of(process) == data
        assert "ended" in await closed(process)
        await process.close_input()


async def test_an_answer_to_each_question() -> None:
    """Nothing is held back: what is sent can be read at once."""
    async with supervising() as supervisor:
        process = await supervisor.start("while read line; do echo $((line + 1)); done", owner=OWNER, stdin="pipe")
        for number in range(20):
            await process.send_input(b"%d\n" % number)
            await wait_for_output(process, b"%d\n" % (number + 1))
        await process.close_input()
        assert (await process.wait()).exit_code == 0


async def test_senders_do_not_mix(gate: Path) -> None:
    """Each piece is whole, and each sender's are in its order, though all of it had to wait."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"cat <{gate}; exec cat", owner=OWNER, stdin="pipe")

        async def send(name: int) -> None:
            for number in range(50):
                await process.send_input(b"%02d %02d %s\n" % (name, number, b"x" * 993))

        async with anyio.create_task_group() as tasks:
            for name in range(10):
                tasks.start_soon(send, name)
        await process.close_input()
        opened(gate)
        await process.wait()
        lines = (await output_of(process)).splitlines()
        assert len(lines) == 500
        for name in range(10):
            own = [line for line in lines if line[:2] == b"%02d" % name]
            assert own == [b"%02d %02d %s" % (name, number, b"x" * 993) for number in range(50)]


async def test_a_cancelled_send_has_taken_nothing() -> None:
    """Of two tasks the other's is there, whole."""
    async with supervising() as supervisor:
        process = await supervisor.start("cat", owner=OWNER, stdin="pipe")
        for _ in range(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.send_input, b"kept\n")
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await process.send_input(b"cancelled\n")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await process.close_input()
        await process.send_input(b"still open\n")
        await process.close_input()
        assert await output_of(process) == b"kept\n" * 10 + b"still open\n"


async def test_what_is_no_bytes_is_refused_and_a_buffer_is_copied(gate: Path) -> None:
    """What the caller does with it afterwards changes nothing."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"cat <{gate}; exec cat", owner=OWNER, stdin="pipe")
        for wrong in ("text", None, 7, [1]):
            with pytest.raises(SupervisorError) as caught:
                await process.send_input(wrong)  # type: ignore[arg-type]  # what it is about
            assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
        buffer = bytearray(b"a" * 200_000)
        await process.send_input(buffer)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] -- not refused
        await process.send_input(memoryview(buffer)[:10])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        buffer[:] = b"b" * 200_000
        await process.close_input()
        opened(gate)
        assert await output_of(process) == b"a" * 200_010


# --- no room


async def test_what_never_reads_is_sent_no_more_than_the_limit(each_tier: Containment) -> None:
    """A piece is taken whole or not at all; nothing of it waits behind a stop, and the host's loop is free."""
    limit = 100_000
    async with supervising(limits=Limits(pending_input_bytes=limit)) as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER, stdin="pipe")
        with pytest.raises(InputBackpressureError, match="at most 100000"):
            await process.send_input(b"x" * (limit + 1))
        await process.send_input(b"x" * limit)
        taken = limit + await fill(process, b"x" * 10_000)
        assert limit + PIPE_BYTES - 10_000 < taken <= limit + PIPE_BYTES
        await process.send_input(b"")
        outcome = await process.stop()
        assert outcome is not None
        assert (outcome.state, outcome.signal) == (S.TERMINATED, signal.SIGTERM)
        assert "ended" in await closed(process)


async def test_the_end_comes_after_what_waits(gate: Path, each_tier: Containment) -> None:
    """Closing is not waited for, and nothing that was taken is lost by it."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"cat <{gate}; exec cat", owner=OWNER, stdin="pipe")
        taken = await fill(process, os.urandom(1000) * 100)
        await process.close_input()
        assert "closed" in await closed(process)
        assert process.state is S.RUNNING
        opened(gate)
        assert (await process.wait()).exit_code == 0
        data = await output_of(process)
        assert len(data) == taken
        assert data == data[:100_000] * (taken // 100_000)


async def test_room_is_there_again_once_it_reads(gate: Path) -> None:
    """Refused, and taken when some of it was read: 4 MiB through a limit of 64 KiB."""
    async with supervising(limits=Limits(pending_input_bytes=65_536)) as supervisor:
        process = await supervisor.start(f"cat <{gate}; exec cat", owner=OWNER, stdin="pipe")
        sent = await fill(process, b"y" * 65_536)
        opened(gate)
        while sent < 4 << 20:
            try:
                await process.send_input(b"y" * 65_536)
            except InputBackpressureError:
                # By now all of it may have been read and written.
                if (written := (await process.read_output(0, 1)).total) < sent:
                    await process.wait_output(written)
            else:
                sent += 65_536
        await process.close_input()
        assert (await process.wait()).total_bytes == sent


def test_many_small_pieces_that_wait_take_no_more_than_their_bytes() -> None:
    """The limit counts bytes, so it must be bytes that wait."""
    reactor = Reactor()
    given = open_pipe(reactor, PIPE_BYTES)
    given.send(b"x" * PIPE_BYTES)
    tracemalloc.start()
    for _ in range(2000):
        given.send(b"y")
    # What this one module holds: other threads have allocations of their own.
    own = tracemalloc.Filter(inclusive=True, filename_pattern=_input.__file__)
    taken = sum(each.size for each in tracemalloc.take_snapshot().filter_traces([own]).traces)
    tracemalloc.stop()
    assert 2000 <= taken < 50_000
    with pytest.raises(InputBackpressureError, match="2000 bytes"):
        given.send(b"z" * PIPE_BYTES)
    given.close()
    reactor.close()


async def test_a_fast_reader_does_not_hold_the_loop() -> None:
    """What it has room for is written in turns; here all of it would go at once."""
    room, data = 1 << 20, os.urandom(900_000)
    reactor = Reactor()
    given = open_pipe(reactor, 64 << 20)
    assert given.given is not None
    fcntl.fcntl(given.given, fcntl.F_SETPIPE_SZ, room)
    given.send(data)
    given.end()
    read = b""
    try:
        first = len(os.read(given.given, room))
        assert 0 < first < 600_000
        read = data[:first]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reactor.run)
            with anyio.fail_after(30):
                while len(read) < len(data):
                    await anyio.wait_readable(given.given)
                    read += os.read(given.given, room)
            tasks.cancel_scope.cancel()
        assert read == data
        assert os.read(given.given, 1) == b""
        assert not reactor._selector.get_map()  # pyright: ignore[reportPrivateUsage]
    finally:
        given.close()
        reactor.close()


async def test_what_nobody_foresaw_is_told_to_who_sends_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reactor asks no more for it: nothing waits for ever, and its number can be watched again."""
    reactor = Reactor()
    given = open_pipe(reactor, 64 << 20)
    assert given.given is not None
    raised = anyio.Event()

    def unforeseen(*_arguments: object) -> int:
        raised.set()
        raise RuntimeError

    given.send(b"x" * 500_000)
    given.end()
    os.read(given.given, 1 << 20)
    with monkeypatch.context() as patch:
        patch.setattr("lastword.supervisor.launch._input.write_quietly", unforeseen)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reactor.run)
            with anyio.fail_after(30):
                await raised.wait()
            tasks.cancel_scope.cancel()
    with pytest.raises(StdinClosedError, match="nobody foresaw"):
        given.send(b"more")
    assert not reactor._selector.get_map()  # pyright: ignore[reportPrivateUsage]
    given.close()
    reactor.close()
