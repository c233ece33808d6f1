"""The bytes that a terminal's keys send, by the names that terminal multiplexers use.  Pure."""

from __future__ import annotations

from ...notifier import InvalidArgumentError

_NAMED = {
    "Enter": b"\r",
    "Tab": b"\t",
    "Escape": b"\x1b",
    "Space": b" ",
    "BSpace": b"\x7f",
    "Up": b"\x1b[A",
    "Down": b"\x1b[B",
    "Right": b"\x1b[C",
    "Left": b"\x1b[D",
    "Home": b"\x1b[H",
    "End": b"\x1b[F",
    "Insert": b"\x1b[2~",
    "Delete": b"\x1b[3~",
    "PageUp": b"\x1b[5~",
    "PageDown": b"\x1b[6~",
}

# What Ctrl makes of a character: its lower five bits.
_CONTROLLED = "@abcdefghijklmnopqrstuvwxyz[\\]^_"


def key_bytes(name: str) -> bytes:
    """What the key of that name sends: "C-c" (with Ctrl), "M-x" (with Alt), "Enter", "Up", ..., or one character.

    Raises `InvalidArgumentError`, which lists them.
    """
    if name.startswith("M-") and len(name) > 2:
        return b"\x1b" + key_bytes(name[2:])
    if name.startswith("C-") and len(name) == 3 and name[2].isascii():
        code = _CONTROLLED.find(name[2].lower())
        if code >= 0:
            return bytes([code])
    if name in _NAMED:
        return _NAMED[name]
    if len(name) == 1 and name.isprintable():
        return name.encode()
    raise InvalidArgumentError("key", f"is none of C-c, M-x, one character, {', '.join(_NAMED)}")
