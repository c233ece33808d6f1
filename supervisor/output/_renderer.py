"""Output as text, piece by piece: whatever the pieces, the text is that of the whole.

Theory of operation
- Decode, take the lines apart, find the escape sequences in each (wcwidth knows them), let a row do what moves within
  a line, make visible what is left.  Sequences come before characters: a carriage return in a title is none.
- What is not finished at a piece's end is held back: bytes of a character, an escape sequence, the last line, which may
  still be drawn over.  All of it is bounded.

Rules
- A sequence ends on its line, and has no more than `SEQUENCE_CHARACTERS`.  One that does not is none: its beginning is
  dropped as wcwidth drops it, and the rest is text.  So nothing can hide more than that from a reader.
- Of what moves the cursor, only that counts which stays on the line and needs no padding: carriage return, backspace,
  cursor left, cursor to column 1, and erasing to the right or the whole line.
- A line on which nothing moves takes a short way; it must end in the same text.
"""

from __future__ import annotations

import codecs
import re
from typing import Final, final

from wcwidth import iter_sequences, strip_sequences

from ._row import ROW_CELLS, Row
from ._visible import find_hidden, make_visible

# Links and titles are shorter than this; images are not.
SEQUENCE_CHARACTERS: Final = 4096

# ECMA-48: EL, CHA, CUB.
_MOVE: Final = re.compile(r"\x1b\[([0-9]*)([KGD])")

# What may become one of wcwidth's sequences with what follows: a control sequence, a string, any other escape.
_UNFINISHED: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]P_^][^\x07\x1b]*\x1b?|[ -/]*)\Z")


@final
class TextRenderer:
    """Renders output as text while it is written, such as the chunks of `follow()`.

    The texts that `feed` and `finish` return make up what `OutputChunk.text` gives for the same bytes in one chunk.
    Take another one behind a gap.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lines = Lines()

    @property
    def line(self) -> str:
        """The last line as it looks by now; it is returned once it has ended."""
        return self._lines.open_line

    def feed(self, data: bytes) -> str:
        """Take more output, and return the lines that have ended in it, each with its newline.

        A line of more than 65,536 cells is returned in pieces.  Never raises for any bytes.
        """
        return self._lines.feed(self._decoder.decode(data))

    def finish(self) -> str:
        """Return what is left: nothing follows.  The renderer is then as new."""
        text = self._lines.feed(self._decoder.decode(b"", final=True)) + self._lines.finish()
        self._decoder.reset()
        return text


@final
class Lines:
    """The same for characters."""

    __slots__ = ("_held", "_row")

    def __init__(self) -> None:
        self._row = Row()
        self._held = ""

    @property
    def open_line(self) -> str:
        """The line that has not ended, without what is held back of a sequence."""
        return make_visible(self._row.text)

    def feed(self, text: str) -> str:
        """Take more, and return the lines that have ended."""
        start = 0
        while (end := text.find("\n", start)) >= 0:
            if self._row.untouched and not self._held:
                start = self._skip(text, start)
                if (end := text.find("\n", start)) < 0:
                    break
                short = _short_way(text[start:end])
                if short is not None:
                    self._row.give(short + "\n")
                    start = end + 1
                    continue
            self._write(text[start:end], ends=True)
            self._row.end("\n")
            start = end + 1
        self._write(text[start:], ends=False)
        return make_visible(self._row.take())

    def finish(self) -> str:
        """Return what is left."""
        self._write("", ends=True)
        self._row.end("")
        return make_visible(self._row.take())

    def _skip(self, text: str, start: int) -> int:
        """Give out the lines from `start` on in which there is nothing to do; where the first other one begins."""
        hidden = find_hidden(text, start)
        line = text.rfind("\n", start, len(text) if hidden < 0 else hidden) + 1 or start
        self._row.give(text[start:line])
        return line

    def _write(self, text: str, *, ends: bool) -> None:
        """Write a line, or its next piece if it does not end here."""
        text = self._held + text
        self._held = ""
        if "\x1b" not in text:
            self._row.write(text)
            return
        # Only the last escape can be unfinished, or the one before it that the last may be about to end.
        last = text.rfind("\x1b")
        if last == len(text) - 1:
            last = max(0, text.rfind("\x1b", 0, last))
        at = 0
        for segment, is_sequence in iter_sequences(text):
            if not is_sequence:
                self._row.write(segment)
            elif not ends and at >= last and _UNFINISHED.match(text, at):
                self._hold(text[at:])
                return
            else:
                self._obey(segment)
            at += len(segment)

    def _hold(self, sequence: str) -> None:
        """Wait for the rest of `sequence`, unless it is too long for one."""
        if len(sequence) <= SEQUENCE_CHARACTERS:
            self._held = sequence
            return
        if sequence.endswith("\x1b"):
            self._held = "\x1b"
            sequence = sequence[:-1]
        self._row.write(strip_sequences(sequence))

    def _obey(self, sequence: str) -> None:
        if len(sequence) > SEQUENCE_CHARACTERS + 1:  # one less was too long to be waited for
            closing = 2 if sequence.endswith("\x1b\\") else 1
            self._row.write(strip_sequences(sequence[:-closing]) + strip_sequences(sequence[-closing:]))
        elif move := _MOVE.fullmatch(sequence):
            self._move(move[2], min(int(move[1] or "0"), ROW_CELLS))
        else:
            self._row.write(strip_sequences(sequence))  # a lone escape is text, and so is what a sized text holds

    def _move(self, final_byte: str, number: int) -> None:
        if final_byte == "D":
            self._row.go_left(number or 1)
        elif final_byte == "G" and number <= 1:
            self._row.go_to_start()
        elif final_byte == "K" and number == 0:
            self._row.erase_right()
        elif final_byte == "K" and number == 2:
            self._row.erase_all()


def _short_way(line: str) -> str | None:
    """The text of a whole line, if nothing moves on it."""
    if "\x1b" in line:
        if len(line) > SEQUENCE_CHARACTERS or _MOVE.search(line):
            return None
        line = strip_sequences(line)
    line = line.removesuffix("\r")
    return None if "\r" in line or "\b" in line else line
