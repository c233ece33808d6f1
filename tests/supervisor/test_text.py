"""Output as text: what is shown, what is hidden, and that hostile input costs no more than its length."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        (b"longer\r\x1b[Kab", "ab"),
        (b"longer\x1b[2K\rab", "ab"),
        (b"a\x1b[0Kb\r\r\n", "ab\n"),
        (b"10%\r20%\r30%\n", "30%\n"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07x\x1b]8;;http://h\x1b\\link\x1b]8;;\x1b\\", "xlink"),
        (b"tab\there", "tab\there"),
        (b"a\x07b\x00c\x7fd", "a\u2407b\u2400c\u2421d"),
        ("a\u202eb\u2066c".encode(), "a\\u202eb\\u2066c"),
        ("\u0085".encode(), "\\x85"),
        ("grün €𝄞".encode(), "grün €𝄞"),
        (b"bad \xff\xfe", "bad \ufffd\ufffd"),
        ("kept \ufffd".encode(), "kept \ufffd"),
    ],
)
def test_what_is_shown(data: bytes, text: str) -> None:
    """As a terminal would leave it, with nothing left that a terminal would obey."""
    view = view_text(data)
    assert view.text == text
    assert view.normalized == (text.encode() != data)


@pytest.mark.parametrize(
    ("data", "binary"),
    [
        (b"text\n", False),
        ("grün".encode("latin-1") + b" and much more that is plain text", False),
        (b"\x89PNG\r\n\x1a\n\0\0", True),
        (bytes(range(128, 256)), True),
        (b"", False),
        (("\ufffd" * 50).encode(), False),
    ],
)
def test_binary_is_flagged(data: bytes, binary: bool) -> None:
    """A NUL, or a good part that does not decode; a replacement character that was really written does not count."""
    assert view_text(data).binary == binary


@given(st.binary(max_size=300))
def test_never_raises_and_always_fits_json(data: bytes) -> None:
    """Any bytes give text without control characters but tab and newline."""
    view = view_text(data)
    json.dumps(view.text).encode()
    assert not [char for char in view.text if (ord(char) < 32 and char not in "\t\n") or 127 <= ord(char) < 160]


def test_random_bytes() -> None:
    """A hundred thousand of them."""
    assert isinstance(view_text(os.urandom(100_000)), TextView)


@pytest.mark.parametrize(
    "unit",
    [
        b"\x1b",
        b"\x1b[",
        b"\x1b]",
        b"\x1b]8;;",
        b"\x1bP",
        b"\r",
        b"ab\r",
        b"x\x1b[K",
        b"x\x1b[2K",
        b"\r\x1b[K",
        "\u0301".encode(),
        b"\xff",
        b"\n",
        b"\0",
        "\u202e".encode(),
    ],
)
def test_hostile_input_is_linear(unit: bytes) -> None:
    """Two megabytes of it are done at once; work that grew with the square would not end before the suite's timeout."""
    size = 1 << 20
    assert isinstance(view_text(b"a" * size + unit * (size // len(unit))), TextView)
