"""The user's terminal: raw while a job's terminal is connected to it, and as it was on every way out."""

from __future__ import annotations

import contextlib
import os
import termios
import tty
from types import TracebackType
from typing import Self, final

from ._errors import CommandFailedError


@final
class Terminal:
    """The terminal behind a descriptor: raw inside the block, restored at its end, whatever ends it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._before: list[int | list[bytes | int]] = []

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._descriptor)
        # DRAIN, not FLUSH: what was typed while this program began is for the job.
        tty.setraw(self._descriptor, termios.TCSADRAIN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(termios.error):  # it is gone
            # DRAIN: what is still on its way out was meant to go out raw.
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns; of one that says 0, what a terminal has by default."""
        return _size_of(self._descriptor)


def size_here() -> tuple[int, int]:
    """The size of the terminal that standard input is; that of a usual one where it is none."""
    return _size_of(0)


def terminal_here() -> Terminal:
    """The terminal that is standard input.  Raises `CommandFailedError` where it is none."""
    if not os.isatty(0) or not os.isatty(1):
        raise CommandFailedError("--tty needs a terminal on standard input and output; leave it out here", 125)
    return Terminal(0)


def _size_of(descriptor: int) -> tuple[int, int]:
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        return 24, 80
    return size.lines or 24, size.columns or 80
