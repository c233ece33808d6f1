"""Values of the wrong Python type: a typed error with the field's name, never a traceback from inside."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import pytest
from contract_samples import ACTIVITY, COMMAND, NOTIFICATION, PROCESS, SOUND, but
from hypothesis import given
from hypothesis import strategies as st
from notifier_strategies import strangers

from lastword.notifier import (
    Cause,
    CommandHeader,
    CommandValidationError,
    EventHeader,
    InvalidEventError,
    LastwordError,
    LifecycleKind,
    ProcessCompletionNotification,
    ProcessLifecycleMetadata,
    ProcessLifecycleValidationError,
    ProcessNotification,
    ProcessState,
    TerminalReason,
    WorkflowActivity,
    WorkflowRunStatus,
    build_process_event,
    encode_command,
    encode_event,
    validate_command,
    validate_event,
)


def names(cls: type[attrs.AttrsInstance]) -> list[str]:
    return [field.name for field in attrs.fields(cls)]


@pytest.mark.parametrize("name", names(ProcessLifecycleMetadata))
@given(value=strangers)
def test_a_stranger_in_metadata_is_named(name: str, value: Any) -> None:
    """By its own field; a reason, which has no range of its own, by the tuple it belongs to."""
    made = but(SOUND, **{name: value})
    with pytest.raises(ProcessLifecycleValidationError) as caught:
        made.validate()
    assert ("state_reason" if name == "reason" else name) == caught.value.field
    event = but(PROCESS, process=made)
    with pytest.raises(InvalidEventError):
        encode_event(event)


@pytest.mark.parametrize("name", names(ProcessCompletionNotification))
@given(value=strangers)
def test_a_stranger_in_a_notification_is_named(name: str, value: Any) -> None:
    """By its own field, or by the pair of state and reason."""
    made = but(NOTIFICATION, **{name: value})
    with pytest.raises(ProcessLifecycleValidationError) as caught:
        made.validate()
    assert ("state_reason" if name in ("state", "reason") else name) == caught.value.field
    with pytest.raises(LastwordError):
        validate_command(but(COMMAND, notification=made))


OPTIONAL = {"turn_id", "step_id", "loop_id", "vertex_id"}


@pytest.mark.parametrize("name", names(EventHeader))
@pytest.mark.parametrize("event", [PROCESS, ACTIVITY], ids=["process", "workflow"])
@given(value=strangers)
def test_a_stranger_in_a_header_is_named(event: Any, name: str, value: Any) -> None:
    """By its own field; the zero id is no stranger where no id is asked for."""
    made = but(event, header=but(event.header, **{name: value}))
    if value == UUID(int=0) and (name in ("turn_id", "step_id") or (name == "loop_id" and event is ACTIVITY)):
        validate_event(made)
        return
    for refuse in (validate_event, encode_event):
        with pytest.raises(InvalidEventError) as caught:
            refuse(made)
        assert name == caught.value.field


@pytest.mark.parametrize("name", [name for name in names(WorkflowActivity) if name != "header"])
@given(value=strangers)
def test_a_stranger_in_a_workflow_is_named(name: str, value: Any) -> None:
    """By its own field, or as progress."""
    made = but(ACTIVITY, **{name: value})
    with pytest.raises(InvalidEventError) as caught:
        encode_event(made)
    assert ("progress" if name.endswith("_vertices") else name) == caught.value.field


@pytest.mark.parametrize("name", names(CommandHeader))
@given(value=strangers)
def test_a_stranger_in_a_command_is_named(name: str, value: Any) -> None:
    """By its own field, also where it is only to be written."""
    made = but(COMMAND, header=but(COMMAND.header, **{name: value}))
    with pytest.raises(CommandValidationError) as caught:
        validate_command(made)
    assert name == caught.value.field
    if value != UUID(int=0):
        with pytest.raises(CommandValidationError) as refused:
            encode_command(made)
        assert name == refused.value.field


@given(st.one_of(strangers, st.just(None), st.just(EventHeader), st.just(SOUND)))
def test_what_is_no_event_is_said_to_be_none(value: Any) -> None:
    """With its type's name, no field, and the rule."""
    for refuse in (validate_event, encode_event):
        with pytest.raises(InvalidEventError) as caught:
            refuse(value)
        expected = (type(value).__name__, "", "is not a known event type")
        assert expected == (caught.value.event, caught.value.field, caught.value.rule)
    for refuse_command in (validate_command, encode_command):
        with pytest.raises(CommandValidationError):
            refuse_command(value)


@pytest.mark.parametrize("part", ["header", "process"])
@given(value=st.one_of(strangers, st.none()))
def test_an_event_of_parts_that_are_none_is_refused(part: str, value: Any) -> None:
    """By the part's name."""
    with pytest.raises(InvalidEventError) as caught:
        encode_event(but(PROCESS, **{part: value}))
    assert part == caught.value.field


def test_a_class_that_only_has_an_events_name_is_no_event() -> None:
    """Nor is the class of an event."""
    named_so: Any = type("ProcessLost", (), {"header": PROCESS.header, "process": SOUND})()
    a_class: Any = type(PROCESS)
    for impostor in (named_so, a_class):
        with pytest.raises(InvalidEventError, match="is not a known event type"):
            validate_event(impostor)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": True},
        {"kind": 3.0},
        {"kind": ProcessState.EXITED},
        {"state": TerminalReason.TERMINATED},
        {"state": LifecycleKind.STOP_REQUESTED},
        {"reason": ProcessState.TERMINATED},
        {"exit_code": True},
        {"exit_code": 2.0},
        {"exit_code": 2**31},
        {"exit_code": -(2**31) - 1},
    ],
    ids=repr,
)
def test_a_value_that_equals_the_right_one_is_not_it(change: dict[str, Any]) -> None:
    """A bool, a float, a member of another domain: equal by Python's rules, and refused."""
    sound = but(SOUND, state=3, reason=1, exit_code=1, diagnostic="")
    sound.validate()
    with pytest.raises(ProcessLifecycleValidationError):
        but(sound, **change).validate()


def test_names_are_not_numbers() -> None:
    """A text that a workflow's domain does not have stays a text; a member of the other domain is refused."""
    assert but(ACTIVITY, kind="run_failed").kind.name == "RUN_FAILED"
    for change in ({"kind": WorkflowRunStatus.RUNNING}, {"status": "run_started"}, {"kind": b"run_started"}):
        with pytest.raises(InvalidEventError):
            validate_event(but(ACTIVITY, **change))


class Unwilling(tzinfo):
    """A tzinfo that raises whatever it is asked."""

    def utcoffset(self, _when: datetime | None) -> timedelta:
        raise RuntimeError("no idea")

    def dst(self, _when: datetime | None) -> timedelta:
        raise RuntimeError("no idea")

    def tzname(self, _when: datetime | None) -> str:
        raise RuntimeError("no idea")


class Unknowing(Unwilling):
    """A tzinfo that does not know."""

    def utcoffset(self, _when: datetime | None) -> timedelta:
        return None  # type: ignore[return-value] # what the protocol allows for "naive"


@pytest.mark.parametrize(
    "time",
    [
        datetime(2026, 3, 14, 15, 9, 30),
        datetime(2026, 3, 14, 15, 9, 30, tzinfo=Unwilling()),
        datetime(2026, 3, 14, 15, 9, 30, tzinfo=Unknowing()),
        datetime(1, 1, 1, tzinfo=Unwilling()),
        date(2026, 3, 14),
        1773500966.0,
        "2026-03-14T15:09:30Z",
    ],
    ids=["naive", "unwilling", "unknowing", "unwilling in year one", "date", "float", "text"],
)
def test_a_time_that_does_not_know_its_offset_is_refused_by_name(time: Any) -> None:
    """In every field that holds one."""
    for name in ("process_created_at", "process_started_at", "process_finished_at"):
        with pytest.raises(ProcessLifecycleValidationError) as caught:
            but(SOUND, **{name: time}).validate()
        assert name == caught.value.field
    with pytest.raises(InvalidEventError, match="occurred_at is invalid"):
        validate_event(but(ACTIVITY, occurred_at=time))
    with pytest.raises(InvalidEventError, match="created_at is invalid"):
        validate_event(but(ACTIVITY, header=but(ACTIVITY.header, created_at=time)))


def test_times_are_compared_as_instants_also_within_one_zone() -> None:
    """Where clocks go back, a later wall clock can be the earlier instant, and Python would compare wall clocks."""
    berlin = ZoneInfo("Europe/Berlin")
    before = datetime(2026, 10, 25, 2, 50, tzinfo=berlin)
    after = datetime(2026, 10, 25, 2, 10, fold=1, tzinfo=berlin)
    assert after < before, "by wall clock, which is not what is asked"
    in_order = but(
        SOUND, process_created_at=before, process_started_at=after, process_finished_at=after + timedelta(hours=1)
    )
    in_order.validate()
    with pytest.raises(ProcessLifecycleValidationError) as caught:
        but(in_order, process_created_at=after, process_started_at=before).validate()
    assert caught.value.field == "process_started_at"


def test_times_at_both_ends_of_the_calendar_are_compared_too() -> None:
    """Offsets take them beyond what `datetime` itself can hold, and nothing overflows."""
    east, west = timezone(timedelta(hours=23, minutes=59)), timezone(-timedelta(hours=23, minutes=59))
    first, next_to_it = datetime(1, 1, 1, tzinfo=east), datetime(1, 1, 1, tzinfo=west)
    last = datetime(9999, 12, 31, 23, 59, tzinfo=west)
    for zone in (UTC, ZoneInfo("Etc/GMT-14")):
        made = but(
            SOUND,
            process_created_at=first,
            process_started_at=datetime(2026, 1, 1, tzinfo=zone),
            process_finished_at=last,
        )
        made.validate()
        encode_event(build_process_event(made, created_at=next_to_it))


@given(st.one_of(strangers, st.none()))
def test_a_cause_of_strangers_is_the_causes_fault(value: Any) -> None:
    """As a whole: a cause has no rules, and yet has to fit the wire."""
    for name in names(Cause):
        cause = Cause(**{name: value})
        header = but(ACTIVITY.header, cause=cause)
        if cause == Cause() and type(cause.agency) is int:
            encode_event(but(ACTIVITY, header=header))
            continue
        with pytest.raises(InvalidEventError, match="cause is invalid"):
            encode_event(but(ACTIVITY, header=header))


def test_what_a_value_shows_of_itself_is_short_of_secrets() -> None:
    """Its `repr` is made of its fields, and there is none for a command, its output or its environment."""
    assert "command=" not in repr(PROCESS)
    for cls in (ProcessLifecycleMetadata, ProcessCompletionNotification, ProcessNotification, WorkflowActivity):
        assert not {"command", "argv", "env", "output", "stdin", "cwd", "pid"} & set(names(cls))
