"""Two rules broken at once: the one that the contract names first is reported.

Each list below is the contract's order, written out a second time; every pair of its members is broken together, in
values built by hand and, where the wire can carry them, in bytes.
"""

from __future__ import annotations

import itertools
import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from contract_samples import ACTIVITY, NOTIFICATION, PROCESS, SOUND, but
from vector_values import ORIGIN

from lastword.notifier import (
    Cause,
    CommandHeader,
    CommandValidationError,
    InvalidEventError,
    ProcessLifecycleValidationError,
    ProcessNotification,
    build_process_event,
    decode_lifecycle,
    encode_event,
    validate_command,
    validate_event,
)

Breaks = list[tuple[str, dict[str, Any]]]

LIFECYCLE: Breaks = [
    ("event_id", {"event_id": None}),
    ("kind", {"kind": 6}),
    ("session_id", {"session_id": None}),
    ("loop_id", {"loop_id": None}),
    ("process_handle", {"process_handle": "a/b"}),
    ("origin_execution_id", {"origin_execution_id": None}),
    ("state", {"state": 10}),
    ("process_created_at", {"process_created_at": None}),
    ("process_started_at", {"process_started_at": ORIGIN - timedelta(microseconds=1)}),
    ("process_finished_at", {"process_finished_at": ORIGIN - timedelta(seconds=1)}),
    ("diagnostic", {"diagnostic": "x" * 513}),
    ("exit_code", {"exit_code": 2**31}),
    ("state_reason", {"reason": 1}),
    ("lifecycle_fields", {"process_finished_at": None}),
]


def pairs(breaks: Breaks) -> list[Any]:
    """Each break alone, and each two that do not set the same field."""
    alone = [pytest.param(field, change, id=field) for field, change in breaks]
    both = [
        pytest.param(first, {**change, **other}, id=f"{first}, {second}")
        for (first, change), (second, other) in itertools.combinations(breaks, 2)
        if not set(change) & set(other)
    ]
    return alone + both


@pytest.mark.parametrize(("field", "change"), pairs(LIFECYCLE))
def test_of_metadata_the_first_broken_rule_is_named(field: str, change: dict[str, Any]) -> None:
    """Of values built by hand."""
    with pytest.raises(ProcessLifecycleValidationError) as caught:
        but(SOUND, **change).validate()
    assert field == caught.value.field


@pytest.mark.parametrize(
    ("field", "change"),
    pairs(
        [("exit_code", {"exit_code": 3}) if field == "exit_code" else (field, change) for field, change in LIFECYCLE]
    ),
)
def test_of_written_metadata_the_first_broken_rule_is_named(field: str, change: dict[str, Any]) -> None:
    """Of bytes, where a code can come without its flag."""
    record = json.loads(encode_event(build_process_event(SOUND, created_at=None)))["process"]
    for key, value in change.items():
        record[key] = value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
    with pytest.raises(ProcessLifecycleValidationError) as caught:
        decode_lifecycle(json.dumps(record).encode())
    assert field == caught.value.field


def test_a_diagnostic_is_judged_for_its_length_first_and_then_for_its_place() -> None:
    """Both before the exit code."""
    out_of_place = {"state": 3, "reason": 1}
    for change in ({}, {"exit_code": 2**31}):
        with pytest.raises(ProcessLifecycleValidationError) as caught:
            but(SOUND, **out_of_place, **change).validate()
        assert caught.value.field == "diagnostic"


@pytest.mark.parametrize(
    ("field", "change"),
    pairs(
        [
            ("command_id", {"command_id": None}),
            ("session_id", {"session_id": None}),
            ("loop_id", {"loop_id": None}),
            ("process_handle", {"process_handle": ""}),
            ("state_reason", {"state": 2}),
            ("state_reason", {"reason": 2}),
        ]
    ),
)
def test_of_a_notification_the_first_broken_rule_is_named(field: str, change: dict[str, Any]) -> None:
    """Of values built by hand."""
    with pytest.raises(ProcessLifecycleValidationError) as caught:
        but(NOTIFICATION, **change).validate()
    assert field == caught.value.field


@pytest.mark.parametrize(
    ("field", "change"),
    pairs(
        [
            ("command_id", {"command_id": None}),
            ("cause", {"cause": Cause(agency=300)}),
            ("agency", {"agency": 256}),
            ("created_at", {"created_at": datetime(2026, 1, 1)}),
        ]
    ),
)
def test_of_a_command_the_header_comes_first(field: str, change: dict[str, Any]) -> None:
    """Then the notification's id, then the notification."""
    header = but(CommandHeader(command_id=UUID(int=1)), **change)
    for notification in (
        NOTIFICATION,
        but(NOTIFICATION, command_id=UUID(int=9)),
        but(NOTIFICATION, state=2),
        None,
    ):
        command = but(ProcessNotification(header=header, notification=NOTIFICATION), notification=notification)
        with pytest.raises(CommandValidationError) as caught:
            validate_command(command)
        assert ("ProcessNotification", field) == (caught.value.command, caught.value.field)


def test_of_a_command_the_id_comes_before_what_it_notifies_of() -> None:
    """Another id, or none, is the notification's fault as a whole; only then its own fields are looked at."""
    header = CommandHeader(command_id=UUID(int=1))
    for wrong_id in (UUID(int=9), None):
        broken = but(NOTIFICATION, command_id=wrong_id, process_handle="", state=2)
        with pytest.raises(CommandValidationError) as caught:
            validate_command(ProcessNotification(header=header, notification=broken))
        assert caught.value.field == "notification"
    with pytest.raises(ProcessLifecycleValidationError) as refused:
        validate_command(ProcessNotification(header=header, notification=but(NOTIFICATION, state=2)))
    assert refused.value.field == "state_reason"


# --- events -----------------------------------------------------------------------------------------------------------

FREE: Breaks = [
    ("agent_name is invalid", {"agent_name": "\ud800"}),
    ("cause is invalid", {"cause": None}),
    ("created_at is invalid", {"created_at": datetime(2026, 1, 1)}),
]
IDENTITY: Breaks = [
    ("visibility is invalid", {"visibility": 2}),
    ("event_id must be set", {"event_id": None}),
    ("session_id must be set", {"session_id": None}),
]
OF_A_PROCESS: Breaks = [
    *IDENTITY,
    ("loop_id must be set", {"loop_id": None}),
    ("turn_id must be zero", {"turn_id": UUID(int=7)}),
    ("step_id must be zero", {"step_id": UUID(int=7)}),
    *FREE,
]
OF_A_WORKFLOW: Breaks = [
    *IDENTITY,
    ("loop_id must be zero", {"loop_id": UUID(int=7)}),
    ("turn_id must be zero", {"turn_id": UUID(int=7)}),
    ("step_id must be zero", {"step_id": UUID(int=7)}),
    *FREE,
]
PROCESS_BODY: Breaks = [
    ("event_id is invalid", {"event_id": UUID(int=7)}),
    ("session_id is invalid", {"session_id": UUID(int=7)}),
    ("loop_id is invalid", {"loop_id": UUID(int=7)}),
    ("process is invalid", {"kind": 5}),
    ("process is invalid", {"process_handle": ""}),
]
WORKFLOW_BODY: Breaks = [
    ("run_id must be set", {"run_id": None}),
    ("workflow_name must be set", {"workflow_name": ""}),
    ("workflow_name is invalid", {"workflow_name": "X"}),
    ("workflow_version must be set", {"workflow_version": ""}),
    ("workflow_version is invalid", {"workflow_version": " "}),
    ("kind is invalid", {"kind": "run"}),
    ("status is invalid", {"status": "ran"}),
    ("vertex_id is invalid", {"vertex_id": None}),
    ("vertex_label is invalid", {"vertex_label": "\n"}),
    ("progress is invalid", {"completed_vertices": 3}),
    ("progress is invalid", {"total_vertices": 1_000_001}),
    ("message is invalid", {"message": " "}),
    ("occurred_at must be set", {"occurred_at": None}),
]


def named(error: InvalidEventError) -> str:
    return f"{error.field} {error.rule}"


@pytest.mark.parametrize(("breach", "change"), pairs(OF_A_PROCESS))
def test_of_a_process_event_the_header_comes_first(breach: str, change: dict[str, Any]) -> None:
    """Before a body that is as wrong as can be, too."""
    header = but(PROCESS.header, **change)
    wrong = but(SOUND, session_id=UUID(int=7), kind=5, process_handle="")
    for process in (SOUND, wrong, None):
        with pytest.raises(InvalidEventError) as caught:
            validate_event(but(PROCESS, header=header, process=process))
        assert ("ProcessCompleted", breach) == (caught.value.event, named(caught.value))


@pytest.mark.parametrize(("breach", "change"), pairs(PROCESS_BODY))
def test_of_a_process_event_the_body_must_name_what_the_header_names(breach: str, change: dict[str, Any]) -> None:
    """Then the kind, then the rest of the metadata, both as `process`."""
    with pytest.raises(InvalidEventError) as caught:
        validate_event(but(PROCESS, process=but(SOUND, **change)))
    assert ("ProcessCompleted", breach) == (caught.value.event, named(caught.value))


@pytest.mark.parametrize(("breach", "change"), pairs(OF_A_WORKFLOW))
def test_of_a_workflow_event_the_header_comes_first(breach: str, change: dict[str, Any]) -> None:
    """Before a body that is as wrong as can be, too."""
    header = but(ACTIVITY.header, **change)
    for activity in (ACTIVITY, but(ACTIVITY, run_id=None, workflow_name="")):
        with pytest.raises(InvalidEventError) as caught:
            validate_event(but(activity, header=header))
        assert ("WorkflowActivity", breach) == (caught.value.event, named(caught.value))


@pytest.mark.parametrize(("breach", "change"), pairs(WORKFLOW_BODY))
def test_of_a_workflow_event_the_first_broken_rule_of_the_body_is_named(breach: str, change: dict[str, Any]) -> None:
    """Public comes before all of them."""
    broken = but(ACTIVITY, **change)
    with pytest.raises(InvalidEventError) as caught:
        validate_event(broken)
    assert breach == named(caught.value)
    internal = but(broken, header=but(ACTIVITY.header, visibility=1))
    with pytest.raises(InvalidEventError) as caught:
        validate_event(internal)
    assert named(caught.value) == "visibility is invalid"
