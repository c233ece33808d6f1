"""The reference's own answers: verdict, first invalid field, rule and exact bytes."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from vector_values import (
    Row,
    activity_of,
    command_of,
    event_of,
    in_microseconds,
    metadata_of,
    notification_of,
    rows,
    shaped,
    snake_case,
    time_of,
)

from lastword.notifier import (
    CommandValidationError,
    EventFactory,
    InvalidEventError,
    LastwordError,
    ProcessLifecycleValidationError,
    decode_command,
    decode_completion,
    decode_event,
    decode_lifecycle,
    encode_command,
    encode_event,
    validate_command,
    validate_event,
)


def named(row: Row) -> str:
    return ascii(row["name"])


def applicable(name: str) -> list[Row]:
    return [row for row in rows(name) if not row.get("sub_microsecond")]


def first_field(validate: Any) -> str:
    """The field that a validation names, or "" where it finds nothing."""
    try:
        validate()
    except ProcessLifecycleValidationError as error:
        return error.field
    return ""


def test_every_triple_of_kind_state_and_reason_is_judged_as_the_reference_judges_it() -> None:
    """One assertion per row of the matrix."""
    for row in rows("lifecycle_matrix"):
        made = shaped(
            kind=row["kind"],
            state=row["state"],
            reason=row["reason"],
            started=row["has_started"],
            finished=row["has_finished"],
            exit_code=0 if row["has_exit_code"] else None,
        )
        assert (row["error_field"], row) == (first_field(made.validate), row)


def test_every_presence_of_fields_is_judged_as_the_reference_judges_it() -> None:
    """Through the decoder, since an exit code without its flag exists on the wire alone."""
    for row in rows("shape_matrix"):
        wire = _dto(row)
        assert (row["error_field"], row) == (first_field(lambda wire=wire: decode_lifecycle(wire)), row)


def _dto(row: Row) -> bytes:
    made: Row = {
        "event_id": str(UUID(int=1)),
        "kind": row["kind"],
        "session_id": str(UUID(int=2)),
        "loop_id": str(UUID(int=3)),
        "process_handle": "h",
        "origin_execution_id": str(UUID(int=4)),
        "state": row["state"],
        "process_created_at": "2026-03-14T15:09:26Z",
        "has_exit_code": row["has_exit_code"],
        "exit_code": row["exit_code"],
        "reason": row["reason"],
        "diagnostic": row["diagnostic"],
    }
    if row["started"]:
        made["process_started_at"] = "2026-03-14T15:09:27Z"
    if row["finished"]:
        made["process_finished_at"] = "2026-03-14T15:09:28Z"
    return json.dumps(made).encode()


def test_every_pair_of_a_completion_is_judged_as_the_reference_judges_it() -> None:
    """One assertion per row of the matrix."""
    for row in rows("completion_matrix"):
        made = notification_of(
            {
                "command_id": str(UUID(int=1)),
                "session_id": str(UUID(int=2)),
                "loop_id": str(UUID(int=3)),
                "process_handle": "h",
                "state": row["state"],
                "reason": row["reason"],
            }
        )
        assert (row["error_field"], row) == (first_field(made.validate), row)


@pytest.mark.parametrize("row", applicable("metadata_cases"), ids=named)
def test_metadata_is_judged_as_the_reference_judges_it(row: Row) -> None:
    """Decoded from the row's JSON, and, where Python can hold the value, built by hand."""
    data = json.dumps(row["input"]).encode()
    decode = decode_lifecycle if row["dto"] == "lifecycle" else decode_completion
    assert row["error_field"] == first_field(lambda: decode(data))
    if "exit_code" not in row["input"] or row["input"].get("has_exit_code"):
        build = metadata_of if row["dto"] == "lifecycle" else notification_of
        assert row["error_field"] == first_field(build(row["input"]).validate)


@pytest.mark.parametrize("row", applicable("workflow_cases"), ids=named)
def test_workflow_activities_are_judged_as_the_reference_judges_them(row: Row) -> None:
    """Built by hand and decoded: the same verdict, field and rule."""
    data = json.dumps({"type": "WorkflowActivity", "v": 1, **row["input"]}).encode()
    for validate in (lambda: validate_event(activity_of(row["input"])), lambda: decode_event(data)):
        if row["valid"]:
            validate()
            continue
        with pytest.raises(InvalidEventError) as caught:
            validate()
        expected = ("WorkflowActivity", snake_case(row["error_field"]), row["rule"])
        assert expected == (caught.value.event, caught.value.field, caught.value.rule)


class _Stopped:
    """A clock that shows one time."""

    def __init__(self, text: str) -> None:
        self._time = time_of(text)

    def now(self) -> Any:
        return self._time


@pytest.mark.parametrize("row", applicable("stamp_cases"), ids=named)
def test_workflow_activities_are_stamped_as_the_reference_stamps_them(row: Row) -> None:
    """Id, time and bytes, or the field and rule of the refusal."""
    factory = EventFactory(UUID(int=9), clock=_Stopped(row["clock_now"]), new_id=lambda: UUID(int=8))
    activity, wanted = activity_of(row["input"]), UUID(row["deterministic_id"])
    if not row["valid"]:
        with pytest.raises(InvalidEventError) as caught:
            factory.stamp_workflow_activity(activity, wanted)
        assert (snake_case(row["error_field"]), row["rule"]) == (caught.value.field, caught.value.rule)
        return
    stamped = factory.stamp_workflow_activity(activity, wanted)
    assert UUID(row["event_id"]) == stamped.header.event_id
    assert time_of(row["created_at"]) == stamped.header.created_at
    assert in_microseconds(row["wire"]) == encode_event(stamped)


WIRE_ROWS = applicable("wire_events")


@pytest.mark.parametrize("row", [r for r in WIRE_ROWS if r["type"] == "ProcessNotification"], ids=named)
def test_commands_are_written_byte_for_byte_as_the_reference_writes_them(row: Row) -> None:
    """Valid or not: writing judges nothing, validating names the field."""
    command = command_of(row["header"], row["body"])
    assert in_microseconds(row["wire"]) == encode_command(command)
    if row["accepted"]:
        validate_command(command)
        assert command == decode_command(encode_command(command))
        return
    for judge in (lambda: validate_command(command), lambda: decode_command(encode_command(command))):
        with pytest.raises(LastwordError) as caught:
            judge()
        assert isinstance(caught.value, CommandValidationError | ProcessLifecycleValidationError)
        assert row["error_kind"] == type(caught.value).__name__
        assert snake_case(row["error_field"]) == caught.value.field


@pytest.mark.parametrize(
    # Year 10000 cannot be held by a datetime, so it cannot be asked of us.
    "row",
    [r for r in WIRE_ROWS if r["type"] != "ProcessNotification" and "year 10000" not in r["name"]],
    ids=named,
)
def test_events_are_written_byte_for_byte_as_the_reference_writes_them(row: Row) -> None:
    """The bytes, and that they come back; or the refusal's field and rule."""
    event = event_of(row["type"], row["header"], row["body"])
    if not row["accepted"]:
        with pytest.raises(InvalidEventError) as caught:
            encode_event(event)
        expected = (row["type"], snake_case(row["error_field"]), row["rule"])
        assert expected == (caught.value.event, caught.value.field, caught.value.rule)
        return
    assert in_microseconds(row["wire"]) == encode_event(event)
    assert event == decode_event(encode_event(event))


@pytest.mark.parametrize("row", applicable("decode_cases"), ids=named)
def test_bytes_are_read_as_the_reference_reads_them(row: Row) -> None:
    """The same value or the same refusal; rows that a stricter reader may refuse are refused by name or agree."""
    data = row["input"].encode()
    decode: Any = {"event": decode_event, "command": decode_command}[row["codec"]]
    encode: Any = {"event": encode_event, "command": encode_command}[row["codec"]]
    if row["accepted"]:
        try:
            value: Any = decode(data)
        except LastwordError:
            assert row.get("may_refuse"), "refused, where the reference reads it and ours has no leave to be stricter"
            return
        if "remarshal" in row:
            assert in_microseconds(row["remarshal"]) == encode(value)
        return
    with pytest.raises(LastwordError) as caught:
        decode(data)
    error = caught.value
    assert row["error_kind"] == type(error).__name__
    if isinstance(error, InvalidEventError):
        expected = (row["error_event"], snake_case(row["error_field"]), row["rule"])
        assert expected == (error.event, error.field, error.rule)
    if isinstance(error, CommandValidationError | ProcessLifecycleValidationError):
        assert snake_case(row["error_field"]) == error.field
