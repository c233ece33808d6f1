"""How values are put together from JSON objects and taken apart into them.

cattrs generates the functions, from a table of leaves for each class; the tables are in `_schema`.  A key that has no
field is refused.  Absent is null.  Inside a nested object the keys come in the order of the class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from ._json import Malformed, quoted
from ._leaves import Leaf, Read, Write

JsonObject: TypeAlias = dict[str, Any]

converter = cattrs.Converter()
"""Reads and writes the classes registered below; a class that is not registered has no business on the wire."""


_Prepare: TypeAlias = Callable[[JsonObject], None]
_Finish: TypeAlias = Callable[[JsonObject], JsonObject]


def _without_none(fields: JsonObject) -> JsonObject:
    return {key: item for key, item in fields.items() if item is not None}


class Codec(NamedTuple):
    """Both directions of one class, as cattrs calls them.

    `read` takes an object as it came, `take` one that has at least what the class requires, and leaves alone what is
    not its own; `write` leaves out what is None.
    """

    read: Read
    take: Read
    write: Write


def register(
    cls: type[Any],
    name: str,
    leaves: Mapping[str, Leaf],
    *,
    keys: Iterable[str] | None = None,
    required: Iterable[str] | None = None,
    prepare: _Prepare | None = None,
    finish: _Finish = _without_none,
) -> Codec:
    """Generate and register both directions of `cls`, all of whose fields `leaves` names.

    `keys` are the object's keys, and `required` those without a default, where they are not the fields' names; then
    `prepare` makes the fields of a complete object, and `finish` the object of the fields.
    """
    # Typed loosely for cattrs' sake, whose own keyword options share the space of the fields' names.
    fields: dict[str, Any] = {
        key: override(struct_hook=leaf.reader(f"{name}.{key}"), unstruct_hook=leaf.write)
        for key, leaf in leaves.items()
    }
    structure = make_dict_structure_fn(cls, converter, _cattrs_detailed_validation=False, **fields)
    unstructure = make_dict_unstructure_fn(cls, converter, **fields)
    known = frozenset(leaves if keys is None else keys)
    # Absent is null; but what has a default may stay absent, and is then left to the class.
    nothing: JsonObject = dict.fromkeys(required_names(cls) if required is None else required)

    def read(value: Any, _: Any) -> Any:
        if value is None:
            value = nothing
        record: JsonObject = value
        if type(value) is not dict:
            raise Malformed(f"{name}: expected an object")
        if not known.issuperset(record):
            raise Malformed(f"{name}: unknown key {quoted(min(record.keys() - known))}")
        complete = {**nothing, **record}
        if prepare is not None:
            prepare(complete)
        return structure(complete, cls)

    def write(value: Any) -> JsonObject:
        return finish(unstructure(value))

    converter.register_structure_hook(cls, read)
    converter.register_unstructure_hook(cls, write)
    return Codec(read, structure, write)


def required_names(cls: type[Any]) -> list[str]:
    """The fields of `cls` that have no default, in their order."""
    return [field.name for field in attrs.fields(cls) if field.default is attrs.NOTHING]


def named_otherwise(read: Read) -> Callable[[str], Read]:
    """For what has a name of its own in messages."""

    def reader(_name: str) -> Read:
        return read

    return reader


def nested(codec: Codec) -> Leaf:
    """A field that is an object of its own."""
    return Leaf(named_otherwise(codec.read), codec.write)


def flat(codec: Codec) -> Leaf:
    """A field whose own fields lie among those of the object that it belongs to."""
    return Leaf(named_otherwise(codec.take), codec.write)
