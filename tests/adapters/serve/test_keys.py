"""Keys by name are the bytes that a terminal sends for them."""

from __future__ import annotations

import pytest

from lastword.adapters.serve import key_bytes
from lastword.notifier import InvalidArgumentError


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("C-c", b"\x03"),
        ("C-C", b"\x03"),
        ("C-d", b"\x04"),
        ("C-z", b"\x1a"),
        ("C-@", b"\x00"),
        ("C-[", b"\x1b"),
        ("C-\\", b"\x1c"),
        ("M-x", b"\x1bx"),
        ("M-C-c", b"\x1b\x03"),
        ("M-Enter", b"\x1b\r"),
        ("Enter", b"\r"),
        ("Up", b"\x1b[A"),
        ("q", b"q"),
        ("-", b"-"),
        ("\u00e9", "\u00e9".encode()),
    ],
)
def test_a_key_is_what_it_sends(name: str, sent: bytes) -> None:
    assert key_bytes(name) == sent


@pytest.mark.parametrize("name", ["", "C-", "C-1", "C-\u00e9", "M-", "enter", "xy", "\n", "\x03", "C-cc", "M-" * 5000])
def test_what_is_no_key_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="C-c"):
        key_bytes(name)
