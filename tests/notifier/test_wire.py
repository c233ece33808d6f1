"""Values to bytes and back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from contract_samples import but
from hypothesis import given
from hypothesis import strategies as st
from notifier_strategies import any_text, commands, completions, events, lifecycles, times
from vector_values import shaped

from lastword.notifier import (
    MAX_EVENT_BYTES,
    Cause,
    CommandHeader,
    CommandValidationError,
    Event,
    EventHeader,
    InvalidEventError,
    ProcessCompletionNotification,
    ProcessLifecycleMetadata,
    ProcessLifecycleValidationError,
    ProcessNotification,
    RecordTooLargeError,
    WorkflowActivity,
    build_process_event,
    decode_command,
    decode_completion,
    decode_event,
    decode_lifecycle,
    encode_command,
    encode_event,
)

HEADER_ORDER = ["agent_name", "cause", "created_at", "event_id", "loop_id", "session_id", "visibility"]
DTO_ORDER = [
    "event_id",
    "kind",
    "session_id",
    "loop_id",
    "process_handle",
    "origin_execution_id",
    "state",
    "process_created_at",
    "process_started_at",
    "process_finished_at",
    "has_exit_code",
    "exit_code",
    "reason",
    "diagnostic",
]
CAUSE_ORDER = ["session_id", "loop_id", "turn_id", "step_id", "command_id", "event_id", "tool_execution_id", "agency"]


def lost(diagnostic: str = "") -> Event:
    """A small event with a free text."""
    made = shaped(kind=5, state=9, reason=9, started=False, finished=True, exit_code=None, diagnostic=diagnostic)
    return build_process_event(made, created_at=None)


# --- there and back ---------------------------------------------------------------------------------------------------


@given(events)
def test_every_valid_event_comes_back_as_it_was(event: Event) -> None:
    """Equal, with each time in its own offset, and the same bytes again."""
    data = encode_event(event)
    back = decode_event(data)
    assert event == back
    assert _offsets(event) == _offsets(back)
    assert data == encode_event(back)


def _offsets(event: Event) -> list[timedelta | None]:
    times = [event.header.created_at]
    if isinstance(event, WorkflowActivity):
        times.append(event.occurred_at)
    else:
        process = event.process
        times += [process.process_created_at, process.process_started_at, process.process_finished_at]
    return [time.utcoffset() for time in times if time is not None]


@given(commands())
def test_every_valid_command_comes_back_as_it_was(command: ProcessNotification) -> None:
    """Equal, and the same bytes again."""
    data = encode_command(command)
    assert command == decode_command(data)
    assert data == encode_command(decode_command(data))


@given(lifecycles())
def test_metadata_alone_comes_back_as_it_was(metadata: ProcessLifecycleMetadata) -> None:
    """What an event has as its `process` is what `decode_lifecycle` reads."""
    record = json.loads(encode_event(build_process_event(metadata, created_at=None)))
    assert metadata == decode_lifecycle(json.dumps(record["process"]).encode())


@given(completions())
def test_a_notification_alone_comes_back_as_it_was(notification: ProcessCompletionNotification) -> None:
    """What a command has as its `notification` is what `decode_completion` reads."""
    header = CommandHeader(command_id=notification.command_id)
    record = json.loads(encode_command(ProcessNotification(header=header, notification=notification)))
    assert notification == decode_completion(json.dumps(record["notification"]).encode())


# --- the form ---------------------------------------------------------------------------------------------------------


@given(events)
def test_own_keys_are_sorted_and_those_of_nested_objects_are_not(event: Event) -> None:
    """Compact, and in the order of the contract; nothing that is zero is written but what always is."""
    data = encode_event(event)
    record: dict[str, Any] = json.loads(data)
    assert sorted(record) == list(record)
    assert record["v"] == 1
    assert type(event).__name__ == record["type"]
    if "cause" in record:
        assert [key for key in CAUSE_ORDER if key in record["cause"]] == list(record["cause"])
        assert all(record["cause"].values())
    if "process" in record:
        process: dict[str, Any] = record["process"]
        assert [key for key in DTO_ORDER if key in process] == list(process)
        always = {"kind", "process_handle", "state", "process_created_at"}
        assert always <= set(process)
        assert all(value for key, value in process.items() if key not in always)
    compact = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        compact = compact.replace(character, expected_escape(character))
    assert compact.encode() == data


def test_exit_code_zero_is_told_by_its_flag_alone() -> None:
    """And reason none is left out, as every zero is."""
    made = shaped(kind=3, state=3, reason=1, started=True, finished=True, exit_code=0)
    data = encode_event(build_process_event(made, created_at=None))
    assert b'"has_exit_code":true,"reason":1}' in data
    back = decode_event(data)
    assert not isinstance(back, WorkflowActivity)
    assert back.process.exit_code == 0


def expected_escape(character: str) -> str:
    """The contract's sentence on strings, a second time."""
    short = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
    if character in short:
        return short[character]
    if character < " " or character in "<>&\u2028\u2029":
        return f"\\u{ord(character):04x}"
    return character


def test_every_character_is_escaped_as_the_contract_says() -> None:
    """All of the basic plane, in texts as long as a diagnostic can be."""
    characters = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    for start in range(0, len(characters), 160):
        text = "".join(characters[start : start + 160])
        escaped = "".join(map(expected_escape, text))
        assert f'"diagnostic":"{escaped}"}}'.encode() in encode_event(lost(text))


@given(any_text)
def test_any_text_is_escaped_as_the_contract_says(text: str) -> None:
    """Beyond the basic plane too, in a field of no limit."""
    event = lost()
    event = but(event, header=but(event.header, agent_name="a" + text))
    assert f'{{"agent_name":"a{"".join(map(expected_escape, text))}",'.encode() in encode_event(event)


@pytest.mark.parametrize(
    ("time", "written"),
    [
        (datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC), "2026-03-14T15:09:26Z"),
        (datetime(2026, 3, 14, 15, 9, 26, 500000, UTC), "2026-03-14T15:09:26.5Z"),
        (datetime(2026, 3, 14, 15, 9, 26, 1, UTC), "2026-03-14T15:09:26.000001Z"),
        (datetime(2026, 3, 14, 15, 0, 0, 10, timezone(timedelta(0))), "2026-03-14T15:00:00.00001Z"),
        (datetime(987, 1, 2, 3, 4, 5, tzinfo=UTC), "0987-01-02T03:04:05Z"),
        (datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))), "2026-01-01T00:00:00+05:30"),
        (datetime(2026, 1, 1, 0, 0, 0, 120, timezone(timedelta(hours=-12))), "2026-01-01T00:00:00.00012-12:00"),
        (datetime(2026, 1, 1, tzinfo=timezone(timedelta(minutes=-1))), "2026-01-01T00:00:00-00:01"),
        (datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=23, minutes=59))), "2026-01-01T00:00:00+23:59"),
        # The seconds of an offset are lost, towards zero; an offset of seconds alone is still not "Z".
        (datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1, seconds=59))), "2026-01-01T00:00:00+01:00"),
        (datetime(2026, 1, 1, tzinfo=timezone(-timedelta(hours=1, seconds=59))), "2026-01-01T00:00:00-01:00"),
        (datetime(2026, 1, 1, tzinfo=timezone(timedelta(seconds=-30))), "2026-01-01T00:00:00+00:00"),
        (datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), "9999-12-31T23:59:59.999999Z"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_time_is_written_in_its_own_offset_with_a_trimmed_fraction(time: datetime, written: str) -> None:
    """RFC 3339, as the reference writes it."""
    event = lost()
    event = but(event, header=but(event.header, created_at=time))
    assert f'"created_at":"{written}"'.encode() in encode_event(event)


@given(times)
def test_one_instant_in_two_offsets_is_two_records(time: datetime) -> None:
    """Which is why whoever retries sends stored bytes: the journal compares bytes."""
    event = lost()
    here = but(event, header=but(event.header, created_at=time))
    offset = time.utcoffset() or timedelta(0)
    moved = time.astimezone(timezone(offset + timedelta(minutes=-1 if offset > timedelta(0) else 1)))
    there = but(event, header=but(event.header, created_at=moved))
    assert here == there
    assert encode_event(here) != encode_event(there)


def zone(**offset: int) -> timezone:
    return timezone(timedelta(**offset))


@pytest.mark.parametrize(
    "seconds",
    [zone(seconds=59), zone(seconds=-59), zone(hours=1, seconds=30), zone(hours=-1, seconds=-30), zone(microseconds=1)],
    ids=str,
)
@given(at=times, shift=st.timedeltas(timedelta(seconds=-90), timedelta(seconds=90)))
def test_what_is_written_can_be_read_whatever_the_seconds_of_an_offset(
    seconds: timezone, at: datetime, shift: timedelta
) -> None:
    """They are lost on the way, and with them up to a minute: times that would come back out of order are refused."""
    for created, started in ((at.astimezone(seconds), at + shift), (at, (at + shift).astimezone(seconds))):
        made = but(
            shaped(kind=5, state=9, reason=9, started=True, finished=True, exit_code=None),
            process_created_at=created,
            process_started_at=started,
            process_finished_at=at + timedelta(days=1),
        )
        try:
            data = encode_event(build_process_event(made, created_at=None))
        except InvalidEventError:
            assert shift < timedelta(minutes=1)
            continue
        assert shift >= timedelta(0)
        decode_event(data)


@pytest.mark.parametrize("offset", [-59, -1, 0, 1, 30, 59, 3659, -3659])
def test_a_time_that_would_come_back_as_absent_is_absent(offset: int) -> None:
    """The zero instant as it is, and as it is written; a second further is a time like any other."""
    at = datetime(1, 1, 2, tzinfo=timezone(timedelta(seconds=offset)))
    whole_minutes = offset // 60 if offset >= 0 else -(-offset // 60)
    for zero in (timedelta(seconds=offset), timedelta(minutes=whole_minutes)):
        event = lost()
        if zero < timedelta(0):
            continue
        zeroed = at - timedelta(days=1) + zero
        made = but(event, header=but(event.header, created_at=zeroed))
        assert made.header.created_at is None
        later = but(event, header=but(event.header, created_at=zeroed + timedelta(minutes=1, seconds=1)))
        assert later.header.created_at is not None
        back = decode_event(encode_event(later))
        assert back.header.created_at is not None


# --- zero is absent ---------------------------------------------------------------------------------------------------


def test_zero_ids_and_zero_times_are_none() -> None:
    """In whatever offset the zero instant is told."""
    zero = datetime(1, 1, 1, tzinfo=UTC)
    elsewhere = datetime(1, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    header = EventHeader(event_id=UUID(int=1), session_id=UUID(int=0), turn_id=UUID(int=0), created_at=elsewhere)
    absent: tuple[Any, ...] = (header.session_id, header.turn_id, header.created_at)
    assert absent == (None, None, None)
    made = but(shaped(kind=5, state=9, reason=9, started=False, finished=True, exit_code=None), process_started_at=zero)
    assert made.process_started_at is None
    assert Cause(step_id=UUID(int=0)) == Cause()


# --- refusals of the writer -------------------------------------------------------------------------------------------


def test_a_record_that_is_too_large_is_not_written() -> None:
    """Neither an event nor a command: what could not be read back is not written."""
    event = lost()
    large = but(event, header=but(event.header, agent_name="a" * MAX_EVENT_BYTES))
    with pytest.raises(RecordTooLargeError):
        encode_event(large)
    assert MAX_EVENT_BYTES == 16 * 2**20
    fitting = len(encode_event(but(event, header=but(event.header, agent_name="a"))))
    room = MAX_EVENT_BYTES - fitting + 1
    assert len(encode_event(but(event, header=but(event.header, agent_name="a" * room)))) == 16 * 2**20
    with pytest.raises(RecordTooLargeError):
        encode_event(but(event, header=but(event.header, agent_name="a" * (room + 1))))
    with pytest.raises(RecordTooLargeError):
        encode_command(a_command(process_handle="h" * MAX_EVENT_BYTES))


def a_command(**notification: Any) -> ProcessNotification:
    form: dict[str, Any] = {
        "command_id": UUID(int=1),
        "session_id": UUID(int=2),
        "loop_id": UUID(int=3),
        "process_handle": "h",
        "state": 3,
        "reason": 1,
    }
    return ProcessNotification(
        header=CommandHeader(command_id=UUID(int=1)),
        notification=ProcessCompletionNotification(**{**form, **notification}),
    )


def test_an_event_is_validated_before_it_is_written() -> None:
    """A process event that carries an invalid metadata names it, and says what is wrong in it."""
    made = but(shaped(kind=5, state=9, reason=9, started=False, finished=True, exit_code=None), reason=3)
    with pytest.raises(InvalidEventError) as caught:
        encode_event(build_process_event(made, created_at=None))
    assert (caught.value.event, caught.value.field, caught.value.rule) == ("ProcessLost", "process", "is invalid")
    assert isinstance(caught.value.__cause__, ProcessLifecycleValidationError)
    assert caught.value.__cause__.field == "state_reason"


def test_a_command_is_written_valid_or_not_but_only_if_the_wire_has_a_place_for_it() -> None:
    """Numbers that name nothing have a place; what is no number, id, text or time has none."""
    assert b'"state":77,"reason":0' in encode_command(a_command(state=77, reason=0))
    assert b'"process_handle":"a/b"' in encode_command(a_command(process_handle="a/b"))
    for field, value, named in [
        ("state", 256, "state_reason"),
        ("reason", "1", "state_reason"),
        ("reason", True, "state_reason"),
        ("process_handle", "\ud800", "process_handle"),
        ("process_handle", b"h", "process_handle"),
        ("loop_id", "x", "loop_id"),
        ("session_id", 7, "session_id"),
        ("command_id", 7, "command_id"),
    ]:
        with pytest.raises(ProcessLifecycleValidationError) as caught:
            encode_command(a_command(**{field: value}))
        assert named == caught.value.field
    for header, named in [
        (None, "header"),
        (CommandHeader(command_id="x"), "command_id"),  # type: ignore[arg-type] # what an untyped caller may pass
        (CommandHeader(command_id=UUID(int=1), agency=256), "agency"),
        (CommandHeader(command_id=UUID(int=1), cause=Cause(agency=-1)), "cause"),
        (CommandHeader(command_id=UUID(int=1), created_at=datetime(2026, 1, 1)), "created_at"),
    ]:
        with pytest.raises(CommandValidationError) as refused:
            encode_command(but(a_command(), header=header))
        assert named == refused.value.field
    with pytest.raises(CommandValidationError):
        encode_command(but(a_command(), notification=None))
    with pytest.raises(CommandValidationError):
        encode_command("a command")  # type: ignore[arg-type] # what an untyped caller may pass


@given(st.integers(0, 255), st.integers(0, 255))
def test_a_number_that_names_no_member_is_kept_until_it_is_judged(kind: int, reason: int) -> None:
    """The constructor takes it as a plain int, and a member's number as the member."""
    made = shaped(kind=kind, state=200, reason=reason, started=True, finished=False, exit_code=None)
    assert (kind, 200, reason) == (made.kind, made.state, made.reason)
    assert type(made.state) is int
    assert (type(made.kind) is not int) == (1 <= kind <= 5)
