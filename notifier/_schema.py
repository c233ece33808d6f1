"""The wire format's tables: of each class, which fields there are and how each is read and written.

Importing this module registers them all.  Two places are not plain tables and are written out: the header of an event
or command lies flat among the fields of its body, and the exit code is two fields on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ._commands import CommandHeader, ProcessNotification
from ._completion import ProcessCompletionNotification
from ._converter import JsonObject, flat, named_otherwise, nested, register, required_names
from ._converter import converter as converter
from ._events import PROCESS_EVENT_TYPES, WorkflowActivity
from ._header import NO_CAUSE, Cause, EventHeader
from ._json import Malformed
from ._leaves import (
    ID,
    INT32,
    TEXT,
    TEXT_UNLESS_EMPTY,
    TIME,
    UINT8,
    UINT8_UNLESS_ZERO,
    UINT32_UNLESS_ZERO,
    Leaf,
    UnflaggedExitCode,
    as_it_is,
    kept_reader,
)
from ._lifecycle import ProcessLifecycleMetadata

# --- the header -------------------------------------------------------------------------------------------------------

_cause = register(
    Cause,
    "cause",
    {
        "session_id": ID,
        "loop_id": ID,
        "turn_id": ID,
        "step_id": ID,
        "command_id": ID,
        "event_id": ID,
        "tool_execution_id": ID,
        "agency": UINT8_UNLESS_ZERO,
    },
)


def _read_cause(value: Any, _: Any) -> Any:
    return NO_CAUSE if value is None else _cause.read(value, None)


def _write_cause(value: Cause) -> JsonObject | None:
    return None if value is NO_CAUSE else _cause.write(value) or None


_CAUSE = Leaf(named_otherwise(_read_cause), _write_cause)

_EVENT_HEADER: Mapping[str, Leaf] = {
    "event_id": ID,
    "session_id": ID,
    "loop_id": ID,
    "turn_id": ID,
    "step_id": ID,
    "agent_name": TEXT_UNLESS_EMPTY,
    "cause": _CAUSE,
    "created_at": TIME,
    "visibility": UINT8_UNLESS_ZERO,
}
_COMMAND_HEADER: Mapping[str, Leaf] = {
    "command_id": ID,
    "cause": _CAUSE,
    "agency": UINT8_UNLESS_ZERO,
    "created_at": TIME,
}


def _find_header(complete: JsonObject) -> None:
    # The header's reader takes its own keys and looks at no others.
    complete["header"] = complete


class _Head(NamedTuple):
    """A sort of header: the leaf that stands for all of it, the keys it has, and those that are required."""

    leaf: Leaf
    keys: tuple[str, ...]
    required: tuple[str, ...]


def _register_head(cls: type[Any], leaves: Mapping[str, Leaf]) -> _Head:
    return _Head(flat(register(cls, "header", leaves)), tuple(leaves), tuple(required_names(cls)))


_EVENT_HEAD = _register_head(EventHeader, _EVENT_HEADER)
_COMMAND_HEAD = _register_head(CommandHeader, _COMMAND_HEADER)


def _register_enveloped(cls: type[Any], head: _Head, body: Mapping[str, Leaf]) -> None:
    """Register an event or a command: its header lies flat among the fields of its body."""
    register(
        cls,
        cls.__name__,
        {"header": head.leaf, **body},
        keys=(*head.keys, *body),
        required=(*head.required, *(name for name in required_names(cls) if name != "header")),
        prepare=_find_header,
    )


# --- the bodies -------------------------------------------------------------------------------------------------------

_LIFECYCLE: Mapping[str, Leaf] = {
    "event_id": ID,
    "kind": UINT8,
    "session_id": ID,
    "loop_id": ID,
    "process_handle": TEXT,
    "origin_execution_id": ID,
    "state": UINT8,
    "process_created_at": TIME,
    "process_started_at": TIME,
    "process_finished_at": TIME,
    "exit_code": Leaf(kept_reader, as_it_is),
    "reason": UINT8_UNLESS_ZERO,
    "diagnostic": TEXT_UNLESS_EMPTY,
}
_read_exit_code = INT32.reader("process.exit_code")


def _join_exit_code(complete: JsonObject) -> None:
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


def _split_exit_code(fields: JsonObject) -> JsonObject:
    record: JsonObject = {}
    for key, item in fields.items():
        if item is None:
            continue
        if key == "exit_code":
            record["has_exit_code"] = True
            if item == 0:
                continue
        record[key] = item
    return record


_lifecycle = register(
    ProcessLifecycleMetadata,
    "process",
    _LIFECYCLE,
    keys=(*_LIFECYCLE, "has_exit_code"),
    prepare=_join_exit_code,
    finish=_split_exit_code,
)


_notification = register(
    ProcessCompletionNotification,
    "notification",
    {
        "command_id": ID,
        "session_id": ID,
        "loop_id": ID,
        "process_handle": TEXT,
        "state": UINT8,
        "reason": UINT8,
    },
)

# --- events and commands ----------------------------------------------------------------------------------------------

for _event_type in PROCESS_EVENT_TYPES.values():
    _register_enveloped(
        _event_type,
        _EVENT_HEAD,
        {"process": nested(_lifecycle)},
    )

_register_enveloped(
    WorkflowActivity,
    _EVENT_HEAD,
    {
        "run_id": ID,
        "workflow_name": TEXT,
        "workflow_version": TEXT,
        "kind": TEXT,
        "status": TEXT,
        "vertex_id": ID,
        "vertex_label": TEXT_UNLESS_EMPTY,
        "completed_vertices": UINT32_UNLESS_ZERO,
        "total_vertices": UINT32_UNLESS_ZERO,
        "message": TEXT_UNLESS_EMPTY,
        "occurred_at": TIME,
    },
)
_register_enveloped(
    ProcessNotification,
    _COMMAND_HEAD,
    {"notification": nested(_notification)},
)
