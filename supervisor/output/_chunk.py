"""What a read of a process's output returns, and what is known of the output; values, and where characters end."""

from __future__ import annotations

import codecs
import errno
from typing import final

import attrs

from ..shim._header import RingHeader
from ._text import TextView, view_text


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

    - `data`: the bytes [start, next_cursor); give `next_cursor` to the next read.  Of one stream of two: the bytes of
      that range that are its own; it ends before the next one of them, or where nothing more has been written.
    - `omitted`: the range that this read passed over since it is not kept, None if there is none; `gap` says the same.
      Of one stream of two: or since it is not known any more whose the bytes are; some may be the other stream's.
    - `total`: all bytes that the process had written by then, kept or not, of both streams.
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
