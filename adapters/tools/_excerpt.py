"""How much of a job's output goes into one answer, and where it is cut.  Pure.

Rules
- What is bounded is what is shown: the text in UTF-8, or the base64; what is hidden in the bytes can make it longer.
- A piece that is cut ends at a line's end where it has one in its last quarter, else at a character's end.  At least
  one character is taken, so whoever reads on gets on.
"""

from __future__ import annotations

import base64
from typing import final

import attrs

from ...supervisor.output import view_text

# A UTF-8 sequence is no longer.
_LONGEST_CHARACTER = 4


@final
@attrs.frozen(kw_only=True)
class Excerpt:
    """The first, or last, `taken` bytes of some data, as they are shown."""

    taken: int
    output: str
    normalized: bool = False
    binary: bool = False


def as_text(data: bytes, limit: int, *, cut: bool) -> Excerpt:
    """As much of the beginning of `data` as shows in at most `limit` bytes; `cut`: more follows `data` for certain."""
    size = min(len(data), max(limit, _LONGEST_CHARACTER))
    taken = size if size == len(data) and not cut else _end_within(data, size)
    view = view_text(data[:taken])
    while taken > _LONGEST_CHARACTER and (shown := len(view.text.encode())) > limit:
        taken = _end_within(data, _less(taken, limit, shown))
        view = view_text(data[:taken])
    return Excerpt(taken=taken, output=view.text, normalized=view.normalized, binary=view.binary)


def end_as_text(data: bytes, limit: int) -> Excerpt:
    """As much of the end of `data` as shows in at most `limit` bytes."""
    taken = len(data) - _start_from(data, len(data) - min(len(data), max(limit, _LONGEST_CHARACTER)))
    view = view_text(data[len(data) - taken :])
    while taken > _LONGEST_CHARACTER and (shown := len(view.text.encode())) > limit:
        taken = len(data) - _start_from(data, len(data) - _less(taken, limit, shown))
        view = view_text(data[len(data) - taken :])
    return Excerpt(taken=taken, output=view.text, normalized=view.normalized, binary=view.binary)


def as_base64(data: bytes, limit: int) -> Excerpt:
    """As much of the beginning of `data` as encodes to at most `limit` characters, or else to four of them."""
    taken = min(len(data), max(1, limit // 4) * 3)
    return Excerpt(taken=taken, output=base64.b64encode(data[:taken]).decode())


def _less(taken: int, limit: int, shown: int) -> int:
    """How much to try after `taken` bytes have shown as `shown`."""
    return max(_LONGEST_CHARACTER, min(taken - 1, taken * limit // shown))


def _end_within(data: bytes, size: int) -> int:
    """A good place to end a piece of at most `size` bytes, all of `data` included; at least 1, where there are any."""
    line = data.rfind(b"\n", size - size // 4, size) + 1
    if line:
        return line
    end = size
    while end > max(1, size - _LONGEST_CHARACTER + 1) and end < len(data) and _continues(data[end]):
        end -= 1
    return end


def _start_from(data: bytes, first: int) -> int:
    """A good place at or after `first` to begin the last piece of `data`."""
    if not first:
        return 0
    line = data.find(b"\n", first - 1, first + (len(data) - first) // 4) + 1
    if first <= line < len(data):
        return line
    start = first
    while start < min(len(data) - 1, first + _LONGEST_CHARACTER - 1) and _continues(data[start]):
        start += 1
    return start


def _continues(byte: int) -> bool:
    """Whether a byte belongs to a character that began before it."""
    return byte & 0xC0 == 0x80
