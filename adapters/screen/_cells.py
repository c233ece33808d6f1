"""The cells of a screen: pyte's, which pay for what is done to them, and what pyte lacks.

Rules
- What an event may cost is charged before it is done, in cells touched.  A program can ask for a full screen's work
  with three bytes, so the account is what bounds the time.  Nothing reads a clock: what is too much is so everywhere.
- Nothing has a colour here, so what is erased is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

import pyte

# 64 KiB of text cost 260,000, and 64 Ki newlines in 24 lines 1.6 million.  All of it is about two seconds' work.
BUDGET: Final = 4_000_000


class TooMuchError(Exception):
    """The program asks for more than the budget."""


@final
class Account:
    """What has been spent of the budget."""

    def __init__(self) -> None:
        self.spent = 0

    def charge(self, cells: int) -> None:
        """Pay for touching so many cells.  Raises `TooMuchError` where there is not that much left."""
        self.spent += cells
        if self.spent > BUDGET:
            raise TooMuchError


@final
class Cells(pyte.Screen):
    """Pays for what pyte does by itself: scrolling, and making room.  Everything else is charged by its caller."""

    def __init__(self, account: Account, rows: int, cols: int) -> None:
        self._account = account
        super().__init__(cols, rows)

    def index(self) -> None:
        """One line down; at the bottom, all lines up."""
        top, bottom = self.margins or (0, self.lines - 1)
        self._account.charge(bottom - top + 1 if self.cursor.y == bottom else 1)
        super().index()

    def reverse_index(self) -> None:
        """One line up; at the top, all lines down."""
        top, bottom = self.margins or (0, self.lines - 1)
        self._account.charge(bottom - top + 1 if self.cursor.y == top else 1)
        super().reverse_index()

    def insert_characters(self, count: int | None = None) -> None:
        """Also for each character that is drawn in insert mode."""
        self._account.charge(self.columns)
        super().insert_characters(count)

    def erase_in_display(self, how: int = 0, *_: Any, **__: Any) -> None:
        """Nothing is left of what has no colour."""
        rows = range(self.cursor.y + 1, self.lines) if how == 0 else range(self.cursor.y if how == 1 else self.lines)
        for row in rows:
            self.buffer.pop(row, None)
        if how < 2:
            self.erase_in_line(how)

    def next_line(self) -> None:
        """NEL, of which pyte does the one half."""
        self.index()
        self.carriage_return()

    def save_cursor(self) -> None:
        """There is one place for it, not a stack."""
        self.savepoints.clear()
        super().save_cursor()

    def restore_cursor(self) -> None:
        """It can be restored again."""
        saved = bool(self.savepoints)
        super().restore_cursor()
        if saved:
            self.save_cursor()

    def scroll_up(self, count: int) -> None:
        """SU: lines leave at the top margin."""
        self._at_top_margin(self.delete_lines, count)

    def scroll_down(self, count: int) -> None:
        """SD: lines leave at the bottom margin."""
        self._at_top_margin(self.insert_lines, count)

    def line_drawing(self) -> None:
        """Letters become lines, as programs want that know no UTF-8."""
        self.define_charset("0", "(")

    def no_line_drawing(self) -> None:
        """Letters are letters."""
        self.define_charset("B", "(")

    def _at_top_margin(self, act: Callable[[int], None], count: int) -> None:
        column, row = self.cursor.x, self.cursor.y
        self.cursor.y = 0 if self.margins is None else self.margins.top
        act(count)
        self.cursor.x, self.cursor.y = column, row
