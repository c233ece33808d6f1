"""A terminal's picture, as a person has it: of a terminal of the test's own (pyte), or of a real one (tmux)."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import pyte
from cli_ground import HANG_SECONDS, OnTerminal
from crash_tools import without

# A look at another program's picture; it tells nobody when it has changed.
_LOOK_SECONDS = 0.1

Picture = Sequence[str]
"""The lines, without what is blank at their ends."""


def need_program(name: str) -> None:
    """Go on where it is installed; else see `without`."""
    without(name, "what it does on a terminal", None if shutil.which(name) else "it is not installed")


class Screen:
    """What a command on a terminal of the test's own shows."""

    def __init__(self, terminal: OnTerminal) -> None:
        self._terminal = terminal
        self._screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self._screen)
        self._fed = 0

    def resize(self, rows: int, cols: int) -> None:
        self._screen.resize(rows, cols)
        self._terminal.resize(rows, cols)

    def picture(self) -> Picture:
        self._stream.feed(self._terminal.shown[self._fed :])
        self._fed = len(self._terminal.shown)
        return [line.rstrip() for line in self._screen.display]

    def until(self, holds: Callable[[Picture], bool]) -> Picture:
        """The picture, once it is so."""
        deadline = time.monotonic() + HANG_SECONDS
        while not holds(picture := self.picture()):
            assert time.monotonic() < deadline, picture
            self._terminal.take(1.0)
        return picture

    def press_until(self, keys: bytes, holds: Callable[[Picture], bool]) -> None:
        """Press again and again: for who may not have heard, since a signal just before a wait is only noted."""
        deadline = time.monotonic() + HANG_SECONDS
        while not holds(picture := self.picture()):
            assert time.monotonic() < deadline, picture
            self._terminal.press(keys)
            pressed = time.monotonic()
            while time.monotonic() < pressed + 1 and not holds(self.picture()):
                self._terminal.take(0.1)


class Tmux:
    """A window of 80 x 24 of a tmux of its own, with a shell in it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._environment = {name: value for name, value in environment.items() if name not in {"TMUX", "TMUX_PANE"}}
        self._base = ("tmux", "-u", "-S", str(folder / "tmux.sock"), "-f", "/dev/null")
        self._folder = folder

    def __enter__(self) -> Self:
        need_program("tmux")
        # Its prompt is one that nothing else shows.
        self._say("new-session", "-d", "-x", "80", "-y", "24", "-c", str(self._folder), "PS1='ready> ' exec sh")
        self.until(lambda picture: picture[0] == "ready>")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(
            [*self._base, "kill-server"], env=self._environment, capture_output=True, timeout=HANG_SECONDS, check=False
        )

    def type(self, text: str, *keys: str) -> None:
        """Type the text as it is, and then keys by their names."""
        self._say("send-keys", "-l", text)
        if keys:
            self._say("send-keys", *keys)

    def resize(self, rows: int, cols: int) -> None:
        self._say("resize-window", "-x", str(cols), "-y", str(rows))

    def close(self) -> None:
        """Close the window, as a person does it with a mouse."""
        self._say("kill-window")

    def picture(self) -> Picture:
        return [line.rstrip() for line in self._say("capture-pane", "-p").split("\n")]

    def until(self, holds: Callable[[Picture], bool]) -> Picture:
        """The picture, once it is so."""
        deadline = time.monotonic() + HANG_SECONDS
        while not holds(picture := self.picture()):
            assert time.monotonic() < deadline, picture
            time.sleep(_LOOK_SECONDS)
        return picture

    def _say(self, *words: str) -> str:
        done = subprocess.run(
            [*self._base, *words], env=self._environment, capture_output=True, timeout=HANG_SECONDS, check=False
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.decode()
