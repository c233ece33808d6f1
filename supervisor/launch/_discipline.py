"""What a terminal's line discipline makes of what is typed: where lines end, how long they get, what ends a read.

- In canonical mode the system keeps so many bytes of a line and throws the rest away without a word, so they are
  counted as it counts them: after what it maps, and without what only quotes (Ctrl-V: the next byte is one like any
  other, a newline too).
- Where in doubt a line is longer: what erases a character or a word, or starts and stops output, counts as a byte.
"""

from __future__ import annotations

import re
import termios
from typing import Any, Final, final

import attrs

_IFLAG, _LFLAG, _CHARACTERS = 0, 3, 6  # of what tcgetattr gives

_SIGNALS: Final = (termios.VINTR, termios.VQUIT, termios.VSUSP)  # such a key does away with what was typed before it

_DISABLED: Final = (b"\0", b"\xff")  # _POSIX_VDISABLE: of Linux, of BSD

_SEVEN_BITS: Final = bytes(byte & 0x7F for byte in range(256))

_MARK: Final = b"\xff"
"""What is there twice where a mode marks errors by it."""


@attrs.frozen
class Line:
    """One that is unfinished: its bytes so far, and whether the next one is `quoted`."""

    length: int = 0
    quoted: bool = False


@final
class Discipline:
    """The mode of a terminal at one moment, as far as it is of interest here."""

    __slots__ = ("_marks", "_ordinary", "_pairs", "_quote", "_strips", "_to_newlines", "canonical", "end_of_file")

    def __init__(self, attributes: list[Any]) -> None:
        """As from `tcgetattr`."""
        characters: list[bytes] = attributes[_CHARACTERS]
        flags: int = attributes[_LFLAG]
        mapped: int = attributes[_IFLAG]
        extended = bool(flags & termios.IEXTEN)
        self.canonical = bool(flags & termios.ICANON)
        self.end_of_file = _enabled(characters[termios.VEOF])
        """The character, None where there is none."""
        keys = [termios.VEOF, termios.VEOL, termios.VKILL]
        if extended:
            keys.append(termios.VEOL2)
        if flags & termios.ISIG and not flags & termios.NOFLSH:
            keys += _SIGNALS
        ends = {key for number in keys if (key := _enabled(characters[number])) is not None}
        if not mapped & termios.INLCR:
            ends.add(b"\n")
        if mapped & termios.ICRNL and not mapped & termios.IGNCR:
            ends.add(b"\r")
        self._strips = bool(mapped & termios.ISTRIP)
        self._marks = bool(mapped & termios.PARMRK)
        self._quote = _enabled(characters[termios.VLNEXT]) if extended else None
        # For what is a byte of a line whatever it is.
        special = ends | {b"\n", self._quote}
        self._ordinary = next(byte for number in range(256) if (byte := bytes([number])) not in special)
        self._pairs = None if self._quote is None else re.compile(re.escape(self._quote) + b".", re.DOTALL)
        table = bytearray(range(256))
        table[ord("\n")] = ord(self._ordinary)
        for end in ends:
            table[ord(end)] = ord("\n")
        self._to_newlines = bytes(table)

    def after(self, line: Line, data: bytes) -> tuple[int, Line]:
        """How long the longest line is once `data` was typed behind `line`, and the unfinished one that it leaves."""
        if not self.canonical:
            return 0, Line()
        if self._strips:
            data = data.translate(_SEVEN_BITS)
        if self._marks:
            data = data.replace(_MARK, _MARK + _MARK)
        quoted = False
        if self._pairs is not None and self._quote is not None:
            data = self._pairs.sub(self._ordinary, self._quote + data if line.quoted else data)
            quoted = data.endswith(self._quote)  # of those that are left it can only be at the end
            data = data.removesuffix(self._quote)
        lengths = [len(part) for part in data.translate(self._to_newlines).split(b"\n")]
        lengths[0] += line.length
        return max(lengths), Line(lengths[-1], quoted)

    def end_behind(self, line: Line) -> bytes:
        """What is to be typed behind `line` for the end of a read that has nothing; nothing where there is none."""
        if self.end_of_file is None:
            return b""
        if not self.canonical:
            return self.end_of_file
        # One hands over an unfinished line; one that is quoted is a byte of it.
        return self.end_of_file * (3 if line.quoted else 2 if line.length else 1)


def _enabled(character: bytes) -> bytes | None:
    return None if character in _DISABLED else character
