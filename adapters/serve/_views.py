"""The core's values as the protocol shows them, and its errors as faults."""

from __future__ import annotations

import json

from ...notifier import Event as CoreEvent
from ...notifier import (
    InvalidArgumentError,
    JournalFencedError,
    JournalUnavailableError,
    LastwordError,
    PendingDelivery,
    encode_event,
)
from ...session import Delivery, SessionClosedError
from ...supervisor import Outcome, OutputChunk, Process, SpawnFailedError, SupervisorError
from ._replies import Fault, FaultCode
from ._resolve import AmbiguousProcessError, Candidate, NoSuchProcessError
from ._values import Chunk, EventInfo, OutcomeInfo, PendingInfo, ProcessInfo

# A line takes one of the longest events that we make ourselves many times over; others' may be larger than any line.
MAX_SHOWN_EVENT = 128 * 1024

# Errors of a journal's backend can be of any length.
_MAX_ERROR_CHARACTERS = 512


def candidate(process: Process) -> Candidate:
    """What a word is compared with."""
    return Candidate(process.handle, process.name, process.outcome is None)


def show_process(process: Process) -> ProcessInfo:
    """The process as it is now."""
    outcome = process.outcome
    return ProcessInfo(
        handle=process.handle,
        command_id=process.command_id,
        loop_id=process.owner.loop_id,
        name=process.name,
        program=process.program,
        state=process.state.name.lower(),
        created_at=process.created_at,
        started_at=process.started_at,
        backgrounded=process.backgrounded,
        outcome=None if outcome is None else show_outcome(outcome),
    )


def show_outcome(outcome: Outcome) -> OutcomeInfo:
    """How it ended."""
    return OutcomeInfo(
        state=outcome.state.name.lower(),
        reason=outcome.reason.name.lower(),
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        shell_code=outcome.shell_code,
        started_at=outcome.started_at,
        finished_at=outcome.finished_at,
        survivors=outcome.survivors,
        output_open=outcome.output_open,
        total_bytes=outcome.total_bytes,
        output_error=outcome.output_error is not None,
        containment=outcome.containment.name.lower(),
        proven=outcome.proven,
        diagnostic=outcome.diagnostic,
    )


def show_chunk(chunk: OutputChunk) -> Chunk:
    """A piece of output."""
    return Chunk(
        data=chunk.data,
        start=chunk.start,
        next_cursor=chunk.next_cursor,
        omitted=chunk.omitted,
        total=chunk.total,
        ended=chunk.ended,
        output_error=chunk.output_error is not None,
    )


def show_event(delivery: Delivery) -> tuple[EventInfo, int]:
    """A public event from the journal, and about how long it is."""
    event = delivery.event
    # What has a place in the journal is no ephemeral event.
    record = encode_event(event) if isinstance(event, CoreEvent) else b""
    short = 0 < len(record) <= MAX_SHOWN_EVENT
    return EventInfo(seq=delivery.journal_seq, event=json.loads(record) if short else None), len(record) if short else 0


def show_pending(pending: PendingDelivery) -> PendingInfo:
    """A record whose way home is not finished."""
    return PendingInfo(
        record_id=pending.record_id,
        kind=pending.kind,
        process_handle=pending.process_handle,
        attempts=pending.attempts,
        status=pending.status,
        last_error=None if pending.last_error is None else pending.last_error[:_MAX_ERROR_CHARACTERS],
    )


def fault_of(error: LastwordError) -> Fault:
    """What a client is told of an error of ours."""
    match error:
        case SpawnFailedError():
            return Fault(
                code=error.code, message=error.message, kind=error.kind, errno=error.errno, handle=error.handle
            )
        case SupervisorError():
            return Fault(code=error.code, message=error.message, field=getattr(error, "field", None))
        case NoSuchProcessError():
            return Fault(code="not_found", message=str(error))
        case AmbiguousProcessError():
            return Fault(code=FaultCode.AMBIGUOUS, message=str(error))
        case InvalidArgumentError():
            return Fault(code=FaultCode.INVALID_REQUEST, message=str(error), field=error.field)
        case SessionClosedError():
            return Fault(code=FaultCode.SHUTTING_DOWN, message="the server is ending; start it again")
        case JournalUnavailableError() | JournalFencedError():
            return Fault(code=FaultCode.JOURNAL_UNAVAILABLE, message=str(error))
        case _:
            return Fault(code=FaultCode.FAILED, message=f"{type(error).__name__}: {error}")
