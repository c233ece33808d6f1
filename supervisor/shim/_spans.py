"""When output came: spans of a ring's bytes, each with the seconds in which they were taken.

- A span begins with the first byte that comes a second or more after its predecessor began, so a moment's byte is known
  to a second, and a silence is no span's.
- There is room for so many.  Of a full room the two neighbours become one that are shortest in proportion to how long
  ago they are: the older, the coarser.  What cannot be read any more has none.
- They are told in two rooms in turn, behind the header's slots and each with a checksum: a torn one is told by its sum,
  and the other is there.  A file without any is one of before they were written.
- A span is told before its bytes are.  So whoever reads the header first knows a span for every byte that it counts.
- Times are of the system's clock, in milliseconds since 1970.  Where it was put back, spans overlap.
"""

from __future__ import annotations

import struct
from zlib import crc32

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

SPANS_AT: Final = (256, 2048 + 256)
"""Where in the file the rooms are: behind each slot of the header."""

SPANS_BYTES: Final = 2048 - 256
"""How large each is."""

MOST_SPANS: Final = 72
"""How many there are at most."""

_SPAN_MS: Final = 1000

_HEAD: Final = struct.Struct("<8sQI")  # magic, sequence, count
_SPAN: Final = struct.Struct("<QQQ")
_SUM: Final = struct.Struct("<I")
_MAGIC: Final = b"lw-spans"

if TYPE_CHECKING:
    Span = tuple[int, int, int]
    """The time of its first byte; a time before which its last came; the offset of its first."""


class Spans:
    """What a writer notes."""

    __slots__ = ("_known", "_sequence", "end", "start")

    def __init__(self) -> None:
        self._known: list[Span] = []
        self._sequence = 0
        self.start: float = 0.0
        """What comes from here on is the last one's, in seconds;"""
        self.end: float = 0.0
        """and until here.  For whoever asks often."""

    @property
    def known(self) -> Sequence[Span]:
        """Oldest first."""
        return self._known

    def begin(self, seconds: float, offset: int, base: int) -> tuple[bytes, int]:
        """Begin one with the byte at `offset`, which came at `seconds`; what to write of them all, and where.

        From `base` on there is what can be read.
        """
        known, now = self._known, max(0, int(seconds * 1000))
        self.start, self.end = seconds, (now + _SPAN_MS) / 1000
        known.append((now, now + _SPAN_MS, offset))
        while len(known) > 1 and known[1][2] <= base:
            del known[0]
        if len(known) > MOST_SPANS:
            _join(known, now)
        at = SPANS_AT[self._sequence & 1]
        data = _HEAD.pack(_MAGIC, self._sequence, len(known)) + b"".join(_SPAN.pack(*span) for span in known)
        self._sequence += 1
        return data + _SUM.pack(crc32(data)), at


def _join(known: list[Span], now: int) -> None:
    """Make one of the two that can best be."""

    def cost(at: int) -> float:
        begin, end = known[at][0], known[at + 1][1]
        return (end - begin) / max(now - end, _SPAN_MS)

    at = min(range(len(known) - 1), key=cost)
    (begin, end, offset), (_, next_end, _) = known[at : at + 2]
    known[at : at + 2] = [(begin, max(end, next_end), offset)]


def parse_spans(block: bytes) -> Sequence[Span]:
    """Those that were told last, of a file's first bytes; none where there are none."""
    rooms = [room for at in SPANS_AT if (room := _parse_room(block[at : at + SPANS_BYTES])) is not None]
    return max(rooms)[1] if rooms else []


def _parse_room(room: bytes) -> tuple[int, list[Span]] | None:
    if len(room) < _HEAD.size or not room.startswith(_MAGIC):
        return None
    _, sequence, count = _HEAD.unpack_from(room)
    end = _HEAD.size + _SPAN.size * count
    if count > MOST_SPANS or len(room) < end + _SUM.size or _SUM.unpack_from(room, end)[0] != crc32(room[:end]):
        return None
    return sequence, [_SPAN.unpack_from(room, _HEAD.size + _SPAN.size * at) for at in range(count)]
