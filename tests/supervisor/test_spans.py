"""When output came: what is asked for since a moment has all of it, and hardly more."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ring_ground import everything, written
from supervising import HANG_SECONDS

import lastword
from lastword.supervisor import ErrorCode, SupervisorError, view_directory
from lastword.supervisor.output import SpoolState, find_cursor, read_header
from lastword.supervisor.shim import _spans
from lastword.supervisor.shim._header import HEADER_BYTES
from lastword.supervisor.shim._ring import RingWriter
from lastword.supervisor.shim._spans import MOST_SPANS, SPANS_AT, SPANS_BYTES, Spans, parse_spans

HOUR = 3600.0


class Writing:
    """A writer whose clock the test moves, and when each piece came: its time and its offset."""

    def __init__(self, path: Path, *, limit: int = 1 << 20, rotate: bool = True) -> None:
        self.path = path
        self.now = 1_700_000_000.0
        self.came: list[tuple[float, int]] = []
        self.total = 0
        self.writer = RingWriter(str(path), limit, rotate=rotate, now=lambda: self.now)

    def write(self, size: int = 10) -> None:
        self.came.append((self.now, self.total))
        self.writer.append(memoryview(written(self.total, self.total + size)))
        self.total += size
        self.writer.publish()

    def first_since(self, moment: float) -> int:
        """The offset of the first byte that came then or later."""
        return next((offset for at, offset in self.came if at >= moment), self.total)

    def came_at(self, offset: int) -> float:
        return next((at for at, begin in reversed(self.came) if begin <= offset), self.now)

    def check(self, moment: float, part: float = 1 / 8) -> None:
        """Never too late, and too early by a second at most, or that part of how long ago it was."""
        found = find_cursor(self.path, None, moment, terminal=False)
        assert found is not None
        base = header.base if (header := read_header(self.path)) else 0
        assert found <= max(self.first_since(moment), base)
        if found < self.total:
            assert moment - self.came_at(found) <= max(1.0, (self.now - moment) * part)


@pytest.mark.parametrize(("seconds", "every"), [(60, 0.1), (HOUR, 0.9), (24 * HOUR, 20)])
def test_what_came_since_a_moment_is_found_in_proportion_to_how_long_ago_it_was(
    tmp_path: Path, seconds: float, every: float
) -> None:
    job = Writing(tmp_path / "ring")
    begin = job.now
    while job.now < begin + seconds:
        job.write()
        job.now += every
    for ago in (0, 0.5, 1, 2, 5, 10, 30, 60, 300, 600, HOUR, 6 * HOUR, 12 * HOUR, 30 * HOUR):
        job.check(job.now - ago)


def test_at_no_moment_is_it_found_much_worse() -> None:
    """Just before two spans become one, and just after it."""
    spans = Spans()
    begin, seconds = 1_700_000_000.0, 20_000
    for second in range(seconds):
        now = begin + second
        if not spans.start <= now < spans.end:
            spans.begin(now, second, 0)
        for ago in (60, 600, 3600) if second % 37 == 0 else ():
            moment = now - ago
            found = next(offset for _, end, offset in spans.known if end > moment * 1000)
            assert moment - (begin + found) <= ago / 4


@given(steps=st.lists(st.tuples(st.floats(0, 90), st.integers(1, 900)), max_size=150), ago=st.floats(0, 4000))
def test_nothing_that_came_later_is_left_out_however_it_comes(steps: list[tuple[float, int]], ago: float) -> None:
    spans = Spans()
    now, total = 1_700_000_000.0, 0
    came: list[tuple[float, int]] = []
    for after, size in steps:
        now += after
        if not spans.start <= now < spans.end:
            spans.begin(now, total, 0)
        came.append((now, total))
        total += size
    moment = now - ago
    first = next((offset for at, offset in came if at >= moment), total)
    assert next((offset for _, end, offset in spans.known if end > moment * 1000), total) <= first
    assert len(spans.known) <= MOST_SPANS
    assert [offset for _, _, offset in spans.known] == sorted({offset for _, _, offset in spans.known})


def test_a_silence_is_not_shown_for_what_came_before_it(tmp_path: Path) -> None:
    job = Writing(tmp_path / "ring")
    for _ in range(200):  # more than there is room for
        job.write()
        job.now += 1.0
    silent, before = job.now, job.total
    job.now += 6 * HOUR
    job.write()
    job.now += 5.0
    for ago in (10, HOUR, 5 * HOUR):
        assert find_cursor(job.path, None, job.now - ago, terminal=False) == before
    assert find_cursor(job.path, None, job.now - 2, terminal=False) == job.total
    assert find_cursor(job.path, None, silent - 1.5, terminal=False) == before - 20


def test_a_ring_that_has_turned_keeps_the_times_of_what_it_keeps(tmp_path: Path) -> None:
    job = Writing(tmp_path / "ring", limit=20_000)
    for _ in range(3_000):
        job.write(700)
        job.now += 0.6
    header = read_header(job.path)
    assert header is not None
    assert header.base > 1_000_000
    assert find_cursor(job.path, None, job.now - 10 * HOUR, terminal=False) == header.base
    for ago in range(70):
        job.check(job.now - ago, part=0)
    since = find_cursor(job.path, None, job.now - 6, terminal=False)
    assert since is not None
    everything(job.path, None, terminal=False, cursor=since)


def test_what_is_not_published_yet_is_not_named(tmp_path: Path) -> None:
    job = Writing(tmp_path / "ring")
    for _ in range(2):
        job.writer.append(memoryview(written(0, 10)))
        job.now += 1.0
    assert find_cursor(job.path, None, job.now - 0.5, terminal=False) == 0
    job.writer.publish()
    assert find_cursor(job.path, None, job.now - 0.5, terminal=False) == 10


def test_one_that_keeps_the_first_has_nothing_that_came_when_it_was_full(tmp_path: Path) -> None:
    job = Writing(tmp_path / "ring", limit=100, rotate=False)
    for _ in range(20):
        job.write()
        job.now += 1.0
    assert find_cursor(job.path, None, job.now - 15, terminal=False) == 50
    job.writer.seal(proven=True)
    known = SpoolState.of(job.writer.header)
    assert find_cursor(job.path, known, job.now - 5, terminal=True) == 200


def test_a_clock_that_is_put_back_leaves_nothing_out(tmp_path: Path) -> None:
    job = Writing(tmp_path / "ring")
    for step in (1.0, 1.0, -HOUR, 1.0, 1.0):
        job.write()
        job.now += step
    last = job.now
    assert find_cursor(job.path, None, last - 1.5, terminal=False) == 0
    job.now += 2 * HOUR
    job.write()
    assert find_cursor(job.path, None, job.now, terminal=False) == 50


def test_a_clock_that_was_far_ahead_is_forgotten_with_what_it_was_told_of(tmp_path: Path) -> None:
    job = Writing(tmp_path / "ring", limit=20_000)
    right, job.now = job.now, job.now + 10_000 * HOUR
    job.write()
    job.now = right
    job.came.clear()
    for _ in range(300):
        job.write(700)
        job.now += 0.6
    for ago in range(30):
        job.check(job.now - ago, part=0)


def test_a_file_of_before_there_were_times_is_read_and_says_that_it_has_none(tmp_path: Path) -> None:
    job = Writing(tmp_path / "ring")
    job.write()
    whole = bytearray(job.path.read_bytes())
    for at in SPANS_AT:
        whole[at : at + SPANS_BYTES] = bytes(SPANS_BYTES)
    job.path.write_bytes(whole)
    everything(job.path, None, terminal=False)
    assert find_cursor(job.path, None, job.now, terminal=False) is None
    assert find_cursor(tmp_path / "none", None, job.now, terminal=False) == 0


def test_a_room_that_is_torn_is_told_and_the_one_before_it_counts(tmp_path: Path) -> None:
    job = Writing(tmp_path / "ring")
    for _ in range(3):
        job.write()
        job.now += 1.0
    block = job.path.read_bytes()[:HEADER_BYTES]
    assert [offset for _, _, offset in parse_spans(block)] == [0, 10, 20]
    newest = SPANS_AT[0]  # the third, after the second room was the second's
    for at in range(newest, newest + 20 + 3 * 24 + 4):
        torn = bytearray(block)
        torn[at] ^= 0xFF
        assert [offset for _, _, offset in parse_spans(bytes(torn))] == [0, 10]
    assert parse_spans(random.Random(1).randbytes(HEADER_BYTES)) == []
    assert parse_spans(b"") == []


def test_a_full_room_is_read_as_it_was_written() -> None:
    """And stays within its room."""
    spans, block = Spans(), bytearray(HEADER_BYTES)
    for second in range(200):
        data, at = spans.begin(1_700_000_000.0 + second, second * 7, 0)
        assert len(data) <= SPANS_BYTES
        block[at : at + len(data)] = data
        assert list(parse_spans(bytes(block))) == list(spans.known)


async def test_a_process_and_a_look_into_its_directory_find_it_also_after_a_restart(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(state) as runtime:
            process = await runtime.start("echo early; read x; echo late", stdin="pipe")
            await process.wait_output(5)
            assert await process.cursor_at(datetime.now(UTC) - timedelta(days=1)) == 0
            # When something came is known to a second.
            between = datetime.now(UTC) + timedelta(seconds=1.1)
            while datetime.now(UTC) < between:  # noqa: ASYNC110 -- it is the system's clock that is waited for
                await anyio.sleep(0.05)
            await process.send_input(b"go\n")
            await process.wait()
            assert await process.cursor_at(between) == 6
            assert (await process.read_output(6)).data == b"late\n"
            assert await process.cursor_at(datetime.now(UTC) + timedelta(seconds=2)) == 11
            with pytest.raises(SupervisorError) as caught:
                await process.cursor_at(datetime(2026, 1, 1))
            assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
            (view,) = view_directory(state).processes
            assert view.cursor_at(between) == 6
        async with lastword.open_runtime(state) as runtime:
            assert await runtime.supervisor.get(process.handle, runtime.loop).cursor_at(between) == 6
        (view,) = view_directory(state).processes
        assert view.cursor_at(between) == 6


def test_a_writer_notes_a_time_once_a_second_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    begin: Callable[[Spans, float, int, int], tuple[bytes, int]] = Spans.begin

    def counted(self: Spans, now: float, offset: int, base: int) -> tuple[bytes, int]:
        begun.append(offset)
        return begin(self, now, offset, base)

    monkeypatch.setattr(_spans.Spans, "begin", counted)
    job = Writing(tmp_path / "ring")
    for _ in range(1_000):
        job.write()
        job.now += 0.01
    assert len(begun) == 10
