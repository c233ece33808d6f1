"""The reference's answers, row by row; where ours differs on purpose, the row says so and docs/differences.md why."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import anyio
import pytest
from session_ground import Ground
from session_ground import ground as make_ground
from session_values import LOOP_A, LOOP_B, MAIN, SESSION, Job
from vector_values import rows

from lastword.notifier import (
    Appended,
    AppendResult,
    Cause,
    Collision,
    Duplicate,
    EventHeader,
    IdempotencyCollisionError,
    JournalFencedError,
    LastwordError,
    LifecycleKind,
    LoopNotFoundError,
    NewRecord,
    ProcessCompletionNotification,
    ProcessLifecycleValidationError,
    ProcessNotificationDeliveryStoppedError,
    ProcessNotificationOwnerMismatchError,
    ProcessState,
    RecordKind,
    TerminalReason,
    Visibility,
)
from lastword.session import EventFilter, LoopScope, Session
from lastword.session.journal import Journal
from lastword.session.journal._judge import fence_record

Row = dict[str, Any]


def _named(name: str) -> Any:
    """One parameter per row, by its name."""
    return [pytest.param(row, id=str(row.get("name", index))) for index, row in enumerate(rows(name))]


# --- idempotency_cases ------------------------------------------------------------------------------------------------


def _record(step: Row) -> NewRecord:
    kind, text = step["kind"], step["id"]
    if kind == "fence":  # its id is the epoch there, and a function of the epoch here
        return NewRecord(
            fence_record(SESSION, int(text)).record_id, RecordKind.FENCE, step["body"].encode(), public=False
        )
    return NewRecord(UUID(text), RecordKind[kind.upper()], step["body"].encode())


def _expected(step: Row) -> type[AppendResult]:
    if step["error"]["kind"] == "IdempotencyCollisionError":
        return Collision
    return Appended if step["appended"] else Duplicate


@pytest.mark.parametrize("row", _named("idempotency_cases"))
@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_idempotency(row: Row, backend: str, tmp_path: Path) -> None:
    """The journal answers, and numbers, as the reference's; no subject is named, for the reference knows none."""
    storage = make_ground(f"{backend}-inline", tmp_path)
    opened: list[Journal] = []
    try:
        for step in row["steps"]:
            if step["op"] == "open":
                opened.append(storage.journal())
                assert opened[-1].open(SESSION) == step["epoch"]
            elif step["kind"] == "event(unmarshalable)":
                continue  # refused by the codec, before there is a record: see tests/notifier and test_hub.py
            elif row["name"].startswith("stale writer") and step["tip_after"] == 3:
                # Difference: whoever is fenced is told so, also for what it knows.
                if len(opened) == 1:
                    opened.append(storage.journal())
                    opened[-1].open(SESSION)
                with pytest.raises(JournalFencedError):
                    opened[0].append_many([[_record(step)]])
            else:
                ((result,),) = opened[-1].append_many([[_record(step)]])
                assert type(result) is _expected(step)
                assert result.seq == step["error"].get("original_seq", step["sequence"])
                assert len(opened[-1].read(0, 100)) == step["tip_after"]
    finally:
        for journal in opened:
            journal.close()


# --- notify_cases -----------------------------------------------------------------------------------------------------

_IDS = {name: UUID(int=index) for index, name in enumerate("ab", start=100)}
_NAMED_IDS = {"b after shutdown": _IDS["b"], "a after shutdown": _IDS["a"]}


def _notification(row: Row, step: str) -> ProcessCompletionNotification:
    command, handle, session, loop, state = _IDS["a"], "h1", SESSION, MAIN, ProcessState.EXITED
    if step.startswith("fill "):
        command = UUID(int=1000 + int(step.split()[1]))
    elif step.startswith("65th"):
        command = UUID(int=1065)
    elif step == "held id again":
        command = UUID(int=1001)
    elif "/" in step:
        name, handle = step.removesuffix(" again").split("/")
        command = _IDS[name]
    command = _NAMED_IDS.get(step, command)
    if step == "zero command id":
        command = UUID(int=0)
    if step == "empty handle":
        handle = ""
    if step == "running state":
        state = ProcessState.RUNNING
    if "other session" in step:
        session = LOOP_A
    if "unknown loop" in step:
        loop = LOOP_B
    return ProcessCompletionNotification(
        command_id=command,
        session_id=session,
        loop_id=loop,
        process_handle=handle,
        state=state,
        reason=TerminalReason.EXITED,
    )


_ERRORS: dict[str, type[LastwordError]] = {
    "ProcessLifecycleValidationError": ProcessLifecycleValidationError,
    "ProcessNotificationOwnerMismatchError": ProcessNotificationOwnerMismatchError,
    "SessionError(loop_not_found)": LoopNotFoundError,
    "ProcessNotificationDeliveryStoppedError": ProcessNotificationDeliveryStoppedError,
    "IdempotencyCollisionError": IdempotencyCollisionError,
}

# Difference: a notification that is durable is a duplicate, whatever its loop can do; nobody needs to bring it again.
_DURABLE_ALREADY = {"65th retried", "a after shutdown"}


async def _notify(session: Session, notification: ProcessCompletionNotification) -> tuple[str, LastwordError | None]:
    try:
        return (await session.notify_process_completion(notification)).name.lower(), None
    except LastwordError as error:
        disposition = getattr(error, "disposition", None)
        return ("none" if disposition is None else disposition.name.lower()), error


@pytest.mark.parametrize("row", _named("notify_cases"))
async def test_notify(row: Row, ground: Ground) -> None:
    """The dispositions of the reference; its shutdown is the closing of the loop, for our journal closes last."""
    async with ground.open() as session:
        loop = session.open_loop()
        written = 0
        for step in row["steps"]:
            if step["step"] == "shutdown":
                await loop.aclose()
                continue
            disposition, error = await _notify(session, _notification(row, step["step"]))
            if step["step"] in _DURABLE_ALREADY:
                assert (disposition, error) == ("duplicate", None)
                continue
            assert disposition == step["disposition"]
            kind, _, field = step["error"].partition(":")
            assert type(error) is _ERRORS.get(kind, type(None))
            if isinstance(error, ProcessLifecycleValidationError):
                assert error.field == field
            if "durable_command_records" in step:
                written = len(await session.unacknowledged())
                assert written == step["durable_command_records"]


# --- restore_cases ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", _named("restore_cases"))
async def test_restore(row: Row, ground: Ground) -> None:
    """What is pending after a restart is what the reference seeds, in its order; ours once each, a window at a time."""
    jobs = {f"c{index}": Job(LOOP_A) for index in range(100)}
    async with ground.open() as session:
        for entry in row["commands_in_ledger_order"]:
            name, _, loop = entry.partition("@")
            if loop == "other":
                await session.deliver([Job(LOOP_B).command_record()])
            elif loop == "loop":
                await session.deliver([jobs[name].command_record()])
            else:
                await session.publish_event(Job(LOOP_A).started())
        for name in row["caused_by_loop_events"] or ():
            cause = Cause(command_id=jobs[name.split("@")[0]].ids.command)
            await session.publish_event(Job(LOOP_A).event(LifecycleKind.STARTED, cause=cause))
    async with ground.open() as session:
        loop = session.open_loop(LOOP_A)
        received: list[UUID] = []
        while dict(await session.loops()).get(LOOP_A):
            with anyio.fail_after(90):
                notice = await loop.receive()
            received.append(notice.notification.command_id)
            await notice.ack()
        expected = list(dict.fromkeys(row["seeded_in_order"] or ()))
        assert received == [jobs[name].ids.command for name in expected]


# --- filter_matrix ----------------------------------------------------------------------------------------------------

_SCOPES = {
    "none": LoopScope.none(),
    "all": LoopScope.all(),
    "loopA": LoopScope.of(LOOP_A),
    "loopB": LoopScope.of(LOOP_B),
    "both": LoopScope.of(LOOP_A, LOOP_B),
}


@pytest.mark.parametrize("row", rows("filter_matrix"), ids=str)
def test_filter(row: Row) -> None:
    """A filter admits what the reference's does."""
    event = row["event"]
    loop_id = LOOP_A if "loopA" in event else LOOP_B if "loopB" in event else None
    header = EventHeader(
        event_id=uuid4(),
        session_id=SESSION,
        loop_id=loop_id,
        visibility=Visibility.INTERNAL if "internal" in event else Visibility.PUBLIC,
    )
    event_filter = EventFilter(enduring=_SCOPES[row["enduring"]], ephemeral=_SCOPES[row["ephemeral"]])
    assert event_filter.admits(header, ephemeral="ephemeral" in event) is row["deliver"]


def test_a_filter_admits_the_sessions_own_events_alone_by_default() -> None:
    """The empty filter is the reference's."""
    assert EventFilter() == EventFilter(enduring=LoopScope.none(), ephemeral=LoopScope.none())
