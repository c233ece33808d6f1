"""What is read of a process's output: from its ring file, by cursor, while somebody else writes it.

Theory of operation
- The format, and the order in which a writer gives up what it overwrites, is `shim._ring`.  A reader copies and then
  looks at the base again: what begins below it may have been overwritten meanwhile.  One that was overtaken begins anew
  well above the base, or a fast writer would overtake it for ever.
- Nothing is held between two reads: each opens the file by its path, and asks its header for what there is by now.
- Of a process that has ended the record is the judge of total, base and fault, not the header: it is what was told, and
  where the disk failed the last header may never have been written.  The header only says where a byte is; what it has
  given up since is given up.  Of a running one it is whichever has gone further, header or what its keeper has said.

Rules
- A failing disk is not an exception but a fact: `SpoolState.fault`, with the offset from which on nothing was kept.
- No file is an empty ring; one that is no ring, or is shorter than it says, is spool_corrupt and never wrong bytes.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
from collections.abc import Generator
from pathlib import Path
from typing import Final, final

import attrs

from .._errors import ErrorCode, SupervisorError
from ..shim._ring import HEADER_BYTES, RingHeader, parse_header
from ._text import TextView, view_text

# Both slots look torn only to one who was interrupted between them while the writer went on.
_HEADER_TRIES: Final = 16

# A reader that was overtaken: how far above the base it begins anew, and how often before it tells the gap alone.
_AHEAD_BYTES: Final = 8 * 1024 * 1024
_TRIES: Final = 8


@final
@attrs.frozen(kw_only=True)
class OutputFault:
    """The disk failed: nothing from `offset` on was kept; `code` is the system's name for it, such as "ENOSPC"."""

    offset: int
    code: str


@final
@attrs.frozen(kw_only=True)
class SpoolState:
    """How much a process has written (`total`), and how much of it can be read: [`base`, `end`).

    `fault`: the disk failed.  `cut`: nothing from there on is kept by choice, None where it is the last bytes that are.
    """

    total: int = 0
    base: int = 0
    fault: OutputFault | None = None
    cut: int | None = None

    @property
    def end(self) -> int:
        """Where what can be read ends."""
        end = self.total if self.fault is None else self.fault.offset
        return end if self.cut is None else min(end, self.cut)

    @property
    def kept(self) -> tuple[int, int]:
        """What can be read: from, up to."""
        return self.base, self.end

    @classmethod
    def of(cls, ring: RingHeader) -> SpoolState:
        """What a header says."""
        fault = None if ring.fault is None else to_fault(*ring.fault)
        return cls(total=ring.total, base=ring.base, fault=fault, cut=None if ring.rotates else ring.limit)


def to_fault(offset: int, code: int) -> OutputFault:
    """A ring's fault; `code` is an errno."""
    return OutputFault(offset=offset, code=errno.errorcode.get(code, "EIO"))


@final
@attrs.frozen(kw_only=True)
class OutputChunk:
    """One piece of a process's output.

    - `data`: the bytes [start, next_cursor); give `next_cursor` to the next read.
    - `omitted`: the range that this read passed over since it is not kept, None if there is none; `gap` says the same.
    - `total`: all bytes that the process had written by then, kept or not.
    - `ended`: nothing will ever follow `next_cursor`.
    - `output_error`: set once the disk has failed.
    """

    data: bytes = attrs.field(repr=False)
    start: int
    next_cursor: int
    omitted: tuple[int, int] | None
    total: int
    ended: bool
    output_error: OutputFault | None

    @property
    def gap(self) -> bool:
        """Whether bytes are missing before `start`."""
        return self.omitted is not None

    @property
    def text(self) -> TextView:
        """The data as text that can be shown; the raw bytes stay in `data`."""
        return view_text(self.data)


def read_header(path: Path) -> RingHeader | None:
    """What the ring file at `path` says of itself; None where there is none.  Raises `SupervisorError`
    (spool_corrupt) where it is no ring or cannot be read."""
    with _opened(path) as descriptor:
        return None if descriptor is None else _header(descriptor)


def read_ring(path: Path, known: SpoolState | None, cursor: int, max_bytes: int, *, terminal: bool) -> OutputChunk:
    """What is at `cursor` of the ring file at `path`, at most `max_bytes` of it.

    `known` is the record's word where the process has ended (`terminal`); else what its keeper has said, if anything.
    A chunk that `max_bytes` or the live end cuts short ends before a UTF-8 sequence that it would split, unless that
    is all there is.  Raises `SupervisorError`: cursor_ahead beyond the total, spool_corrupt.
    """
    state = known or SpoolState()
    data = b""
    with _opened(path) as descriptor:
        header = None
        # Where nothing is kept of what has ended, the file is not asked: it may have been damaged since, or never been.
        if descriptor is not None and not (terminal and max(cursor, state.base) >= state.end):
            header = _header(descriptor)
            state = _agreed(header, state, terminal=terminal)
        if cursor > state.total:
            raise SupervisorError(
                ErrorCode.CURSOR_AHEAD,
                f"cursor {cursor} is beyond the {state.total} bytes written so far; use the last next_cursor",
            )
        start = max(cursor, state.base)
        if start >= state.end:
            start = state.total
        elif descriptor is None or header is None:
            raise SupervisorError(ErrorCode.SPOOL_CORRUPT, "the kept output is gone; the process is not affected")
        elif terminal:
            data = _copy(descriptor, header, start, min(max_bytes, state.end - start))
        else:
            state, start, data = _chase(descriptor, header, state, start, max_bytes)
    end = start + len(data)
    # What comes after the end of what is kept will not complete a character; what comes after the live end may.
    cut_short = end < state.end or (not terminal and end == state.total)
    if cut_short and (tail := incomplete_tail(data)) < len(data):
        data = data[: len(data) - tail]
        end -= tail
    return OutputChunk(
        data=data,
        start=start,
        next_cursor=end,
        omitted=(cursor, start) if start > cursor else None,
        total=state.total,
        ended=terminal and end == state.total,
        output_error=state.fault,
    )


def awaits_rest(chunk: OutputChunk) -> bool:
    """Whether the data is nothing but the beginning of a character whose rest may still be written."""
    live = not chunk.ended and chunk.next_cursor == chunk.total
    return live and 0 < len(chunk.data) == incomplete_tail(chunk.data)


def incomplete_tail(data: bytes) -> int:
    """How many bytes at the end of `data` (0 to 3) are the beginning of a UTF-8 character, and can still become one."""
    for back in range(1, min(3, len(data)) + 1):
        if data[-back] & 0xC0 != 0x80:  # no continuation: a character begins here, if anywhere
            try:
                _, used = codecs.utf_8_decode(data[-back:], "strict", False)
            except UnicodeDecodeError:
                return 0
            # Half a pair of UTF-16 is no character, but the decoder says so only with its third byte.
            half = data[-back] == 0xED and back > 1 and data[1 - back] >= 0xA0
            return 0 if used or half else back
    return 0


def _agreed(header: RingHeader, known: SpoolState, *, terminal: bool) -> SpoolState:
    """What both say together; see the module."""
    told = SpoolState.of(header)
    further = told.total >= known.total and (known.fault is None or told.fault is not None)
    state = told if further and not terminal else known
    cut = min((each.cut for each in (told, known) if each.cut is not None), default=None)
    return attrs.evolve(state, base=max(told.base, known.base), cut=cut)


def _chase(
    descriptor: int, header: RingHeader, state: SpoolState, start: int, max_bytes: int
) -> tuple[SpoolState, int, bytes]:
    """What is at `start`, or further on where the writer has overtaken this reader; no data where it always has."""
    for share in range(1, _TRIES + 1):
        data = _copy(descriptor, header, start, min(max_bytes, state.end - start))
        now = _agreed(_header(descriptor), state, terminal=False)
        if now.base <= start:
            # Not `now`: who then waits for more than this total would never be told of what came in between.
            return state, start, data
        state = now
        # Further from the base each time: half of what is there, three quarters, ...
        room = state.end - state.base
        start = state.base + min(share * _AHEAD_BYTES, room - (room >> share))
    return state, start, b""


@contextlib.contextmanager
def _opened(path: Path) -> Generator[int | None]:
    """The file, for one read; None where there is none."""
    descriptor = None
    try:
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        yield descriptor
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "EIO")
        raise SupervisorError(
            ErrorCode.SPOOL_CORRUPT, f"the kept output cannot be read ({code}); the process itself is not affected"
        ) from None  # the original names a host path
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _header(descriptor: int) -> RingHeader:
    for _ in range(_HEADER_TRIES):
        header = parse_header(os.pread(descriptor, HEADER_BYTES, 0))
        if header is not None and header.limit > 0 and header.base <= header.end:
            return header
    raise SupervisorError(
        ErrorCode.SPOOL_CORRUPT, "the kept output is damaged, or not ours; the process itself is not affected"
    )


def _copy(descriptor: int, header: RingHeader, start: int, size: int) -> bytes:
    at = start % header.capacity
    first = min(size, header.capacity - at)
    data = os.pread(descriptor, first, HEADER_BYTES + at)
    if len(data) == first < size:
        data += os.pread(descriptor, size - first, HEADER_BYTES)
    if len(data) < size:
        raise SupervisorError(ErrorCode.SPOOL_CORRUPT, f"the kept output was cut short at {start + len(data)}")
    return data
