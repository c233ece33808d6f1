"""JSON, read strictly and written in one form.

Reading refuses what Python's own reader lets pass: a key that comes twice in an object, at any depth, also where the
two differ in case alone; `NaN` and `Infinity`; invalid UTF-8, a byte order mark; deep nesting.  It never raises
anything but `Malformed` (a record that is too large is the caller's to refuse), and takes time in proportion to the
input.  An escaped surrogate without its other half becomes U+FFFD, as the reference has it; raw ones are not UTF-8.

Writing gives the reference's bytes: compact, keys as they come, `<` `>` `&` U+2028 U+2029 escaped, every other
non-ASCII character as it is.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn, TypeGuard

MAX_DEPTH = 64
"""How deep objects and arrays may nest.  A record nests 2 deep; the reader needs some stack for each level."""


class Malformed(Exception):  # noqa: N818 - private: each decoder turns it into its own error
    """The bytes are not what we write; the message says how, for a person, without quoting any value."""


def quoted(text: str) -> str:
    """`text` for a message: on one line, in ASCII, and not long, whatever was in the record."""
    return ascii(text if len(text) <= 40 else text[:40] + "...")


_BLANKS = " \t\n\r"

# Strings are taken whole, so that brackets in them do not count.  Possessive, and an unclosed string runs to the end:
# no byte is looked at twice.
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
# Two, each with a beginning of its own, since a search for one beginning is much quicker than for either of two.
_ESCAPED_KEY = re.compile(r'\\[^"\\]*"[ \t\n\r]*:')
_ESCAPED_TIME = re.compile(r'_at"[ \t\n\r]*:[ \t\n\r]*"[^"\\]*\\')
_STRING_AND_COLON = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"([ \t\n\r]*+:)?', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(data: bytes) -> Any:
    """The value that `data` writes, and nothing before or after it but blanks."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8 at byte {error.start}") from None
    text = text.lstrip(_BLANKS)
    _refuse_depth(text)
    value, end = _decoded(text)
    if text[end:].strip(_BLANKS):
        raise Malformed("something follows the record")
    # Escapes are rare, and only they can make a lone surrogate.
    if "\\" in text and _ESCAPED_SURROGATE.search(text):
        value = _replacing_surrogates(value)
    return value


def _decoded(text: str) -> tuple[Any, int]:
    try:
        if len(text) <= _FEW_CHARACTERS:
            try:
                return _PLAIN.raw_decode(text)
            except json.JSONDecodeError:
                raise
            except ValueError:
                # Python refuses numbers of very many digits so; how many are too many is the host's choice.
                pass
        return _BOUNDED.raw_decode(text)
    except json.JSONDecodeError as error:
        raise Malformed(f"not JSON: {error.msg}") from None


def _refuse_depth(text: str) -> None:
    # The reader recurses, and would end in RecursionError.  Counting every bracket first is quick and almost always
    # enough; only a text of very many is looked at closely.
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        match text[token.start()]:
            case "{" | "[":
                depth += 1
                if depth > MAX_DEPTH:
                    raise Malformed(f"nested deeper than {MAX_DEPTH}")
            case "}" | "]":
                depth -= 1
            case _:
                pass


def refuse_escaped_times(data: bytes) -> None:
    """Refuse an escape inside a time: the reference reads times raw, so `Z` written `\\u005a` is no zone to it.

    Apart from `read_json`, since it is not asked of a record that is not read further; `data` is what that has read.
    """
    # Escapes are rare.
    if b"\\" not in data:
        return
    text = data.decode()
    if _ESCAPED_KEY.search(text) is None and _ESCAPED_TIME.search(text) is None:
        return
    key = ""
    for token in _STRING_AND_COLON.finditer(text):
        raw = token[1]
        if token[2] is not None:
            key = json.loads(f'"{raw}"') if "\\" in raw else raw
            continue
        if key.endswith("_at") and "\\" in raw:
            raise Malformed(f"an escape inside the time of {quoted(key)}")
        key = ""


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether `value` is what an object is read as."""
    return type(value) is dict


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether `value` is what an array is read as."""
    return type(value) is list


def _replacing_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if is_object(value):
        return _unique([(_SURROGATE.sub("\ufffd", key), _replacing_surrogates(item)) for key, item in value.items()])
    if is_array(value):
        return [_replacing_surrogates(item) for item in value]
    return value


_TWICE = "a key comes twice in one object"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise Malformed(_TWICE)
    return record


def _lowered(key: str) -> str:
    """As the reference lowers: each character by itself, to one."""
    # Python makes two characters of U+0130, and another one of a sigma that ends a word.
    return key.lower() if key.isascii() else "".join("i" if one == "\u0130" else one.lower() for one in key)


def refuse_folded_duplicates(value: Any) -> None:
    """Refuse keys of one object that differ in case alone, at any depth: the reference takes them for the same key."""
    if is_object(value):
        if len({_lowered(key) for key in value}) != len(value):
            raise Malformed(_TWICE)
        for item in value.values():
            refuse_folded_duplicates(item)
    elif is_array(value):
        for item in value:
            refuse_folded_duplicates(item)


_FEW_CHARACTERS = 4096
"""Up to here no number can be long enough to matter, and Python reads it itself, which is quicker."""


def _integer(text: str) -> int | float:
    # Nothing on the wire has more digits than this; reading millions would cost the square of their number.
    return int(text) if len(text) <= 20 else math.inf


def _fraction(_text: str) -> float:
    # No number on the wire has a fraction or an exponent; whoever asks for an int refuses a float of any value.
    return math.inf


def _constant(text: str) -> NoReturn:
    raise Malformed(f"{text} is not JSON")


_PLAIN = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_constant)
_BOUNDED = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)

_ESCAPES = tuple((character, f"\\u{ord(character):04x}") for character in "<>&\u2028\u2029")


def write_json(record: dict[str, Any]) -> bytes:
    """`record` as bytes.  Its strings must have a UTF-8 form."""
    text = _ENCODER.encode(record)
    for character, escape in _ESCAPES:
        # They can only stand inside strings, so escaping them in the finished text is safe.
        text = text.replace(character, escape)
    return text.encode()
