"""Output as text that can be shown: to a model, in a log, on a terminal that must not obey it.

Pure functions, linear in their input.  The order matters: decode, resolve lines as a terminal would (CR goes back to
the line's start and is overwritten; CR LF is one line end), strip escape sequences, make visible what is left of
control and bidirectional characters.  Raw bytes are always available beside it, so nothing here has to be undone.
"""

from __future__ import annotations

import re
from typing import final

import attrs
from wcwidth import strip_sequences

# Part of a chunk that does not decode before it is called binary: text in an old encoding has a few bad bytes, an
# image or archive has about a third.
_BINARY_SHARE = 0.10

# What moves or clears within a line: CR, and "erase in line" (to its right; all of it), which progress bars write
# beside a CR.  After erasing all, a terminal stays in its column; here the line starts anew, or the padding alone would
# make the work quadratic.
_LINE_CONTROL = re.compile(r"\r|\x1b\[([02]?)K")

# Bidirectional controls can make shown text read as other text (CVE-2021-42574).
_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

_VISIBLE: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"},  # the control pictures block
    0x7F: "\u2421",
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
    **{ord(char): f"\\u{ord(char):04x}" for char in _BIDI},
}


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
    binary = b"\0" in data or bad > len(decoded) * _BINARY_SHARE
    text = _show(decoded)
    return TextView(text=text, binary=binary, normalized=bad > 0 or text != decoded)


def _show(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    lines = [_resolve_line(line) for line in text.split("\n")]
    return "\n".join(lines).translate(_VISIBLE)


def _resolve_line(line: str) -> str:
    """`line` as a terminal would leave it, its escape sequences gone."""
    line = line.removesuffix("\r")
    if "\r" not in line and "\x1b" not in line:
        return line
    cells: list[str] = []
    column = 0
    start = 0
    for control in _LINE_CONTROL.finditer(line):
        column = _write(cells, column, line[start : control.start()])
        start = control.end()
        if control[0] == "\r":
            column = 0
        elif control[1] == "2":
            cells.clear()
            column = 0
        else:
            del cells[column:]
    _write(cells, column, line[start:])
    return "".join(cells)


def _write(cells: list[str], column: int, text: str) -> int:
    """Overwrite `cells` from `column` with `text`; the column after it."""
    if text:
        text = strip_sequences(text)
        cells[column : column + len(text)] = text
    return column + len(text)
