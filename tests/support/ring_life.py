"""One ring's writer, watched: what its file says at each moment, and at the end, is what it was given."""

from __future__ import annotations

import errno
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from hypothesis import strategies as st
from ring_ground import Act, Crash, System, everything, own, written

from lastword.supervisor.output import SpoolState, read_header
from lastword.supervisor.shim import _header as layout
from lastword.supervisor.shim import _ring as writing
from lastword.supervisor.shim._header import HEADER_BYTES, RingHeader, segment_of, switches_of
from lastword.supervisor.shim._ring import RingWriter

acts = st.builds(
    Act,
    st.sampled_from(["short", "fail", "crash"]),
    st.integers(0, 100),
    st.sampled_from([errno.ENOSPC, errno.EIO]),
)
"""What may become of a call."""


@contextmanager
def tiny(segment: int, switches: int) -> Generator[None]:
    """Rings with segments of so many bytes, and room for so many switches."""
    with (
        patch.object(layout, "_LEAST_SEGMENT", segment),
        patch.object(layout, "_LARGEST_SEGMENT", segment),
        patch.object(layout, "_LEAST_SWITCHES", switches),
        patch.object(layout, "_LARGEST_SWITCHES", switches),
        patch.object(writing, "_UNTOLD_BYTES", 3 * segment),
    ):
        yield


class Life:
    """One writer's life, watched before each of its system calls by one who reads all there is."""

    def __init__(self, folder: Path, limit: int, plan: dict[int, Act], *, rotate: bool, split: bool) -> None:
        self.path = folder / "ring"
        self.limit = limit
        self.rotate = rotate
        self.split = split
        self.system = System(plan, self.look)
        self.writer = RingWriter(str(self.path), limit, rotate=rotate, split=split)
        self.appended = 0
        self.whose = bytearray()
        self.published = 0
        self.base = 0

    def live(self, sizes: Iterable[int]) -> bool:
        """Append, publish for 0, note the exit, seal, close; whether it came to its end.

        What has an odd size is of the second stream.
        """
        try:
            for size in sizes:
                if size:
                    self.writer.append(memoryview(self.come(size, size & 1)), size & 1)
                else:
                    self.publish()
            self.seal()
            self.writer.append(memoryview(b"too late"), 1)
            self.writer.close()
            self.writer.close()
            self.writer.append(memoryview(b"much too late"))
            self.writer.note_exit(0, by_host_death=True)
        except Crash:
            return False
        return True

    def come(self, size: int, stream: int) -> bytes:
        """What is to be appended next."""
        start = self.appended
        self.appended += size
        self.whose += bytes([stream]) * size
        return written(start, self.appended)

    def publish(self) -> None:
        self.writer.publish()
        self.note_published()

    def note_published(self) -> None:
        """From now on all can be read that was appended, and that the disk took."""
        if self.writer.fault is None:
            self.published = self.appended

    def seal(self) -> None:
        self.writer.note_exit(0x0100, by_host_death=False)
        self.writer.seal(proven=True)

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
        index = 8 * switches_of(self.limit) if self.split else 0
        assert self.path.stat().st_size <= HEADER_BYTES + index + most
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
        if self.split and header is not None:
            for stream in (0, 1):
                self.check_stream(header, state, known, stream, terminal=terminal)

    def check_stream(
        self, header: RingHeader, state: SpoolState, known: SpoolState | None, stream: int, *, terminal: bool
    ) -> None:
        """Read all of one: it begins with the oldest byte whose stream must be known, and no other is missing."""
        whose = self.whose.__getitem__
        end = min(state.end, header.end)
        switches = [at for at in range(header.end) if at == 0 or whose(at) != whose(at - 1)]
        # One that was noted, and whose bytes were not written then.
        assert len(switches) <= header.switches <= len(switches) + 1
        room = switches_of(self.limit)
        assert header.switches - room <= header.first_switch <= max(0, header.switches - (room - -(-room // 8)))
        kept = switches[header.first_switch :]
        known_from = max(state.base, kept[0]) if kept else end
        for most in (1, 7, 1 << 30) if terminal else (1 << 30,):
            chunks = everything(self.path, known, terminal=terminal, most=most, whose=whose, stream=stream)
            expected = own(known_from, end, whose, stream) if known_from < end else b""
            assert b"".join(chunk.data for chunk in chunks) == expected
            assert chunks[-1].next_cursor == state.total
            assert (chunks[-1].total, chunks[-1].output_error, chunks[-1].ended) == (state.total, state.fault, terminal)
            if known_from < end:
                assert chunks[0].omitted == ((0, known_from) if known_from else None)
            for chunk in chunks:
                assert len(chunk.data) <= most
                # What is found empty is empty: nothing more of this stream was there.
                assert chunk.data or chunk.next_cursor == state.total or chunk.next_cursor == end

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
