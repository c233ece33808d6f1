"""Builds our values from the plain forms that the vectors hold, and compares bytes as their README says."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs

from lastword.notifier import (
    Cause,
    CommandHeader,
    Event,
    EventHeader,
    ProcessBackgrounded,
    ProcessCompleted,
    ProcessCompletionNotification,
    ProcessLifecycleMetadata,
    ProcessLost,
    ProcessNotification,
    ProcessStarted,
    ProcessStopRequested,
    WorkflowActivity,
)

VECTORS = Path(__file__).parent.parent / "vectors"

Row = dict[str, Any]

EVENT_CLASSES = {
    cls.__name__: cls
    for cls in (ProcessStarted, ProcessBackgrounded, ProcessCompleted, ProcessStopRequested, ProcessLost)
}

_ID_FIELDS = {
    "command_id",
    "event_id",
    "loop_id",
    "origin_execution_id",
    "run_id",
    "session_id",
    "step_id",
    "tool_execution_id",
    "turn_id",
    "vertex_id",
}
_FRACTION = re.compile(r"(T\d\d:\d\d:\d\d)\.(\d{7,9})(Z|[+-]\d\d:\d\d)")


def rows(name: str) -> list[Row]:
    """The rows of one list of vectors."""
    loaded: list[Row] = json.loads((VECTORS / f"{name}.json").read_text())
    return loaded


def snake_case(field: str) -> str:
    """The reference's name of a field as ours: `EventID` is event_id, `ActivityKind` the wire's kind."""
    if field == "ActivityKind":
        return "kind"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", field).lower()


def in_microseconds(wire: str) -> bytes:
    """`wire` with every time cut to six digits of fraction and trimmed, as we write it."""

    def cut(found: re.Match[str]) -> str:
        fraction = found[2][:6].rstrip("0")
        return f"{found[1]}.{fraction}{found[3]}" if fraction else f"{found[1]}{found[3]}"

    return _FRACTION.sub(cut, wire).encode()


def time_of(text: str) -> datetime:
    """The instant of a vector's time, in its own offset; nanoseconds are cut, but never to zero."""
    time = datetime.fromisoformat(text)
    cut_to_zero = time.year == 1 and time.microsecond == 0 and text.rstrip("Z").split(".")[-1].strip("0").isdigit()
    return time.replace(microsecond=1) if cut_to_zero else time


def fields_of(form: Row) -> Row:
    """The keyword arguments that a plain form stands for: texts become ids and times, zero is left out."""
    fields: Row = {}
    for key, value in form.items():
        if key in _ID_FIELDS:
            fields[key] = UUID(value)
        elif key.endswith("_at"):
            fields[key] = time_of(value)
        elif key == "cause":
            fields[key] = Cause(**fields_of(value))
        else:
            fields[key] = value
    return fields


def metadata_of(form: Row) -> ProcessLifecycleMetadata:
    """Lifecycle metadata from its plain form; what is absent is zero."""
    fields = {**_zeros(ProcessLifecycleMetadata), **fields_of(form)}
    if fields.pop("has_exit_code", False):
        fields["exit_code"] = fields.get("exit_code") or 0
    return ProcessLifecycleMetadata(**fields)


def notification_of(form: Row) -> ProcessCompletionNotification:
    """A completion notification from its plain form; what is absent is zero."""
    return ProcessCompletionNotification(**{**_zeros(ProcessCompletionNotification), **fields_of(form)})


def event_of(type_name: str, header: Row, body: Row) -> Event:
    """An event from its plain form."""
    made = EventHeader(**{**_zeros(EventHeader), **fields_of(header)})
    if type_name == "WorkflowActivity":
        return WorkflowActivity(header=made, **{**_zeros(WorkflowActivity, skip={"header"}), **fields_of(body)})
    return EVENT_CLASSES[type_name](header=made, process=metadata_of(body.get("process", {})))


def activity_of(flat: Row) -> WorkflowActivity:
    """A workflow activity from its flat form, in which header and body share one object."""
    header_fields = {field.name for field in attrs.fields(EventHeader)}
    header = {key: value for key, value in flat.items() if key in header_fields}
    body = {key: value for key, value in flat.items() if key not in header_fields}
    made = event_of("WorkflowActivity", header, body)
    assert isinstance(made, WorkflowActivity)
    return made


def command_of(header: Row, body: Row) -> ProcessNotification:
    """A command from its plain form."""
    made = CommandHeader(**{**_zeros(CommandHeader), **fields_of(header)})
    return ProcessNotification(header=made, notification=notification_of(body["notification"]))


def _zeros(cls: type[attrs.AttrsInstance], skip: frozenset[str] | set[str] = frozenset()) -> Row:
    """Zero for each field that has no default."""
    zeros = {"process_handle": "", "kind": 0, "state": 0, "reason": 0, "status": "", "workflow_name": ""}
    zeros["workflow_version"] = ""
    required = [field.name for field in attrs.fields(cls) if field.default is attrs.NOTHING]
    return {name: zeros.get(name) for name in required if name not in skip}


ORIGIN = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


def shaped(
    *, kind: int, state: int, reason: int, started: bool, finished: bool, exit_code: int | None, diagnostic: str = ""
) -> ProcessLifecycleMetadata:
    """Metadata that is well formed but for what a row of a matrix says."""
    return ProcessLifecycleMetadata(
        event_id=UUID(int=1),
        kind=kind,
        session_id=UUID(int=2),
        loop_id=UUID(int=3),
        process_handle="handle",
        origin_execution_id=UUID(int=4),
        state=state,
        process_created_at=ORIGIN,
        process_started_at=ORIGIN + timedelta(seconds=1) if started else None,
        process_finished_at=ORIGIN + timedelta(seconds=2) if finished else None,
        exit_code=exit_code,
        reason=reason,
        diagnostic=diagnostic,
    )
