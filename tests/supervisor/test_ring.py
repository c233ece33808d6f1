"""The ring file: what its writer keeps and its reader sees, whatever fails, whoever dies, and whoever is faster."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest
from crash_hosts import SUPPORT, support_environment
from crash_tools import need
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ring_ground import Act, System, written
from ring_life import Life, acts, tiny
from ring_sizes import EXAMPLES, FULL_EXAMPLES, FULL_TIMEOUT_SECONDS, report

import lastword.supervisor.output._streams as selecting
from lastword.supervisor.output import read_header, read_ring
from lastword.supervisor.shim import _ring as writing
from lastword.supervisor.shim._header import HEADER_BYTES, RingHeader, parse_header, segment_of
from lastword.supervisor.shim._ring import TEMPORARY_SUFFIX, RingWriter

HEADERS = [
    RingHeader(limit=1),
    RingHeader(sequence=7, total=1 << 60, base=1 << 59, limit=1 << 58, sealed=True, status=0, proven=True),
    RingHeader(limit=9, split=True, first_switch=1 << 50, switches=1 << 51, sealed=True),
    RingHeader(limit=5, rotates=False, status=0x8B, ended_by_host_death=True, fault=(3, errno.ENOSPC)),
]


def fields(header: RingHeader | None) -> list[object]:
    assert header is not None
    return [getattr(header, name) for name in RingHeader.__slots__]


def sequence_of(block: bytes) -> int:
    header = parse_header(block)
    assert header is not None
    return header.sequence


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
        assert sequence_of(block) == 5
        torn = block.replace(new, new[:20] + bytes(len(new) - 20))
        assert sequence_of(torn) == 4


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


def live(
    limit: int, segment: int, rotate: bool, sizes: list[int], plan: dict[int, Act], room: int = 0, between: int = 0
) -> Life:
    """A life and all that is said of it; of two streams where there is room for their switches."""
    with (
        tempfile.TemporaryDirectory() as folder,
        tiny(segment, room),
        patch.object(selecting, "TURNS", room + 1 if room % 2 else 2),
        patch.object(selecting, "_BETWEEN_BYTES", between),
    ):
        life = Life(Path(folder), limit, plan, rotate=rotate, split=room > 0)
        try:
            with patch.object(writing, "os", life.system):
                whole = life.live(sizes)
            life.look()
            if whole:
                life.judge()
                assert life.system.litter or not Path(folder, life.path.name + TEMPORARY_SUFFIX).exists()
        finally:
            life.system.release()
        return life


lives = given(
    limit=st.integers(1, 60),
    segment=st.integers(1, 24),
    rotate=st.sampled_from([True, True, True, False]),
    sizes=st.lists(st.one_of(st.just(0), st.integers(1, 30), st.integers(1, 200)), max_size=24),
    plan=st.dictionaries(st.integers(0, 60), acts, max_size=4),
    room=st.one_of(st.just(0), st.integers(1, 12)),
    between=st.sampled_from([0, 4, 100]),
)


@settings(max_examples=EXAMPLES)
@lives
@example(
    limit=5, segment=4, rotate=True, sizes=[30], plan={2: Act("fail", 0)}, room=0, between=0
)  # the header, where a base is due
@example(limit=5, segment=4, rotate=True, sizes=[3, 0, 30], plan={6: Act("crash", 2)}, room=0, between=0)
@example(
    limit=5, segment=4, rotate=True, sizes=[9], plan={1: Act("fail", 0), 2: Act("fail", 0)}, room=0, between=0
)  # no way back, too
@example(
    limit=5, segment=4, rotate=False, sizes=[3, 0, 30, 0], plan={6: Act("fail", 0)}, room=0, between=0
)  # beyond the limit
@example(
    limit=5,
    segment=4,
    rotate=True,
    sizes=[3, 0, 9],
    plan={3: Act("fail", 0), 5: Act("fail", 0, errno.EIO)},
    room=0,
    between=0,
)
def test_whatever_fails_nothing_wrong_is_read(
    limit: int, segment: int, rotate: bool, sizes: list[int], plan: dict[int, Act], room: int, between: int
) -> None:
    """Calls fail, fall short, or are the last: at each step the file is sound, and has what it must have."""
    live(limit, segment, rotate, sizes, plan, room, between)


@pytest.mark.prove
@pytest.mark.timeout(FULL_TIMEOUT_SECONDS)
def test_whatever_fails_nothing_wrong_is_read_at_length() -> None:
    """The same, at full count."""
    calls = failed = crashed = 0

    @settings(max_examples=FULL_EXAMPLES)
    @lives
    def check(
        limit: int, segment: int, rotate: bool, sizes: list[int], plan: dict[int, Act], room: int, between: int
    ) -> None:
        nonlocal calls, failed, crashed
        life = live(limit, segment, rotate, sizes, plan, room, between)
        calls += life.system.calls
        failed += len(life.system.failed)
        crashed += life.system.dead

    check()
    report(f"ring: {FULL_EXAMPLES} lives, {calls} calls watched, {failed} failed, {crashed} writers died")
    assert failed
    assert crashed


@pytest.mark.parametrize("room", [0, 3])
def test_every_call_may_be_the_last(room: int) -> None:
    """A life that goes round twice dies at each of its calls in turn, with nothing or half of it done; or they fail."""
    sizes = [1, 0, 9, 4, 0, 40, 0, 13, 2, 13, 0]
    calls = live(16, 6, True, sizes, {}, room).system.calls
    assert calls > 30
    for number in range(calls):
        for act in (Act("crash", 0), Act("crash", 3), Act("fail", 0, errno.EIO), Act("fail", 3), Act("short", 2)):
            life = live(16, 6, True, sizes, {number: act}, room)
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


def test_what_cannot_be_made_at_first_is_made_for_the_last_word(tmp_path: Path) -> None:
    """No descriptor was left for the first byte; the header tells it all the same."""
    writer = RingWriter(str(tmp_path / "ring"), 10)
    with patch.object(writing, "os", System({0: Act("fail", 0, errno.EMFILE)})):
        writer.append(memoryview(b"abc"))
        writer.publish()
        assert read_header(tmp_path / "ring") is None
        writer.seal(proven=True)
    header = read_header(tmp_path / "ring")
    assert header is not None
    assert (header.total, header.end, header.fault) == (3, 0, (0, errno.EMFILE))
    writer.close()


def test_a_disk_that_takes_nothing_and_says_so_has_failed(tmp_path: Path) -> None:
    """It is not asked for ever."""
    writer = RingWriter(str(tmp_path / "ring"), 10)
    writer.append(memoryview(b"ab"))
    with patch("os.pwrite", return_value=0):
        writer.append(memoryview(b"c"))
    assert writer.fault == (2, errno.EIO)
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


# --- a disk that really fails -----------------------------------------------------------------------------------------


def _run(*command: str) -> None:
    done = subprocess.run(command, env=support_environment(), capture_output=True, text=True, timeout=200, check=False)
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
