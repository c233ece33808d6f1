"""A terminal on pyte's screen: which sequences it gets, what they cost, and that no odd one breaks it.

Theory of operation
- pyte keeps the cells, and does well what a well-formed sequence asks.  Its parser is not used: it draws the rest of
  what it does not know (strings, private prefixes, sub-parameters, intermediate bytes), swallows everything behind a
  title that does not end, and hands parameters to methods that do not take them.  wcwidth finds the sequences here, as
  in the text view, and a table says which events they are; all others are dropped whole, colours with them.
- Its `draw` forgets the rest of a run behind a character without a width, so it gets none but combining marks, and of
  these a few for each character.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final, final

from wcwidth import iter_sequences, wcwidth

from ._cells import Account, Cells

_DRAW_COST: Final = 4

# Of Unicode's stream-safe format (UAX #15, 13) there may be thirty; more than a few cannot be told apart.
_MARKS: Final = 8

_CSI: Final = re.compile(r"\x1b\[(\??)([0-9;]{0,64})([@-~])")
_TITLE: Final = re.compile(r"\x1b\][02];([^\x07\x1b]*)(?:\x07|\x1b\\)")
_RUN: Final = re.compile(r"[\x00-\x1f]|[^\x00-\x1f]+")
_LARGEST: Final = 9999  # VT510: what a parameter is cut to

# Final byte of a control sequence -> pyte's event, and how many parameters it takes.
_EVENTS: Final = {
    "@": ("insert_characters", 1),
    "A": ("cursor_up", 1),
    "B": ("cursor_down", 1),
    "C": ("cursor_forward", 1),
    "D": ("cursor_back", 1),
    "E": ("cursor_down1", 1),
    "F": ("cursor_up1", 1),
    "G": ("cursor_to_column", 1),
    "H": ("cursor_position", 2),
    "J": ("erase_in_display", 1),
    "K": ("erase_in_line", 1),
    "L": ("insert_lines", 1),
    "M": ("delete_lines", 1),
    "P": ("delete_characters", 1),
    "X": ("erase_characters", 1),
    "`": ("cursor_to_column", 1),
    "a": ("cursor_forward", 1),
    "d": ("cursor_to_line", 1),
    "e": ("cursor_down", 1),
    "f": ("cursor_position", 2),
    "g": ("clear_tab_stop", 1),
    "r": ("set_margins", 2),
    "s": ("save_cursor", 0),
    "u": ("restore_cursor", 0),
    "S": ("scroll_up", 1),
    "T": ("scroll_down", 1),
}
_KINDS: Final = {"J": {0, 1, 2, 3}, "K": {0, 1, 2}, "g": {0, 3}}
_ESCAPES: Final = {
    "\x1b(0": "line_drawing",
    "\x1b(B": "no_line_drawing",
    "\x1b7": "save_cursor",
    "\x1b8": "restore_cursor",
    "\x1bD": "index",
    "\x1bE": "next_line",
    "\x1bH": "set_tab_stop",
    "\x1bM": "reverse_index",
    "\x1bc": "reset",
}
_CONTROLS: Final = {
    "\b": "backspace",
    "\t": "tab",
    "\n": "linefeed",
    "\v": "linefeed",
    "\f": "linefeed",
    "\r": "carriage_return",
    "\x0e": "shift_out",
    "\x0f": "shift_in",
}
# What the events cost that touch more than a cell; what scrolls pays by itself.
_ALL_LINES: Final = {"erase_in_display", "insert_lines", "delete_lines", "scroll_up", "scroll_down", "reset"}
_ONE_LINE: Final = {"insert_characters", "delete_characters", "erase_characters", "erase_in_line", "tab"}
# IRM and LNM; private: DECOM, DECAWM, DECTCEM.  Of what pyte knows, colours and the width of 132 columns are left out.
_MODES: Final = {4, 20}
_PRIVATE_MODES: Final = {6, 7, 25}
_OTHER_SCREEN: Final = {47, 1047, 1049}


@final
class Terminal:
    """Takes characters, and is a screen."""

    def __init__(self, rows: int, cols: int) -> None:
        self.title: str | None = None
        self.account = Account()
        self._rows = rows
        self._cols = cols
        self._screen = Cells(self.account, rows, cols)
        self._main: tuple[dict[int, Any], Any] | None = None
        self._marks = 0
        self._last = ""

    @property
    def cursor(self) -> tuple[int, int] | None:
        """Row and column, from 0; None while it is hidden."""
        cursor = self._screen.cursor
        return None if cursor.hidden else (cursor.y, min(cursor.x, self._cols - 1))

    @property
    def lines(self) -> list[str]:
        """What is in each row, without the blanks at its end."""
        self.account.charge(self._rows + sum(map(len, self._screen.buffer.values())))
        return [self._line(row) for row in range(self._rows)]

    def feed(self, text: str) -> None:
        """Take the next characters.  Raises `TooMuchError`."""
        for segment, is_sequence in iter_sequences(text):
            if not is_sequence:
                self._write(segment)
            elif segment in _ESCAPES:
                self._do(_ESCAPES[segment])
            elif control := _CSI.fullmatch(segment):
                self._control(control[1] == "?", control[2], control[3])
            elif title := _TITLE.fullmatch(segment):
                self.title = title[1]

    def _line(self, row: int) -> str:
        cells = self._screen.buffer.get(row)
        if cells is None:
            return ""
        shown: list[str] = []
        column, end = 0, min(self._cols, max(cells, default=-1) + 1)
        while column < end:
            data = cells[column].data
            column += 1
            if data and wcwidth(data[0]) > 1 and column < self._cols:
                rest = cells[column].data  # nothing, or marks
                drawn_over = bool(rest) and wcwidth(rest[0]) > 0
                data = " " if drawn_over else data + rest
                column += not drawn_over
            shown.append(data or " ")  # no data: the rest of a wide character that was drawn over
        return "".join(shown).rstrip(" ")

    def _write(self, text: str) -> None:
        for match in _RUN.finditer(text):
            run = match[0]
            if run >= " ":
                self._draw(run)
            elif run in _CONTROLS:
                self._do(_CONTROLS[run])

    def _draw(self, run: str) -> None:
        kept: list[str] = []
        for character in run:
            width = wcwidth(character)
            self._marks = self._marks + 1 if width == 0 else 0
            if width > 0 or (width == 0 and unicodedata.combining(character) and self._marks <= _MARKS):
                kept.append(character)
        self._last = next((each for each in reversed(kept) if wcwidth(each) > 0), self._last)
        self.account.charge(_DRAW_COST * len(run))
        self._do("draw", "".join(kept))

    def _control(self, private: bool, parameters: str, final_byte: str) -> None:
        numbers = [min(int(number[:9] or "0"), _LARGEST) for number in parameters.split(";")]
        if final_byte in "hl":
            for number in numbers:
                self._mode(number, private=private, on=final_byte == "h")
            return
        if final_byte == "b" and not private and self._last:
            self._draw(self._last * (numbers[0] or 1))
            return
        event = _EVENTS.get(final_byte)
        if event is None or (private and final_byte not in "JK"):
            return
        name, count = event
        if final_byte not in _KINDS or numbers[0] in _KINDS[final_byte]:
            self._do(name, *([] if final_byte == "r" and not parameters else numbers[:count]))

    def _mode(self, number: int, *, private: bool, on: bool) -> None:
        if private and number in _OTHER_SCREEN:
            self._change_screen(other=on)
        elif number in (_PRIVATE_MODES if private else _MODES):
            self._do("set_mode" if on else "reset_mode", number, private=private)

    def _change_screen(self, *, other: bool) -> None:
        """To the one of full-screen programs, which begins empty, or back to what was there before."""
        screen = self._screen
        self.account.charge(self._rows)
        if other and self._main is None:
            self._main = dict(screen.buffer), (screen.cursor.x, screen.cursor.y)
            screen.buffer.clear()
        elif not other:
            # Where its beginning was not seen, nothing is known of the other.
            lines, (screen.cursor.x, screen.cursor.y) = self._main or ({}, (0, self._rows - 1))
            self._main = None
            screen.buffer.clear()
            screen.buffer.update(lines)

    def _do(self, name: str, *arguments: Any, **options: Any) -> None:
        """One event of pyte's; one that it cannot do is no event."""
        self.account.charge(self._cost(name))
        try:
            getattr(self._screen, name)(*arguments, **options)
        except (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError):
            self._screen.ensure_hbounds()
            self._screen.ensure_vbounds()

    def _cost(self, name: str) -> int:
        if name in _ALL_LINES:
            return self._rows + self._cols
        return self._cols if name in _ONE_LINE else 1
