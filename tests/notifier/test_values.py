"""What the values are made of: their classes, and the numbers and words of the closed domains."""

from __future__ import annotations

import inspect
from datetime import timedelta
from enum import Enum
from typing import Any
from uuid import UUID

import attrs
import pytest
from contract_samples import ACTIVITY, COMMAND, NOTIFICATION, PROCESS, SOUND

from lastword.notifier import (
    Cause,
    Disposition,
    LifecycleKind,
    NewRecord,
    Owner,
    ProcessBackgrounded,
    ProcessCompleted,
    ProcessLost,
    ProcessStarted,
    ProcessState,
    ProcessStopRequested,
    RecordKind,
    SystemClock,
    TerminalReason,
    Visibility,
    WorkflowActivityKind,
    WorkflowRunStatus,
    process_ids,
)

MEMBERS: list[tuple[type[Enum], dict[str, Any]]] = [
    (LifecycleKind, {"STARTED": 1, "BACKGROUNDED": 2, "COMPLETED": 3, "STOP_REQUESTED": 4, "LOST": 5}),
    (
        ProcessState,
        {
            "STARTING": 1,
            "RUNNING": 2,
            "EXITED": 3,
            "FAILED": 4,
            "TIMED_OUT": 5,
            "INTERRUPTED": 6,
            "TERMINATED": 7,
            "KILLED": 8,
            "LOST_ON_RESTORE": 9,
        },
    ),
    (
        TerminalReason,
        {
            "NONE": 0,
            "EXITED": 1,
            "TIMED_OUT": 2,
            "INTERRUPTED": 3,
            "TERMINATED": 4,
            "KILLED": 5,
            "RUNNER_SHUTDOWN": 6,
            "FAILED": 7,
            "OUTPUT_LIMIT": 8,
            "LOST_ON_RESTORE": 9,
        },
    ),
    (Disposition, {"ACCEPTED": 1, "DUPLICATE": 2, "COLLISION": 3, "STOPPED": 4}),
    (Visibility, {"PUBLIC": 0, "INTERNAL": 1}),
    (RecordKind, {"EVENT": 1, "COMMAND": 2, "CONSUMPTION": 3, "FENCE": 4}),
    (
        WorkflowActivityKind,
        {
            name.upper(): name
            for name in (
                "run_started",
                "vertex_completed",
                "run_interrupted",
                "run_resumed",
                "run_completed",
                "run_cancelled",
                "run_failed",
            )
        },
    ),
    (
        WorkflowRunStatus,
        {name.upper(): name for name in ("running", "interrupted", "completed", "cancelled", "failed")},
    ),
]


@pytest.mark.parametrize(
    ("domain", "members"), MEMBERS, ids=lambda part: part.__name__ if isinstance(part, type) else ""
)
def test_a_domains_members_never_change(domain: type[Enum], members: dict[str, Any]) -> None:
    """A record that was written once must be read for ever: no number moves, none is used again."""
    assert {name: member.value for name, member in domain.__members__.items()} == members


def of_type(cls: type[Any]) -> Any:
    return cls(header=PROCESS.header, process=SOUND)


VALUES: list[attrs.AttrsInstance] = [
    Cause(),
    Owner(session_id=UUID(int=1), loop_id=UUID(int=2)),
    PROCESS.header,
    SOUND,
    NOTIFICATION,
    ACTIVITY,
    COMMAND.header,
    COMMAND,
    process_ids(UUID(int=1)),
    *map(of_type, (ProcessStarted, ProcessBackgrounded, ProcessCompleted, ProcessStopRequested, ProcessLost)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_frozen_slotted_and_made_by_keywords(value: attrs.AttrsInstance) -> None:
    """So that nothing that was validated changes, no field is misspelt, and none is in another's place."""
    fields = attrs.fields(type(value))
    for field in fields:
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(value, field.name, None)
        assert field.kw_only
    with pytest.raises(AttributeError):
        object.__setattr__(value, "misspelt", 1)
    assert not hasattr(value, "__dict__")
    parameters = list(inspect.signature(type(value)).parameters.values())
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    evolve: Any = attrs.evolve
    assert value == evolve(value)
    assert hash(value) == hash(evolve(value))


def test_a_records_payload_is_not_shown() -> None:
    """In a traceback or a log: it holds diagnostics and messages."""
    record = NewRecord(UUID(int=1), RecordKind.EVENT, b"the payload", loop_id=UUID(int=2))
    assert "payload" not in repr(record)
    assert "UUID" in repr(record)


def test_the_wall_clock_knows_its_offset() -> None:
    """And it is none."""
    assert SystemClock().now().utcoffset() == timedelta(0)
