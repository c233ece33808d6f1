"""One sound value of each sort, for tests that break it."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

import attrs
from vector_values import ORIGIN, shaped

from lastword.notifier import (
    CommandHeader,
    EventHeader,
    ProcessCompletionNotification,
    ProcessNotification,
    WorkflowActivity,
    build_process_event,
)

SOUND = shaped(kind=3, state=4, reason=7, started=True, finished=True, exit_code=None, diagnostic="why")
NOTIFICATION = ProcessCompletionNotification(
    command_id=UUID(int=1), session_id=UUID(int=2), loop_id=UUID(int=3), process_handle="h", state=3, reason=1
)
ACTIVITY = WorkflowActivity(
    header=EventHeader(event_id=UUID(int=1), session_id=UUID(int=2)),
    run_id=UUID(int=3),
    workflow_name="nightly",
    workflow_version="1",
    kind="run_started",
    status="running",
    vertex_id=UUID(int=4),
    vertex_label="label",
    completed_vertices=1,
    total_vertices=2,
    occurred_at=ORIGIN,
)
PROCESS = build_process_event(SOUND, created_at=ORIGIN)
COMMAND = ProcessNotification(header=CommandHeader(command_id=UUID(int=1)), notification=NOTIFICATION)

_T = TypeVar("_T")


def but(value: _T, **changes: Any) -> _T:
    """`value` with `changes`, of whatever type: constructors refuse nothing, and that is what is tested."""
    evolve: Any = attrs.evolve
    changed: _T = evolve(value, **changes)
    return changed
