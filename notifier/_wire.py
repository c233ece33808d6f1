"""The wire format: values to bytes and back.

Writing gives, for the same value, the same bytes as the reference does, byte for byte: one JSON object; its own keys,
`type` and `v` among them, sorted by byte; the keys of nested objects in the order of their class.  The header lies flat
in the object.  An event is validated first.  A command is written as it is, valid or not, as the reference does it:
`validate_command` and the decoder judge it; only what has no place on the wire is refused here.

Reading refuses whatever writing would not give, save what cannot hurt: blanks around tokens, keys in any order,
needless escapes, `null` and zero values for absent ones, and up to nine digits of fraction.  Then the value is
validated.  Only a `LastwordError` leaves these functions.
"""

from __future__ import annotations

from typing import Any

from ._commands import ProcessNotification, refuse_unwritable, validate_command
from ._completion import ProcessCompletionNotification
from ._errors import (
    CommandDecodeError,
    EventDecodeError,
    RecordTooLargeError,
    UnknownCommandTypeError,
    UnknownEventTypeError,
    UnsupportedSchemaError,
)
from ._events import EVENT_TYPES, Event, validate_event
from ._fields import MAX_EVENT_BYTES
from ._json import Malformed, is_object, quoted, read_json, refuse_escaped_times, refuse_folded_duplicates, write_json
from ._lifecycle import ProcessLifecycleMetadata
from ._schema import converter

SCHEMA_VERSION = 1
"""The `v` of every record that is written, and the newest that is read."""

_NO_STACK = "the stack is too full to read a record; call from less deep"

_Record = dict[str, Any]

_EVENT_READERS = {name: converter.get_structure_hook(cls) for name, cls in EVENT_TYPES.items()}


# --- events -----------------------------------------------------------------------------------------------------------


def encode_event(event: Event) -> bytes:
    """The canonical bytes of `event`.

    Raises `InvalidEventError` as `validate_event` does, and `RecordTooLargeError` above `MAX_EVENT_BYTES`.
    """
    validate_event(event)
    return _encode(event)


def decode_event(data: bytes) -> Event:
    """The event that `data` writes, validated.

    Raises `EventDecodeError` and its kinds where `data` is not an event as we write it: `RecordTooLargeError`,
    `UnsupportedSchemaError`, `UnknownEventTypeError`; and `InvalidEventError` where it writes an invalid one.
    """
    try:
        record = _record(data)
        name = _type_of(record)
        version = _version_of(record)
        if version > SCHEMA_VERSION or name not in EVENT_TYPES:
            # All other keys that differ from ours in case alone are refused below, as unknown.
            refuse_folded_duplicates(record)
        if version > SCHEMA_VERSION:
            raise UnsupportedSchemaError(_unsupported(version))
        read = _EVENT_READERS.get(name)
        if read is None:
            raise UnknownEventTypeError(f"unknown event type {quoted(name)}")
        refuse_escaped_times(data)
        event: Event = read(record, None)
        validate_event(event)
    except Malformed as fault:
        raise EventDecodeError(str(fault)) from None
    except RecursionError:
        raise EventDecodeError(_NO_STACK) from None
    return event


def decode_lifecycle(data: bytes) -> ProcessLifecycleMetadata:
    """The lifecycle metadata that `data` writes, validated: the object that an event has as its `process`.

    Raises `EventDecodeError` where `data` is not one as we write it, `ProcessLifecycleValidationError` where it is
    invalid.
    """
    try:
        record = _record(data)
        refuse_escaped_times(data)
        metadata = converter.structure(record, ProcessLifecycleMetadata)
        metadata.validate()
    except Malformed as fault:
        raise EventDecodeError(str(fault)) from None
    except RecursionError:
        raise EventDecodeError(_NO_STACK) from None
    return metadata


# --- commands ---------------------------------------------------------------------------------------------------------


def encode_command(command: ProcessNotification) -> bytes:
    """The canonical bytes of `command`, which need not be valid: ask `validate_command` first.

    Raises `CommandValidationError` or `ProcessLifecycleValidationError`, with the field, where the wire has no place
    for what a field holds, and `RecordTooLargeError` above `MAX_EVENT_BYTES`.
    """
    refuse_unwritable(command)
    return _encode(command)


def decode_command(data: bytes) -> ProcessNotification:
    """The command that `data` writes, validated.

    Raises `CommandDecodeError` and its kinds where `data` is not a command as we write it: `RecordTooLargeError`,
    `UnsupportedSchemaError`, `UnknownCommandTypeError`; and as `validate_command` does where it writes an invalid one.
    """
    try:
        record = _record(data)
        name = _type_of(record)
        if name != ProcessNotification.__name__:
            raise UnknownCommandTypeError(f"unknown command type {quoted(name)}")
        version = _version_of(record)
        if version > SCHEMA_VERSION:
            raise UnsupportedSchemaError(_unsupported(version))
        refuse_escaped_times(data)
        command = converter.structure(record, ProcessNotification)
        validate_command(command)
    except Malformed as fault:
        raise CommandDecodeError(str(fault)) from None
    except RecursionError:
        raise CommandDecodeError(_NO_STACK) from None
    return command


def decode_completion(data: bytes) -> ProcessCompletionNotification:
    """The notification that `data` writes, validated: the object that a command has as its `notification`.

    Raises `CommandDecodeError` where `data` is not one as we write it, `ProcessLifecycleValidationError` where it is
    invalid.
    """
    try:
        record = _record(data)
        refuse_escaped_times(data)
        notification = converter.structure(record, ProcessCompletionNotification)
        notification.validate()
    except Malformed as fault:
        raise CommandDecodeError(str(fault)) from None
    except RecursionError:
        raise CommandDecodeError(_NO_STACK) from None
    return notification


# --- both -------------------------------------------------------------------------------------------------------------


def _encode(value: Event | ProcessNotification) -> bytes:
    fields: _Record = converter.unstructure(value)
    flat = {**fields.pop("header"), **fields, "type": type(value).__name__, "v": SCHEMA_VERSION}
    data = write_json({key: flat[key] for key in sorted(flat)})
    if len(data) > MAX_EVENT_BYTES:
        raise RecordTooLargeError(_too_large(len(data)))
    return data


def _record(data: object) -> _Record:
    """The object that `data` writes; null is an empty one."""
    if type(data) is not bytes:
        raise Malformed(f"expected bytes, got {type(data).__name__}")
    if len(data) > MAX_EVENT_BYTES:
        raise RecordTooLargeError(_too_large(len(data)))
    record = read_json(data)
    if record is None:
        return {}
    if not is_object(record):
        raise Malformed("expected an object")
    return record


def _type_of(record: _Record) -> str:
    name = record.pop("type", None)
    if name is not None and type(name) is not str:
        raise Malformed("type: expected a text")
    return name or ""


def _version_of(record: _Record) -> int:
    version = record.pop("v", None)
    if version is None:
        return SCHEMA_VERSION
    if type(version) is not int or not 0 <= version < 2**32:
        raise Malformed("v: expected an integer from 0 to 4294967295")
    return version


def _too_large(size: int) -> str:
    return f"a record of {size} bytes; at most {MAX_EVENT_BYTES} are read or written"


def _unsupported(version: int) -> str:
    return f"schema version {version}; this library reads up to {SCHEMA_VERSION}: upgrade it to read the record"
