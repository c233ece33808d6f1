"""What is read of a process's output: from its ring file, by cursor, while somebody else writes it.

Theory of operation
- The format is `shim._header`, the order in which a writer gives up what it overwrites `shim._ring`.  A reader copies
  and then looks at the base again: what begins below it may have been overwritten meanwhile.  One that was overtaken
  begins anew well above the base, or a fast writer would overtake it for ever.  So with the index of two streams.
- Nothing is held between two reads: each opens the file by its path, and asks its header for what there is by now.
- Of a process that has ended the record is the judge of total, base and fault, not the header: it is what was told, and
  where the disk failed the last header may never have been written.  The header only says where a byte is; what it has
  given up since is given up.  Of a running one it is whichever has gone further, header or what its keeper has said.

Rules
- A failing disk is not an exception but a fact: `SpoolState.fault`, with the offset from which on nothing was kept.
- No file is an empty ring; one that is no ring, or is shorter than it says, is spool_corrupt and never wrong bytes.
- One stream of two is told up to the header's total, for the index is no newer; where a header could not be written
  any more, what is kept beyond it is of both.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import Final

import attrs

from .._errno import errno_name
from .._errors import ErrorCode, SupervisorError
from ..shim._header import HEADER_BYTES, RingHeader, parse_header
from ..shim._spans import parse_spans
from ._chunk import OutputChunk, SpoolState, incomplete_tail
from ._streams import Index, Selection, select

# Both slots look torn only to one who was interrupted between them while the writer went on.
_HEADER_TRIES: Final = 16

# A reader that was overtaken: how far above the base it begins anew, and how often before it tells the gap alone.
_AHEAD_BYTES: Final = 8 * 1024 * 1024
_TRIES: Final = 8


@attrs.frozen
class _Piece:
    """The bytes of [start, end), all or those of one stream; `oldest`: the lowest switch that says so.

    `last`: where what could be told ended then.  `cut`: where the file ended, though it should have had more.
    """

    start: int
    end: int
    last: int
    data: bytes = b""
    oldest: int | None = None
    selected: Selection | None = None
    cut: int | None = None

    def without_tail(self) -> _Piece:
        """Ending before the beginning of a character that is at its end, unless that is all there is."""
        tail = incomplete_tail(self.data)
        if not 0 < tail < len(self.data):
            return self
        end = self.end - tail if self.selected is None else self.selected.offset_of(len(self.data) - tail)
        return attrs.evolve(self, data=self.data[:-tail], end=end)


def read_header(path: Path) -> RingHeader | None:
    """What the ring file at `path` says of itself; None where there is none.  Raises `SupervisorError`
    (spool_corrupt) where it is no ring or cannot be read."""
    with _opened(path) as descriptor:
        return None if descriptor is None else _header(descriptor)


def read_ring(
    path: Path, known: SpoolState | None, cursor: int, max_bytes: int, *, terminal: bool, stream: int | None = None
) -> OutputChunk:
    """What is at `cursor` of the ring file at `path`, at most `max_bytes` of it; of one `stream` of two, or of all.

    `known` is the record's word where the process has ended (`terminal`); else what its keeper has said, if anything.
    A chunk that `max_bytes` or the live end cuts short ends before a UTF-8 sequence that it would split, unless that
    is all there is.  Raises `SupervisorError`: cursor_ahead beyond the total, spool_corrupt.
    """
    state = known or SpoolState()
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
        last = _end(header, state, stream)
        piece = _Piece(start, start, last)
        if start < last:
            if descriptor is None or header is None:
                raise SupervisorError(ErrorCode.SPOOL_CORRUPT, "the kept output is gone; the process is not affected")
            reader = _Reader(descriptor, max_bytes, stream)
            if terminal:
                piece = reader.take(header, state, start)
                reader.check(piece)
            else:
                state, piece = reader.chase(header, state, start)
    if piece.start >= piece.last:  # nothing more is kept, or nothing more of which it is known whose it is
        piece = _Piece(state.total, state.total, state.total)
    # What comes after the end of what is kept will not complete a character; what comes after the live end may.
    if piece.end < piece.last or (not terminal and piece.end == state.total):
        piece = piece.without_tail()
    return OutputChunk(
        data=piece.data,
        start=piece.start,
        next_cursor=piece.end,
        omitted=(cursor, piece.start) if piece.start > cursor else None,
        total=state.total,
        ended=terminal and piece.end == state.total,
        output_error=state.fault,
    )


def find_cursor(path: Path, known: SpoolState | None, moment: float, *, terminal: bool) -> int | None:
    """From where on the ring file at `path` has all that came at `moment` (seconds since 1970) or later, and is kept.

    That is exact to a second, or to about a tenth of how long ago it was (seldom a quarter), and never too late; the
    total where nothing came since; None where it is not known, for the file is of a version that did not write it.
    `known` and `terminal` as for `read_ring`.  Raises `SupervisorError` (spool_corrupt).
    """
    state = known or SpoolState()
    with _opened(path) as descriptor:
        if descriptor is None:
            return state.total
        # In this order: a span is told before its bytes are.
        state = _agreed(_header(descriptor), state, terminal=terminal)
        spans = parse_spans(os.pread(descriptor, HEADER_BYTES, 0))
    if not spans:
        return None if state.total else 0
    since = next((offset for _, end, offset in spans if end > moment * 1000), state.total)
    return min(max(since, state.base), state.total)


def _agreed(header: RingHeader, known: SpoolState, *, terminal: bool) -> SpoolState:
    """What both say together; see the module."""
    told = SpoolState.of(header)
    further = told.total >= known.total and (known.fault is None or told.fault is not None)
    state = told if further and not terminal else known
    cut = min((each.cut for each in (told, known) if each.cut is not None), default=None)
    return attrs.evolve(state, base=max(told.base, known.base), cut=cut)


def _end(header: RingHeader | None, state: SpoolState, stream: int | None) -> int:
    """Where what can be told ends: of one stream, not beyond what its index tells."""
    return state.end if header is None or stream is None else min(state.end, header.end)


@attrs.frozen
class _Reader:
    """One read of a file that is open."""

    descriptor: int
    max_bytes: int
    stream: int | None

    def take(self, header: RingHeader, state: SpoolState, start: int, *, attempt: int = 0) -> _Piece:
        """What is at `start` if nobody overwrites it meanwhile; with each attempt further from the oldest switches."""
        last = _end(header, state, self.stream)
        if self.stream is None:
            end = min(last, start + self.max_bytes)
            data, cut = _copy(self.descriptor, header, start, end)
            return _Piece(start, end, last, data, cut=cut)
        if not header.split:
            raise _damaged()
        left = header.switches - header.first_switch
        if left <= 0:
            return _Piece(last, last, last)
        lowest = header.switches - max(1, left >> attempt)
        found = select(Index(self.descriptor, header), lowest, start, last, self.stream, self.max_bytes)
        copies = [(first, *_copy(self.descriptor, header, first, end), parts) for first, end, parts in found.together()]
        data = b"".join(data[at - first : upto - first] for first, data, _, parts in copies for at, upto in parts)
        cut = next((cut for _, _, cut, _ in copies if cut is not None), None)
        return _Piece(found.start, found.end, last, data, lowest, found, cut)

    def check(self, piece: _Piece) -> None:
        """Raise `SupervisorError` (spool_corrupt) where it comes from an index that is none, or was cut short.

        Only for who was not overtaken: an index that is being overwritten leads anywhere.
        """
        if piece.selected is not None and not piece.selected.sound:
            raise _damaged()
        if piece.cut is not None:
            raise SupervisorError(ErrorCode.SPOOL_CORRUPT, f"the kept output was cut short at {piece.cut}")

    def chase(self, header: RingHeader, state: SpoolState, start: int) -> tuple[SpoolState, _Piece]:
        """What is at `start`, or further on where the writer has overtaken this reader; no data where it always has."""
        passed = start
        for attempt in range(_TRIES):
            piece = self.take(header, state, start, attempt=attempt)
            header = _header(self.descriptor)
            now = _agreed(header, state, terminal=False)
            indexed = piece.oldest is None or header.first_switch <= piece.oldest
            if now.base <= piece.start and indexed:
                self.check(piece)
                # Not `now`: who then waits for more than this total would never be told of what came in between.
                return state, piece
            state = now
            passed = min(piece.start, state.end)
            if now.base > piece.start:
                # Further from the base each time: half of what is there, three quarters, ...
                room = state.end - state.base
                start = state.base + min((attempt + 1) * _AHEAD_BYTES, room - (room >> attempt + 1))
        passed = max(start, passed)
        return state, _Piece(passed, passed, _end(header, state, self.stream))


@contextlib.contextmanager
def _opened(path: Path) -> Generator[int | None]:
    """The file, for one read; None where there is none."""
    descriptor = None
    try:
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        yield descriptor
    except OSError as error:
        code = errno_name(error.errno)
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
    raise _damaged()


def _damaged() -> SupervisorError:
    return SupervisorError(
        ErrorCode.SPOOL_CORRUPT, "the kept output is damaged, or not ours; the process itself is not affected"
    )


def _copy(descriptor: int, header: RingHeader, start: int, end: int) -> tuple[bytes, int | None]:
    """What is kept of [start, end), and where the file ended before that, if it did."""
    at, size = start % header.capacity, end - start
    first = min(size, header.capacity - at)
    data = os.pread(descriptor, first, header.data_at + at)
    if len(data) == first < size:
        data += os.pread(descriptor, size - first, header.data_at)
    return data, None if len(data) == size else start + len(data)
