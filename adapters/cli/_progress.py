"""One line on stderr for work that takes long: how long it has taken, how much it has written.

Rules
- Only on a terminal that can rewrite a line, and only after some seconds without output there: quick work leaves no
  trace.
- The line is taken away before anything else is written to the same terminal, and when all is over.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Final, final

import anyio

from ._format import age, size

PATIENCE_SECONDS: Final = 3.0
"""How long nothing is shown: what ends sooner was not long."""

_EVERY_SECONDS: Final = 1.0
_STDERR: Final = 2
_ERASE: Final = "\r\x1b[K"


def progress_line(elapsed: float, total: int, state: str, columns: int) -> str:
    """`lastword: 12s, 1.5 MiB of output, running`, at most so wide."""
    return f"lastword: {age(elapsed)}, {size(total)} of output, {state}"[: max(0, columns - 1)]


@final
class Progress:
    """The line; `total` and `state` are what it says."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown and os.isatty(_STDERR) and os.environ.get("TERM", "dumb") != "dumb"
        self._began = self._quiet_since = time.monotonic()
        self._at_line_start = True
        self._drawn = False
        self.total = 0
        self.state = "running"

    async def run(self) -> None:
        """Draw it again and again, until cancelled."""
        if not self._shown:
            return
        try:
            while True:
                await anyio.sleep(_EVERY_SECONDS)
                now = time.monotonic()
                if now - self._quiet_since >= PATIENCE_SECONDS and self._at_line_start:
                    self._draw(now - self._began)
        finally:
            self.clear()

    def wrote(self, data: bytes, descriptor: int) -> None:
        """Before `data` goes there: the line makes room, where that is a terminal."""
        if os.isatty(descriptor):
            self.clear()
            self._quiet_since = time.monotonic()
            self._at_line_start = data.endswith(b"\n")

    def clear(self) -> None:
        """Take the line away."""
        if self._drawn:
            self._drawn = False
            self._put(_ERASE)

    def _draw(self, elapsed: float) -> None:
        try:
            columns = os.get_terminal_size(_STDERR).columns
        except OSError:
            return
        self._drawn = True
        self._put(_ERASE + progress_line(elapsed, self.total, self.state, columns or 80))

    @staticmethod
    def _put(text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that is gone
            os.write(_STDERR, text.encode())
