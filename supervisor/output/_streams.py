"""Which bytes of a ring are of one stream of two: by its index of switches, of which only what is needed is read.

- Streams take turns in the index, and each turn has a byte at least.  So a look at so many turns finds as many bytes,
  or the end: what is found empty is empty.
- The index may be overwritten while it is read.  What comes of that is nonsense and no exception; whoever asks finds
  out afterwards (`_ring`).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Final, Literal

import attrs

from ..shim._header import STDERR, STDOUT, SWITCH_BYTES, RingHeader, switches_of, unpack_switches

# How many turns one read looks at: about a millisecond's work.
TURNS: Final = 2048

# What lies between two pieces of a stream is read along with them, rather than around them, if it is no more than this.
_BETWEEN_BYTES: Final = 512

Streams = Literal["both", "stdout", "stderr"]

STREAMS: Final[dict[str, int | None]] = {"both": None, "stdout": STDOUT, "stderr": STDERR}
"""What each of them is to a ring."""

Range = tuple[int, int]


@attrs.frozen
class Index:
    """The switches of a file that is open, as its header tells them."""

    descriptor: int
    header: RingHeader

    def offset(self, number: int) -> int:
        """From where on a switch counts."""
        return next(self.some(number, 1))[0]

    def some(self, number: int, count: int) -> Iterator[tuple[int, int]]:
        """Offsets and streams of `count` switches; fewer where there are no more."""
        count = min(count, self.header.switches - number)
        beside = min(count, (room := switches_of(self.header.limit)) - number % room)
        for first, size in ((number, beside), (number + beside, count - beside)):
            data = os.pread(self.descriptor, size * SWITCH_BYTES, self.header.switch_at(first)) if size else b""
            yield from unpack_switches(data.ljust(size * SWITCH_BYTES, b"\0"))


@attrs.frozen
class Selection:
    """The bytes of one stream in [start, end): `parts`, ascending.  `sound`: the index is one."""

    start: int
    end: int
    parts: tuple[Range, ...]
    sound: bool

    def offset_of(self, index: int) -> int:
        """Where in the ring that byte of the stream is; `index` is less than there are."""
        sizes = [upto - at for at, upto in self.parts]
        before = [0, *accumulate(sizes)]
        part = bisect_right(before, index) - 1
        return self.parts[part][0] + index - before[part]

    def together(self) -> Iterator[tuple[int, int, list[Range]]]:
        """Parts that are read at once, each time with the range that holds them."""
        group: list[Range] = []
        for part in self.parts:
            if group and part[0] - group[-1][1] > _BETWEEN_BYTES:
                yield group[0][0], group[-1][1], group
                group = []
            group.append(part)
        if group:
            yield group[0][0], group[-1][1], group


def select(index: Index, lowest: int, start: int, end: int, stream: int, most: int) -> Selection:
    """Of what is in [start, end), or from switch `lowest` on if that is later, the first `most` bytes of `stream`.

    It ends before the next byte of the stream, if there is one.  Of more than `TURNS` turns the rest is left.
    """
    start = max(start, index.offset(lowest))
    turn = lowest + bisect_right(range(lowest, index.header.switches), start, key=index.offset) - 1
    before = min(1, turn - lowest)  # only to see that it is one
    turns = list(index.some(turn - before, TURNS + 1 + before))
    sound = _is_sound(turns, start, index.header)
    del turns[:before]
    if len(turns) <= TURNS:
        turns.append((index.header.total + 1, 1 - turns[-1][1]))
    parts: list[Range] = []
    at = start
    for (_, whose), (until, _) in pairwise(turns):
        if at >= end or (whose == stream and not most):
            break
        over = max(at, min(until, end))
        if whose == stream:
            upto = min(over, at + most)
            parts.append((at, upto))
            most -= upto - at
            if upto < over:
                return Selection(start, upto, tuple(parts), sound)
        at = over
    return Selection(start, at, tuple(parts), sound)


def _is_sound(turns: list[tuple[int, int]], start: int, header: RingHeader) -> bool:
    """Whether streams take turns at offsets that rise, from `start` or before to the end, as a writer notes them."""
    return turns[0][0] <= start and all(
        offset < until <= header.end and whose != then for (offset, whose), (until, then) in pairwise(turns)
    )
