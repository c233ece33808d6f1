"""Output as text that can be shown: to a model, in a log, on a terminal that must not obey it.

Rules
- Pure, linear in the data, and never an exception.  The raw bytes are always there beside it, so nothing that is done
  here has to be undone.
- No control character is left but newline and tab, and no surrogate: any JSON can hold it.
- A view's view is the same text.
"""

from __future__ import annotations

from typing import Final, final

import attrs

from ._renderer import Lines
from ._visible import find_hidden

# Of the characters that it decodes to, how many may be no UTF-8 before data is called binary.  Texts in one of the
# European 8-bit encodings have less, while what is compressed has more than a third and programs have NULs.
_BINARY_SHARE: Final = 0.10

# A chunk may begin within a character: that many bytes of it at most.
_CUT_BYTES: Final = 3


@final
@attrs.frozen(kw_only=True)
class TextView:
    """`text` can be shown as it is; `binary`: the data is hardly text; `normalized`: it differs from the plain data."""

    text: str
    binary: bool
    normalized: bool


def view_text(data: bytes) -> TextView:
    """`data` as text.  Never raises; bytes that are not UTF-8 become U+FFFD."""
    decoded = data.decode("utf-8", errors="replace")
    bad = decoded.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    text = _render(decoded)
    return TextView(text=text, binary=_is_binary(data, bad, len(decoded)), normalized=bad > 0 or text != decoded)


def _is_binary(data: bytes, bad: int, characters: int) -> bool:
    """As git and grep have it: a NUL; or too little of it decodes, what a cut has left of a character not counted."""
    if b"\0" in data:
        return True
    cut = 0
    while cut < _CUT_BYTES and data[cut : cut + 1] and data[cut] & 0xC0 == 0x80:
        cut += 1
    return bad - cut > characters * _BINARY_SHARE


def _render(text: str) -> str:
    # What a program writes to a terminal has no more than its line ends, most of the time.
    for plain in (text, text.replace("\r\n", "\n")):
        if find_hidden(plain) < 0:
            return plain
    lines = Lines()
    return lines.feed(text) + lines.finish()
