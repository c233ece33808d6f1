"""How each value is read from JSON and written to it: the tables behind the wire format.

cattrs generates the functions that put values together and take them apart; the hooks in the tables are the leaves, and
coerce nothing: a number is a plain integer in its range, a text is a text, `true` is no 1.  `null` leaves a field zero,
and so does its absence.  A key that has no field is refused.  A hook that writes gives None for what is left out.
Inside a nested object the keys come in the order of the class.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID, SafeUUID

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from ._commands import CommandHeader, ProcessNotification
from ._completion import ProcessCompletionNotification
from ._events import PROCESS_EVENT_TYPES, WorkflowActivity
from ._header import NO_CAUSE, Cause, EventHeader
from ._json import Malformed, quoted
from ._lifecycle import ProcessLifecycleMetadata
from ._times import read_time, write_time

_Read: TypeAlias = Callable[[Any, Any], Any]
_Write: TypeAlias = Callable[[Any], Any]
_Object: TypeAlias = dict[str, Any]


class _Leaf(NamedTuple):
    """How one sort of field is read, given the field's name for the message, and how it is written."""

    reader: Callable[[str], _Read]
    write: _Write


# --- leaves -----------------------------------------------------------------------------------------------------------


def _id_reader(name: str) -> _Read:
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
    return None if value is None else str(value)


def _time_reader(name: str) -> _Read:
    def read(value: Any, _: Any) -> datetime | None:
        if value is None:
            return None
        if type(value) is not str or (time := read_time(value)) is None:
            raise Malformed(f"{name}: expected a time of RFC 3339")
        return time

    return read


def _write_time(value: datetime | None) -> str | None:
    return None if value is None else write_time(value)


def _text_reader(name: str) -> _Read:
    def read(value: Any, _: Any) -> str:
        if value is None:
            return ""
        if type(value) is not str:
            raise Malformed(f"{name}: expected a text")
        return value

    return read


def _number_reader(least: int, most: int) -> Callable[[str], _Read]:
    def reader(name: str) -> _Read:
        def read(value: Any, _: Any) -> int:
            if value is None:
                return 0
            if type(value) is not int or not least <= value <= most:
                raise Malformed(f"{name}: expected an integer from {least} to {most}")
            return value

        return read

    return reader


def _kept_reader(_name: str) -> _Read:
    return lambda value, _: value


def _unless_zero(value: Any) -> Any:
    return value or None


def _number_unless_zero(value: int) -> int | None:
    # A member of an enum is written as its number.
    return int(value) or None


def _as_it_is(value: Any) -> Any:
    return value


_ID = _Leaf(_id_reader, _write_id)
_TIME = _Leaf(_time_reader, _write_time)
_TEXT = _Leaf(_text_reader, _as_it_is)
_TEXT_UNLESS_EMPTY = _Leaf(_text_reader, _unless_zero)
_UINT8 = _Leaf(_number_reader(0, 2**8 - 1), int)
_UINT8_UNLESS_ZERO = _Leaf(_number_reader(0, 2**8 - 1), _number_unless_zero)
_UINT32_UNLESS_ZERO = _Leaf(_number_reader(0, 2**32 - 1), _unless_zero)
_INT32 = _Leaf(_number_reader(-(2**31), 2**31 - 1), _as_it_is)


class UnflaggedExitCode(int):
    """An exit code that came without `has_exit_code`.  Not a plain int, so validation refuses it in its turn."""


# --- objects ----------------------------------------------------------------------------------------------------------

converter = cattrs.Converter()
"""Reads and writes the classes registered below; a class that is not registered has no business on the wire."""


_Prepare: TypeAlias = Callable[[_Object], None]
_Finish: TypeAlias = Callable[[_Object], _Object]


def _without_none(fields: _Object) -> _Object:
    return {key: item for key, item in fields.items() if item is not None}


class _Codec(NamedTuple):
    """Both directions of one class, as cattrs calls them.

    `read` takes an object as it came, `take` one that has at least what the class requires, and leaves alone what is
    not its own; `write` leaves out what is None.
    """

    read: _Read
    take: _Read
    write: _Write


def _register(
    cls: type[Any],
    name: str,
    leaves: Mapping[str, _Leaf],
    *,
    keys: Iterable[str] | None = None,
    required: Iterable[str] | None = None,
    prepare: _Prepare | None = None,
    finish: _Finish = _without_none,
) -> _Codec:
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
    nothing: _Object = dict.fromkeys(_required(cls) if required is None else required)

    def read(value: Any, _: Any) -> Any:
        if value is None:
            value = nothing
        record: _Object = value
        if type(value) is not dict:
            raise Malformed(f"{name}: expected an object")
        if not known.issuperset(record):
            raise Malformed(f"{name}: unknown key {quoted(min(record.keys() - known))}")
        complete = {**nothing, **record}
        if prepare is not None:
            prepare(complete)
        return structure(complete, cls)

    def write(value: Any) -> _Object:
        return finish(unstructure(value))

    converter.register_structure_hook(cls, read)
    converter.register_unstructure_hook(cls, write)
    return _Codec(read, structure, write)


def _required(cls: type[Any]) -> list[str]:
    return [field.name for field in attrs.fields(cls) if field.default is attrs.NOTHING]


def _whatever_the_name(read: _Read) -> Callable[[str], _Read]:
    """For what has a name of its own in messages."""

    def reader(_name: str) -> _Read:
        return read

    return reader


def _nested(codec: _Codec) -> _Leaf:
    """A field that is an object of its own."""
    return _Leaf(_whatever_the_name(codec.read), codec.write)


def _flat(codec: _Codec) -> _Leaf:
    """A field whose own fields lie among those of the object that it belongs to."""
    return _Leaf(_whatever_the_name(codec.take), codec.write)


# --- the header -------------------------------------------------------------------------------------------------------

_cause = _register(
    Cause,
    "cause",
    {
        "session_id": _ID,
        "loop_id": _ID,
        "turn_id": _ID,
        "step_id": _ID,
        "command_id": _ID,
        "event_id": _ID,
        "tool_execution_id": _ID,
        "agency": _UINT8_UNLESS_ZERO,
    },
)


def _read_cause(value: Any, _: Any) -> Any:
    return NO_CAUSE if value is None else _cause.read(value, None)


def _write_cause(value: Cause) -> _Object | None:
    return None if value is NO_CAUSE else _cause.write(value) or None


_CAUSE = _Leaf(_whatever_the_name(_read_cause), _write_cause)

_EVENT_HEADER: Mapping[str, _Leaf] = {
    "event_id": _ID,
    "session_id": _ID,
    "loop_id": _ID,
    "turn_id": _ID,
    "step_id": _ID,
    "agent_name": _TEXT_UNLESS_EMPTY,
    "cause": _CAUSE,
    "created_at": _TIME,
    "visibility": _UINT8_UNLESS_ZERO,
}
_COMMAND_HEADER: Mapping[str, _Leaf] = {
    "command_id": _ID,
    "cause": _CAUSE,
    "agency": _UINT8_UNLESS_ZERO,
    "created_at": _TIME,
}


def _find_header(complete: _Object) -> None:
    # The header's reader takes its own keys and looks at no others.
    complete["header"] = complete


def _register_enveloped(
    cls: type[Any], header_cls: type[Any], header: Mapping[str, _Leaf], body: Mapping[str, _Leaf]
) -> None:
    """Register an event or a command: its header lies flat among the fields of its body."""
    _register(
        cls,
        cls.__name__,
        {"header": _flat(_register(header_cls, "header", header)), **body},
        keys=(*header, *body),
        required=(*_required(header_cls), *(name for name in _required(cls) if name != "header")),
        prepare=_find_header,
    )


# --- the bodies -------------------------------------------------------------------------------------------------------

_LIFECYCLE: Mapping[str, _Leaf] = {
    "event_id": _ID,
    "kind": _UINT8,
    "session_id": _ID,
    "loop_id": _ID,
    "process_handle": _TEXT,
    "origin_execution_id": _ID,
    "state": _UINT8,
    "process_created_at": _TIME,
    "process_started_at": _TIME,
    "process_finished_at": _TIME,
    "exit_code": _Leaf(_kept_reader, _as_it_is),
    "reason": _UINT8_UNLESS_ZERO,
    "diagnostic": _TEXT_UNLESS_EMPTY,
}
_read_exit_code = _INT32.reader("process.exit_code")


def _join_exit_code(complete: _Object) -> None:
    """On the wire the exit code is two fields: a flag, and the code, which is left out where it is 0."""
    flag: object = complete.get("has_exit_code")
    if flag is not None and type(flag) is not bool:
        raise Malformed("process.has_exit_code: expected true or false")
    code: int = _read_exit_code(complete.get("exit_code"), None)
    if flag:
        complete["exit_code"] = code
    elif code:
        complete["exit_code"] = UnflaggedExitCode(code)
    else:
        complete["exit_code"] = None


def _split_exit_code(fields: _Object) -> _Object:
    record: _Object = {}
    for key, item in fields.items():
        if item is None:
            continue
        if key == "exit_code":
            record["has_exit_code"] = True
            if item == 0:
                continue
        record[key] = item
    return record


_lifecycle = _register(
    ProcessLifecycleMetadata,
    "process",
    _LIFECYCLE,
    keys=(*_LIFECYCLE, "has_exit_code"),
    prepare=_join_exit_code,
    finish=_split_exit_code,
)


_notification = _register(
    ProcessCompletionNotification,
    "notification",
    {
        "command_id": _ID,
        "session_id": _ID,
        "loop_id": _ID,
        "process_handle": _TEXT,
        "state": _UINT8,
        "reason": _UINT8,
    },
)

# --- events and commands ----------------------------------------------------------------------------------------------

for _event_type in PROCESS_EVENT_TYPES.values():
    _register_enveloped(
        _event_type,
        EventHeader,
        _EVENT_HEADER,
        {"process": _nested(_lifecycle)},
    )

_register_enveloped(
    WorkflowActivity,
    EventHeader,
    _EVENT_HEADER,
    {
        "run_id": _ID,
        "workflow_name": _TEXT,
        "workflow_version": _TEXT,
        "kind": _TEXT,
        "status": _TEXT,
        "vertex_id": _ID,
        "vertex_label": _TEXT_UNLESS_EMPTY,
        "completed_vertices": _UINT32_UNLESS_ZERO,
        "total_vertices": _UINT32_UNLESS_ZERO,
        "message": _TEXT_UNLESS_EMPTY,
        "occurred_at": _TIME,
    },
)
_register_enveloped(
    ProcessNotification,
    CommandHeader,
    _COMMAND_HEADER,
    {"notification": _nested(_notification)},
)
