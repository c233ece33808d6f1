"""`lastword ps --watch`: the jobs as they are, again when something has become of one.

Theory of operation
- A server tells events; each burst of them is one look at the directory's files.  Ages and sizes are looked at anew now
  and then, since nothing tells them.  Where nobody serves, looking now and then is all.
- A terminal that can be drawn on shows the whole, and is left with its last state, whatever ends this (so the cursor
  is not hidden); elsewhere a line is printed for each job that is not as it was.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import anyio
from wcwidth import wcswidth

from ..serve import Client, ConnectionLostError
from ._following import connected
from ._job_info import JobInfo
from ._look import jobs_of, look
from ._look_journal import last_sequence
from ._print import plain, print_json
from ._ps import HEADINGS, rows_of, shown

# How often ages and sizes are looked at; and how soon after one look there is the next, whatever happens.
REFRESH_SECONDS: Final = 2.0
REST_SECONDS: Final = 0.25

_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


async def watch(state: Path, *, everything: bool, as_json: bool) -> None:
    """Show them until Ctrl-C."""
    on_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not as_json
    view = _Screen(everything=everything) if on_terminal else _Changes(everything=everything, as_json=as_json)
    while True:
        await _watch_holder(state, view)


async def _watch_holder(state: Path, view: _Screen | _Changes) -> None:
    """As long as who is connected now stays; a while, where nobody is."""
    async with connected(state) as client, anyio.create_task_group() as tasks:
        pulse = _Pulse()
        if client is not None:
            # Before the first look, so that nothing is missed between the two.
            tasks.start_soon(pulse.listen, client, last_sequence(state))
        while True:
            view.show(jobs_of(look(state)))
            if pulse.over:
                return
            await anyio.sleep(REST_SECONDS)
            await pulse.wait(REFRESH_SECONDS)
            if client is None:
                tasks.cancel_scope.cancel()
                return


class _Pulse:
    """Whether something has happened since the last look."""

    def __init__(self) -> None:
        self._beat = anyio.Event()
        self.over = False

    async def listen(self, client: Client, after: int) -> None:
        """Until the server ends."""
        try:
            async for _ in client.events(after, follow=True):
                self._beat.set()
        except ConnectionLostError:
            self.over = True
            self._beat.set()

    async def wait(self, patience: float) -> None:
        """Until something happens, or has happened, or so many seconds are over."""
        with anyio.move_on_after(patience):
            await self._beat.wait()
        self._beat = anyio.Event()


class _Screen:
    """The whole, drawn over itself."""

    def __init__(self, *, everything: bool) -> None:
        self._everything = everything
        self._put(_HOME + _REST_OF_SCREEN)

    def show(self, jobs: Sequence[JobInfo]) -> None:
        """Draw them."""
        size, now = os.get_terminal_size(), datetime.now().astimezone()
        lines = aligned([HEADINGS, *rows_of(shown(jobs, everything=self._everything), now)], size.columns or 80)
        room = max(2, (size.lines or 24) - 1)
        if len(lines) > room:
            lines = [*lines[: room - 1], f"... and {len(lines) - room + 1} more"]
        self._put(_HOME + "".join(f"{line}{_REST_OF_LINE}\n" for line in lines) + _REST_OF_SCREEN)

    @staticmethod
    def _put(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


class _Changes:
    """A line for each job that is not as it was; so the end of one that was shown, too."""

    def __init__(self, *, everything: bool, as_json: bool) -> None:
        self._everything = everything
        self._as_json = as_json
        self._known: dict[str, str] = {}

    def show(self, jobs: Sequence[JobInfo]) -> None:
        """Print what is new."""
        wanted = {job.handle for job in shown(jobs, everything=self._everything)} | self._known.keys()
        for job in jobs:
            if job.handle not in wanted or self._known.get(job.handle) == job.state:
                continue
            self._known[job.handle] = job.state
            if self._as_json:
                print_json(job.to_json())
            else:
                (row,) = rows_of([job], datetime.now().astimezone())
                sys.stdout.write("\t".join(map(plain, row)) + "\n")
        sys.stdout.flush()


def aligned(rows: Sequence[Sequence[str]], columns: int) -> list[str]:
    """The rows in columns of cells, two apart, each cut at the terminal's edge."""
    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    return [
        _cut("  ".join(_padded(*pair) for pair in zip(row, widths, strict=True)).rstrip(), columns) for row in cells
    ]


def _width(text: str) -> int:
    return len(text) if text.isascii() else max(0, wcswidth(text))


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _cut(text: str, columns: int) -> str:
    while _width(text) > columns:
        text = text[: columns if text.isascii() else -1]
    return text
