"""Output as text: what is shown, what is hidden, what is called binary; any bytes, any process."""

from __future__ import annotations

import gzip
import json
import os
import sys
import unicodedata
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from supervising import OWNER, supervising
from text_ground import HOSTILE_UNITS, odd_bytes
from text_sizes import SIZES

import lastword
from lastword.supervisor import TextView
from lastword.supervisor.output import view_text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"plain\n", "plain\n"),
        (b"first\rsecond\nthird\n", "second\nthird\n"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"longer\rab", "abnger"),
        (b"10%\r20%\r30%\n", "30%\n"),
        (b"a\r\r\nb\r", "a\nb"),
        ("漢字\rab".encode(), "ab字"),
        ("漢字\ra".encode(), "a 字"),
        ("漢字\b-".encode(), "漢 -"),
        ("ab\r漢".encode(), "漢"),
        ("a\u0301b\rx".encode(), "xb"),
        (b"ab\r\bx", "xb"),
        ("ab\b\u0301".encode(), "a\u0301b"),
        ("\u0301a\rb".encode(), "\u0301b"),
    ],
)
def test_lines_are_shown_as_a_terminal_leaves_them(data: bytes, text: str) -> None:
    """What is drawn over is gone, cell by cell; a carriage return before a newline draws over nothing."""
    view = view_text(data)
    assert view.text == text
    assert view.normalized == (text.encode() != data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"ab\bc\n", "ac\n"),
        (b"ab\b\b\b\bc\n", "cb\n"),
        (b"_\bu_\bn bold b\bbo\bo", "un bold bo"),
        (b"a\tb\n", "a\tb\n"),
        (b"a\tb\rX", "X\tb"),
        (b"a\tb\rXXX", "XXX     b"),
        (b"a\tb\b\b-", "a      -b"),
        (b"abcdefghij\r\tX", "abcdefghXj"),
        (b"abc\r\t\tX", "abc     \tX"),
    ],
)
def test_backspaces_and_tabs(data: bytes, text: str) -> None:
    """A backspace goes back one cell; a tab stays one until something is drawn over it."""
    assert view_text(data).text == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07x\x1b]8;;http://h\x1b\\link\x1b]8;;\x1b\\", "xlink"),
        (b"\x1bPq#0;1\x1b\\x\x1b_app\x1b\\y\x1b^pm\x1b\\z\x1b(Bw\x1b=v", "xyzwv"),
        (b"\x1b]66;s=2;big\x07 words", "big words"),
        (b"a\x1b]0;x\ry\x07b\rc", "cb"),
        (b"longer\r\x1b[Kab", "ab"),
        (b"longer\x1b[2K\rab", "ab"),
        (b"longer\x1b[2K\x1b[1Gab", "ab"),
        (b"longer\x1b[Gab\x1b[0K", "ab"),
        (b"longer\x1b[4Dab", "loaber"),
        (b"longer\x1b[Dab\x1b[0Dc", "longeac"),
        (b"longer\x1b[2Gab", "longerab"),
        (b"longer\x1b[999999999999Dab", "abnger"),
        (b"ab\x1b[5Cc\x1b[1K\x1b[3Gd", "abcd"),
        (b"a\x1b[0Kb\r\r\n", "ab\n"),
        ("漢\b\x1b[Ka".encode(), " a"),
        (b"cut \x1b[3", "cut 3"),
        (b"cut \x1b]0;ti", "cut 0;ti"),
        (b"cut \x1b", "cut \u241b"),
        (b"\x1b]0;hid\nden\x07", "0;hid\nden\u2407"),
    ],
)
def test_escape_sequences(data: bytes, text: str) -> None:
    """They are gone, and those that move within a line have moved; one that does not end on its line is none."""
    assert view_text(data).text == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\x07b\x00c\x7fd\x0be\x0cf", "a\u2407b\u2400c\u2421d\u240be\u240cf"),
        ("a\u202eb\u2066c\u200fd\u061ce".encode(), "a\\u202eb\\u2066c\\u200fd\\u061ce"),
        ("\u0085\u009b31m".encode(), "\\x85\\x9b31m"),
        ("a\u2028b\u2029c".encode(), "a\\u2028b\\u2029c"),
        ("run\U000e0041\U000e007f".encode(), "run\\U000e0041\\U000e007f"),
        (
            "👩\u200d🚀 ❤\ufe0f \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 שלום".encode(),
            "👩\u200d🚀 ❤\ufe0f \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 שלום",
        ),
        ("grün €𝄞".encode(), "grün €𝄞"),
        (b"bad \xff\xfe", "bad \ufffd\ufffd"),
        ("kept \ufffd".encode(), "kept \ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    ],
)
def test_what_must_not_be_shown_is_visible(data: bytes, text: str) -> None:
    """Controls, and what turns or hides text; scripts and emoji stay as they are."""
    view = view_text(data)
    assert view.text == text
    assert view.normalized == (text.encode() != data)


def test_every_character_that_a_terminal_or_reader_would_obey_is_replaced() -> None:
    """By Unicode's own classes: all controls but newline and tab, the two separators, and whatever sets direction."""
    # No bytes decode to a surrogate, and a newline ends the line.
    characters = [
        char for char in map(chr, range(sys.maxunicode + 1)) if char != "\n" and not "\ud800" <= char <= "\udfff"
    ]
    lines = view_text("".join(f"<{char}>\n" for char in characters).encode()).text.split("\n")
    assert lines.pop() == ""
    for char, shown in zip(characters, lines, strict=True):
        obeyed = (
            (unicodedata.category(char) in {"Cc", "Zl", "Zp"} and char != "\t")
            or unicodedata.bidirectional(char) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
            or char in "\u200e\u200f\u061c"
            or 0xE0000 <= ord(char) < 0xE0080
        )
        if char in "\r\b":
            assert shown == ">"
        elif char == "\x1b":
            assert shown == "<"  # with ">" it is a sequence: DECKPNM
        else:
            assert (shown == f"<{char}>") != obeyed, hex(ord(char))
            assert not obeyed or shown.isprintable(), hex(ord(char))


@pytest.mark.parametrize(
    ("data", "binary"),
    [
        (b"", False),
        (b"text\n", False),
        ("grün und schön, wie es früher war".encode("latin-1"), False),
        ("déjà vu, où ça".encode("latin-1"), True),
        (b"\x89PNG\r\n\x1a\n\0\0", True),
        (bytes(range(128, 256)), True),
        (("\ufffd" * 50).encode(), False),
        ("漢".encode()[1:] + b"text", False),
        ("🚀".encode()[1:] + b"text", False),
        ("text".encode("utf-16"), True),
        ("привет".encode("cp1251"), True),
    ],
)
def test_binary_is_flagged(data: bytes, binary: bool) -> None:
    """A NUL, or a good part that does not decode; what a cut has left, or a replacement character that was really
    written, does not count."""
    assert view_text(data).binary == binary


def test_real_files() -> None:
    """Sources and pages are text; what is compiled or compressed is not, at its start or within."""
    root = Path(lastword.__file__).resolve().parent
    texts = [*(root / "supervisor").rglob("*.py"), Path(os.__file__), Path(__file__)]
    assert len(texts) > 20
    for path in texts:
        view = view_text(path.read_bytes())
        assert (view.binary, view.normalized) == (False, False), path.name
    source = Path(os.__file__).read_bytes()
    for data in (Path(sys.executable).read_bytes()[:65536], gzip.compress(source), zlib.compress(source)[2:]):
        for start in (0, 1000, 5000):
            assert view_text(data[start : start + 4096]).binary


@given(odd_bytes | st.binary(max_size=300))
@example(b"\xf0\x90\xef\xbf\xbd")
def test_any_bytes(data: bytes) -> None:
    """No control is left but tab and newline, JSON holds it, it is bounded, a second view changes nothing, and
    `normalized` tells whether anything has changed."""
    view = view_text(data)
    assert json.loads(json.dumps(view.text).encode()) == view.text
    assert view.text.encode("utf-8").decode() == view.text
    assert all(char in "\t\n" or unicodedata.category(char) not in {"Cc", "Zl", "Zp"} for char in view.text)
    assert len(view.text) <= 8 * len(data)
    assert view_text(view.text.encode()) == TextView(text=view.text, binary=False, normalized=False)
    assert view.normalized == (view.text.encode() != data)


@given(st.text())
def test_plain_text_is_left_alone(text: str) -> None:
    """What has nothing to obey comes out as it went in."""
    plain = "".join(char for char in text if char in "\t\n" or char.isprintable())
    assert view_text(plain.encode()) == TextView(text=plain, binary=False, normalized=False)


def test_random_bytes() -> None:
    """A hundred thousand of them are binary, and are shown all the same."""
    view = view_text(os.urandom(100_000))
    assert view.binary
    assert view.normalized
    assert json.loads(json.dumps(view.text)) == view.text


@pytest.mark.parametrize("unit", HOSTILE_UNITS, ids=lambda unit: repr(unit[:12]))
@pytest.mark.parametrize("size", SIZES)
def test_what_is_hostile_is_shown(unit: bytes, size: int) -> None:
    """It is shown, within a bound.  (Work that grew with the square would be ended by the suite's limit.)"""
    data = b"a" * 1000 + unit * (size // len(unit))
    assert 1000 <= len(view_text(data).text) <= 8 * len(data) or b"2K" in unit or b"[K" in unit


@pytest.mark.usefixtures("each_tier")
async def test_a_processes_output() -> None:
    """On the face: the chunk has the bytes as they are, and the text as it is shown."""
    async with supervising() as supervisor:
        written = rb"getting \033[32mit\033[m\r10%%\r100%% \303\251\n\342\200\256done\007\n"
        process = await supervisor.start(f"printf '{written.decode()}'", owner=OWNER)
        await process.wait()
        chunk = await process.read_output()
        assert chunk.data == "getting \x1b[32mit\x1b[m\r10%\r100% é\n\u202edone\x07\n".encode()
        assert chunk.text == TextView(text="100% ég it\n\\u202edone\u2407\n", binary=False, normalized=True)
