"""Output: order, cursors, bounds, waiting, a failing disk, and what is private."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest
from supervising import OWNER, output_of, supervising, wait_for_output

from lastword.notifier import ProcessState, TerminalReason
from lastword.supervisor import (
    Containment,
    ErrorCode,
    Limits,
    OutputChunk,
    OutputFault,
    Process,
    ProcessNotFoundError,
    QuotaExceededError,
    StdinClosedError,
    Streams,
    SupervisorError,
)
from lastword.supervisor.launch import launcher_of
from lastword.supervisor.shim._header import HEADER_BYTES, segment_of

pytestmark = pytest.mark.usefixtures("each_tier")


async def test_stdout_and_stderr_keep_their_exact_order() -> None:
    """One pipe: what was written first is read first."""
    command = "for i in 1 2 3 4 5 6 7 8 9; do echo out$i; echo err$i >&2; done"
    async with supervising() as supervisor:
        process = await supervisor.start(command, owner=OWNER)
        assert await output_of(process) == b"".join(b"out%d\nerr%d\n" % (i, i) for i in range(1, 10))


async def test_reading_by_cursor() -> None:
    """Pieces join without a gap or an overlap, and the end is told at the end only."""
    async with supervising() as supervisor:
        process = await supervisor.start("printf 0123456789", owner=OWNER)
        await process.wait()
        first = await process.read_output(0, 4)
        assert (first.data, first.start, first.next_cursor, first.total) == (b"0123", 0, 4, 10)
        assert (first.ended, first.gap, first.omitted) == (False, False, None)
        last = await process.read_output(first.next_cursor, 100)
        assert (last.data, last.start, last.next_cursor, last.ended) == (b"456789", 4, 10, True)
        after = await process.read_output(10)
        assert (after.data, after.start, after.next_cursor, after.ended) == (b"", 10, 10, True)
        assert (await process.read_output(3, 2)).data == b"34"


async def test_a_running_process_has_not_ended_at_its_cursor() -> None:
    """An empty chunk says that there is nothing yet."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo hi; sleep 60", owner=OWNER)
        await wait_for_output(process, b"hi\n")
        chunk = await process.read_output(3)
        assert (chunk.data, chunk.next_cursor, chunk.ended) == (b"", 3, False)


async def test_wrong_cursors_are_refused() -> None:
    """Beyond the total is cursor_ahead; what is no count is invalid_arguments; one stream only has both."""
    async with supervising() as supervisor:
        process = await supervisor.start("printf abc", owner=OWNER)
        await process.wait()
        cases: list[tuple[dict[str, Any], ErrorCode]] = [
            ({"cursor": 4}, ErrorCode.CURSOR_AHEAD),
            ({"cursor": -1}, ErrorCode.INVALID_ARGUMENTS),
            ({"cursor": 10**5000}, ErrorCode.INVALID_ARGUMENTS),
            ({"cursor": True}, ErrorCode.INVALID_ARGUMENTS),
            ({"max_bytes": 0}, ErrorCode.INVALID_ARGUMENTS),
            ({"streams": "stdout"}, ErrorCode.INVALID_ARGUMENTS),
        ]
        for arguments, code in cases:
            with pytest.raises(SupervisorError) as caught:
                await process.read_output(**arguments)
            assert caught.value.code is code


async def test_a_chunk_does_not_split_a_character() -> None:
    """A piece that is cut short ends before the sequence that it would split; the pieces still join exactly."""
    text = "a€b𝄞c" * 50
    async with supervising() as supervisor:
        process = await supervisor.start(["printf", "%s", text], owner=OWNER)
        await process.wait()
        for size in range(4, 12):
            cursor, shown, raw = 0, "", b""
            while not (chunk := await process.read_output(cursor, size)).ended or chunk.data:
                shown += chunk.text.text
                raw += chunk.data
                cursor = chunk.next_cursor
                if chunk.ended:
                    break
            assert shown == text
            assert raw == text.encode()


async def test_waiting_for_more() -> None:
    """`wait_output` returns when there is more than that, or when there can be no more."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo one; sleep 60", owner=OWNER)
        await process.wait_output(0)
        await process.wait_output(3)
        with anyio.move_on_after(0.05) as scope:
            await process.wait_output(4)
        assert scope.cancelled_caught
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.wait_output, 1_000)
            await anyio.wait_all_tasks_blocked()
            await process.stop()


async def test_following_to_the_end() -> None:
    """Chunks come as they are written; the iteration ends with the output, and a closed one gives nothing more."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo a; read x; echo b; read x; echo c", owner=OWNER, stdin="pipe")
        chunks: list[bytes] = []
        async for chunk in process.follow():
            chunks.append(chunk.data)
            if not chunk.ended and len(chunks) < 3:
                await process.send_input(b"\n")
        assert [data for data in chunks if data] == [b"a\n", b"b\n", b"c\n"]
        assert [chunk.data async for chunk in process.follow(2)] == [b"b\nc\n"]
        follower = process.follow()
        await follower.aclose()
        assert [chunk async for chunk in follower] == []


async def test_a_follower_splits_no_character_at_the_live_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The beginning of a character waits for its rest; what cannot become one does not wait, nor what never goes on."""
    (gate := tmp_path / "gate").mkdir()
    for step in range(3):
        os.mkfifo(gate / str(step))
    pieces = ["a\\342", "\\202", "\\254b\\377", "c\\360\\237"]
    command = "; ".join(f"printf '{piece}'; read x < {step}" for step, piece in enumerate(pieces)).removesuffix(
        "; read x < 3"
    )
    async with supervising() as supervisor:
        process = await supervisor.start(command, owner=OWNER, cwd=gate)
        follower = process.follow()
        assert (await anext(follower)).data == b"a"
        (gate / "0").write_text("\n")
        await process.wait_output(2)
        reads: list[int] = []
        read_output = Process.read_output

        async def counted(process: Process, cursor: int, *, streams: Streams) -> OutputChunk:
            reads.append(cursor)
            return await read_output(process, cursor, streams=streams)

        with anyio.move_on_after(0.05) as scope, monkeypatch.context() as patch:
            patch.setattr(Process, "read_output", counted)
            await anext(follower)
        assert scope.cancelled_caught
        assert reads == [1]  # and then it waited
        assert (await process.read_output(1)).data == b"\xe2\x82"
        (gate / "1").write_text("\n")
        await process.wait_output(5)
        assert (await anext(follower)).data == b"\xe2\x82\xacb\xff"
        (gate / "2").write_text("\n")
        await process.wait()
        assert [chunk.data async for chunk in follower] == [b"c\xf0\x9f"]


async def test_a_cancelled_follower_loses_nothing() -> None:
    """The call that was cut short can be made again."""
    async with supervising() as supervisor:
        process = await supervisor.start("read x; echo late", owner=OWNER, stdin="pipe")
        follower = process.follow()
        with anyio.move_on_after(0.02) as scope:
            await anext(follower)
        assert scope.cancelled_caught
        await process.send_input(b"\n")
        assert (await anext(follower)).data == b"late\n"


# --- bounds -----------------------------------------------------------------------------------------------------------


async def test_nobody_has_to_read() -> None:
    """The job is drained whether it is read or not, and everything is there afterwards."""
    async with supervising() as supervisor:
        process = await supervisor.start("head -c 300000 /dev/zero", owner=OWNER)
        assert (await process.wait()).total_bytes == 300_000
        assert await output_of(process) == bytes(300_000)


async def test_beyond_the_limit_the_last_bytes_are_kept(tmp_path: Path) -> None:
    """The child is neither blocked nor killed; omitted and kept add up to everything, also after another opening."""
    written = b"".join(b"%d\n" % number for number in range(1, 200_001))
    total = len(written)
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start("seq 1 200000; exit 3", owner=OWNER, output_limit=1_000)
        outcome = await process.wait()
        assert (outcome.exit_code, outcome.total_bytes, outcome.output_error) == (3, total, None)
        size = (tmp_path / "output" / process.handle).stat().st_size
        assert size <= HEADER_BYTES + 1_000 + segment_of(1_000)
        await _check_the_last(process, written, 1_000)
    async with supervising(tmp_path) as supervisor:
        await _check_the_last(supervisor.get(process.handle, OWNER), written, 1_000)


async def _check_the_last(process: Process, written: bytes, kept: int) -> None:
    """That of `written` exactly the last `kept` bytes can be read, and that the rest is told as omitted."""
    total = len(written)
    base = total - kept
    chunk = await process.read_output(0, 4_096)
    assert (chunk.data, chunk.omitted, chunk.gap) == (written[base:], (0, base), True)
    assert (chunk.start, chunk.next_cursor, chunk.total, chunk.ended) == (base, total, total, True)
    inside = await process.read_output(base + 10, 20)
    assert (inside.data, inside.omitted, inside.ended) == (written[base + 10 : base + 30], None, False)
    assert b"".join([chunk.data async for chunk in process.follow(base - 5)]) == written[base:]


async def test_the_limit_can_stop_it(tmp_path: Path) -> None:
    """`stop` ends it with the reason output_limit, and keeps the first bytes; what fits exactly is within the limit."""
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start("yes", owner=OWNER, output_limit=5_000, on_output_limit="stop")
        outcome = await process.wait()
        assert (outcome.state, outcome.reason) == (ProcessState.TERMINATED, TerminalReason.OUTPUT_LIMIT)
        assert outcome.total_bytes > 5_000
        chunk = await process.read_output(0, 100_000)
        assert (chunk.data, chunk.omitted, chunk.next_cursor) == (b"y\n" * 2_500, None, 5_000)
        gap = await process.read_output(5_000)
        assert (gap.data, gap.omitted, gap.ended) == (b"", (5_000, outcome.total_bytes), True)
        assert (tmp_path / "output" / process.handle).stat().st_size == HEADER_BYTES + 5_000
        exact = await supervisor.start(
            "head -c 5000 /dev/zero", owner=OWNER, output_limit=5_000, on_output_limit="stop"
        )
        assert (await exact.wait()).state is ProcessState.EXITED
    async with supervising(tmp_path) as supervisor:
        chunk = await supervisor.get(process.handle, OWNER).read_output(4_990)
        assert (chunk.data, chunk.next_cursor, chunk.total) == (b"y\n" * 5, 5_000, outcome.total_bytes)


async def test_running_output_is_reserved_and_ended_output_is_counted() -> None:
    """A running process reserves its limit, an ended one counts what it kept, and the oldest makes room."""
    limits = Limits(spool_bytes=1_000, aggregate_spool_bytes=2_500)
    async with supervising(limits=limits) as supervisor:
        old = await supervisor.start("head -c 900 /dev/zero", owner=OWNER)
        await old.wait()
        newer = await supervisor.start("head -c 900 /dev/zero", owner=OWNER)
        await newer.wait()
        assert (await old.read_output()).total == 900  # used: the other is the least recently used now
        running = await supervisor.start("sleep 60", owner=OWNER)
        assert [process.handle for process in supervisor.list(OWNER)] == [old.handle, running.handle]
        with pytest.raises(ProcessNotFoundError):
            await newer.read_output()
        with pytest.raises(QuotaExceededError) as caught:
            await supervisor.start("true", owner=OWNER, output_limit=1_600)
        assert caught.value.code is ErrorCode.OUTPUT_QUOTA_EXCEEDED
        assert old in supervisor.list(OWNER)  # evicting it would not have been enough, so it was not


# --- the disk ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
async def test_a_failing_disk_is_told_and_the_child_is_drained(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """In the middle: the outcome and reads carry the offset, the child ends as if nothing had been."""
    pwrite = os.pwrite
    most = HEADER_BYTES + 100_000

    def full(descriptor: int, data: Any, offset: int) -> int:
        if offset + len(data) > most:
            if offset >= most:
                raise OSError(code, os.strerror(code))
            data = data[: most - offset]
        return pwrite(descriptor, data, offset)

    # The tier whose keeper is in this process; the others' writer is the same (see test_ring.py, tests/faults).
    async with supervising(launcher=launcher_of(Containment.PROCESS_GROUP)) as supervisor:
        monkeypatch.setattr(os, "pwrite", full)
        process = await supervisor.start("seq 1 100000; exit 4", owner=OWNER)
        outcome = await process.wait()
        total = sum(len(str(i)) + 1 for i in range(1, 100_001))
        fault = OutputFault(offset=100_000, code=errno.errorcode[code])
        assert (outcome.exit_code, outcome.total_bytes, outcome.output_error) == (4, total, fault)
        chunk = await process.read_output(0, 200_000)
        assert (len(chunk.data), chunk.output_error) == (100_000, fault)
        assert (await process.read_output(100_000)).omitted == (100_000, total)


async def test_no_file_can_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not even the first byte is kept: told from offset 0."""
    async with supervising(tmp_path) as supervisor:
        (tmp_path / "output").rmdir()
        process = await supervisor.start("echo hi", owner=OWNER)
        outcome = await process.wait()
        assert (outcome.exit_code, outcome.total_bytes) == (0, 3)
        assert outcome.output_error == OutputFault(offset=0, code="ENOENT")
        chunk = await process.read_output()
        assert (chunk.omitted, chunk.ended) == ((0, 3), True)
        (tmp_path / "output").mkdir()


async def test_a_file_that_was_cut_short_is_told(tmp_path: Path) -> None:
    """Somebody else's doing, and no wrong bytes: spool_corrupt, without a path in the message."""
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start("echo hi", owner=OWNER)
        await process.wait()
        file = tmp_path / "output" / process.handle
        whole = file.read_bytes()
        assert (await process.read_output()).data == b"hi\n"
        for damage in (lambda: file.write_bytes(whole[:-1]), lambda: file.write_bytes(b"h"), file.unlink):
            damage()
            with pytest.raises(SupervisorError) as caught:
                await process.read_output()
            assert caught.value.code is ErrorCode.SPOOL_CORRUPT
            assert str(tmp_path) not in str(caught.value)


async def test_output_files_are_private_and_appear_with_the_first_byte(tmp_path: Path) -> None:
    """0600 in a 0700 folder, whatever the umask; a process that writes nothing leaves no file."""
    mask = os.umask(0)
    try:
        async with supervising(tmp_path) as supervisor:
            silent = await supervisor.start("true", owner=OWNER)
            loud = await supervisor.start("echo hi", owner=OWNER)
            await supervisor.wait_all([silent, loud])
            (file,) = (tmp_path / "output").iterdir()
            assert file.name == loud.handle
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
            assert stat.S_IMODE((tmp_path / "supervisor.db").stat().st_mode) == 0o600
    finally:
        os.umask(mask)


# --- no input, no terminal --------------------------------------------------------------------------------------------


async def test_input_and_terminal_are_typed_refusals() -> None:
    """Without a pipe nothing can be sent; closing what is closed is harmless."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER)
        with pytest.raises(StdinClosedError) as closed:
            await process.send_input(b"x")
        assert closed.value.code is ErrorCode.STDIN_CLOSED
        await process.close_input()
        with pytest.raises(SupervisorError) as caught:
            await process.resize(24, 80)
        assert caught.value.code is ErrorCode.PTY_UNAVAILABLE
