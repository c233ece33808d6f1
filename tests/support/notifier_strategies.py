"""Hypothesis strategies for valid values of the contract, and for bytes that almost are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import attrs
from hypothesis import strategies as st

from lastword.notifier import (
    COMPLETION_REASONS,
    LIFECYCLE_SHAPES,
    Cause,
    CommandHeader,
    Event,
    EventHeader,
    LifecycleKind,
    Presence,
    ProcessCompletionNotification,
    ProcessEvent,
    ProcessLifecycleMetadata,
    ProcessNotification,
    ProcessState,
    Visibility,
    WorkflowActivity,
    WorkflowActivityKind,
    WorkflowRunStatus,
    build_process_event,
)

ids = st.uuids()
optional_ids = st.none() | ids
handles = st.from_regex(r"\A[A-Za-z0-9_-]{1,128}\Z")
int32 = st.integers(-(2**31), 2**31 - 1)
agencies = st.integers(0, 255)

_offsets = st.sampled_from([UTC]) | st.integers(-(24 * 60 - 1), 24 * 60 - 1).map(
    lambda minutes: timezone(timedelta(minutes=minutes))
)
_origins = st.datetimes(datetime(1, 1, 3), datetime(9990, 1, 1), timezones=st.just(UTC))
_spans = st.timedeltas(timedelta(0), timedelta(days=400))
times: st.SearchStrategy[datetime] = st.builds(datetime.astimezone, _origins, _offsets)
"""Aware times in offsets of whole minutes, which the wire gives back as they were."""

any_text = st.text(st.characters(exclude_categories=["Cs"]))


def within(text: str, most: int) -> str:
    """The beginning of `text` that takes at most `most` bytes of UTF-8."""
    return text.encode()[:most].decode(errors="ignore")


diagnostics = any_text.map(lambda text: within(text, 512))

causes = st.just(Cause()) | st.builds(
    Cause,
    session_id=optional_ids,
    loop_id=optional_ids,
    turn_id=optional_ids,
    step_id=optional_ids,
    command_id=optional_ids,
    event_id=optional_ids,
    tool_execution_id=optional_ids,
    agency=agencies,
)


@st.composite
def lifecycles(draw: st.DrawFn) -> ProcessLifecycleMetadata:
    """Valid metadata of every kind."""
    (kind, state), shape = draw(st.sampled_from(sorted(LIFECYCLE_SHAPES.items())))
    created = draw(_origins)
    started = created + draw(_spans)
    finished = started + draw(_spans)
    diagnosed = kind is LifecycleKind.LOST or state is ProcessState.FAILED

    def there(presence: Presence, value: st.SearchStrategy[Any]) -> Any:
        match presence:
            case Presence.REQUIRED:
                return draw(value)
            case Presence.OPTIONAL:
                return draw(st.none() | value)
            case Presence.FORBIDDEN:
                return None

    return ProcessLifecycleMetadata(
        event_id=draw(ids),
        kind=kind,
        session_id=draw(ids),
        loop_id=draw(ids),
        process_handle=draw(handles),
        origin_execution_id=draw(ids),
        state=state,
        process_created_at=created.astimezone(draw(_offsets)),
        process_started_at=there(shape.started, _offsets.map(started.astimezone)),
        process_finished_at=there(shape.finished, _offsets.map(finished.astimezone)),
        exit_code=there(shape.exit_code, int32),
        reason=draw(st.sampled_from(sorted(shape.reasons))),
        diagnostic=draw(diagnostics) if diagnosed else "",
    )


@st.composite
def completions(draw: st.DrawFn) -> ProcessCompletionNotification:
    """Valid notifications."""
    state, reasons = draw(st.sampled_from(sorted(COMPLETION_REASONS.items())))
    return ProcessCompletionNotification(
        command_id=draw(ids),
        session_id=draw(ids),
        loop_id=draw(ids),
        process_handle=draw(handles),
        state=state,
        reason=draw(st.sampled_from(sorted(reasons))),
    )


@st.composite
def process_events(draw: st.DrawFn) -> ProcessEvent:
    """Valid process events, with everything that a header may hold."""
    plain = build_process_event(draw(lifecycles()), created_at=draw(st.none() | times))
    header = attrs.evolve(
        plain.header,
        agent_name=draw(any_text),
        cause=draw(causes),
        visibility=draw(st.sampled_from(Visibility)),
    )
    return attrs.evolve(plain, header=header)


workflow_names = st.from_regex(r"\A[a-z][a-z0-9_]{2,63}\Z")
workflow_versions = (
    st.text(st.characters(categories=["L", "Nd"], include_characters="._-+"), min_size=1)
    .map(lambda text: within(text, 64))
    .filter(bool)
)


def lines(most: int) -> st.SearchStrategy[str]:
    """Lines as labels and messages are: none, or with something to see and no control character."""
    some = st.text(st.characters(exclude_categories=["Cc", "Cs"])).map(lambda text: within(text, most))
    return some.filter(lambda text: text == "" or text.strip() != "")


@st.composite
def workflow_activities(draw: st.DrawFn) -> WorkflowActivity:
    """Valid workflow activities."""
    vertex_id = draw(optional_ids)
    total = draw(st.integers(0, 1_000_000))
    return WorkflowActivity(
        header=EventHeader(
            event_id=draw(ids),
            session_id=draw(ids),
            agent_name=draw(any_text),
            cause=draw(causes),
            created_at=draw(st.none() | times),
        ),
        run_id=draw(ids),
        workflow_name=draw(workflow_names),
        workflow_version=draw(workflow_versions),
        kind=draw(st.sampled_from(WorkflowActivityKind)),
        status=draw(st.sampled_from(WorkflowRunStatus)),
        vertex_id=vertex_id,
        vertex_label=draw(lines(128)) if vertex_id else "",
        completed_vertices=draw(st.integers(0, total)),
        total_vertices=total,
        message=draw(lines(512)),
        occurred_at=draw(times),
    )


events: st.SearchStrategy[Event] = process_events() | workflow_activities()


@st.composite
def commands(draw: st.DrawFn) -> ProcessNotification:
    """Valid commands."""
    notification = draw(completions())
    header = CommandHeader(
        command_id=notification.command_id,
        cause=draw(causes),
        agency=draw(agencies),
        created_at=draw(st.none() | times),
    )
    return ProcessNotification(header=header, notification=notification)


strangers: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    st.floats(),
    st.binary(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.just("\ud800"),
    st.integers(2**70, 2**71),
    st.integers(-(2**71), -(2**70)),
    st.just(datetime(2026, 1, 1)),
    st.builds(object),
    st.just(UUID(int=0)),
)
"""Values that no field takes, of types that Python callers pass by mistake."""
