"""For tests of the text view: hostile units, odd pieces, a slow terminal of one line, and a counter of work."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from hypothesis import strategies as st
from wcwidth import wcwidth

from lastword.supervisor.output import (
    _renderer,  # pyright: ignore[reportPrivateUsage]  # bounds, and what is counted, have no face
    _row,
    _text,  # pyright: ignore[reportPrivateUsage]  # as above
    _visible,  # pyright: ignore[reportPrivateUsage]  # as above
)

# What is cheap to write and might be dear to read: openers, unfinished sequences, and drawing over what is there.
HOSTILE_UNITS: list[bytes] = [
    b"\x1b",
    b"\x1b[",
    b"\x1b[0;",
    b"\x1b]",
    b"\x1b]8;;",
    b"\x1b]0;" + b"title " * 100,
    b"\x1b]66;s=2;",
    b"\x1bP",
    b"\x1b(",
    b"\x1b ",
    b"\x1b[1m",
    b"\x1b[9999D",
    b"x\x1b[D",
    b"\r",
    b"\r\n",
    b"ab\r",
    b"\b",
    b"x\b",
    b"x\x1b[K",
    b"x\x1b[2K",
    b"\r\x1b[K",
    b"\t",
    b"\t\r",
    b"\tx\b\b",
    "\u0301".encode(),
    "\u0301\r".encode(),
    "\u0301\x1b[m".encode(),
    "a\u0301\r".encode(),
    "漢".encode(),
    "漢\r".encode(),
    "漢\ba".encode(),
    "漢\x1b[m".encode(),
    "\u202e".encode(),
    "\U000e0041".encode(),
    b"\xff",
    b"\n",
    b"\0",
]

# Whatever a piece can end in, and what can come next.
_PIECES: list[bytes] = [
    *(b"a", b"bc", b" ", b"0", b";", b"[", b"]", b"(", b"\\", b"P", b"m", b"K", b"2K", b"G", b"D"),
    *(b"\n", b"\r", b"\r\n", b"\b", b"\t", b"\x07", b"\0", b"\x1b", b"\x1b[", b"\x1b]0;t", b"\x1b\\"),
    *(b"\x1b[K", b"\x1b[2K", b"\x1b[1G", b"\x1b[5G", b"\x1b[3D", b"\x1b[31m", b"\x1b]66;s=2;ab\x07"),
    *("漢".encode(), "\u0301".encode(), "\u200d".encode(), "\u202e".encode(), "\ufffd".encode(), "\x9b".encode()),
    *(b"\xe6", b"\xbc", b"\xed", b"\xa0", b"\x80", b"\xf0\x9f", b"\xf4\x90", b"\xc0", b"\xff"),
]

odd_bytes = st.lists(st.sampled_from(_PIECES) | st.binary(max_size=4), max_size=40).map(b"".join)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """`data` in pieces."""
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


@contextmanager
def small_bounds() -> Generator[None]:
    """Rows and sequences end soon, so that a short text reaches every bound."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_row, "ROW_CELLS", 16)
        patch.setattr(_renderer, "SEQUENCE_CHARACTERS", 6)
        yield


def slow_terminal(line: str) -> list[str]:
    """The cells that `line` leaves on an endless row: one character and its marks each, and "" for what a wide one
    covers.  Cell 0 is the margin.  Tabs only move, and leave blanks where nothing was."""
    cells: dict[int, str] = {0: ""}
    covered_by: dict[int, int] = {}

    def erase(column: int) -> None:
        owner = covered_by.get(column, column)
        for index in [each for each in cells if covered_by.get(each, each) == owner]:
            cells[index] = " "
            covered_by.pop(index, None)

    column = 1
    for character in line:
        width = wcwidth(character)
        if character == "\r":
            column = 1
        elif character == "\b":
            column = max(1, column - 1)
        elif character == "\t":
            target = (column - 1) // 8 * 8 + 9
            for index in range(1, target):
                cells.setdefault(index, " ")
            column = target
        elif width == 0:
            owner = covered_by.get(column - 1, column - 1)
            cells[owner] += character
        else:
            for index in range(column, column + width):
                erase(index)
                cells[index] = ""
                covered_by[index] = column
            cells[column] = character
            column += width
    return [cells[index] for index in range(max(cells) + 1)]


def cells_of(text: str) -> list[str]:
    """The cells of a line as it is shown, tabs taken apart."""
    cells = [""]
    for character in text:
        if character == "\t":
            cells += [" "] * (8 - (len(cells) - 1) % 8)
        elif (width := wcwidth(character)) == 0:
            owner = len(cells) - 1
            while owner and not cells[owner]:
                owner -= 1
            cells[owner] += character
        else:
            cells += [character, *[""] * (width - 1)]
    return cells


class Work:
    """What the view of a text costs: lines of Python executed, and characters and cells handed to what is not Python.

    Not seen is what a single operation of an interpreter's string or list costs beyond its length.
    """

    def __init__(self) -> None:
        self.steps = 0

    def of(self, run: Callable[[int], object], size: int) -> int:
        """The work of `run(size)`."""
        files = {module.__file__ for module in (_renderer, _row, _text, _visible)}

        def trace(frame: FrameType, event: str, _: object) -> Any:
            if frame.f_code.co_filename not in files:
                return None
            self.steps += event == "line"
            return trace

        with pytest.MonkeyPatch.context() as patch:
            self._count(patch)
            before = sys.gettrace()
            sys.settrace(trace)
            try:
                run(size)
            finally:
                sys.settrace(before)
        return self.steps

    def _count(self, patch: pytest.MonkeyPatch) -> None:
        def characters(text: str) -> int:
            return len(text)

        def put(_: object, text: str | list[str]) -> int:
            return len(text)

        def erased(this: Any) -> int:
            return len(this._cells[this._column :]) + 1

        def one(_: object) -> int:
            return 1

        renderer: Any = _renderer
        self._wrap(patch, renderer, "iter_sequences", characters)
        self._wrap(patch, renderer, "strip_sequences", characters)
        self._wrap(patch, renderer, "make_visible", characters)
        patch.setattr(renderer, "_UNFINISHED", _CountedPattern(self, renderer._UNFINISHED))
        patch.setattr(renderer, "_MOVE", _CountedPattern(self, renderer._MOVE))
        row: Any = _row.Row
        self._wrap(patch, row, "write", put)
        self._wrap(patch, row, "give", put)
        self._wrap(patch, row, "_replace", put)
        self._wrap(patch, row, "_begin", one)
        self._wrap(patch, row, "erase_right", erased)
        text: property = row.text

        def counted(this: Any) -> Any:
            self.steps += len(this._cells)
            return text.__get__(this)

        patch.setattr(row, "text", property(counted))

        def find(string: str, start: int = 0) -> int:
            found = _visible.find_hidden(string, start)
            self.steps += (len(string) if found < 0 else found) - start + 1
            return found

        patch.setattr(renderer, "find_hidden", find)
        patch.setattr(_text, "find_hidden", find)

    def _wrap(self, patch: pytest.MonkeyPatch, owner: Any, name: str, size: Callable[..., int]) -> None:
        inner: Callable[..., Any] = getattr(owner, name)

        def wrapped(*arguments: Any) -> Any:
            self.steps += size(*arguments)
            return inner(*arguments)

        patch.setattr(owner, name, wrapped)


class _CountedPattern:
    """A pattern whose looks at a text count as all that is left of it: more than it truly sees, never less."""

    def __init__(self, work: Work, pattern: Any) -> None:
        self._work = work
        self._pattern = pattern

    def match(self, text: str, start: int) -> Any:
        self._work.steps += len(text) - start
        return self._pattern.match(text, start)

    def search(self, text: str) -> Any:
        self._work.steps += len(text)
        return self._pattern.search(text)

    def fullmatch(self, text: str) -> Any:
        self._work.steps += len(text)
        return self._pattern.fullmatch(text)
