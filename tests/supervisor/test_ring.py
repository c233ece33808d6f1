"""The ring file: what its writer keeps and its reader sees, whatever fails, whoever dies, and whoever is faster."""

from __future__ import annotations

import errno
import os
import random
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from unittest.mock import patch

import pytest
from crash_hosts import SUPPORT, support_environment
from crash_tools import need
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ring_ground import Act, Crash, Interrupted, System, check_chunk, everything, written
from ring_sizes import EXAMPLES, FULL_EXAMPLES, FULL_ROUNDS, FULL_TIMEOUT_SECONDS, ROUNDS, TIMES, report

import lastword.supervisor.output._ring as reading
from lastword.supervisor import ErrorCode, OutputFault, SupervisorError
from lastword.supervisor.output import SpoolState, read_header, read_ring
from lastword.supervisor.output._ring import incomplete_tail
from lastword.supervisor.shim import _ring as writing
from lastword.supervisor.shim._ring import HEADER_BYTES, RingHeader, RingWriter, parse_header, segment_of

HEADERS = [
    RingHeader(limit=1),
    RingHeader(sequence=7, total=1 << 60, base=1 << 59, limit=1 << 58, sealed=True, status=0, proven=True),
    RingHeader(limit=5, rotates=False, status=0x8B, ended_by_host_death=True, fault=(3, errno.ENOSPC)),
]


def fields(header: RingHeader | None) -> list[object]:
    assert header is not None
    return [getattr(header, name) for name in RingHeader.__slots__]


# --- the header -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_says_what_was_put_into_it(header: RingHeader) -> None:
    """In either slot; and any byte of it that is another makes it none."""
    slot = header.pack()
    other = bytes(HEADER_BYTES // 2)
    for block in (slot, slot.ljust(HEADER_BYTES, b"\0"), other + slot, slot.ljust(HEADER_BYTES // 2, b"\0") + slot):
        assert fields(parse_header(block)) == fields(header)
    for at in range(len(slot)):
        assert parse_header(slot[:at]) is None
        assert parse_header(slot[:at] + bytes([slot[at] ^ 0x10]) + slot[at + 1 :]) is None
    assert parse_header(b"") is None
    assert parse_header(os.urandom(HEADER_BYTES)) is None


def test_the_later_slot_counts_unless_it_is_torn() -> None:
    """Whichever of the two places it is in."""
    old, new = (RingHeader(sequence=sequence, total=sequence, limit=9).pack() for sequence in (4, 5))
    half = HEADER_BYTES // 2
    for first, second in ((old, new), (new, old)):
        block = first.ljust(half, b"\0") + second
        assert fields(parse_header(block))[9] == 5
        torn = block.replace(new, new[:20] + bytes(len(new) - 20))
        assert fields(parse_header(torn))[9] == 4


def test_segments_are_an_eighth_within_bounds() -> None:
    """Which is what a ring may have on disk beyond its limit."""
    assert [segment_of(limit) for limit in (1, 1 << 19, 1 << 20, 1 << 26, 1 << 40)] == [
        64 << 10,
        64 << 10,
        128 << 10,
        8 << 20,
        8 << 20,
    ]


# --- a writer, its disk and its death ---------------------------------------------------------------------------------


class Life:
    """One writer's life, watched before each of its system calls by one who reads all there is."""

    def __init__(self, folder: Path, limit: int, plan: dict[int, Act], *, rotate: bool) -> None:
        self.path = folder / "ring"
        self.limit = limit
        self.rotate = rotate
        self.system = System(plan, self.look)
        self.writer = RingWriter(str(self.path), limit, rotate=rotate)
        self.appended = 0
        self.published = 0
        self.base = 0

    def live(self, sizes: Iterable[int]) -> bool:
        """Append, publish for 0, note the exit, seal, close; whether it came to its end."""
        try:
            for size in sizes:
                if size:
                    start = self.appended
                    self.appended += size
                    self.writer.append(memoryview(written(start, self.appended)))
                else:
                    self.publish()
            self.writer.note_exit(0x0100, by_host_death=False)
            self.writer.seal(proven=True)
            self.writer.append(memoryview(b"too late"))
            self.writer.close()
            self.writer.close()
            self.writer.append(memoryview(b"much too late"))
        except Crash:
            return False
        return True

    def publish(self) -> None:
        self.writer.publish()
        if self.writer.fault is None:
            self.published = self.appended

    def look(self) -> None:
        """What is on disk now is sound, and has all that was published and still has to be kept."""
        header = read_header(self.path)
        if header is None:
            assert self.published == 0
            return
        assert self.published <= header.total <= self.appended
        assert (header.limit, header.rotates) == (self.limit, self.rotate)
        assert header.base <= (max(0, header.end - self.limit) if self.rotate else 0)
        assert header.base >= self.base
        self.base = header.base
        most = self.limit + (segment_of(self.limit) if self.rotate else 0)
        assert self.path.stat().st_size <= HEADER_BYTES + most
        assert stat.S_IMODE(self.path.stat().st_mode) == 0o600
        self.check(None, terminal=False)

    def check(self, known: SpoolState | None, *, terminal: bool) -> None:
        """Read it all, as one who has nothing but the file, or the record."""
        header = read_header(self.path)
        state = known or (SpoolState() if header is None else SpoolState.of(header))
        chunks = everything(self.path, known, terminal=terminal)
        assert b"".join(chunk.data for chunk in chunks) == written(state.base, state.end)
        assert chunks[-1].next_cursor == state.total
        assert (chunks[-1].total, chunks[-1].output_error, chunks[-1].ended) == (state.total, state.fault, terminal)

    def judge(self) -> None:
        """What its keeper says at the end, and what the file says."""
        state = SpoolState.of(self.writer.header)
        assert state.total == self.appended
        assert state.base == (max(0, state.end - self.limit) if self.rotate else 0)
        assert state.fault is None or state.fault.offset == state.end
        if self.system.failed:
            assert state.fault is not None
            assert state.fault.code == errno.errorcode[self.system.failed[0]]
        else:
            assert state.fault is None
            assert state.end == (self.appended if self.rotate else min(self.appended, self.limit))
            header = read_header(self.path)
            assert header is not None
            assert SpoolState.of(header) == state
            assert (header.sealed, header.proven, header.status) == (True, True, 0x0100)
        self.check(state, terminal=True)


def live(limit: int, segment: int, rotate: bool, sizes: list[int], plan: dict[int, Act]) -> Life:
    """A life and all that is said of it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(writing, "_LEAST_SEGMENT", segment),
        patch.object(writing, "_LARGEST_SEGMENT", segment),
        patch.object(writing, "_UNTOLD_BYTES", 3 * segment),
    ):
        life = Life(Path(folder), limit, plan, rotate=rotate)
        try:
            with patch.object(writing, "os", life.system):
                whole = life.live(sizes)
            life.look()
            if whole:
                life.judge()
                left = [life.path.name] if life.path.exists() else []
                assert [file.name for file in Path(folder).iterdir()] == left
        finally:
            life.system.release()
        return life


acts = st.builds(
    Act,
    st.sampled_from(["short", "fail", "crash"]),
    st.integers(0, 100),
    st.sampled_from([errno.ENOSPC, errno.EIO]),
)
lives = given(
    limit=st.integers(1, 60),
    segment=st.integers(1, 24),
    rotate=st.sampled_from([True, True, True, False]),
    sizes=st.lists(st.one_of(st.just(0), st.integers(1, 30), st.integers(1, 200)), max_size=24),
    plan=st.dictionaries(st.integers(0, 60), acts, max_size=4),
)


@settings(max_examples=EXAMPLES)
@lives
@example(limit=5, segment=4, rotate=True, sizes=[30], plan={2: Act("fail", 0)})  # the header, where a base is due
@example(limit=5, segment=4, rotate=True, sizes=[3, 0, 30], plan={6: Act("crash", 2)})
def test_whatever_fails_nothing_wrong_is_read(
    limit: int, segment: int, rotate: bool, sizes: list[int], plan: dict[int, Act]
) -> None:
    """Calls fail, fall short, or are the last: at each step the file is sound, and has what it must have."""
    live(limit, segment, rotate, sizes, plan)


@pytest.mark.prove
@pytest.mark.timeout(FULL_TIMEOUT_SECONDS)
def test_whatever_fails_nothing_wrong_is_read_at_length() -> None:
    """The same, at full count."""
    calls = failed = crashed = 0

    @settings(max_examples=FULL_EXAMPLES)
    @lives
    def check(limit: int, segment: int, rotate: bool, sizes: list[int], plan: dict[int, Act]) -> None:
        nonlocal calls, failed, crashed
        life = live(limit, segment, rotate, sizes, plan)
        calls += life.system.calls
        failed += len(life.system.failed)
        crashed += life.system.dead

    check()
    report(f"ring: {FULL_EXAMPLES} lives, {calls} calls watched, {failed} failed, {crashed} writers died")
    assert failed
    assert crashed


def test_every_call_may_be_the_last() -> None:
    """A life that goes round twice dies at each of its calls in turn, with nothing or half of it done; or they fail."""
    sizes = [1, 0, 9, 0, 40, 0, 13, 13, 0]
    calls = live(16, 6, True, sizes, {}).system.calls
    assert calls > 30
    for number in range(calls):
        for act in (Act("crash", 0), Act("crash", 3), Act("fail", 0, errno.EIO), Act("fail", 3), Act("short", 2)):
            life = live(16, 6, True, sizes, {number: act})
            assert life.system.dead == (act.kind == "crash")
            assert len(life.system.failed) == (act.kind == "fail")


def test_nothing_is_there_before_the_first_byte_or_note(tmp_path: Path) -> None:
    """A silent process leaves no file, one whose end is noted leaves a header; what is unpublished is not told."""
    silent = RingWriter(str(tmp_path / "silent"), 10)
    silent.append(memoryview(b""))
    silent.publish()
    silent.seal(proven=True)
    silent.close()
    assert list(tmp_path.iterdir()) == []
    noted = RingWriter(str(tmp_path / "noted"), 10)
    noted.note_exit(None, by_host_death=True)
    header = read_header(tmp_path / "noted")
    assert header is not None
    assert (header.status, header.ended_by_host_death, header.sealed) == (None, True, False)
    noted.append(memoryview(b"abc"))
    assert read_ring(tmp_path / "noted", None, 0, 10, terminal=False).total == 0
    noted.publish()
    assert read_ring(tmp_path / "noted", None, 0, 10, terminal=False).data == b"abc"
    noted.close()


def test_a_busy_writer_is_not_silent_for_long(tmp_path: Path) -> None:
    """What nobody publishes is published after a mebibyte."""
    writer = RingWriter(str(tmp_path / "ring"), 1 << 24)
    for start in range(0, 3 << 20, 1 << 16):
        writer.append(memoryview(written(start, start + (1 << 16))))
    header = read_header(tmp_path / "ring")
    assert header is not None
    assert header.total > 2 << 20
    assert header.sequence < 8
    writer.close()


def test_what_cannot_be_closed_has_failed(tmp_path: Path) -> None:
    """A network file system may tell only then that something was not written."""
    system = System()
    writer = RingWriter(str(tmp_path / "ring"), 10)
    with patch.object(writing, "os", system):
        writer.append(memoryview(b"abc"))
        writer.seal(proven=False)
        system.plan = {system.calls: Act("fail", 0, errno.EIO)}
        writer.close()
    assert writer.fault == (3, errno.EIO)


# --- a reader, and a writer that is faster ----------------------------------------------------------------------------


meetings = given(
    limit=st.integers(1, 60),
    segment=st.integers(1, 24),
    before=st.integers(0, 300),
    between=st.lists(st.integers(0, 200), max_size=30),
    cursor=st.integers(0, 300),
    most=st.integers(1, 100),
    kept=st.booleans(),
)


def meet(limit: int, segment: int, before: int, between: list[int], cursor: int, most: int, kept: bool) -> None:
    """Read while `between` is written, before each read of the file so much."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(writing, "_LEAST_SEGMENT", segment),
        patch.object(writing, "_LARGEST_SEGMENT", segment),
    ):
        path = Path(folder, "ring")
        writer = RingWriter(str(path), limit)
        left = list(between)

        def write(size: int) -> None:
            writer.append(memoryview(written(writer.total, writer.total + size)))
            writer.publish()

        write(before)
        system = Interrupted(lambda: write(left.pop()) if left else None)
        cursor = min(cursor, before)
        known = SpoolState.of(writer.header) if kept else None
        with patch.object(reading, "os", system):
            chunk = read_ring(path, known, cursor, most, terminal=False)
            check_chunk(chunk, cursor)
            assert system.opened == 0
            assert before <= chunk.total <= writer.total
            assert len(chunk.data) <= most
            assert chunk.next_cursor > cursor or chunk.total == cursor
        writer.close()


@settings(max_examples=EXAMPLES)
@meetings
def test_one_who_is_overtaken_reads_nothing_wrong(
    limit: int, segment: int, before: int, between: list[int], cursor: int, most: int, kept: bool
) -> None:
    """Whatever is written between two of the reader's calls: right bytes, exact gaps, and always some way forward."""
    meet(limit, segment, before, between, cursor, most, kept)


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


def run_rounds(folder: Path, rounds: int) -> str:
    """A real writer in each, and two ways of reading beside it: from the start, and anywhere."""
    reads = overtaken = read = 0
    for number in range(rounds):
        chance = random.Random(number)
        limit = chance.choice((100, 1 << 20, 3_000_001, 8 << 20))
        total = TIMES * (limit + segment_of(limit))
        path = folder / str(number)
        shims = str(Path(reading.__file__).parents[1])
        command = [sys.executable, "-I", str(SUPPORT / "ring_writer.py"), shims, str(path), str(limit), str(total)]
        with subprocess.Popen([*command, str(number)]) as process:
            cursor, over = 0, False
            while not over:
                over = process.poll() is not None
                end = _total(path)
                anywhere = chance.randrange(end + 1)
                check_chunk(read_ring(path, None, anywhere, 1 << chance.randrange(21), terminal=False), anywhere)
                chunk = read_ring(path, None, cursor, 1 << chance.randrange(21), terminal=False)
                check_chunk(chunk, cursor)
                read += len(chunk.data)
                overtaken += chunk.gap
                reads += 2 * (end > 0)
                cursor = chunk.next_cursor
        assert process.returncode == 0
        for chunk in everything(path, None, terminal=False, cursor=cursor):
            read += len(chunk.data)
        header = read_header(path)
        assert header is not None
        assert (header.total, header.end - header.base, header.sealed, header.fault) == (total, limit, True, None)
        assert path.stat().st_size == HEADER_BYTES + header.capacity
        path.unlink()
    return f"ring: {rounds} real writers, {reads} reads beside them, {overtaken} gaps, {read >> 20} MiB read and right"


def _total(path: Path) -> int:
    header = read_header(path)
    return 0 if header is None else header.total


def test_beside_a_real_writer_no_byte_is_wrong(tmp_path: Path) -> None:
    """Another process goes round eight times, its calls interrupted by a signal all the time."""
    run_rounds(tmp_path, ROUNDS)


@pytest.mark.prove
@pytest.mark.timeout(FULL_TIMEOUT_SECONDS)
def test_beside_real_writers_no_byte_is_wrong(tmp_path: Path) -> None:
    """The same, at full count."""
    report(run_rounds(tmp_path, FULL_ROUNDS))


# --- a disk that really fails -----------------------------------------------------------------------------------------


def _run(*command: str) -> None:
    done = subprocess.run(command, env=support_environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_disk_that_is_full_keeps_what_it_has(tmp_path: Path) -> None:
    """ENOSPC in the middle of the data, at the creation, and beside a ring that is all there already."""
    apart = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--mount")
    need("a mount of one's own (unshare)", *apart, "mount", "-t", "tmpfs", "none", "/mnt")
    mount = 'mount -t tmpfs -o size=2m none "$0" && exec "$@"'
    program = (sys.executable, str(SUPPORT / "ring_disks.py"), "full", str(tmp_path))
    _run(*apart, "sh", "-c", mount, str(tmp_path), *program)


def test_a_file_that_may_not_grow_keeps_what_it_has(tmp_path: Path) -> None:
    """EFBIG, after a write that fell short; no signal."""
    _run(sys.executable, str(SUPPORT / "ring_disks.py"), "limit", str(tmp_path))


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
