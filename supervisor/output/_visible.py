"""Which characters are never shown as they are, and what is shown instead.

Rules
- A character is here since what shows it would obey it, or since nobody would see it while a model reads it.  Newline
  and tab are text.
- C0 and DEL become their control pictures (Unicode block U+2400), all others their escape as Python writes it.
- What a script or an emoji needs stays as it is: joiners, variation selectors, marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# ECMA-48, 5.2 and 5.3: the control characters of both sets.
_C0: Final = [code for code in range(0x20) if chr(code) not in "\t\n"]
_DELETE: Final = 0x7F
_C1: Final = range(0x80, 0xA0)

# Unicode UAX #9, table 4 and UTR #36, 2.2 ("Trojan Source", CVE-2021-42574): embeddings, overrides and isolates, and
# the marks LRM, RLM and ALM, make text read as other text.
_BIDI: Final = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]

# Unicode 5.8: line and paragraph separator.  Many readers begin a new line at them; `str.splitlines` does.
_SEPARATORS: Final = [0x2028, 0x2029]

# Unicode block "Tags": copies of ASCII that no font shows and models read ("ASCII smuggling").  Three flags need them
# (UTS #51, ED-14a), and are shown taken apart.
_TAGS: Final = range(0xE0000, 0xE0080)

_VISIBLE: Final[dict[int, str]] = {
    **{code: chr(0x2400 + code) for code in _C0},
    _DELETE: "\u2421",
    **{code: f"\\x{code:02x}" for code in _C1},
    **{code: f"\\u{code:04x}" for code in [*_BIDI, *_SEPARATORS]},
    **{code: f"\\U{code:08x}" for code in _TAGS},
}


def _ranges(codes: Iterable[int]) -> str:
    """A regular expression's class of them.  As ranges: of single characters it is forty times slower."""
    runs: list[list[int]] = []
    for code in sorted(codes):
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in runs) + "]"


_HIDDEN: Final = re.compile(_ranges(_VISIBLE))


def find_hidden(text: str, start: int = 0) -> int:
    """Where the first character is, from `start` on, that must not be shown as it is; -1 if there is none."""
    found = _HIDDEN.search(text, start)
    return -1 if found is None else found.start()


def make_visible(text: str) -> str:
    """`text` with everything that must not be shown as it is replaced."""
    if text.isascii():
        return text.translate(_VISIBLE)  # far the fastest for ASCII, and far the slowest for other text
    return _HIDDEN.sub(lambda found: _VISIBLE[ord(found[0])], text)
