"""One line of a terminal: what a program draws over again is there once, as it was last.

Theory of operation
- A row is a list of cells, and a column in it.  A character wider than a cell is in its first one, and nothing ("") is
  in those that it covers; who overwrites one of them leaves blanks in the others, as terminals do.  A tab behind the
  end is such a character, so a line that is never drawn over comes out as it went in.
- What has no cell of its own (marks, joiners, controls that nobody obeys) belongs to the cell before it, and goes with
  it.  Cell 0 is the margin, which only has marks: those of a line that begins with one.
- A row has an end, as has a terminal's.  Then it is given out and another begins, with no newline: nothing that is kept
  grows with the output, and a carriage return leads back to the last such place.

Rules
- The work is linear in what is written: erasing costs what was written before, and nothing is moved or padded because
  of a number that a program gives.  Hence one thing is not as on a terminal: erasing the whole line also goes back to
  its start.
"""

from __future__ import annotations

import re
from typing import Final, final

from wcwidth import wcwidth

# The cells of a row, and as many marks.  A multiple of a tab's.
ROW_CELLS: Final = 64 * 1024
_TAB_CELLS: Final = 8

_RUN: Final = re.compile(r"[\x20-\x7e]+|\r+|\x08+|.", re.DOTALL)


@final
class Row:
    """The row that is being written, and what has been given out (`take`)."""

    __slots__ = ("_cells", "_column", "_given", "_marks", "_weight")

    def __init__(self) -> None:
        self._given: list[str] = []
        self._begin()

    @property
    def text(self) -> str:
        """The row as it is now."""
        marks = self._marks
        if not marks:
            return "".join(self._cells)
        return "".join(
            cell + "".join(marks[index]) if index in marks else cell for index, cell in enumerate(self._cells)
        )

    @property
    def untouched(self) -> bool:
        """Whether nothing has been written to it."""
        return len(self._cells) == 1 and not self._marks

    def write(self, text: str) -> None:
        """Write text without a newline; carriage returns and backspaces move, whatever else has no width is a mark."""
        for match in _RUN.finditer(text):
            run = match[0]
            first = run[0]
            if " " <= first <= "~":
                self._put(run)
            elif first == "\r":
                self.go_to_start()
            elif first == "\b":
                self.go_left(len(run))
            elif first == "\t":
                self._tab()
            elif (width := wcwidth(first)) == 1:
                self._put(first)
            elif width > 1:
                self._put_wide(first, width)
            else:
                self._mark(first)

    def go_to_start(self) -> None:
        """What comes next overwrites the row from its start."""
        self._column = 1

    def go_left(self, cells: int) -> None:
        """Go back by so many cells, at most to the start."""
        self._column = max(1, self._column - cells)

    def erase_right(self) -> None:
        """Erase from the column to the end."""
        self._free(self._column, len(self._cells))
        del self._cells[self._column :]

    def erase_all(self) -> None:
        """Erase the row, and go to its start."""
        self._begin()

    def end(self, closing: str) -> None:
        """Give the row out, with `closing` behind it, and begin another."""
        self.give(self.text + closing)
        self._begin()

    def give(self, text: str) -> None:
        """Give out text that is a line of its own, before the row."""
        self._given.append(text)

    def take(self) -> str:
        """What has been given out since the last call."""
        text = "".join(self._given)
        self._given.clear()
        return text

    def _begin(self) -> None:
        self._cells = [""]
        self._marks: dict[int, list[str]] = {}
        self._weight = 0
        self._column = 1

    def _room(self) -> int:
        return ROW_CELLS + 1 - self._column

    def _put(self, run: str) -> None:
        while run:
            if not self._room():
                self.end("")
            part = run[: self._room()]
            self._replace(part)
            run = run[len(part) :]

    def _put_wide(self, character: str, width: int) -> None:
        if self._room() < width:
            self.end("")
        self._replace([character, *[""] * (width - 1)])

    def _tab(self) -> None:
        if not self._room():
            self.end("")
        beyond = _TAB_CELLS - (self._column - 1) % _TAB_CELLS
        missing = self._column + beyond - len(self._cells)
        if missing == beyond:
            self._put_wide("\t", beyond)
            return
        self._cells.extend(" " * missing)
        self._column += beyond

    def _mark(self, character: str) -> None:
        if self._weight == ROW_CELLS:
            self.end("")
        index = self._column - 1
        while index and not self._cells[index]:
            index -= 1
        self._marks.setdefault(index, []).append(character)
        self._weight += 1

    def _replace(self, cells: str | list[str]) -> None:
        end = self._column + len(cells)
        self._free(self._column, end)
        self._cells[self._column : end] = cells
        self._column = end

    def _free(self, start: int, end: int) -> None:
        """Forget the marks of [start, end), and leave blanks of what is only partly in it."""
        cells = self._cells
        if start >= len(cells):
            return
        if self._marks:
            for index in range(start, min(end, len(cells))):
                self._unmark(index)
        if not cells[start]:
            index = start - 1
            while not cells[index]:
                self._blank(index)
                index -= 1
            self._blank(index)
        while end < len(cells) and not cells[end]:
            self._blank(end)
            end += 1

    def _blank(self, index: int) -> None:
        self._cells[index] = " "
        self._unmark(index)

    def _unmark(self, index: int) -> None:
        self._weight -= len(self._marks.pop(index, ()))
