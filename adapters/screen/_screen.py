"""The screen of a job, as lines for a model.

Rules
- Whatever a job has written, `render_screen` returns, within a bounded time and memory: it sees the last `MAX_BYTES`,
  and a terminal has a budget (`_cells`).  What it cannot do as a terminal it says (`degraded`) and does as text.
- What it returns can be shown as it is, as a `TextView`.
"""

from __future__ import annotations

import re
from typing import Final, final

import attrs

from ...supervisor import TerminalSize
from ...supervisor.output import make_visible, view_text

try:
    from ._cells import TooMuchError
    from ._terminal import Terminal
except ModuleNotFoundError as error:
    if error.name != "pyte":
        raise
    raise ModuleNotFoundError("a screen needs an extra: pip install 'lastword[screen]'", name="pyte") from None

# Full-screen programs draw a screen in far less; pyte takes about a second for as much.
MAX_BYTES: Final = 64 * 1024

# The largest terminal, in rows and in columns.
MAX_SIDE: Final = 1000

# Titles are shown in one line, if at all.
_TITLE_CHARACTERS: Final = 256

# A cut may be within a sequence.  Where one begins, or a line, is a clean start.
_CLEAN_START: Final = re.compile(rb"[\n\x1b]")
_LONGEST_SEARCH: Final = 4096


@final
@attrs.frozen(kw_only=True)
class Screen:
    """What a terminal shows.

    - `lines`: its rows from the top, without the blanks at their ends; as many as the terminal has.
    - `cursor`: (row, column) from 0; None while the program hides it.
    - `title`: the last one that the program has set.
    - `degraded`: it is not what a terminal would show but the end of the text; no cursor, no title, no more lines than
      the terminal has.
    """

    lines: tuple[str, ...]
    cursor: tuple[int, int] | None
    title: str | None
    degraded: bool

    @property
    def text(self) -> str:
        """The lines down to the last that is not empty."""
        return "\n".join(self.lines).rstrip("\n")


def render_screen(data: bytes, size: TerminalSize) -> Screen:
    """What a terminal of `size` shows after `data`, of which the last 64 KiB are looked at.

    `data` is what a job with a terminal (`pty=`) has written: a newline alone does not go to the line's start.  What
    was drawn before the last 64 KiB and has stayed since is missing.  Never raises.
    """
    tail = _tail(data)
    if max(size.rows, size.cols) <= MAX_SIDE:
        terminal = Terminal(size.rows, size.cols)
        try:
            terminal.feed(tail.decode("utf-8", errors="replace"))
            lines = tuple(map(make_visible, terminal.lines))
        except TooMuchError:
            pass
        except Exception:  # noqa: S110 -- whatever pyte may yet find; the text is still there
            pass
        else:
            title = terminal.title and make_visible(terminal.title[:_TITLE_CHARACTERS])
            return Screen(lines=lines, cursor=terminal.cursor, title=title, degraded=False)
    text = view_text(tail).text.removesuffix("\n")
    last = text.rsplit("\n", size.rows)[-size.rows :]
    return Screen(lines=tuple(line[: size.cols] for line in last), cursor=None, title=None, degraded=True)


def _tail(data: bytes) -> bytes:
    if len(data) <= MAX_BYTES:
        return data
    tail = data[-MAX_BYTES:]
    start = _CLEAN_START.search(tail, 0, _LONGEST_SEARCH)
    return tail if start is None else tail[start.start() :]
