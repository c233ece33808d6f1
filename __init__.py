"""Background shell jobs for agents, and every job's last word gets home.

    async with lastword.open_runtime("folder") as runtime:
        process = await runtime.start("make test", background=True)
        notice = await runtime.loop.receive()  # returns when a job of yours has ended
        await notice.ack()  # durable: it will not be told again

Importing this costs nothing until a name is used (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._runtime import Runtime as Runtime
    from ._runtime import open_runtime as open_runtime
    from .notifier import LastwordError as LastwordError
    from .notifier import Owner as Owner
    from .notifier import PendingDelivery as PendingDelivery
    from .notifier import ProcessBackgrounded as ProcessBackgrounded
    from .notifier import ProcessCompleted as ProcessCompleted
    from .notifier import ProcessLost as ProcessLost
    from .notifier import ProcessStarted as ProcessStarted
    from .notifier import ProcessState as ProcessState
    from .notifier import ProcessStopRequested as ProcessStopRequested
    from .notifier import TerminalReason as TerminalReason
    from .notifier import WorkflowActivity as WorkflowActivity
    from .session import EventFilter as EventFilter
    from .session import Loop as Loop
    from .session import LoopScope as LoopScope
    from .session import Notice as Notice
    from .supervisor import Containment as Containment
    from .supervisor import DirectoryInUseError as DirectoryInUseError
    from .supervisor import ErrorCode as ErrorCode
    from .supervisor import Limits as Limits
    from .supervisor import Outcome as Outcome
    from .supervisor import Process as Process
    from .supervisor import SpawnFailedError as SpawnFailedError
    from .supervisor import StopMode as StopMode
    from .supervisor import SupervisorError as SupervisorError

# Where each name of the face lives.  tests/test_face.py compares this table with the imports above.
_HOMES = {
    "_runtime": ("Runtime", "open_runtime"),
    "notifier": (
        "LastwordError",
        "Owner",
        "PendingDelivery",
        "ProcessBackgrounded",
        "ProcessCompleted",
        "ProcessLost",
        "ProcessStarted",
        "ProcessState",
        "ProcessStopRequested",
        "TerminalReason",
        "WorkflowActivity",
    ),
    "session": ("EventFilter", "Loop", "LoopScope", "Notice"),
    "supervisor": (
        "Containment",
        "DirectoryInUseError",
        "ErrorCode",
        "Limits",
        "Outcome",
        "Process",
        "SpawnFailedError",
        "StopMode",
        "SupervisorError",
    ),
}

__all__ = [
    "Containment",
    "DirectoryInUseError",
    "ErrorCode",
    "EventFilter",
    "LastwordError",
    "Limits",
    "Loop",
    "LoopScope",
    "Notice",
    "Outcome",
    "Owner",
    "PendingDelivery",
    "Process",
    "ProcessBackgrounded",
    "ProcessCompleted",
    "ProcessLost",
    "ProcessStarted",
    "ProcessState",
    "ProcessStopRequested",
    "Runtime",
    "SpawnFailedError",
    "StopMode",
    "SupervisorError",
    "TerminalReason",
    "WorkflowActivity",
    "open_runtime",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(f".{home}", __name__), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
