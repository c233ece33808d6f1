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
    # Alt comes as an escape before the key, once.
    alt, plain = (b"\x1b", name[2:]) if name.startswith("M-") and len(name) > 2 else (b"", name)
    if plain.startswith("C-") and len(plain) == 3:
        code = _CONTROLLED.find(plain[2].lower())
        if code >= 0:
            return alt + bytes([code])
    if plain in _NAMED:
        return alt + _NAMED[plain]
    if len(plain) == 1 and plain.isprintable():
        return alt + plain.encode()
    raise InvalidArgumentError("key", f"is none of C-c, M-x, one character, {', '.join(_NAMED)}")
