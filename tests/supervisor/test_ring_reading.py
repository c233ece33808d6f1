"""Reading a ring file: beside writers that are faster, of files that are none, and between characters."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from crash_hosts import SUPPORT
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ring_ground import Crash, Interrupted, check_chunk, everything, in_blocks, written
from ring_sizes import EXAMPLES, FULL_EXAMPLES, FULL_ROUNDS, FULL_TIMEOUT_SECONDS, ROUNDS, TIMES, report

import lastword.supervisor.output._ring as reading
import lastword.supervisor.output._streams as selecting
from lastword.supervisor import ErrorCode, OutputFault, SupervisorError
from lastword.supervisor.output import SpoolState, awaits_rest, read_header, read_ring
from lastword.supervisor.output._chunk import incomplete_tail
from lastword.supervisor.shim import _header as layout
from lastword.supervisor.shim._header import HEADER_BYTES, RingHeader, pack_switch, segment_of
from lastword.supervisor.shim._ring import RingWriter

# --- a reader, and a writer that is faster ----------------------------------------------------------------------------


meetings = given(
    limit=st.integers(1, 60),
    segment=st.integers(1, 24),
    before=st.integers(0, 300),
    between=st.lists(st.integers(0, 200), max_size=30),
    cursor=st.integers(0, 300),
    most=st.integers(1, 100),
    kept=st.booleans(),
    stream=st.sampled_from([None, 0, 1]),
    block=st.integers(1, 20),
    room=st.integers(1, 12),
)


def meet(
    limit: int,
    segment: int,
    before: int,
    between: list[int],
    cursor: int,
    most: int,
    kept: bool,
    stream: int | None,
    block: int,
    room: int,
) -> None:
    """Read while `between` is written, before each read of the file so much; all, or one of two streams."""
    whose = in_blocks(block)
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(layout, "_LEAST_SEGMENT", segment),
        patch.object(layout, "_LARGEST_SEGMENT", segment),
        patch.object(layout, "_LEAST_SWITCHES", room),
        patch.object(layout, "_LARGEST_SWITCHES", room),
    ):
        path = Path(folder, "ring")
        writer = RingWriter(str(path), limit, split=stream is not None)
        left = list(between)

        def write(size: int) -> None:
            end = writer.total + size
            while writer.total < end:
                until = min(end, writer.total + block - writer.total % block)
                writer.append(memoryview(written(writer.total, until)), whose(writer.total))
            writer.publish()

        write(before)
        system = Interrupted(lambda: write(left.pop()) if left else None)
        cursor = min(cursor, before)
        known = SpoolState.of(writer.header) if kept else None
        with patch.object(reading, "os", system), patch.object(selecting, "os", system):
            chunk = read_ring(path, known, cursor, most, terminal=False, stream=stream)
            check_chunk(chunk, cursor, whose, stream)
            assert system.opened == 0
            assert before <= chunk.total <= writer.total
            assert len(chunk.data) <= most
            assert chunk.next_cursor > cursor or chunk.total == cursor
            if stream is not None:
                return
            # Who was not given as much as was asked for may wait for more than the total: between the two there is at
            # most the beginning of a character.
            assert len(chunk.data) >= most - 3 or chunk.total - chunk.next_cursor <= 3 or not chunk.data
        writer.close()


@settings(max_examples=EXAMPLES)
# An index that is overwritten leads to where the file has not come yet.
@example(limit=1, segment=1, before=1, between=[24, 112], cursor=0, most=2, kept=False, stream=1, block=8, room=10)
@meetings
def test_one_who_is_overtaken_reads_nothing_wrong(
    limit: int,
    segment: int,
    before: int,
    between: list[int],
    cursor: int,
    most: int,
    kept: bool,
    stream: int | None,
    block: int,
    room: int,
) -> None:
    """Whatever is written between two of the reader's calls: right bytes, exact gaps, and always some way forward."""
    meet(limit, segment, before, between, cursor, most, kept, stream, block, room)


@pytest.mark.prove
@pytest.mark.timeout(FULL_TIMEOUT_SECONDS)
def test_one_who_is_overtaken_reads_nothing_wrong_at_length() -> None:
    """The same, at full count."""
    check: Callable[[], None] = settings(max_examples=FULL_EXAMPLES)(meetings(meet))
    check()
    report(f"ring: {FULL_EXAMPLES} meetings of a reader with a writer between its calls")


def test_one_who_is_always_overtaken_is_told_the_gap(tmp_path: Path) -> None:
    """It does not starve: a writer that goes all round between two calls leaves a gap, and the next read goes on."""
    writer = RingWriter(str(tmp_path / "ring"), 1_000)

    def go_round() -> None:
        writer.append(memoryview(written(writer.total, writer.total + 100_000)))
        writer.publish()

    go_round()
    with patch.object(reading, "os", Interrupted(go_round)):
        chunk = read_ring(tmp_path / "ring", None, 0, 50, terminal=False)
        check_chunk(chunk, 0)
        assert chunk.gap
        assert not chunk.data
    again = read_ring(tmp_path / "ring", None, chunk.next_cursor, 50, terminal=False)
    check_chunk(again, chunk.next_cursor)
    assert again.data
    writer.close()


@pytest.mark.parametrize("stream", [0, 1])
@pytest.mark.parametrize("size", [6, 160], ids=["slower", "faster"])
def test_one_whose_index_is_overtaken_reads_further_on(stream: int, size: int, tmp_path: Path) -> None:
    """Though the bytes are all there.  Each time it begins nearer to the end; a writer that goes all round its index
    between two calls leaves a gap, and the next read goes on."""
    whose = in_blocks(1)
    with patch.object(layout, "_LEAST_SWITCHES", 128), patch.object(layout, "_LARGEST_SWITCHES", 128):
        writer = RingWriter(str(tmp_path / "ring"), 1 << 20, split=True)

        def write() -> None:
            for start in range(writer.total, writer.total + size):
                writer.append(memoryview(written(start, start + 1)), whose(start))
            writer.publish()

        for _ in range(40):
            write()
        interrupted = Interrupted(write)
        with patch.object(reading, "os", interrupted), patch.object(selecting, "os", interrupted):
            chunk = read_ring(tmp_path / "ring", None, 0, 50, terminal=False, stream=stream)
        check_chunk(chunk, 0, whose, stream)
        assert chunk.gap
        assert bool(chunk.data) == (size == 6)
        assert writer.base == 0
        again = read_ring(tmp_path / "ring", None, chunk.next_cursor, 50, terminal=False, stream=stream)
        check_chunk(again, chunk.next_cursor, whose, stream)
        assert again.data
        writer.close()


def test_one_who_was_overtaken_begins_anew_well_above_the_base(tmp_path: Path) -> None:
    """At the base it would be overtaken by the next few bytes again."""
    limit = 64 << 20
    writer = RingWriter(str(tmp_path / "ring"), limit)
    block = memoryview(written(0, 1 << 20))
    for _ in range(72):
        writer.append(block)
    writer.publish()
    writes = [0, 10 << 20, 0]

    def write() -> None:
        for _ in range((writes.pop(0) if writes else 0) >> 20):
            writer.append(block)
        writer.publish()

    with patch.object(reading, "os", Interrupted(write)):
        chunk = read_ring(tmp_path / "ring", None, 0, 100, terminal=False)
    assert chunk.start == writer.base + (8 << 20)
    writer.close()


@pytest.mark.parametrize("stream", [None, 0, 1])
@pytest.mark.parametrize("terminal", [True, False])
def test_a_reader_that_fails_or_dies_at_any_step_changes_nothing(
    stream: int | None, terminal: bool, tmp_path: Path
) -> None:
    """A disk that cannot be read is told, typed; nothing stays open, and the next read has it all."""
    whose = in_blocks(10)
    writer = RingWriter(str(path := tmp_path / "ring"), 100, split=stream is not None)
    for start in range(0, 250, 10):
        writer.append(memoryview(written(start, start + 10)), whose(start))
    writer.seal(proven=True)
    writer.close()
    known = SpoolState.of(writer.header)
    whole = path.read_bytes()

    def read(error: BaseException | None, at: int) -> int:
        """How many calls it has made; the one that is meant fails."""
        calls = 0

        def count() -> None:
            nonlocal calls
            calls += 1
            if calls - 1 == at and error is not None:
                raise error

        system = Interrupted(count)
        try:
            with patch.object(reading, "os", system), patch.object(selecting, "os", system):
                check_chunk(read_ring(path, known, 0, 1_000, terminal=terminal, stream=stream), 0, whose, stream)
        finally:
            assert system.opened == 0
        return calls

    calls = read(None, -1)
    assert calls >= (2 if stream is None else 6)
    for at in range(calls):
        with pytest.raises(SupervisorError) as caught:
            read(OSError(errno.EIO, "Input/output error", str(path)), at)
        assert caught.value.code is ErrorCode.SPOOL_CORRUPT
        assert str(tmp_path) not in str(caught.value)
        with pytest.raises(Crash):
            read(Crash(), at)
        assert path.read_bytes() == whole
        read(None, -1)


def run_rounds(folder: Path, rounds: int, *, split: bool) -> str:
    """A real writer in each, and two ways of reading beside it: from the start, and anywhere; all or one stream."""
    reads = overtaken = read = 0
    for number in range(rounds):
        chance = random.Random(number)
        limit = chance.choice((100, 1 << 20, 3_000_001, (2 if split else 8) << 20))
        total = TIMES * (limit + segment_of(limit))
        # Turns so short that the index goes round, too, where that does not take for ever.
        block = (7 if limit == 100 else 997) if split else 0
        whose, streams = (in_blocks(block), [0, 1]) if split else (None, [None])
        path = folder / str(number)
        shims = str(Path(reading.__file__).parents[1])
        command = [sys.executable, "-I", str(SUPPORT / "ring_writer.py"), shims, str(path), str(limit), str(total)]
        with subprocess.Popen([*command, str(number), str(block)]) as process:
            cursor, over = 0, False
            while not over:
                over = process.poll() is not None
                end = _total(path)
                anywhere = chance.randrange(end + 1)
                for at in (anywhere, cursor):
                    most = 1 << chance.randrange(17 if split else 21)
                    stream = chance.choice(streams)
                    chunk = read_ring(path, None, at, most, terminal=False, stream=stream)
                    check_chunk(chunk, at, whose, stream)
                    assert len(chunk.data) <= most
                read += len(chunk.data)
                overtaken += chunk.gap
                reads += 2 * (end > 0)
                cursor = chunk.next_cursor
        assert process.returncode == 0
        for stream in streams:
            for chunk in everything(path, None, terminal=False, cursor=cursor, whose=whose, stream=stream):
                read += len(chunk.data)
        header = read_header(path)
        assert header is not None
        assert (header.total, header.end - header.base, header.sealed, header.fault) == (total, limit, True, None)
        assert path.stat().st_size == header.data_at + header.capacity
        path.unlink()
    streams_ = "two streams" if split else "one stream"
    return (
        f"ring: {rounds} real writers of {streams_}, {reads} reads beside them, {overtaken} gaps, "
        f"{read >> 20} MiB read and right"
    )


def _total(path: Path) -> int:
    header = read_header(path)
    return 0 if header is None else header.total


@pytest.mark.parametrize("split", [False, True])
def test_beside_a_real_writer_no_byte_is_wrong(split: bool, tmp_path: Path) -> None:
    """Another process goes round eight times, its calls interrupted by a signal all the time."""
    run_rounds(tmp_path, ROUNDS, split=split)


@pytest.mark.prove
@pytest.mark.timeout(FULL_TIMEOUT_SECONDS)
@pytest.mark.parametrize("split", [False, True])
def test_beside_real_writers_no_byte_is_wrong(split: bool, tmp_path: Path) -> None:
    """The same, at full count."""
    report(run_rounds(tmp_path, FULL_ROUNDS, split=split))


# --- what is read -----------------------------------------------------------------------------------------------------


def _file(path: Path, data: bytes) -> None:
    writer = RingWriter(str(path), 100)
    writer.append(memoryview(data))
    writer.seal(proven=False)
    writer.close()


def _link(path: Path) -> None:
    _file(path.with_name("other"), b"abc")
    path.symlink_to(path.with_name("other"))


def _without_bytes(path: Path) -> None:
    _file(path, b"abc")
    os.truncate(path, HEADER_BYTES + 2)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": Path.touch,
    "foreign": lambda path: path.write_bytes(b"somebody else's" * 1_000),
    "impossible": lambda path: path.write_bytes(RingHeader(limit=5, base=7, total=3).pack()),
    "without a limit": lambda path: path.write_bytes(RingHeader(limit=0, total=3).pack()),
    "cut short": _without_bytes,
    "a folder": Path.mkdir,
    "a link": _link,
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_no_sound_ring_is_told(kind: str, terminal: bool, tmp_path: Path) -> None:
    """Typed, at once, and without a path; never wrong bytes."""
    DAMAGE[kind](path := tmp_path / "ring")
    with pytest.raises(SupervisorError) as caught:
        read_ring(path, SpoolState(total=3), 0, 10, terminal=terminal)
    assert caught.value.code is ErrorCode.SPOOL_CORRUPT
    assert str(tmp_path) not in str(caught.value)


def _switches(*pairs: tuple[int, int]) -> bytes:
    return b"".join(pack_switch(offset, stream) for offset, stream in pairs)


NO_INDEX = {
    "zeros": bytes(24),
    "not rising": _switches((0, 0), (20, 1), (20, 0)),
    "falling": _switches((0, 0), (20, 1), (7, 0)),
    "no turns": _switches((0, 1), (10, 1), (20, 1)),
    "beyond the end": _switches((0, 0), (10, 1), (31, 0)),
    "anything": os.urandom(24),
}


@pytest.mark.parametrize("kind", NO_INDEX)
@pytest.mark.parametrize("terminal", [True, False])
def test_an_index_that_is_none_is_told(kind: str, terminal: bool, tmp_path: Path) -> None:
    """All streams can still be read; one of them is spool_corrupt, as it is of a file that has but one."""
    whose = in_blocks(10)
    writer = RingWriter(str(path := tmp_path / "ring"), 100, split=True)
    for start in (0, 10, 20):
        writer.append(memoryview(written(start, start + 10)), whose(start))
    writer.seal(proven=False)
    writer.close()
    known = SpoolState.of(writer.header)
    for stream in (0, 1):
        chunk = read_ring(path, known, 0, 100, terminal=terminal, stream=stream)
        check_chunk(chunk, 0, whose, stream)
        assert len(chunk.data) in ((19, 20), (10,))[stream]
    whole = path.read_bytes()
    path.write_bytes(whole[:HEADER_BYTES] + NO_INDEX[kind] + whole[HEADER_BYTES + 24 :])
    check_chunk(read_ring(path, known, 0, 100, terminal=terminal), 0)
    _file(other := tmp_path / "other", written(0, 30))
    for damaged, stream in ((path, 0), (path, 1), (other, 0)):
        with pytest.raises(SupervisorError) as caught:
            read_ring(damaged, known, 0, 100, terminal=terminal, stream=stream)
        assert caught.value.code is ErrorCode.SPOOL_CORRUPT


def test_one_stream_ends_between_characters_and_joins(tmp_path: Path) -> None:
    """A character whose bytes have others between them is whole in its stream, whatever the pieces."""
    text = "a€𝄞ü".encode() * 40
    writer = RingWriter(str(path := tmp_path / "ring"), 10_000, split=True)
    for byte in text:
        writer.append(memoryview(bytes([byte])))
        writer.append(memoryview(b"...")[: byte % 4], 1)
    writer.publish()
    cursor = 0
    for size in range(4, 9):
        cursor, shown = 0, ""
        while (chunk := read_ring(path, None, cursor, size, terminal=False, stream=0)).data:
            shown += chunk.data.decode()
            cursor = chunk.next_cursor
        assert shown == text.decode()
        assert cursor == chunk.total == writer.total
    writer.append(memoryview("€".encode()[:2]))
    writer.append(memoryview(b"xy"), 1)
    writer.publish()
    chunk = read_ring(path, None, cursor, 100, terminal=False, stream=0)
    assert (chunk.data, chunk.next_cursor, awaits_rest(chunk)) == (b"\xe2\x82", writer.total, True)
    chunk = read_ring(path, None, cursor - 5, 100, terminal=False, stream=0)
    assert (chunk.data.decode()[-1], chunk.next_cursor, awaits_rest(chunk)) == ("ü", cursor, False)
    writer.close()


def test_one_stream_beside_much_of_the_other_is_one_step(tmp_path: Path) -> None:
    """A read passes over all that is not its own, in front and behind; a silent stream is at its end with the other."""
    writer = RingWriter(str(path := tmp_path / "ring"), 1 << 20, split=True)
    writer.append(memoryview(bytes(300_000)), 1)
    writer.append(memoryview(b"one"), 0)
    writer.append(memoryview(bytes(300_000)), 1)
    writer.seal(proven=True)
    writer.close()
    known = SpoolState.of(writer.header)

    def read(cursor: int, stream: int) -> tuple[bytes, int, int, bool]:
        chunk = read_ring(path, known, cursor, 3, terminal=True, stream=stream)
        return chunk.data, chunk.start, chunk.next_cursor, chunk.ended

    assert read(0, 0) == (b"one", 0, 600_003, True)
    assert read(300_001, 0) == (b"ne", 300_001, 600_003, True)
    assert read(300_003, 0) == (b"", 300_003, 600_003, True)
    assert read(299_998, 1) == (bytes(3), 299_998, 300_004, False)
    assert read(600_000, 1) == (bytes(3), 600_000, 600_003, True)


def test_what_is_kept_beyond_a_header_that_could_not_be_written_is_of_no_stream(tmp_path: Path) -> None:
    """The index is no newer than it: one stream tells it as omitted, both together have it."""
    writer = RingWriter(str(path := tmp_path / "ring"), 100, split=True)
    writer.append(memoryview(written(0, 50)), 0)
    writer.publish()
    writer.append(memoryview(written(50, 90)), 1)
    writer.close()
    known = SpoolState(total=90)
    assert read_ring(path, known, 0, 1_000, terminal=True).data == written(0, 90)
    for stream, data in ((0, written(0, 50)), (1, b"")):
        chunk = read_ring(path, known, 0, 1_000, terminal=True, stream=stream)
        assert (chunk.data, chunk.next_cursor, chunk.ended) == (data, 50, False)
        chunk = read_ring(path, known, 50, 1_000, terminal=True, stream=stream)
        assert (chunk.data, chunk.omitted, chunk.ended) == (b"", (50, 90), True)


def test_a_header_that_looks_torn_is_read_again(tmp_path: Path) -> None:
    """Whoever is interrupted between both slots sees one half old and one half new of each."""
    _file(path := tmp_path / "ring", b"abc")
    torn = [bytes(HEADER_BYTES)] * 3
    pread = os.pread

    def first_torn(descriptor: int, size: int, offset: int) -> bytes:
        return torn.pop() if torn else pread(descriptor, size, offset)

    with patch("os.pread", first_torn):
        assert read_ring(path, None, 0, 10, terminal=False).data == b"abc"
    assert not torn


def test_no_file_is_an_empty_ring_unless_something_was_kept(tmp_path: Path) -> None:
    """Nobody has written yet; nothing could be kept; or it is gone."""
    path = tmp_path / "ring"
    for known in (None, SpoolState()):
        chunk = read_ring(path, known, 0, 10, terminal=False)
        assert (chunk.data, chunk.total, chunk.ended, chunk.omitted) == (b"", 0, False, None)
    fault = OutputFault(offset=0, code="ENOSPC")
    chunk = read_ring(path, SpoolState(total=9, fault=fault), 4, 10, terminal=True)
    assert (chunk.omitted, chunk.next_cursor, chunk.ended, chunk.output_error) == ((4, 9), 9, True, fault)
    for terminal in (True, False):
        with pytest.raises(SupervisorError) as caught:
            read_ring(path, SpoolState(total=9), 4, 10, terminal=terminal)
        assert caught.value.code is ErrorCode.SPOOL_CORRUPT


def test_cursors_beyond_the_total_are_refused(tmp_path: Path) -> None:
    """The header's while it runs, the record's at the end."""
    _file(path := tmp_path / "ring", b"abc")
    assert read_ring(path, None, 3, 10, terminal=False).data == b""
    for known, terminal, total in ((None, False, 3), (SpoolState(total=2), True, 2), (SpoolState(total=7), False, 7)):
        with pytest.raises(SupervisorError) as caught:
            read_ring(path, known, total + 1, 10, terminal=terminal)
        assert caught.value.code is ErrorCode.CURSOR_AHEAD


def test_the_record_judges_where_its_header_lags(tmp_path: Path) -> None:
    """The last header could not be written: what was told is what is read.  What the header gave up is given up."""
    path = tmp_path / "ring"
    writer = RingWriter(str(path), 100)
    writer.append(memoryview(written(0, 50)))
    writer.publish()
    writer.append(memoryview(written(50, 90)))
    writer.close()
    chunk = read_ring(path, SpoolState(total=90), 0, 1_000, terminal=True)
    check_chunk(chunk, 0)
    assert (len(chunk.data), chunk.ended) == (90, True)
    chunk = read_ring(path, SpoolState(total=90, base=30), 10, 1_000, terminal=False)
    check_chunk(chunk, 10)
    assert (chunk.omitted, chunk.total) == ((10, 30), 90)
    fault = OutputFault(offset=40, code="EIO")
    chunk = read_ring(path, SpoolState(total=50, fault=fault), 0, 1_000, terminal=False)
    assert (len(chunk.data), chunk.total, chunk.output_error) == (40, 50, fault)
    chunk = read_ring(path, SpoolState(total=95, fault=OutputFault(offset=80, code="EIO")), 0, 1_000, terminal=False)
    assert (len(chunk.data), chunk.total, chunk.output_error) == (80, 95, OutputFault(offset=80, code="EIO"))
    _file(other := tmp_path / "other", written(0, 300))
    chunk = read_ring(other, SpoolState(total=300, base=120), 130, 1_000, terminal=True)
    check_chunk(chunk, 130)
    assert (chunk.omitted, len(chunk.data)) == ((130, 200), 100)


@settings(max_examples=EXAMPLES)
@given(st.one_of(st.binary(max_size=8), st.text(max_size=4).map(lambda text: text.encode()[:-1])))
@example(b"\xe2\x82")
@example(b"\xf0\x9f\x98")
@example(b"\xed\xa0")
@example(b"\xe0\x80")
@example(b"\xf4\x90")
@example(b"\xf5")
@example(b"\xc1")
@example(b"a\xff")
def test_a_tail_is_what_can_still_become_a_character(data: bytes) -> None:
    """Exactly where some bytes make one character of it."""
    expected = [back for back in (1, 2, 3) if back <= len(data) and _can_become_one(data[-back:])]
    assert incomplete_tail(data) == (expected[0] if expected else 0)


def _can_become_one(tail: bytes) -> bool:
    first = (0x80, 0x90, 0xA0)  # one of each range that a second byte may have to be in
    for rest in ((a, *(0x80,) * more) for a in first for more in range(3)):
        try:
            if len((tail + bytes(rest)).decode()) == 1:
                return True
        except UnicodeDecodeError:
            continue
    return False


def test_chunks_end_between_characters(tmp_path: Path) -> None:
    """At `max_bytes` and at the live end, unless the beginning of one is all there is; at the end all is told."""
    path = tmp_path / "ring"
    writer = RingWriter(str(path), 100)
    writer.append(memoryview(b"ab\xe2\x82"))
    writer.publish()

    def data(cursor: int, most: int, *, terminal: bool = False) -> bytes:
        return read_ring(path, SpoolState.of(writer.header), cursor, most, terminal=terminal).data

    assert [data(0, most) for most in (1, 2, 3, 4, 9)] == [b"a", b"ab", b"ab", b"ab", b"ab"]
    assert [data(2, 9), data(2, 1), data(0, 9, terminal=True)] == [b"\xe2\x82", b"\xe2", b"ab\xe2\x82"]
    writer.append(memoryview(b"\xacc\xff"))
    writer.publish()
    assert [data(0, 4), data(0, 5), data(0, 9)] == [b"ab", b"ab\xe2\x82\xac", b"ab\xe2\x82\xacc\xff"]
    writer.close()
