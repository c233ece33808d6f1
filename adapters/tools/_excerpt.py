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

from ...supervisor import TextView
from ...supervisor.output import view_text

# A UTF-8 sequence is no longer.
_LONGEST_CHARACTER = 4


@final
@attrs.frozen(kw_only=True)
class Excerpt:
    """The first `taken` bytes of some data, as they are shown."""

    taken: int
    output: str
    normalized: bool = False
    binary: bool = False


def as_text(data: bytes, limit: int, *, cut: bool) -> Excerpt:
    """As much of the beginning of `data` as shows in at most `limit` bytes; `cut`: more follows `data` for certain."""
    size = min(len(data), max(limit, _LONGEST_CHARACTER))
    taken = size if size == len(data) and not cut else _whole(data, size)
    view = _view(data, taken)
    while taken > _LONGEST_CHARACTER and (shown := len(view.text.encode())) > limit:
        taken = _whole(data, max(_LONGEST_CHARACTER, min(taken - 1, taken * limit // shown)))
        view = _view(data, taken)
    return Excerpt(taken=taken, output=view.text, normalized=view.normalized, binary=view.binary)


def as_base64(data: bytes, limit: int) -> Excerpt:
    """As much of the beginning of `data` as encodes to at most `limit` characters, or else to four of them."""
    taken = min(len(data), max(1, limit // 4) * 3)
    return Excerpt(taken=taken, output=base64.b64encode(data[:taken]).decode())


def _view(data: bytes, taken: int) -> TextView:
    return view_text(data[:taken])


def _whole(data: bytes, size: int) -> int:
    """A good place to cut `data` at, at most `size`."""
    line = data.rfind(b"\n", size - size // 4, size) + 1
    if line:
        return line
    end = size
    while end > max(1, size - _LONGEST_CHARACTER + 1) and end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return end
