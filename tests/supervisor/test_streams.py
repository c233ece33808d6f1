"""`split_streams`: stdout and stderr can be told apart, by cursors that mean the same to both."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from shim_ground import all_gone, pids_of, shim_of
from supervising import OWNER, SESSION, output_of, supervising, until

from lastword.notifier import ProcessState, TerminalReason
from lastword.supervisor import (
    Containment,
    ErrorCode,
    OutputChunk,
    Process,
    Streams,
    SupervisorError,
    hold_directory,
    view_directory,
)

every_tier = pytest.mark.usefixtures("each_tier")

BOTH_WAYS = "for i in 1 2 3 4 5 6 7 8 9; do echo out$i; echo err$i >&2; done"
OUT = b"".join(b"out%d\n" % i for i in range(1, 10))
ERR = b"".join(b"err%d\n" % i for i in range(1, 10))


async def stream_of(process: Process, streams: Streams, *, most: int = 1 << 20) -> bytes:
    """All that is kept of one stream, read in pieces whose cursors join."""
    data, cursor = b"", 0
    while True:
        chunk = await process.read_output(cursor, most, streams=streams)
        assert chunk.start == cursor
        data += chunk.data
        cursor = chunk.next_cursor
        if chunk.ended:
            assert cursor == chunk.total
            return data


def gates(folder: Path) -> Path:
    """A folder of FIFOs, each to be passed once: whoever reads from one waits until it is written."""
    (gate := folder / "gate").mkdir()
    for step in range(3):
        os.mkfifo(gate / str(step))
    return gate


async def check_both_ways(process: Process) -> None:
    """Each stream has its own bytes, in order, and both together all of them; in large pieces and in small ones."""
    for most in (1 << 20, 3, 1):
        assert await stream_of(process, "stdout", most=most) == OUT
        assert await stream_of(process, "stderr", most=most) == ERR
    both = await stream_of(process, "both")
    assert sorted(both) == sorted(OUT + ERR)


@every_tier
async def test_each_stream_has_its_own_bytes(tmp_path: Path) -> None:
    """By cursor, by following, from the folder while it is held, and after another opening."""
    with hold_directory(tmp_path, session_id=SESSION, new_id=uuid4):  # which names its session
        pass
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start(BOTH_WAYS, owner=OWNER, split_streams=True)
        outcome = await process.wait()
        assert (outcome.exit_code, outcome.total_bytes) == (0, len(OUT + ERR))
        await check_both_ways(process)
        assert b"".join([chunk.data async for chunk in process.follow(streams="stdout")]) == OUT
        assert b"".join([chunk.data async for chunk in process.follow(streams="stderr")]) == ERR
        (view,) = view_directory(tmp_path).processes
        assert view.read_output(streams="stderr").data == ERR
        assert view.read_output(4, streams="stdout").data == OUT[4:]
    async with supervising(tmp_path) as supervisor:
        await check_both_ways(supervisor.get(process.handle, OWNER))


async def test_a_cursor_of_one_stream_serves_the_other(tmp_path: Path) -> None:
    """It counts the bytes of both: what one stream has shown up to there, the other can be asked for."""
    gate = gates(tmp_path)
    command = "echo one; read x < 0; echo two >&2; read x < 1; echo three"
    async with supervising() as supervisor:
        process = await supervisor.start(command, owner=OWNER, cwd=gate, split_streams=True)
        await process.wait_output(3)
        chunk = await process.read_output(streams="stdout")
        assert (chunk.data, chunk.start, chunk.next_cursor, chunk.total) == (b"one\n", 0, 4, 4)
        (gate / "0").write_text("\n")
        await process.wait_output(7)
        # Nothing of its own: not even what has been read of the other is in the way.
        chunk = await process.read_output(4, streams="stdout")
        assert (chunk.data, chunk.start, chunk.next_cursor, chunk.ended) == (b"", 4, 8, False)
        chunk = await process.read_output(4, streams="stderr")
        assert (chunk.data, chunk.next_cursor, chunk.total) == (b"two\n", 8, 8)
        (gate / "1").write_text("\n")
        await process.wait()
        assert (await process.read_output(8, streams="stderr")).ended
        chunk = await process.read_output(0, streams="stdout")
        assert (chunk.data, chunk.next_cursor, chunk.ended) == (b"one\nthree\n", 14, True)
        chunk = await process.read_output(2, 3, streams="stdout")
        assert (chunk.data, chunk.start, chunk.next_cursor) == (b"e\nt", 2, 9)
        assert (await process.read_output(5, streams="stderr")).data == b"wo\n"
        assert (await process.read_output()).data == b"one\ntwo\nthree\n"


async def test_what_cannot_be_told_apart_is_refused(tmp_path: Path) -> None:
    """One stream of a process that has one for both, and what is no stream; also after another opening."""
    cases: list[tuple[str, Any]] = [("one", "stdout"), ("one", "stderr"), ("two", "stdin"), ("two", None), ("two", 1)]
    async with supervising(tmp_path) as supervisor:
        one = await supervisor.start("true", owner=OWNER)
        two = await supervisor.start("true", owner=OWNER, split_streams=True)
        await supervisor.wait_all([one, two])
    async with supervising(tmp_path) as supervisor:
        names = {"one": supervisor.get(one.handle, OWNER), "two": supervisor.get(two.handle, OWNER)}
        for name, streams in cases:
            with pytest.raises(SupervisorError) as caught:
                await names[name].read_output(streams=streams)
            assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
            with pytest.raises(SupervisorError) as caught:
                names[name].follow(streams=streams)
            assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
        # It has written nothing, and of each stream that is known.
        each: tuple[Streams, ...] = ("both", "stdout", "stderr")
        for known in each:
            chunk = await names["two"].read_output(streams=known)
            assert (chunk.data, chunk.total, chunk.ended, chunk.gap) == (b"", 0, True, False)


async def test_a_silent_stream_is_at_its_end_with_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Following it waits, wakes when the other has written, and says nothing; it never asks again for nothing."""
    async with supervising() as supervisor:
        process = await supervisor.start(
            "head -c 100000 /dev/zero; sleep 0.1; head -c 100000 /dev/zero", owner=OWNER, split_streams=True
        )
        cursors: list[int] = []
        read_output = Process.read_output

        async def counted(process: Process, cursor: int, *, streams: Streams) -> OutputChunk:
            cursors.append(cursor)
            return await read_output(process, cursor, streams=streams)

        with monkeypatch.context() as patch:
            patch.setattr(Process, "read_output", counted)
            assert [chunk async for chunk in process.follow(streams="stderr")] == []
        # Each time there was more; and once more since it had ended.
        assert len(cursors) - len(set(cursors)) <= 1
        assert cursors == sorted(cursors)
        assert len(await stream_of(process, "stdout")) == 200_000


async def test_a_follower_of_one_stream_splits_no_character(tmp_path: Path) -> None:
    """Although the other stream writes between its bytes."""
    gate = gates(tmp_path)
    command = (
        "printf 'a\\342'; read x < 0; printf noise >&2; read x < 1; printf '\\202\\254b'; read x < 2; printf '\\303'"
    )
    async with supervising() as supervisor:
        process = await supervisor.start(command, owner=OWNER, cwd=gate, split_streams=True)
        follower = process.follow(streams="stdout")
        assert (await anext(follower)).data == b"a"
        (gate / "0").write_text("\n")
        await process.wait_output(6)
        with anyio.move_on_after(0.05) as scope:
            await anext(follower)
        assert scope.cancelled_caught
        (gate / "1").write_text("\n")
        chunk = await anext(follower)
        assert (chunk.data, chunk.start) == ("€b".encode(), 1)
        (gate / "2").write_text("\n")
        assert [chunk.data async for chunk in follower] == [b"\xc3"]


@every_tier
async def test_one_stream_may_be_closed_while_the_other_goes_on() -> None:
    """Its end is not the end; and a leader that has closed both is waited for as ever."""
    async with supervising() as supervisor:
        for command, out, err in (
            ("echo a >&2; exec 2>&-; sleep 0.1; echo b; sleep 0.1; echo c", b"b\nc\n", b"a\n"),
            ("echo a; exec 1>&-; sleep 0.1; echo b >&2", b"a\n", b"b\n"),
            ("echo a; echo b >&2; exec 1>&- 2>&-; sleep 0.1; exit 3", b"a\n", b"b\n"),
        ):
            process = await supervisor.start(command, owner=OWNER, split_streams=True)
            outcome = await process.wait()
            assert outcome.exit_code == (3 if "exit 3" in command else 0)
            assert outcome.output_open is False
            assert await stream_of(process, "stdout") == out
            assert await stream_of(process, "stderr") == err


@every_tier
@pytest.mark.parametrize("held", [1, 2])
async def test_a_grandchild_that_holds_one_stream_does_not_hold_up_the_end(held: int, tmp_path: Path) -> None:
    """As with one pipe: the end comes at once, what is held is told, and what it writes later is not in the output."""
    gate = gates(tmp_path)
    late = f"read x < 0; echo late >&{held}; echo late >&{held}; : > written; sleep 60"
    async with supervising() as supervisor:
        process = await supervisor.start(
            f"({late}) {3 - held}>/dev/null & echo hi; echo ho >&2; exit 5",
            owner=OWNER,
            cwd=gate,
            split_streams=True,
            survivors="keep",
        )
        outcome = await process.wait()
        assert (outcome.exit_code, outcome.output_open, outcome.survivors) == (5, True, 1)
        (gate / "0").write_text("\n")
        await until((gate / "written").exists)
        assert await stream_of(process, "stdout") == b"hi\n"
        assert await stream_of(process, "stderr") == b"ho\n"
        await process.stop()


@every_tier
async def test_nobody_has_to_read_either() -> None:
    """Both full at once, in any order: the job ends by itself, and all of it is there."""
    commands = (
        "head -c 300000 /dev/zero; head -c 300000 /dev/zero | tr '\\0' x >&2",
        "head -c 300000 /dev/zero | tr '\\0' x >&2; head -c 300000 /dev/zero",
        "head -c 300000 /dev/zero & head -c 300000 /dev/zero | tr '\\0' x >&2; wait",
    )
    async with supervising() as supervisor:
        for command in commands:
            process = await supervisor.start(command, owner=OWNER, split_streams=True)
            assert (await process.wait()).exit_code == 0
            assert await stream_of(process, "stdout") == bytes(300_000)
            assert await stream_of(process, "stderr") == b"x" * 300_000


async def test_of_a_ring_that_went_round_each_stream_tells_what_is_missing(tmp_path: Path) -> None:
    """Omitted up to where the kept bytes begin, for one stream as for both; the kept ones join, also when reopened."""
    program = "i=0; while [ $i -lt 3000 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done"
    written: dict[Streams, bytes] = {
        "stdout": b"".join(b"out%d\n" % i for i in range(3_000)),
        "stderr": b"".join(b"err%d\n" % i for i in range(3_000)),
    }

    async def check(process: Process) -> None:
        both = await process.read_output(0, 1 << 20)
        assert both.omitted == (0, both.total - 5_000)
        kept = 0
        for streams, whole in written.items():
            chunk = await process.read_output(0, 1 << 20, streams=streams)
            assert (chunk.omitted, chunk.gap, chunk.start) == (both.omitted, True, both.start)
            assert (chunk.next_cursor, chunk.ended) == (chunk.total, True)
            assert chunk.data == whole[len(whole) - len(chunk.data) :]
            kept += len(chunk.data)
        assert kept == len(both.data) == 5_000

    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start(program, owner=OWNER, output_limit=5_000, split_streams=True)
        await process.wait()
        await check(process)
    async with supervising(tmp_path) as supervisor:
        await check(supervisor.get(process.handle, OWNER))


async def test_both_streams_count_for_the_limit() -> None:
    """`stop` keeps the first bytes of both together, each with its own."""
    async with supervising() as supervisor:
        process = await supervisor.start(
            "head -c 3000 /dev/zero; sleep 0.1; yes >&2",
            owner=OWNER,
            split_streams=True,
            output_limit=5_000,
            on_output_limit="stop",
        )
        outcome = await process.wait()
        assert (outcome.state, outcome.reason) == (ProcessState.TERMINATED, TerminalReason.OUTPUT_LIMIT)
        out = await process.read_output(0, 1 << 20, streams="stdout")
        err = await process.read_output(0, 1 << 20, streams="stderr")
        assert (out.data, err.data) == (bytes(3_000), b"y\n" * 1_000)
        assert err.next_cursor == 5_000
        for streams in ("both", "stdout", "stderr"):
            gap = await process.read_output(5_000, streams=streams)
            assert (gap.data, gap.omitted, gap.ended) == (b"", (5_000, outcome.total_bytes), True)


@every_tier
async def test_a_job_has_its_streams_and_nothing_else() -> None:
    """Descriptors 0, 1 and 2, the latter two not the same; what writes to them dies of SIGPIPE as ever."""
    async with supervising() as supervisor:
        process = await supervisor.start(
            "ls /proc/$$/fd; [ $(readlink /proc/$$/fd/1) != $(readlink /proc/$$/fd/2) ]",
            owner=OWNER,
            split_streams=True,
        )
        assert (await process.wait()).exit_code == 0
        assert (await output_of(process)).split() == [b"0", b"1", b"2"]


async def test_what_a_killed_shim_has_kept_can_be_told_apart(tmp_path: Path, each_tier: Containment) -> None:
    """Index and bytes agree wherever it was killed; in the weakest tier there is none to kill, and the host tells."""
    program = "echo $$; while :; do echo out; echo err >&2; done"
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start(program, owner=OWNER, split_streams=True, output_limit=1 << 20)
        (leader,) = await pids_of(process)
        await process.wait_output(20_000)
        if each_tier.proven:
            os.kill(shim_of(leader), signal.SIGKILL)
            outcome = await process.wait()
            assert outcome.diagnostic == "shim_lost"
        else:
            os.kill(leader, signal.SIGKILL)
            outcome = await process.wait()
        await all_gone(leader)
    async with supervising(tmp_path) as supervisor:
        process = supervisor.get(process.handle, OWNER)
        out = await process.read_output(0, 2 << 20, streams="stdout")
        err = await process.read_output(0, 2 << 20, streams="stderr")
        both = await stream_of(process, "both")
        assert set(out.data.removeprefix(b"%d\n" % leader).split(b"\n")) - {b"", b"o", b"ou"} == {b"out"}
        assert set(err.data.split(b"\n")) - {b"", b"e", b"er"} == {b"err"}
        assert len(both) == outcome.total_bytes
