"""The contract: values, rules and wire format, the ports between the two sides, and the courier that never gives up."""

from __future__ import annotations

from ._clock import Clock as Clock
from ._clock import SystemClock as SystemClock
from ._commands import CommandHeader as CommandHeader
from ._commands import ProcessNotification as ProcessNotification
from ._commands import validate_command as validate_command
from ._completion import ProcessCompletionNotification as ProcessCompletionNotification
from ._courier import Courier as Courier
from ._courier import CourierObserver as CourierObserver
from ._diagnostic import build_diagnostic as build_diagnostic
from ._enums import Disposition as Disposition
from ._enums import LifecycleKind as LifecycleKind
from ._enums import ProcessState as ProcessState
from ._enums import TerminalReason as TerminalReason
from ._enums import Visibility as Visibility
from ._enums import WorkflowActivityKind as WorkflowActivityKind
from ._enums import WorkflowRunStatus as WorkflowRunStatus
from ._errors import CommandDecodeError as CommandDecodeError
from ._errors import CommandValidationError as CommandValidationError
from ._errors import DeliveryError as DeliveryError
from ._errors import EventDecodeError as EventDecodeError
from ._errors import IdempotencyCollisionError as IdempotencyCollisionError
from ._errors import IllegalTransitionError as IllegalTransitionError
from ._errors import InvalidArgumentError as InvalidArgumentError
from ._errors import InvalidEventError as InvalidEventError
from ._errors import JournalFencedError as JournalFencedError
from ._errors import JournalUnavailableError as JournalUnavailableError
from ._errors import LastwordError as LastwordError
from ._errors import LoopNotFoundError as LoopNotFoundError
from ._errors import ProcessLifecycleValidationError as ProcessLifecycleValidationError
from ._errors import ProcessNotificationDeliveryStoppedError as ProcessNotificationDeliveryStoppedError
from ._errors import ProcessNotificationOwnerMismatchError as ProcessNotificationOwnerMismatchError
from ._errors import ProcessNotificationUnsupportedError as ProcessNotificationUnsupportedError
from ._errors import RecordTooLargeError as RecordTooLargeError
from ._errors import SecondTerminalError as SecondTerminalError
from ._errors import UnknownCommandTypeError as UnknownCommandTypeError
from ._errors import UnknownEventTypeError as UnknownEventTypeError
from ._errors import UnsupportedSchemaError as UnsupportedSchemaError
from ._events import Event as Event
from ._events import ProcessBackgrounded as ProcessBackgrounded
from ._events import ProcessCompleted as ProcessCompleted
from ._events import ProcessEvent as ProcessEvent
from ._events import ProcessLost as ProcessLost
from ._events import ProcessStarted as ProcessStarted
from ._events import ProcessStopRequested as ProcessStopRequested
from ._events import validate_event as validate_event
from ._factory import EventFactory as EventFactory
from ._factory import build_process_event as build_process_event
from ._fields import MAX_EVENT_BYTES as MAX_EVENT_BYTES
from ._fields import MAX_PROCESS_DIAGNOSTIC_BYTES as MAX_PROCESS_DIAGNOSTIC_BYTES
from ._fields import MAX_PROCESS_HANDLE_BYTES as MAX_PROCESS_HANDLE_BYTES
from ._header import Cause as Cause
from ._header import EventHeader as EventHeader
from ._header import Owner as Owner
from ._ids import ProcessIds as ProcessIds
from ._ids import ack_id as ack_id
from ._ids import main_loop_id as main_loop_id
from ._ids import new_handle as new_handle
from ._ids import new_uuid7 as new_uuid7
from ._ids import process_ids as process_ids
from ._lifecycle import ProcessLifecycleMetadata as ProcessLifecycleMetadata
from ._matrix import COMPLETION_REASONS as COMPLETION_REASONS
from ._matrix import LIFECYCLE_SHAPES as LIFECYCLE_SHAPES
from ._matrix import Presence as Presence
from ._matrix import Shape as Shape
from ._outbox import Outbox as Outbox
from ._outbox import OutboxUnit as OutboxUnit
from ._pending import PendingDelivery as PendingDelivery
from ._ports import CompletionNotifier as CompletionNotifier
from ._ports import DeliverySink as DeliverySink
from ._ports import LifecyclePublisher as LifecyclePublisher
from ._ports import WorkflowActivityPublisher as WorkflowActivityPublisher
from ._records import Appended as Appended
from ._records import AppendResult as AppendResult
from ._records import Collision as Collision
from ._records import Duplicate as Duplicate
from ._records import NewRecord as NewRecord
from ._records import RecordKind as RecordKind
from ._records import SecondTerminal as SecondTerminal
from ._retry import next_delay as next_delay
from ._scrubber import REDACTED as REDACTED
from ._scrubber import Scrubber as Scrubber
from ._transitions import INITIAL_STATE as INITIAL_STATE
from ._transitions import TRANSITIONS as TRANSITIONS
from ._transitions import advance as advance
from ._verdict import Verdict as Verdict
from ._wire import SCHEMA_VERSION as SCHEMA_VERSION
from ._wire import decode_command as decode_command
from ._wire import decode_completion as decode_completion
from ._wire import decode_event as decode_event
from ._wire import decode_lifecycle as decode_lifecycle
from ._wire import encode_command as encode_command
from ._wire import encode_event as encode_event
from ._workflow import MAX_VERTEX_LABEL_BYTES as MAX_VERTEX_LABEL_BYTES
from ._workflow import MAX_WORKFLOW_MESSAGE_BYTES as MAX_WORKFLOW_MESSAGE_BYTES
from ._workflow import MAX_WORKFLOW_VERSION_BYTES as MAX_WORKFLOW_VERSION_BYTES
from ._workflow import MAX_WORKFLOW_VERTICES as MAX_WORKFLOW_VERTICES
from ._workflow import WorkflowActivity as WorkflowActivity

__all__ = [
    "COMPLETION_REASONS",
    "INITIAL_STATE",
    "LIFECYCLE_SHAPES",
    "MAX_EVENT_BYTES",
    "MAX_PROCESS_DIAGNOSTIC_BYTES",
    "MAX_PROCESS_HANDLE_BYTES",
    "MAX_VERTEX_LABEL_BYTES",
    "MAX_WORKFLOW_MESSAGE_BYTES",
    "MAX_WORKFLOW_VERSION_BYTES",
    "MAX_WORKFLOW_VERTICES",
    "REDACTED",
    "SCHEMA_VERSION",
    "TRANSITIONS",
    "AppendResult",
    "Appended",
    "Cause",
    "Clock",
    "Collision",
    "CommandDecodeError",
    "CommandHeader",
    "CommandValidationError",
    "CompletionNotifier",
    "Courier",
    "CourierObserver",
    "DeliveryError",
    "DeliverySink",
    "Disposition",
    "Duplicate",
    "Event",
    "EventDecodeError",
    "EventFactory",
    "EventHeader",
    "IdempotencyCollisionError",
    "IllegalTransitionError",
    "InvalidArgumentError",
    "InvalidEventError",
    "JournalFencedError",
    "JournalUnavailableError",
    "LastwordError",
    "LifecycleKind",
    "LifecyclePublisher",
    "LoopNotFoundError",
    "NewRecord",
    "Outbox",
    "OutboxUnit",
    "Owner",
    "PendingDelivery",
    "Presence",
    "ProcessBackgrounded",
    "ProcessCompleted",
    "ProcessCompletionNotification",
    "ProcessEvent",
    "ProcessIds",
    "ProcessLifecycleMetadata",
    "ProcessLifecycleValidationError",
    "ProcessLost",
    "ProcessNotification",
    "ProcessNotificationDeliveryStoppedError",
    "ProcessNotificationOwnerMismatchError",
    "ProcessNotificationUnsupportedError",
    "ProcessStarted",
    "ProcessState",
    "ProcessStopRequested",
    "RecordKind",
    "RecordTooLargeError",
    "Scrubber",
    "SecondTerminal",
    "SecondTerminalError",
    "Shape",
    "SystemClock",
    "TerminalReason",
    "UnknownCommandTypeError",
    "UnknownEventTypeError",
    "UnsupportedSchemaError",
    "Verdict",
    "Visibility",
    "WorkflowActivity",
    "WorkflowActivityKind",
    "WorkflowActivityPublisher",
    "WorkflowRunStatus",
    "ack_id",
    "advance",
    "build_diagnostic",
    "build_process_event",
    "decode_command",
    "decode_completion",
    "decode_event",
    "decode_lifecycle",
    "encode_command",
    "encode_event",
    "main_loop_id",
    "new_handle",
    "new_uuid7",
    "next_delay",
    "process_ids",
    "validate_command",
    "validate_event",
]
