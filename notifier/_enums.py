"""The closed domains, numbered as on the wire.

Numbers are the reference's and never change: a record written today must decode in ten years.  A number that names no
member stays a plain int in a value (constructors do not refuse); validation refuses it, with the field's name.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class LifecycleKind(IntEnum):
    """What a lifecycle event tells."""

    STARTED = 1
    BACKGROUNDED = 2
    COMPLETED = 3
    STOP_REQUESTED = 4
    LOST = 5


class ProcessState(IntEnum):
    """Where a process is in its life."""

    STARTING = 1
    RUNNING = 2
    EXITED = 3
    FAILED = 4
    TIMED_OUT = 5
    INTERRUPTED = 6
    TERMINATED = 7
    KILLED = 8
    LOST_ON_RESTORE = 9

    @property
    def terminal(self) -> bool:
        """Whether nothing can follow: the process has had its last word."""
        return self >= ProcessState.EXITED


class TerminalReason(IntEnum):
    """Why a process ended, or why it was asked to."""

    NONE = 0
    EXITED = 1
    TIMED_OUT = 2
    INTERRUPTED = 3
    TERMINATED = 4
    KILLED = 5
    RUNNER_SHUTDOWN = 6
    FAILED = 7
    OUTPUT_LIMIT = 8
    LOST_ON_RESTORE = 9


class Disposition(IntEnum):
    """What became of a notification."""

    ACCEPTED = 1
    DUPLICATE = 2
    COLLISION = 3
    STOPPED = 4


class Visibility(IntEnum):
    """Who may see an event; internal ones are never delivered to a subscriber."""

    PUBLIC = 0
    INTERNAL = 1


class WorkflowActivityKind(StrEnum):
    """What a workflow activity tells.  Kind and status are not paired: any of one goes with any of the other."""

    RUN_STARTED = "run_started"
    VERTEX_COMPLETED = "vertex_completed"
    RUN_INTERRUPTED = "run_interrupted"
    RUN_RESUMED = "run_resumed"
    RUN_COMPLETED = "run_completed"
    RUN_CANCELLED = "run_cancelled"
    RUN_FAILED = "run_failed"


class WorkflowRunStatus(StrEnum):
    """How a workflow run stands."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
