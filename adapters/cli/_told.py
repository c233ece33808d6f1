"""What an event says, in words.  Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._ending import Ending

if TYPE_CHECKING:
    from ...notifier import Event, ProcessLifecycleMetadata


def how_told(event: Event) -> tuple[str, str]:
    """Whom the event is about (a handle, or "" for a workflow), and what it says."""
    from ...notifier import ProcessEvent

    if not isinstance(event, ProcessEvent):
        progress = f" {event.completed_vertices}/{event.total_vertices}" if event.total_vertices else ""
        return "", f"workflow {event.workflow_name}: {event.kind}, {event.status}{progress}"
    process = event.process
    return process.process_handle, _words(process)


def _words(process: ProcessLifecycleMetadata) -> str:
    from ...notifier import LifecycleKind, ProcessState, TerminalReason

    kind = LifecycleKind(process.kind).name.lower().replace("_", " ")
    if not ProcessState(process.state).terminal:
        if process.kind == LifecycleKind.STOP_REQUESTED:
            return f"{kind} ({TerminalReason(process.reason).name.lower()})"
        return kind
    words = Ending.of_event(process).words
    if process.process_started_at and process.process_finished_at:
        words += f", after {(process.process_finished_at - process.process_started_at).total_seconds():.3f} s"
    return f"{kind}: {words}"
