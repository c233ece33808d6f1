"""The screen of a job for a model: what a terminal shows, never an exception, never without a bound."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
import tracemalloc
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_ground import HOSTILE_UNITS, odd_bytes

from lastword.adapters.screen import MAX_BYTES, MAX_SIDE, Screen, render_screen
from lastword.adapters.screen._cells import BUDGET  # pyright: ignore[reportPrivateUsage]  # the bound has no face
from lastword.adapters.screen._terminal import Terminal  # pyright: ignore[reportPrivateUsage]  # nor has its account
from lastword.supervisor import TerminalSize
from lastword.supervisor.output import view_text

SMALL = TerminalSize(rows=4, cols=8)
USUAL = TerminalSize(rows=24, cols=80)


def shown(data: str, size: TerminalSize = SMALL) -> list[str]:
    """The lines down to the last that is not empty; nothing was degraded."""
    screen = render_screen(data.encode(), size)
    assert not screen.degraded
    assert len(screen.lines) == size.rows
    return screen.text.split("\n")


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        ("", [""]),
        ("one\r\ntwo", ["one", "two"]),
        ("one\ntwo", ["one", "   two"]),
        ("1\r\n2\r\n3\r\n4\r\n5", ["2", "3", "4", "5"]),
        ("12345678\r\n9", ["12345678", "9"]),
        ("1234567890", ["12345678", "90"]),
        ("50%\r100%", ["100%"]),
        ("a\tb\b\bc", ["a    c b"]),
        ("\x1b[2;3Hx\x1b[Ay\x1b[3Dz", [" z y", "  x"]),
        ("abc\x1b[2Jx", ["   x"]),
        ("abc\r\ndef\x1b[1J\x1b[1;1Hx", ["x"]),
        ("abc\r\ndef\x1b[A\x1b[J", ["abc"]),
        ("abcdef\x1b[3D\x1b[K", ["abc"]),
        ("abcdef\r\x1b[2P\x1b[1@", [" cdef"]),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[Lx", ["a", "x", "b", "c"]),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[M", ["a", "c"]),
        ("a\r\nb\r\nc\x1b[S", ["b", "c"]),
        ("a\r\nb\x1b[Tx", ["", "ax", "b"]),
        ("a\x1b[3bc", ["aaaac"]),
        ("ab\x1b7\r\nc\x1b8d\x1b8e", ["abe", "c"]),
        ("ab\x1bEc\x1bMd", ["ad", "c"]),
        ("\x1b(0lqk\x1b(Bq", ["┌─┐q"]),
    ],
)
def test_what_a_terminal_does(data: str, lines: list[str]) -> None:
    """Lines, wrapping, scrolling, moving, erasing, inserting."""
    assert shown(data) == lines


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        ("\x1b[31;4:3mred\x1b[m", ["red"]),
        ("a\x1b[!p\x1b[=1u\x1b[<u\x1b[>4;2m\x1b[?4mb", ["ab"]),
        ("a\x1bPq1;2\x1b\\\x1b_x\x1b\\\x1b^x\x07b", ["ab"]),
        ("a\u200bb\ufeffc\u202ed\x9be", ["abcde"]),
        ("a\x01\x07\x7fb", ["ab"]),
        ("e\u0301" + "\u0301" * 50 + "x", ["é" + "\u0301" * 7 + "x"]),
        ("漢x\x1b[2Gy", [" yx"]),
        ("漢x\ry", ["y x"]),
        ("漢\u0301x", ["漢\u0301x"]),
        ("\x1b[99999999999999999999Cx", ["       x"]),
        ("\x1b[" + "9" * 5000 + "Cx", ["x"]),
        ("\x1b[²Ax", ["²Ax"]),
        ("\x1b[7Ka\x1b[9Jb\x1b[1;2;3;4Ac", ["abc"]),
        ("ab\x1b[?1uc", ["abc"]),
        ("\x1b[?6h\x1b[3dx", ["", "", "x"]),
        ("\x1b[?6h\x1b[99dx", ["", "", "", "x"]),
        ("\x1b]0;never ends", ["0;never", "ends"]),
    ],
)
def test_what_breaks_others(data: str, lines: list[str]) -> None:
    """What pyte draws by mistake, stops at, or raises at."""
    assert shown(data) == lines


def test_cursor_and_title() -> None:
    """Both as the program has left them; a title cannot do harm either."""
    screen = render_screen(b"ab\r\nc\x1b]2;one\x1b\\\x1b]0;t\xe2\x80\xaewo\x07", SMALL)
    assert (screen.cursor, screen.title) == ((1, 1), "t\\u202ewo")
    assert render_screen(b"12345678", SMALL).cursor == (0, 7)
    assert render_screen(b"\x1b[?25lx", SMALL).cursor is None
    assert render_screen(b"\x1b[?25lx\x1b[?25h", SMALL).cursor == (0, 1)
    assert render_screen(b"", SMALL).title is None
    assert render_screen(b"\x1b]0;" + b"t" * 9999 + b"\x07", SMALL).title == "t" * 256


def test_a_full_screen_program_leaves_what_was_there() -> None:
    """Its screen is another one; where its beginning was not seen, nothing of it stays either."""
    before = "$ edit\r\n"
    assert shown(before + "\x1b[?1049h\x1b[Hfile") == ["file"]
    assert shown(before + "\x1b[?1049h\x1b[Hfile\x1b[?1049l$") == ["$ edit", "$"]
    assert shown("file\x1b[?1049l$") == ["", "", "", "$"]


def test_a_real_full_screen_program() -> None:
    """What curses writes to a terminal of 24 lines is shown, and is gone when it ends."""
    program = """
import curses
print("before", flush=True)
def run(screen):
    screen.box()
    screen.addstr(2, 3, "Ünder", curses.A_BOLD)
    screen.refresh()
    screen.scrollok(True)
    screen.addstr(22, 70, "corner")
    screen.addstr(10, 0, "=" * 80)
    screen.move(2, 3)
    screen.refresh()
    screen.getch()
curses.wrapper(run)
print("after")
"""
    host, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    ) as process:
        os.close(terminal)
        data = b""
        screen = render_screen(data, USUAL)
        while "====" not in screen.text or screen.cursor != (2, 3):
            data += os.read(host, 65536)
            screen = render_screen(data, USUAL)
        assert not screen.degraded
        assert screen.lines[0] == "┌" + "─" * 78 + "┐"
        assert screen.lines[2] == "│  Ünder".ljust(79) + "│"
        assert screen.lines[10] == "=" * 80
        assert screen.lines[22][70:76] == "corner"
        os.write(host, b"q")
        while piece := _read(host):
            data += piece
        os.close(host)
    assert process.returncode == 0
    assert render_screen(data, USUAL).text == "before\nafter"


def _read(host: int) -> bytes:
    try:
        return os.read(host, 65536)
    except OSError:  # EIO: nobody holds the other side
        return b""


sizes = st.builds(TerminalSize, rows=st.integers(1, 30), cols=st.integers(1, 40))


@given(odd_bytes | st.binary(max_size=300), sizes)
def test_any_bytes_on_any_terminal(data: bytes, size: TerminalSize) -> None:
    """Each line fits the terminal and can be shown, and the cursor is on it."""
    screen = render_screen(data, size)
    assert not screen.degraded
    assert len(screen.lines) == size.rows
    for line in screen.lines:
        assert len([char for char in line if not unicodedata.combining(char)]) <= size.cols
        assert view_text(line.encode()).normalized is False
        assert "\t" not in line
    if screen.cursor is not None:
        assert 0 <= screen.cursor[0] < size.rows
        assert 0 <= screen.cursor[1] < size.cols


COSTLY_UNITS = [
    *HOSTILE_UNITS,
    *(
        b"E\x1b[2J",
        b"x\x1b[L",
        b"\x1bM",
        b"\x1b[4hx",
        b"a\x1b[9999b",
        b"\x1b[P",
        b"\x1b[999999999@",
        b"\x1b[S",
        b"\x1bc",
    ),
    *(b"\x1b[?1049hx\x1b[?1049l", b"\x1b7", b"\x1b#8", b"\x1b[?5h\x1b[?5l", b"\x1bH\t", b"a\xcc\x81\x1b[D\xcc\x81"),
]


@pytest.mark.parametrize("unit", COSTLY_UNITS, ids=lambda unit: repr(unit[:12]))
@pytest.mark.parametrize("side", [pytest.param(80, marks=pytest.mark.prove), MAX_SIDE])
def test_work_is_bounded(unit: bytes, side: int) -> None:
    """Nothing is done beyond the budget; then the text is there instead."""
    data = unit * (MAX_BYTES // len(unit))
    size = TerminalSize(rows=side, cols=side)
    terminal = Terminal(size.rows, size.cols)
    try:
        terminal.feed(data.decode(errors="replace"))
    except Exception as error:
        assert type(error).__name__ == "TooMuchError"  # noqa: PT017 -- whether it is raised depends on the unit
        assert BUDGET < terminal.account.spent <= BUDGET + 4 * 9999 * side
        assert render_screen(data, size).degraded
    else:
        assert terminal.account.spent <= BUDGET
        assert len(render_screen(data, size).lines) == side


@pytest.mark.parametrize(
    "unit",
    [b"\n", b"\x1bM", b"\x1b[4hx", b"\x1b[L", b"\x1b[S", b"\x1b[P", b"\x1b[2J", b"\x1bc", b"a\x1b[9999b"],
    ids=repr,
)
def test_who_asks_for_much_work_pays_for_it(unit: bytes) -> None:
    """Whatever touches more cells than it has bytes, if it is done over and over on a large terminal."""
    size = TerminalSize(rows=MAX_SIDE, cols=MAX_SIDE)
    assert render_screen(unit * (MAX_BYTES // len(unit)), size).degraded


@pytest.mark.parametrize("unit", [b"a line\r\n", b"\n", b"\x1b[2J\x1b[H" + b"frame " * 100])
def test_the_usual_is_within_the_budget(unit: bytes) -> None:
    """64 KiB of text, of newlines, of frames on the usual terminal are no reason to degrade."""
    assert not render_screen(unit * (MAX_BYTES // len(unit)), USUAL).degraded


def test_beyond_its_bounds_it_is_the_end_of_the_text() -> None:
    """A terminal that is too large, and a program that asks for too much."""
    huge = TerminalSize(rows=MAX_SIDE + 1, cols=80)
    assert render_screen(b"\x1b[31mone\r\ntwo\x07\r\n", huge) == Screen(
        lines=("one", "two\u2407"), cursor=None, title=None, degraded=True
    )
    wide = render_screen(b"x" * 100_000, TerminalSize(rows=1, cols=MAX_SIDE + 1))
    assert wide.lines == ("x" * (MAX_SIDE + 1),)
    greedy = b"first\r\n" + b"a\x1b[9999b" * 200 + b"\r\nlast"
    screen = render_screen(greedy, USUAL)
    assert (screen.degraded, screen.lines[-1], screen.cursor) == (True, "last", None)
    many = render_screen(greedy + b"\r\n" * 100 + b"end", TerminalSize(rows=3, cols=80))
    assert many.lines == ("", "", "end")


def test_only_the_end_of_much_output_is_looked_at() -> None:
    """From where a line or a sequence begins, so no half of one is shown; and megabytes take no more memory."""
    line = b"\x1b[32m0123456789\x1b[m\r\n"
    screen = render_screen(b"lost" + line * 10_000, USUAL)
    assert set(screen.lines[:-1]) == {"0123456789"}
    for within in range(5):
        cut = b"\x1b[32m" * 20_000 + b"\r\nend" + b"." * within
        assert render_screen(cut, USUAL).text == "\nend" + "." * within

    data = b"\x1b]0;" + b"title" * 2_000_000
    tracemalloc.start()
    try:
        assert not render_screen(data, USUAL).degraded
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_fault_of_pytes_is_no_fault_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it raises in an event makes it none; elsewhere, the text is there instead."""
    import pyte

    def odd(*_: object) -> None:
        raise TypeError("odd")

    def odder(*_: object) -> None:
        raise OSError("odder")

    monkeypatch.setattr(pyte.Screen, "cursor_up", odd)
    assert shown("a\x1b[Ab") == ["ab"]
    monkeypatch.setattr(pyte.Screen, "draw", odder)
    assert render_screen(b"a\r\nb", SMALL) == Screen(lines=("a", "b"), cursor=None, title=None, degraded=True)


def _python(program: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_extra_is_loaded_by_who_wants_it() -> None:
    """The core does not load it; where it is missing, the import says what to do."""
    assert (
        _python("import sys, lastword, lastword.supervisor, lastword.adapters; print('pyte' in sys.modules)")
        == "False\n"
    )
    missing = """
import sys
sys.modules["pyte"] = None
try:
    import lastword.adapters.screen
except ModuleNotFoundError as error:
    print(error.name, error)
"""
    assert _python(missing) == "pyte a screen needs an extra: pip install 'lastword[screen]'\n"
