"""Values of the wrong Python type: a typed error with the field's name, never a traceback from inside."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import pytest
from contract_samples import ACTIVITY, COMMAND, NOTIFICATION, PROCESS, SOUND, but
from hypothesis import given
from hypothesis import strategies as st
from notifier_strategies import strangers

import lastword.notifier._times as times_module
from lastword.notifier import (
    Cause,
    CommandHeader,
    CommandValidationError,
    EventFactory,
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
    decode_command,
    decode_completion,
    decode_event,
    decode_lifecycle,
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


class Odd:
    """What data libraries have for "unknown", and for many values at once: comparing it gives no truth value."""

    def __eq__(self, _other: object) -> Any:
        return self

    def __ne__(self, _other: object) -> Any:
        return self

    __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = None  # type: ignore[assignment] # as of a list

    def __bool__(self) -> bool:
        raise TypeError("neither true nor false")

    year = month = property(lambda self: Odd())


class LyingText(str):
    def encode(self, *_: Any, **__: Any) -> bytes:
        return b""

    def isascii(self) -> bool:
        return True

    def strip(self, *_: Any) -> str:
        return "x"

    def __eq__(self, _other: object) -> bool:
        raise RuntimeError("no idea")

    __ne__ = __eq__
    __hash__ = str.__hash__


class LyingNumber(int):
    def __int__(self) -> int:
        return 10**5000

    __index__ = __int__

    def __le__(self, _other: object) -> bool:
        return True

    __ge__ = __le__


class Raising:
    def __get__(self, *_: object) -> Any:
        raise RuntimeError("no idea")


def a_foreign_id(name: str, number: Any) -> Any:
    """A class of ids whose `int` is computed, as a database driver's is."""

    def keep(self: object, number: int) -> None:
        object.__setattr__(self, "number", number)

    return type(name, (UUID,), {"__init__": keep, "int": number})


UnwillingId = a_foreign_id("UnwillingId", Raising())
LyingId = a_foreign_id("LyingId", property(lambda _: 10**5000))
ForeignId = a_foreign_id("ForeignId", property(lambda self: self.number))


class UnwillingTime(datetime):
    year: Any = Raising()

    def utcoffset(self) -> timedelta:
        raise RuntimeError("no idea")


class LyingTime(datetime):
    year: Any = property(lambda _: Odd())

    def isoformat(self, *_: Any, **__: Any) -> str:
        return "garbage"

    def replace(self, *_: Any, **__: Any) -> Any:
        return "garbage"


class Now:
    def now(self) -> datetime:
        return datetime(2026, 3, 14, tzinfo=UTC)


FACTORY = EventFactory(UUID(int=2), clock=Now(), new_id=lambda: UUID(int=9))
HOSTILE: list[Any] = [
    Odd(),
    LyingText("\ud800"),
    LyingText("abc"),
    LyingText(""),
    LyingNumber(1),
    UnwillingId(1),
    LyingId(1),
    UnwillingTime(2026, 3, 14, tzinfo=UTC),
    LyingTime(2026, 3, 14, tzinfo=UTC),
]
PLACES = [
    *((SOUND, name) for name in names(ProcessLifecycleMetadata)),
    *((NOTIFICATION, name) for name in names(ProcessCompletionNotification)),
    *((PROCESS.header, name) for name in names(EventHeader)),
    *((ACTIVITY, name) for name in names(WorkflowActivity)),
    *((ACTIVITY.header, name) for name in names(EventHeader)),
    *((COMMAND.header, name) for name in names(CommandHeader)),
    *((Cause(), name) for name in names(Cause)),
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    ("of", "name"), PLACES, ids=lambda part: part if isinstance(part, str) else type(part).__name__
)
def test_a_hostile_value_is_refused_wherever_it_stands(of: Any, name: str, value: Any) -> None:
    """It passes for one of ours, and then raises or lies, or has no truth value: the constructor takes it still."""
    made = but(of, **{name: value})
    for whole in (
        but(PROCESS, process=made),
        but(PROCESS, header=made),
        but(PROCESS, header=but(PROCESS.header, cause=made)),
        but(ACTIVITY, header=made),
        but(ACTIVITY, header=but(ACTIVITY.header, cause=made)),
        made,
    ):
        for refuse in (validate_event, encode_event, FACTORY.stamp):
            if refuse == FACTORY.stamp and type(whole) is WorkflowActivity and name == "event_id":
                continue  # its id is not looked at, but replaced
            with pytest.raises(LastwordError):
                refuse(whole)
    for command in (but(COMMAND, header=made), but(COMMAND, notification=made)):
        for refuse_command in (validate_command, encode_command):
            with pytest.raises(LastwordError):
                refuse_command(command)
    if made is not of and type(made) in (ProcessLifecycleMetadata, ProcessCompletionNotification):
        with pytest.raises(ProcessLifecycleValidationError):
            made.validate()
    with pytest.raises(LastwordError):
        FACTORY.stamp_workflow_activity(ACTIVITY, value)


class ForeignTime(datetime):
    """As libraries of dates have it."""


class AnswersOnce(tzinfo):
    """A zone that must be asked no second time."""

    def __init__(self) -> None:
        self.asked = 0

    def utcoffset(self, _when: datetime | None) -> timedelta:
        self.asked += 1
        if self.asked > 1:
            raise RuntimeError("asked again")
        return timedelta(hours=2)

    def dst(self, _when: datetime | None) -> timedelta:
        raise RuntimeError("never asked")

    def tzname(self, _when: datetime | None) -> str:
        raise RuntimeError("never asked")


def test_an_id_of_another_library_is_taken_for_what_it_is() -> None:
    """As a plain one, wherever an id stands; the zero id of any library is absent."""
    for name in ("session_id", "loop_id"):
        made = but(NOTIFICATION, **{name: ForeignId(77)})
        assert made == but(NOTIFICATION, **{name: UUID(int=77)})
        assert type(getattr(made, name)) is UUID
        made.validate()
        assert getattr(but(NOTIFICATION, **{name: ForeignId(0)}), name) is None
    header = but(ACTIVITY.header, turn_id=ForeignId(0), loop_id=ForeignId(0), cause=Cause(step_id=ForeignId(5)))
    assert encode_event(but(ACTIVITY, header=header)) == encode_event(
        but(ACTIVITY, header=but(ACTIVITY.header, cause=Cause(step_id=UUID(int=5))))
    )
    mine = but(ACTIVITY, header=but(ACTIVITY.header, event_id=None, session_id=None))
    factory = EventFactory(ForeignId(2), clock=Now(), new_id=lambda: ForeignId(9))
    assert factory.stamp(mine).header.event_id == UUID(int=9)
    assert factory.stamp_workflow_activity(factory.stamp(mine), ForeignId(9)).header.event_id == UUID(int=9)


@pytest.mark.parametrize(
    "zone",
    [UTC, ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=2)), AnswersOnce()],
    ids=lambda zone: type(zone).__name__,
)
@pytest.mark.parametrize("cls", [ForeignTime, datetime])
def test_a_time_of_another_library_is_taken_for_what_it_is(cls: type[datetime], zone: tzinfo) -> None:
    """As a plain one, asked once; a zone that is not Python's own becomes its offset."""
    given = cls(2026, 10, 25, 2, 10, 5, 123, AnswersOnce() if isinstance(zone, AnswersOnce) else zone, fold=1)
    made = but(ACTIVITY, occurred_at=given).occurred_at
    offset = timedelta(hours=2) if isinstance(zone, AnswersOnce) else given.utcoffset()
    assert (type(made), made.replace(tzinfo=None)) == (datetime, datetime(2026, 10, 25, 2, 10, 5, 123, fold=1))
    assert (made.fold, made.utcoffset()) == (1, offset)
    written = encode_event(but(ACTIVITY, occurred_at=made))
    assert written == encode_event(but(ACTIVITY, occurred_at=made))
    assert b'"occurred_at":"2026-10-25T02:10:05.000123' in written
    assert but(ACTIVITY, occurred_at=cls(1, 1, 1, tzinfo=UTC)).occurred_at is None


def test_a_time_that_was_made_while_time_is_frozen_is_a_time_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries that freeze time put another class in the place of `datetime`, for a while."""
    with monkeypatch.context() as frozen:
        frozen.setattr(times_module, "datetime", ForeignTime)
        made = [but(ACTIVITY, occurred_at=cls(2026, 3, 14, tzinfo=UTC)) for cls in (ForeignTime, datetime)]
        for one in made:
            encode_event(one)
    assert encode_event(made[0]) == encode_event(made[1])


class Words(StrEnum):
    """Members of an enum are what they are made of, whatever else the enum says of them."""

    NAME = "nightly"

    def __str__(self) -> str:
        return "garbage"

    def strip(self, *_: Any) -> str:
        return ""


class Numbers(IntEnum):
    THREE = 3

    def __int__(self) -> int:
        return 10**5000

    __index__ = __int__


def test_a_member_of_an_enum_is_written_as_what_it_is_made_of() -> None:
    """Of an enum of the caller's own, that is; one of ours in the wrong place is refused."""
    plain = but(ACTIVITY, header=but(ACTIVITY.header, agent_name="nightly", cause=Cause(agency=3)), message="nightly")
    named = but(
        ACTIVITY,
        header=but(ACTIVITY.header, agent_name=Words.NAME, cause=Cause(agency=Numbers.THREE)),
        workflow_name=Words.NAME,
        message=Words.NAME,
    )
    assert encode_event(plain) == encode_event(named)


class Bytes(bytes):
    def decode(self, *_: Any, **__: Any) -> Any:
        return 7


@pytest.mark.parametrize("decode", [decode_event, decode_command, decode_lifecycle, decode_completion])
def test_bytes_that_are_not_quite_are_refused(decode: Any) -> None:
    """A subclass can say of itself what it likes."""
    with pytest.raises(LastwordError, match="expected bytes, got Bytes"):
        decode(Bytes(b"{}"))


def test_what_a_value_shows_of_itself_is_short_of_secrets() -> None:
    """Its `repr` is made of its fields, and there is none for a command, its output or its environment."""
    assert "command=" not in repr(PROCESS)
    for cls in (ProcessLifecycleMetadata, ProcessCompletionNotification, ProcessNotification, WorkflowActivity):
        assert not {"command", "argv", "env", "output", "stdin", "cwd", "pid"} & set(names(cls))
