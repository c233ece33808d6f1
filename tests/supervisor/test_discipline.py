"""What a terminal makes of what is typed, as it is foretold: compared with what the system's own terminals do."""

from __future__ import annotations

import itertools
import os
import random
import select
import termios
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from lastword.supervisor.launch._discipline import Discipline, Line
from lastword.supervisor.launch._terminal import MAX_LINE_BYTES

IFLAG, LFLAG, CHARACTERS = 0, 3, 6

Change = Callable[[list[Any]], None]


def flags(*, on: int = 0, off: int = 0, of: int = IFLAG, key: tuple[int, bytes] | None = None) -> Change:
    """Something else about a mode than what is usual."""

    def change(mode: list[Any]) -> None:
        mode[of] = mode[of] & ~off | on
        if key is not None:
            mode[CHARACTERS][key[0]] = key[1]

    return change


MODES: dict[str, Change] = {
    "usual": flags(),
    "no CR to NL": flags(off=termios.ICRNL),
    "NL to CR": flags(on=termios.INLCR, off=termios.ICRNL),
    "CR ignored": flags(on=termios.IGNCR),
    "seven bits": flags(on=termios.ISTRIP),
    "errors marked": flags(on=termios.PARMRK),
    "nothing extended": flags(off=termios.IEXTEN, of=LFLAG, key=(termios.VEOL2, b"x")),
    "another end": flags(key=(termios.VEOL, b"x")),
    "a second other end": flags(key=(termios.VEOL2, b"x")),
    "another quote": flags(key=(termios.VLNEXT, b"x")),
    "no quote": flags(key=(termios.VLNEXT, b"\0")),
    "no keys that signal": flags(off=termios.ISIG, of=LFLAG),
    "keys that signal and keep": flags(on=termios.NOFLSH, of=LFLAG),
}

# What may come between two runs of ordinary bytes.  Not a key that signals: it throws away what was not read yet.
KEYS = (b"\n", b"\r", b"\x16", b"\x15", b"\x04", b"x", b"\x7f", b"\x17", b"\x96", b"\xff")
LENGTHS = (100, 1300, 1400, 2047, 2048, 4095, 4096)
SHORT = 10

Plan = list[tuple[int, bytes]]
"""Lengths of runs, and the keys behind each."""


@contextmanager
def _terminal(change: Change) -> Generator[tuple[int, int]]:
    """Both sides, nobody's controlling terminal, without an echo."""
    master, slave = os.openpty()
    try:
        mode = termios.tcgetattr(slave)
        mode[LFLAG] &= ~termios.ECHO
        change(mode)
        termios.tcsetattr(slave, termios.TCSANOW, mode)
        os.set_blocking(master, False)
        yield master, slave
    finally:
        os.close(master)
        os.close(slave)


def _read(master: int, slave: int, typed: bytes) -> bytes:
    """All that is read of `typed` once everything was taken in."""
    rest = typed + b"b\x04Z\x04"  # the first b may be quoted; then what is unfinished is handed over, and a last word
    read = b""
    deadline = time.monotonic() + 30
    while not read.endswith(b"Z"):
        assert time.monotonic() < deadline, "it is never read"
        readable, writable, _ = select.select([slave], [master] if rest else [], [], 1)
        if writable:
            rest = rest[os.write(master, rest[:2000]) :]
        if readable:
            read += os.read(slave, 8192)
    return read


def _typed(plan: Plan, length: Callable[[int], int] = int) -> bytes:
    return b"".join(b"%c" % letter * length(run) + keys for letter, (run, keys) in enumerate(plan, ord("A")))


def _is_taken(discipline: Discipline, typed: bytes, places: list[int]) -> bool:
    """In pieces; none of them is refused."""
    line = Line()
    for start, end in itertools.pairwise([0, *places, len(typed)]):
        longest, line = discipline.after(line, typed[start:end])
        if longest > MAX_LINE_BYTES:
            return False
    return True


@pytest.mark.parametrize("name", MODES)
def test_nothing_that_is_taken_is_cut(name: str) -> None:
    """Whatever is typed, in any pieces: if no line is too long as it is counted here, no byte of it is missing.

    What a key takes back of each run is known from the same with short runs.
    """
    chance = random.Random(name)
    taken = {True: 0, False: 0}
    for _ in range(40):
        plan = [
            (chance.choice(LENGTHS), b"".join(chance.choices(KEYS, k=chance.randrange(3))))
            for _ in range(chance.randrange(1, 5))
        ]
        typed = _typed(plan)
        with _terminal(MODES[name]) as (master, slave):
            places = sorted(chance.randrange(len(typed) + 1) for _ in range(3))
            fits = _is_taken(Discipline(termios.tcgetattr(master)), typed, places)
            taken[fits] += 1
            if not fits:
                continue
            read = _read(master, slave, typed)
            short = _read(master, slave, _typed(plan, lambda _: SHORT))
        for letter, (run, _) in enumerate(plan, ord("A")):
            left = short.count(letter)
            assert read.count(letter) == (run - SHORT + left if left else 0), (plan, chr(letter))
    assert min(taken.values()) > 3


LONGEST = b"a" * MAX_LINE_BYTES


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("usual", LONGEST + b"\n" + LONGEST + b"\r" + LONGEST),
        ("usual", b"\x16\n" * MAX_LINE_BYTES),
        ("usual", b"\x16\x16" + LONGEST[1:] + b"\x15" + LONGEST + b"\x16"),
        ("another quote", b"x\x15" + LONGEST[1:]),
        ("no quote", LONGEST[1:] + b"\x16\n" + LONGEST),
        ("nothing extended", LONGEST[1:] + b"\x16\n" + LONGEST),
        ("nothing extended", LONGEST[1:] + b"x"),
        ("another end", LONGEST + b"x" + LONGEST),
        ("a second other end", LONGEST + b"x" + LONGEST),
        ("seven bits", LONGEST + b"\x8a" + LONGEST),
        ("no CR to NL", LONGEST[1:] + b"\r\n" + LONGEST),
        ("NL to CR", LONGEST[1:] + b"\n"),
        ("CR ignored", LONGEST[1:] + b"\r"),
        ("errors marked", b"\xff" * (MAX_LINE_BYTES // 2) + b"a"),
    ],
)
def test_the_longest_is_taken_and_no_longer_one(name: str, typed: bytes) -> None:
    """It is counted as the system counts it: quoting is no byte, and what is quoted ends nothing."""
    with _terminal(MODES[name]) as (master, _):
        discipline = Discipline(termios.tcgetattr(master))
        longest, line = discipline.after(Line(), typed)
        assert longest == MAX_LINE_BYTES
        assert discipline.after(line, b"a" * (MAX_LINE_BYTES - line.length))[0] == MAX_LINE_BYTES
        assert discipline.after(line, b"a" * (MAX_LINE_BYTES - line.length + 1))[0] == MAX_LINE_BYTES + 1
