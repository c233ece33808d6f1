"""Output of any kind and amount; input that is all there at the start (binary, unbounded, line, tty-text, stdin)."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from cases_ground import PYTHON, every_tier, group_tier, host, running, sizes, together, within
from leaping_clock import LeapingClock
from supervising import OWNER, output_of, supervising

from lastword.notifier import ProcessState, TerminalReason
from lastword.supervisor import Containment, Limits, OutputFault, Process
from lastword.supervisor.shim._header import HEADER_BYTES, segment_of
from lastword.supervisor.shim._ring import RingWriter

S = ProcessState


@every_tier
async def test_c36_binary_output(tmp_path: Path) -> None:
    """Every byte is kept exactly; the text view never raises, decodes with replacement, and fits JSON."""
    commands = (
        "head -c 100000 /dev/urandom",
        "(head -c 50000 /dev/urandom; head -c 50000 /dev/zero)",
        r"yes $(printf '\303\050\355\240') | head -c 100000",
    )
    copy = tmp_path / "copy"
    async with supervising() as supervisor:
        for command in commands:
            process = await supervisor.start(f"{command} | tee {copy}", owner=OWNER)
            outcome = await process.wait()
            assert (outcome.exit_code, outcome.total_bytes) == (0, 100_000)
            chunk = await process.read_output(0, 200_000)
            assert (chunk.data, chunk.ended) == (copy.read_bytes(), True)
            assert "\ufffd" in chunk.text.text
            assert _through_json(chunk.text.text) == chunk.text.text
            async for piece in process.follow():
                assert _through_json(piece.text.text) == piece.text.text


def _through_json(text: str) -> object:
    """Written as it is, so that half a pair of UTF-16 would be refused."""
    return json.loads(json.dumps(text, ensure_ascii=False).encode())


@contextmanager
def _files_end_at(size: int, processes: list[psutil.Process]) -> Generator[None]:
    """While the block lasts `processes`, and who is forked from them, can write no file further."""
    before = [process.rlimit(psutil.RLIMIT_FSIZE) for process in processes]
    for process, (_, hard) in zip(processes, before, strict=True):
        process.rlimit(psutil.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        for process, limits in zip(processes, before, strict=True):
            process.rlimit(psutil.RLIMIT_FSIZE, limits)


@every_tier
async def test_c37_a_disk_that_fails_is_told_and_the_child_is_drained(tier: Containment) -> None:
    """The outcome carries where output ends; the program runs to its own end, and is never cut and called well."""
    total = sum(len(str(number)) + 1 for number in range(1, 100_001))
    kept = 100_000
    async with supervising() as supervisor:
        await (await supervisor.start("true", owner=OWNER)).wait()
        writers = psutil.Process().children() if tier.proven else [psutil.Process()]
        with _files_end_at(HEADER_BYTES + kept, writers):
            process = await supervisor.start("seq 1 100000; exit 4", owner=OWNER)
            outcome = await process.wait()
            apart = await supervisor.start(
                "seq 1 100000 >&2; exit 4", owner=OWNER, output_limit=kept, split_streams=True
            )
            cut = await apart.wait()
        fault = OutputFault(offset=kept, code="EFBIG")
        assert (outcome.exit_code, outcome.total_bytes, outcome.output_error) == (4, total, fault)
        chunk = await process.read_output(0, 200_000)
        assert (len(chunk.data), chunk.output_error) == (kept, fault)
        assert (await process.read_output(kept)).omitted == (kept, total)
        assert (cut.exit_code, cut.total_bytes) == (4, total)
        assert cut.output_error is not None
        chunk = await apart.read_output(0, 200_000, streams="stderr")
        assert (len(chunk.data), chunk.next_cursor) == (cut.output_error.offset, cut.output_error.offset)
        assert (await apart.read_output(chunk.next_cursor, streams="stderr")).omitted == (chunk.next_cursor, total)


@group_tier
async def test_c37_a_pump_that_fails_by_itself_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the host, where it takes no keeper with it: as a disk that failed, and the child is drained."""
    kept = 300_000  # more than is kept at once, or nothing would be
    keep = RingWriter._keep  # pyright: ignore[reportPrivateUsage]

    def fails(self: RingWriter, data: memoryview, stream: int) -> None:
        if self.total + len(data) > kept:
            raise ValueError(bytes(data))
        keep(self, data, stream)

    monkeypatch.setattr(RingWriter, "_keep", fails)
    total = sum(len(str(number)) + 1 for number in range(1, 100_001))
    async with supervising() as supervisor:
        process = await supervisor.start("seq 1 100000; exit 4", owner=OWNER)
        outcome = await process.wait()
        assert (outcome.exit_code, outcome.total_bytes) == (4, total)
        assert outcome.output_error is not None
        assert outcome.output_error.code == "EIO"
        chunk = await process.read_output(0, 2 * kept)
        assert (len(chunk.data), chunk.output_error) == (outcome.output_error.offset, outcome.output_error)
        assert 0 < len(chunk.data) <= kept
        assert (await process.read_output(len(chunk.data))).omitted == (len(chunk.data), total)


async def test_c38_one_long_line() -> None:
    """A line is nothing special: every byte is there, in bounded pieces."""
    async with supervising() as supervisor:
        process = await supervisor.start([*PYTHON, "-c", "print('x'*1000000)"], owner=OWNER)
        assert (await process.wait()).exit_code == 0
        chunks = [chunk async for chunk in process.follow()]
        assert b"".join(chunk.data for chunk in chunks) == b"x" * 1_000_000 + b"\n"
        assert max(len(chunk.data) for chunk in chunks) <= 32 * 1024


@every_tier
async def test_c39_a_line_longer_than_all_that_is_kept(tmp_path: Path) -> None:
    """Success stays success: the last bytes are there, the range before is told, and nobody's memory holds the line."""
    cap, total = 8 << 20, 40_000_000
    os.mkfifo(gate := tmp_path / "gate")
    async with supervising() as supervisor:
        for split in (False, True):
            process = await supervisor.start(
                f"head -c {total} /dev/zero | tr '\\0' x; read end < {gate}",
                owner=OWNER,
                output_limit=cap,
                split_streams=split,
            )
            before = _memory()  # with whoever keeps it
            await process.wait_output(total - 1)
            kept = omitted = 0
            async for chunk in process.follow():
                assert chunk.data == b"x" * len(chunk.data)
                kept += len(chunk.data)
                omitted += 0 if chunk.omitted is None else chunk.omitted[1] - chunk.omitted[0]
                if chunk.next_cursor == total:
                    break
            assert kept + omitted == total
            assert kept >= cap
            assert _memory() - before < 2 * cap
            gate.write_text("\n")
            outcome = await process.wait()
            assert (outcome.state, outcome.exit_code, outcome.total_bytes) == (S.EXITED, 0, total)
            assert (await process.read_output(0, 1)).omitted == (0, total - cap)
            assert await output_of(process) == b"x" * cap


def _memory() -> int:
    """Bytes of this host and of all that it has started."""
    own, total = psutil.Process(), 0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            total += process.memory_info().rss
    return total


@every_tier
async def test_c40_output_does_not_fill_the_disk(tmp_path: Path) -> None:
    """Never more than the limit and one segment, the job goes on being drained, and nobody writes after closing."""
    limit = 1 << 20
    most = HEADER_BYTES + limit + segment_of(limit)
    clock = LeapingClock()
    ended: list[Process] = []
    async with supervising(tmp_path, limits=Limits(grace_seconds=1.0), clock=clock) as supervisor:
        lifetime = [60.0]
        policies: list[dict[str, Any]] = [{"timeout": lifetime[0]}, {"on_output_limit": "stop"}]
        for options in policies:
            process = await supervisor.start(["yes", str(tmp_path)], owner=OWNER, output_limit=limit, **options)
            while process.outcome is None:
                total = (await process.read_output()).total
                await process.wait_output(total)
                assert (tmp_path / "output" / process.handle).stat().st_size <= most
                if total > 3 * limit:
                    clock.leap(lifetime.pop() if lifetime else 0.0)
            ended.append(process)
        rotating, stopping = ended
        assert rotating.outcome is not None
        assert stopping.outcome is not None
        assert rotating.outcome.state is S.TIMED_OUT
        assert rotating.outcome.total_bytes > limit
        assert len(await output_of(rotating)) == limit
        assert stopping.outcome.reason is TerminalReason.OUTPUT_LIMIT
        assert stopping.outcome.total_bytes > limit
        await supervisor.start(["yes", str(tmp_path)], owner=OWNER, output_limit=limit)
    assert running(f"yes\0{tmp_path}") == []
    assert max(file.stat().st_size for file in (tmp_path / "output").iterdir()) <= most


@every_tier
@sizes(2_000_000, 20_000_000)
async def test_c42_output_is_not_held_in_memory(count: int) -> None:
    """The host does not grow with it, the program is not held up, and the last lines are kept; the rest is told."""
    async with supervising() as supervisor:
        await (await supervisor.start("true", owner=OWNER)).wait()
        before = psutil.Process().memory_info().rss
        process = await supervisor.start(f"seq 1 {count}", owner=OWNER, output_limit=1 << 20)
        outcome = await process.wait()
        assert psutil.Process().memory_info().rss - before < 32 << 20
        assert outcome.exit_code == 0
        chunk = await process.read_output(0, 1 << 20)
        assert chunk.omitted == (0, outcome.total_bytes - (1 << 20))
        assert chunk.data.endswith(b"\n%d\n" % count)


async def test_c49_carriage_returns() -> None:
    """The raw bytes are exact, the view shows what a terminal would."""
    async with supervising() as supervisor:
        for command, raw, shown in (
            (r"printf 'first\rsecond\nthird\n'", b"first\rsecond\nthird\n", "second\nthird\n"),
            (r"printf 'a\r\nb\r\n'", b"a\r\nb\r\n", "a\nb\n"),
        ):
            process = await supervisor.start(command, owner=OWNER)
            await process.wait()
            chunk = await process.read_output()
            assert (chunk.data, chunk.text.text) == (raw, shown)


@every_tier
async def test_c52_nothing_to_read() -> None:
    """Input is at its end by default, whatever the host's own is, and that is left alone."""
    reading, writing = os.pipe()
    saved = os.dup(0)
    os.dup2(reading, 0)
    try:
        os.write(writing, b"host's own")
        async with supervising() as supervisor:
            null = 'test "$(readlink /proc/self/fd/0)" = /dev/null'
            for command in ("cat", ["cat"], "cat <&0 & wait", "exec cat /dev/stdin", null):
                process = await supervisor.start(command, owner=OWNER)
                outcome = await process.wait()
                assert (outcome.exit_code, outcome.total_bytes) == (0, 0)
        assert os.read(0, 100) == b"host's own"
    finally:
        os.dup2(saved, 0)
        for descriptor in (saved, reading, writing):
            os.close(descriptor)


@every_tier
async def test_c53_no_terminal_of_the_host(tier: Containment, anyio_backend_name: str) -> None:
    """/dev/tty is nobody's: it fails fast, and the host's terminal shows nothing."""
    master, slave = os.openpty()
    with host("asks_the_terminal", tier, anyio_backend_name, terminal=slave) as it:
        os.close(slave)
        assert it.line() == "failed, and said No such device or address"
        it.succeed()
    os.set_blocking(master, False)
    with pytest.raises(OSError):  # noqa: PT011 -- nothing there, or nobody any more
        os.read(master, 100)
    os.close(master)


@every_tier
async def test_c55_a_script_by_stdin() -> None:
    """No quoting between the caller and the program."""
    script = b'print("$x `y` \\\\")\n'
    async with supervising() as supervisor:
        process = await supervisor.start([*PYTHON, "-"], owner=OWNER, stdin=script)
        assert (await process.wait()).exit_code == 0
        assert await output_of(process) == b"$x `y` \\\n"


@every_tier
async def test_c56_large_stdin(tmp_path: Path) -> None:
    """Four megabytes come back identical, several times at once, and the loop is free meanwhile: nobody has to read."""
    data = os.urandom(4 << 20)
    os.mkfifo(gate := tmp_path / "gate")
    async with supervising() as supervisor:

        async def echo() -> None:
            process = await supervisor.start(["cat"], owner=OWNER, stdin=data)
            assert await output_of(process) == data

        async def echo_later() -> None:
            process = await supervisor.start(f"read go <{gate}; exec cat", owner=OWNER, stdin=data)
            gate.write_text("\n")  # by this very loop
            assert await output_of(process) == data

        async def count() -> None:
            process = await supervisor.start(["wc", "-c"], owner=OWNER, stdin=b"x" * (1 << 20))
            assert (await output_of(process)).strip() == b"1048576"

        with within(3):
            await together([echo, count, echo_later])


@every_tier
async def test_c57_input_that_nobody_reads_is_no_error() -> None:
    """With all of it at the start: a program that does not read it, or not to its end, exits 0."""
    async with supervising() as supervisor:
        for command in (["true"], ["head", "-c", "10"], "exec <&-; exit 0"):
            process = await supervisor.start(command, owner=OWNER, stdin=b"x" * (1 << 20))
            outcome = await process.wait()
            assert (outcome.state, outcome.exit_code) == (S.EXITED, 0)
