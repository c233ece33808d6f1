"""How the protocol's values are put together from JSON and taken apart into it: by their types, and strictly.

Nothing is coerced (True is no integer, "1" is none), a key that is no field is refused, and what is wrong is named by
its path, such as `resources.umask` or `command[1]`.
"""

from __future__ import annotations

import math
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin
from uuid import UUID

import attrs
import cattrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError

from ...notifier._json import is_array, is_object

ValueT = TypeVar("ValueT")

_LITERAL: Any = Literal

# What the system's own calls take; nothing real is larger.
_LARGEST = 2**63


class InvalidFieldError(ValueError):
    """A value of the protocol is not what its type says; `field` is the path to what is wrong."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(field, why)
        self.field = field
        self.why = why


def structure(value: object, kind: type[ValueT]) -> ValueT:
    """The value of that class that `value`, as it was read from JSON, writes.  Raises `InvalidFieldError`."""
    try:
        return _converter.structure(value, kind)
    except (cattrs.BaseValidationError, _Wrong) as error:
        raise InvalidFieldError(*_first_of(error, "")) from None


def unstructure(value: object) -> dict[str, Any]:
    """`value` as JSON, without the fields that are None."""
    record: dict[str, Any] = _converter.unstructure(value)
    return record


class _Wrong(Exception):  # noqa: N818 -- never leaves this file
    """A leaf is not what its type says; `why` says what that is, `at` where within the leaf."""

    def __init__(self, why: str, at: str = "") -> None:
        super().__init__(why, at)
        self.why = why
        self.at = at


def _first_of(error: BaseException, path: str) -> tuple[str, str]:
    """The path to the first thing that is wrong, and why."""
    if isinstance(error, ClassValidationError):
        named, others = error.group_exceptions()
        # A key that nobody knows says most: it is often the misspelt name of one that is missing.
        for other in others:
            if isinstance(other, ForbiddenExtraKeysError):
                return _short(min(other.extra_fields), path), "is no field of this request"
        if named:
            inner, note = named[0]
            return _first_of(inner, f"{path}.{note.name}" if path else note.name)
        return _first_of(others[0], path)
    if isinstance(error, IterableValidationError):
        inner, place = error.group_exceptions()[0][0]
        return _first_of(inner, f"{path}[{place.index}]")
    if isinstance(error, KeyError):
        return path, "is missing"
    if isinstance(error, _Wrong):
        return path + error.at, error.why
    return path, "is not of the right type"


def _short(key: str, path: str) -> str:
    """A stranger's key for a message: in ASCII, and not long."""
    shown = ascii(key if len(key) <= 40 else key[:40] + "...")[1:-1]
    return f"{path}.{shown}" if path else shown


# --- the leaves -------------------------------------------------------------------------------------------------------


def _text(value: object, _: object) -> str:
    if type(value) is not str:
        raise _Wrong("must be a string")
    return value


def _truth(value: object, _: object) -> bool:
    if type(value) is not bool:
        raise _Wrong("must be true or false")
    return value


def _integer(value: object, _: object) -> int:
    if type(value) is not int or not -_LARGEST <= value < _LARGEST:
        raise _Wrong("must be an integer of 64 bits")
    return value


def _number(value: object, _: object) -> float:
    if type(value) is int and -_LARGEST <= value < _LARGEST:
        return value
    if type(value) is not float or not math.isfinite(value):
        raise _Wrong("must be a finite number")
    return value


def _octets(value: object, _: object) -> bytes:
    try:
        found = a2b_base64(value, strict_mode=True) if type(value) is str else None
    except ValueError:
        found = None
    if found is None:
        raise _Wrong("must be a string of base64")
    return found


def _identity(value: object, _: object) -> UUID:
    try:
        found = UUID(value) if type(value) is str else None
    except ValueError:
        found = None
    if found is None or str(found) != value:
        raise _Wrong("must be an id such as 0192f0c1-2345-7abc-8def-0123456789ab")
    return found


def _moment(value: object, _: object) -> datetime:
    try:
        found = datetime.fromisoformat(value) if type(value) is str else None
    except ValueError:
        found = None
    if found is None or found.utcoffset() != timedelta(0):
        raise _Wrong("must be a time in UTC such as 2026-01-31T12:00:00+00:00")
    return found


def _choice(value: object, kind: Any) -> Any:
    allowed = get_args(kind)
    if value not in allowed or type(value) is not str:
        raise _Wrong(f"must be one of {', '.join(allowed)}")
    return value


def _words(value: object, _: object) -> tuple[str, ...]:
    if not is_array(value):
        raise _Wrong("must be an array of strings")
    for index, item in enumerate(value):
        if type(item) is not str:
            raise _Wrong("must be a string", f"[{index}]")
    return tuple(value)


def _command(value: object, _: object) -> str | tuple[str, ...]:
    if type(value) is str:
        return value
    if is_array(value):
        return _words(value, _)
    raise _Wrong("must be a string (for the shell) or an array of strings (executed as given)")


def _variables(value: object, _: object) -> dict[str, str]:
    if not is_object(value):
        raise _Wrong("must be an object of strings")
    # Which one it is is not said: what stands in the place of a name may be a secret.
    if not all(type(item) is str for item in value.values()):
        raise _Wrong("must have strings for values")
    return value


def _range(value: object, _: object) -> tuple[int, int]:
    if not is_array(value) or len(value) != 2:
        raise _Wrong("must be an array of two integers")
    return _integer(value[0], _), _integer(value[1], _)


def _record(value: object, _: object) -> dict[str, Any]:
    if not is_object(value):
        raise _Wrong("must be an object")
    return value


def _make() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    leaves: list[tuple[Any, Callable[[object, object], Any]]] = [
        (str, _text),
        (bool, _truth),
        (int, _integer),
        (float, _number),
        (bytes, _octets),
        (UUID, _identity),
        (datetime, _moment),
        (str | tuple[str, ...], _command),
        (tuple[str, ...], _words),
        (tuple[int, int], _range),
        (dict[str, str], _variables),
        (dict[str, Any], _record),
    ]
    for kind, read in leaves:
        # By class where it is one: what cattrs knows of a class comes before any predicate.
        if isinstance(kind, type) and not get_args(kind):
            converter.register_structure_hook(kind, read)
        else:
            converter.register_structure_hook_func(_is(kind), read)
    converter.register_structure_hook_func(_is_literal, _choice)
    converter.register_structure_hook_factory(_is_optional, partial(_optional, converter))
    converter.register_structure_hook_factory(attrs.has, partial(_object, converter))
    converter.register_unstructure_hook_factory(attrs.has, partial(_fields, converter))
    converter.register_unstructure_hook(bytes, lambda value: b64encode(value).decode("ascii"))
    converter.register_unstructure_hook(UUID, str)
    converter.register_unstructure_hook(datetime, datetime.isoformat)
    # As it is: cattrs would walk through it, and it is JSON already.
    converter.register_unstructure_hook_func(_is(dict[str, Any]), lambda value: value)
    converter.register_unstructure_hook_func(_is(str | tuple[str, ...]), lambda value: value)
    return converter


def _is(kind: object) -> Callable[[Any], bool]:
    return lambda other: other == kind


def _is_literal(kind: Any) -> bool:
    return get_origin(kind) is _LITERAL


def _is_optional(kind: Any) -> bool:
    members = get_args(kind)
    return get_origin(kind) in (Union, UnionType) and len(members) == 2 and type(None) in members


def _optional(converter: cattrs.Converter, kind: Any) -> Any:
    (inner,) = (member for member in get_args(kind) if member is not type(None))
    read = converter.get_structure_hook(inner)

    def read_any(value: object, _: object) -> Any:
        return None if value is None else read(value, inner)

    return read_any


def _object(converter: cattrs.Converter, kind: Any) -> Any:
    """What cattrs generates, for an object alone: it would take anything that has items."""
    read = converter.gen_structure_attrs_fromdict(kind)

    def strictly(value: object, _: object) -> Any:
        if not is_object(value):
            raise _Wrong("must be an object")
        return read(value, kind)

    return strictly


def _fields(converter: cattrs.Converter, kind: Any) -> Any:
    """What cattrs generates, less the fields that are None: absent says the same."""
    write = converter.gen_unstructure_attrs_fromdict(kind)

    def write_set(value: Any) -> dict[str, Any]:
        return {name: item for name, item in write(value).items() if item is not None}

    return write_set


_converter = _make()
