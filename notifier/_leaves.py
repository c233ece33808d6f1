"""How each sort of field is read from JSON and written to it.

A hook that reads coerces nothing: a number is a plain integer in its range, a text is a text, `true` is no 1; null is
zero.  What it refuses it names, and never quotes.  A hook that writes gives None for what is left out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID, SafeUUID

from ._json import Malformed
from ._times import read_time, write_time

Read: TypeAlias = Callable[[Any, Any], Any]
"""As cattrs calls it: with the value, and with a type that is of no interest here."""

Write: TypeAlias = Callable[[Any], Any]


class Leaf(NamedTuple):
    """How one sort of field is read, given the field's name for the message, and how it is written."""

    reader: Callable[[str], Read]
    write: Write


def _id_reader(name: str) -> Read:
    def read(value: Any, _: Any) -> UUID | None:
        if value is None:
            return None
        # The length is asked first so that the cache below holds nothing that is long.
        if type(value) is not str or len(value) != _UUID_LENGTH or (found := _uuid(value)) is None:
            raise Malformed(f"{name}: expected a UUID")
        return found

    return read


_set = object.__setattr__
_UUID_LENGTH = 36
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


# A record names its event twice, and a journal is of one session and few loops: most ids have just been seen.  A UUID
# cannot be changed, so sharing one is safe.
@functools.lru_cache(maxsize=256)
def _uuid(text: str) -> UUID | None:
    if _UUID.fullmatch(text) is None:
        return None
    # `UUID(text)` would take braces, a prefix and hyphens anywhere, and takes twice as long: it has to find out which
    # of its five forms it was given.  Its two attributes are public, and all that it has.
    made = UUID.__new__(UUID)
    _set(made, "int", int(text.replace("-", ""), 16))
    _set(made, "is_safe", SafeUUID.unknown)
    return made


def _write_id(value: UUID | None) -> str | None:
    return None if value is None else _id_text(value.int)


# For the reason that `_uuid` has.  By number, since a UUID computes its hash in Python each time.
@functools.lru_cache(maxsize=256)
def _id_text(number: int) -> str:
    return str(UUID(int=number))


def _time_reader(name: str) -> Read:
    def read(value: Any, _: Any) -> datetime | None:
        if value is None:
            return None
        if type(value) is not str or (time := read_time(value)) is None:
            raise Malformed(f"{name}: expected a time of RFC 3339")
        return time

    return read


def _write_time(value: datetime | None) -> str | None:
    return None if value is None else write_time(value)


def _text_reader(name: str) -> Read:
    def read(value: Any, _: Any) -> str:
        if value is None:
            return ""
        if type(value) is not str:
            raise Malformed(f"{name}: expected a text")
        return value

    return read


def _number_reader(least: int, most: int) -> Callable[[str], Read]:
    def reader(name: str) -> Read:
        def read(value: Any, _: Any) -> int:
            if value is None:
                return 0
            if type(value) is not int or not least <= value <= most:
                raise Malformed(f"{name}: expected an integer from {least} to {most}")
            return value

        return read

    return reader


def kept_reader(_name: str) -> Read:
    """A reader that takes what stands there as it is."""
    return lambda value, _: value


# A member of an enum is written as what it is made of, asked by functions that no enum can replace.
_write_number = int.__index__
_write_text = str.__str__


def _number_unless_zero(value: int) -> int | None:
    return _write_number(value) or None


def _text_unless_empty(value: str) -> str | None:
    return _write_text(value) or None


def as_it_is(value: Any) -> Any:
    """`value`: a writer for what needs no other form."""
    return value


ID = Leaf(_id_reader, _write_id)
TIME = Leaf(_time_reader, _write_time)
TEXT = Leaf(_text_reader, _write_text)
TEXT_UNLESS_EMPTY = Leaf(_text_reader, _text_unless_empty)
UINT8 = Leaf(_number_reader(0, 2**8 - 1), _write_number)
UINT8_UNLESS_ZERO = Leaf(_number_reader(0, 2**8 - 1), _number_unless_zero)
UINT32_UNLESS_ZERO = Leaf(_number_reader(0, 2**32 - 1), _number_unless_zero)
INT32 = Leaf(_number_reader(-(2**31), 2**31 - 1), as_it_is)


class UnflaggedExitCode(int):
    """An exit code that came without `has_exit_code`.  Not a plain int, so validation refuses it in its turn."""
