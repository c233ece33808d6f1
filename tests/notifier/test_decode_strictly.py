"""What the decoders refuse, and by what name; every refusal is a `LastwordError`."""

from __future__ import annotations

import json
import math
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from vector_values import rows

from lastword.notifier import (
    MAX_EVENT_BYTES,
    CommandDecodeError,
    CommandValidationError,
    EventDecodeError,
    InvalidEventError,
    ProcessLifecycleValidationError,
    RecordTooLargeError,
    UnknownCommandTypeError,
    UnknownEventTypeError,
    UnsupportedSchemaError,
    decode_command,
    decode_completion,
    decode_event,
    decode_lifecycle,
)
from lastword.notifier._json import read_json


def baseline(codec: str, name: str) -> dict[str, Any]:
    row = next(row for row in rows("decode_cases") if row["codec"] == codec and row["name"] == name)
    loaded: dict[str, Any] = json.loads(row["input"])
    return loaded


EVENT = baseline("event", "baseline started")
WORKFLOW = baseline("event", "workflow baseline")
COMMAND = baseline("command", "command baseline")

CODECS: list[Any] = [
    pytest.param(decode_event, EVENT, EventDecodeError, id="event"),
    pytest.param(decode_event, WORKFLOW, EventDecodeError, id="workflow"),
    pytest.param(decode_command, COMMAND, CommandDecodeError, id="command"),
    pytest.param(decode_lifecycle, EVENT["process"], EventDecodeError, id="lifecycle"),
    pytest.param(decode_completion, COMMAND["notification"], CommandDecodeError, id="completion"),
]
every_codec = pytest.mark.parametrize(("decode", "record", "refusal"), CODECS)

Decode = Callable[[bytes], Any]

BLEMISHES: dict[str, Callable[[str], str]] = {
    "empty": lambda text: "",
    "blank": lambda text: "  ",
    "truncated": lambda text: text[:-1],
    "trailing letter": lambda text: text + "x",
    "twice": lambda text: text + text,
    "trailing NUL": lambda text: text + "\x00",
    "trailing blank that is none in JSON": lambda text: text + "\xa0",
    "byte order mark": lambda text: "\ufeff" + text,
    "array": lambda text: f"[{text}]",
    "number": lambda text: "7",
    "text": lambda text: '"x"',
    "true": lambda text: "true",
    "trailing comma": lambda text: text[:-1] + ",}",
    "unknown key": lambda text: text[:-1] + ',"x":1}',
    "the header by name": lambda text: text[:-1] + ',"header":{}}',
    "unknown key of null": lambda text: text[:-1] + ',"x":null}',
    "NaN": lambda text: text[:-1] + ',"x":NaN}',
    "-Infinity": lambda text: text[:-1] + ',"x":-Infinity}',
    "five thousand digits": lambda text: text[:-1] + ',"x":' + "9" * 5000 + "}",
    "seven hundred digits": lambda text: text[:-1] + ',"x":' + "9" * 700 + "}",
    "deep and open": lambda text: text[:-1] + ',"x":' + "[" * 100_000,
    "deep": lambda text: text[:-1] + ',"x":' + "[" * 90 + "]" * 90 + "}",
    "deep in objects": lambda text: text[:-1] + ',"x":' + '{"a":' * 5000 + "1" + "}" * 5001,
    "an unclosed text of escapes": lambda text: text[:-1] + ',"x":"' + '\\"' * 200_000,
    "an unclosed text of brackets": lambda text: text[:-1] + ',"x":"' + "[{" * 200_000,
    "control character between tokens": lambda text: text.replace(":", "\x01:", 1),
    "raw control character in a text": lambda text: text.replace('":"', '":"\x01', 1),
    "raw line feed in a text": lambda text: text.replace('":"', '":"\n', 1),
    "invalid escape in a text": lambda text: text.replace('":"', '":"\\x', 1),
    "half an escape in a text": lambda text: text.replace('":"', '":"\\u00', 1),
    "single quotes": lambda text: text.replace('"', "'"),
    "comment": lambda text: text.replace("{", "{/**/", 1),
    "invalid escape": lambda text: text.replace('_id"', '_id\\x"', 1),
    "raw control character": lambda text: text.replace('_id"', '_\x01id"', 1),
    "key in another case": lambda text: text.replace('_id"', '_ID"', 1),
    "key that folds": lambda text: text.replace("session_id", "\u017fession_id", 1),
}

ODD_ITEMS = {
    "NaN": "NaN",
    "Infinity": "Infinity",
    "-Infinity": "-Infinity",
    "five thousand digits": "9" * 5000,
    "seven hundred digits": "9" * 700,
    "ten digits": "9999999999",
    "a fraction": "1.5",
    "an exponent": "1e3",
    "deep in arrays": "[" * 90 + "]" * 90,
    "deep in objects": '{"a":' * 90 + "1" + "}" * 90,
    "deep and open": "[" * 100_000,
    "an array": "[]",
    "true": "true",
    "an unclosed text of escapes": '"' + '\\"' * 20_000,
}

ESCAPED_TIMES: dict[str, Callable[[str], str]] = {
    "in the zone": lambda text: text.replace('26Z"', '26\\u005a"'),
    "in the year": lambda text: text.replace('":"2026', '":"\\u0032026'),
    "after blanks": lambda text: text.replace('":"2026', '" : \n"\\u0032026'),
    "with its key": lambda text: text.replace('created_at":"2026', 'created\\u005fat":"\\u0032026'),
    "with its key, and blanks before the colon": lambda text: text.replace(
        'created_at":"2026', 'created\\u005fat" \t\n\r: "\\u0032026'
    ),
    "in the day": lambda text: text.replace("-03-14", "-03-\\u00314"),
}


def dumped(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":"))


@every_codec
def test_blanks_and_the_order_of_keys_do_not_matter(
    decode: Decode, record: dict[str, Any], refusal: type[Exception]
) -> None:
    """Anything else would be to refuse what other writers of JSON do by habit."""
    expected = decode(dumped(record).encode())
    backwards = dict(reversed(record.items()))
    assert expected == decode(b" \t\r\n" + json.dumps(backwards, indent=3).encode() + b"\n\n ")


@every_codec
@pytest.mark.parametrize("blemish", BLEMISHES)
def test_what_is_not_written_so_is_not_read(
    decode: Decode, record: dict[str, Any], refusal: type[Exception], blemish: str
) -> None:
    """One blemish each; each is a decode error."""
    with pytest.raises(refusal):
        decode(BLEMISHES[blemish](dumped(record)).encode())


@every_codec
@pytest.mark.parametrize("item", ODD_ITEMS)
@pytest.mark.parametrize("blanks", [0, 5000], ids=["short", "long"])
def test_what_is_no_value_is_refused_where_one_belongs(
    decode: Decode, record: dict[str, Any], refusal: type[Exception], item: str, blanks: int
) -> None:
    """Under every key that is known, also in a record so long that its numbers are read with care."""
    for key in record:
        spoilt = dumped({**record, key: "ITEM"}).replace('"ITEM"', ODD_ITEMS[item]) + " " * blanks
        with pytest.raises(refusal):
            decode(spoilt.encode())


@pytest.mark.parametrize("blanks", [0, 5000], ids=["short", "long"])
@pytest.mark.parametrize("total", [10, 999_999, 1_000_000])
def test_a_number_of_its_range_is_read_however_long_the_record(total: int, blanks: int) -> None:
    """To the last digit."""
    read = decode_event((dumped({**WORKFLOW, "total_vertices": total}) + " " * blanks).encode())
    assert getattr(read, "total_vertices", None) == total
    for large in (4_294_967_295, 1_000_001):
        with pytest.raises(InvalidEventError, match="progress is invalid"):
            decode_event((dumped({**WORKFLOW, "total_vertices": large}) + " " * blanks).encode())
    code = -2_147_483_648
    process = {**EVENT["process"], "has_exit_code": True, "exit_code": code, "kind": 3, "state": 3, "reason": 1}
    process["process_finished_at"] = process["process_started_at"]
    assert decode_lifecycle((dumped(process) + " " * blanks).encode()).exit_code == code


@every_codec
def test_a_key_that_comes_twice_is_refused_wherever_it_stands(
    decode: Decode, record: dict[str, Any], refusal: type[Exception]
) -> None:
    """With the same value, with another, escaped, in a nested object, in a value that nobody would look at."""
    text = dumped(record)
    for key, value in record.items():
        again = f'"{key}":{json.dumps(value)}'
        escaped = f'"\\u{ord(key[0]):04x}{key[1:]}":{json.dumps(value)}'
        for extra in (again, escaped):
            with pytest.raises(refusal, match="a key comes twice"):
                decode(f"{text[:-1]},{extra}}}".encode())
        if isinstance(value, dict):
            inner = json.dumps(value)
            doubled = f'{inner[:-1]},"session_id":null}}'
            with pytest.raises(refusal, match="a key comes twice"):
                decode(text.replace(dumped({key: value})[1:-1], f'"{key}":{doubled}').encode())
    with pytest.raises(refusal, match="a key comes twice"):
        decode(f'{text[:-1]},"x":[{{"a":[{{"b":1,"b":2}}]}}]}}'.encode())


@every_codec
@pytest.mark.parametrize("data", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"])
def test_what_is_not_utf8_is_not_read(
    decode: Decode, record: dict[str, Any], refusal: type[Exception], data: bytes
) -> None:
    """Overlong forms, raw surrogates, half characters: all by their place, none by their content."""
    text = dumped(record).encode()
    with pytest.raises(refusal, match="not UTF-8 at byte"):
        decode(text.replace(b'_id":"', b'_id":"' + data, 1))


@every_codec
@pytest.mark.parametrize("data", ["{}", None, 7, bytearray(b"{}"), memoryview(b"{}"), [b"{}"]], ids=type)
def test_what_is_not_bytes_is_not_read(
    decode: Callable[[Any], Any], record: dict[str, Any], refusal: type[Exception], data: object
) -> None:
    """A typed error that names the type, not a traceback from inside."""
    with pytest.raises(refusal, match=f"expected bytes, got {type(data).__name__}"):
        decode(data)


@every_codec
def test_a_record_that_is_too_large_is_not_even_parsed(
    decode: Decode, record: dict[str, Any], refusal: type[Exception]
) -> None:
    """One byte over the limit; at the limit it is read as anything else is."""
    assert MAX_EVENT_BYTES == 16 * 2**20
    text = dumped(record).encode()
    expected = decode(text)
    assert expected == decode(text.ljust(16 * 2**20))
    with pytest.raises(RecordTooLargeError):
        decode(text.ljust(16 * 2**20 + 1))
    with pytest.raises(RecordTooLargeError):
        decode(b"[" * (MAX_EVENT_BYTES + 1))


def test_a_number_of_very_many_digits_costs_nothing_and_raises_nothing() -> None:
    """Whatever limit the host has set for turning digits into numbers: the least there is, or none."""
    limit = sys.get_int_max_str_digits()
    try:
        for digits, allowed in ((700, 640), (700, 0), (100_000, 640), (100_000, 0)):
            sys.set_int_max_str_digits(allowed)
            with pytest.raises(EventDecodeError):
                decode_event(f'{dumped(EVENT)[:-1]},"visibility":{"9" * digits}}}'.encode())
        # Reading it would take the square of its length; it is not read at all.
        assert read_json(b'{"x":' + b"9" * 100_000 + b',"y":-0}') == {"x": math.inf, "y": 0}
    finally:
        sys.set_int_max_str_digits(limit)


def number_fields(record: dict[str, Any]) -> list[str]:
    return [key for key, value in record.items() if type(value) is int and key != "v"]


@pytest.mark.parametrize("text", ["1.0", "1e0", '"1"', "true", "[]", "{}", "-1", "256", "4294967296", "1" * 30, "01"])
@pytest.mark.parametrize(
    ("decode", "record", "refusal"), [case for case in CODECS if case.id in ("lifecycle", "completion")]
)
def test_a_number_is_a_plain_integer_in_its_range(
    decode: Decode, record: dict[str, Any], refusal: type[Exception], text: str
) -> None:
    """Nothing is coerced, neither from a text nor from a float nor from a bool."""
    for field in number_fields(record):
        with pytest.raises(refusal):
            decode(dumped(record).replace(f'"{field}":{record[field]}', f'"{field}":{text}').encode())


def test_null_leaves_a_field_zero() -> None:
    """And absence does: then the rules say what is missing."""
    for record, decode in ((EVENT["process"], decode_lifecycle), (COMMAND["notification"], decode_completion)):
        for field in record:
            outcomes: list[str] = []
            for form in ({**record, field: None}, {key: value for key, value in record.items() if key != field}):
                with pytest.raises(ProcessLifecycleValidationError) as caught:
                    decode(dumped(form).encode())
                outcomes.append(caught.value.field)
            assert outcomes[0] == outcomes[1]
            assert outcomes[0] in (field, "state_reason", "lifecycle_fields")


@pytest.mark.parametrize(
    "text",
    [
        "01234567-89ab-4cde-8f01-23456789abc",
        "01234567-89ab-4cde-8f01-23456789abcde",
        "{01234567-89ab-4cde-8f01-23456789abcd}",
        "urn:uuid:01234567-89ab-4cde-8f01-23456789abcd",
        "0123456789ab4cde8f0123456789abcd",
        "01234567-89ab-4cde-8f0123456789-abcd",
        "0123_567-89ab-4cde-8f01-23456789abcd",
        "01234567-8_ab-4cde-8f01-23456789abcd",
        "01234567-89ab-4_de-8f01-23456789abcd",
        "01234567-89ab-4cde-8_01-23456789abcd",
        "01234567-89ab-4cde-8f01-234_6789abcd",
        "01234567_89ab-4cde-8f01-23456789abcd",
        "+1234567-89ab-4cde-8f01-23456789abcd",
        " 1234567-89ab-4cde-8f01-23456789abcd",
        "\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668-89ab-4cde-8f01-23456789abcd",
        "01234567-89ab-4cde-8f01-23456789abcd\n",
        "g1234567-89ab-4cde-8f01-23456789abcd",
        "",
    ],
    ids=ascii,
)
def test_an_id_is_read_in_its_one_form(text: str) -> None:
    """Python's own reader takes braces, a prefix, underscores and other scripts' digits."""
    with pytest.raises(EventDecodeError, match="expected a UUID"):
        decode_event(dumped({**EVENT, "session_id": text}).encode())


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-14T15:09:26,5Z",
        "2026-03-14T5:09:26Z",
        "2026-03-14T15:09:26+24:00",
        "2026-03-14T15:09:26+05:60",
        "2026-03-14T15:09:26.1234567891Z",
        "2026-03-14t15:09:26Z",
        "2026-03-14T15:09:26z",
        "2026-03-14 15:09:26Z",
        "2026-03-14T15:09:26",
        "2026-03-14T15:09:26+0530",
        "2026-03-14T15:09:26+05",
        "2026-03-14T15:09:26+05:30:15",
        "2026-03-14T15:09:60Z",
        "2026-03-14T24:00:00Z",
        "2026-03-14T15:60:00Z",
        "2026-02-30T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-03-00T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "20260314T150926Z",
        "2026-W11-6T15:09:26Z",
        "2026-03-14T15:09Z",
        "2026-03-14T15:09:26.Z",
        "2026-03-14T15:09:26Z\n",
        "\u0662026-03-14T15:09:26Z",
        "",
    ],
    ids=ascii,
)
def test_a_time_is_read_in_its_one_form(text: str) -> None:
    """Odd forms that the reference lets pass are refused with the rest."""
    with pytest.raises(EventDecodeError, match="created_at"):
        decode_event(dumped({**EVENT, "created_at": text}).encode())


@pytest.mark.parametrize("blemish", ESCAPED_TIMES)
def test_an_escape_inside_a_time_is_refused(blemish: str) -> None:
    """The reference reads times raw; whatever the text means once unescaped, it is not a time."""
    for record in (EVENT, WORKFLOW):
        text = dumped({**record, "created_at": "2026-03-14T15:09:26Z"})
        spoilt = ESCAPED_TIMES[blemish](text)
        assert spoilt != text
        with pytest.raises(EventDecodeError):
            decode_event(spoilt.encode())


def test_an_escape_beside_a_time_is_not() -> None:
    """In a key, in a text before or after it, in a text that looks like a key and a time."""
    looks_like_it = {**EVENT, "agent_name": '"created_at":"2026\\u005a" \\'}
    read = decode_event(json.dumps(looks_like_it).encode())
    assert looks_like_it["agent_name"] == read.header.agent_name
    text = dumped(EVENT).replace('"created_at"', '"created\\u005fat"').replace("ProcessStarted", "Process\\u0053tarted")
    assert decode_event(dumped(EVENT).encode()) == decode_event(text.encode())


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    """As the reference has it, so that what it judges invalid is judged invalid here too, by the same name."""
    text = dumped(EVENT)[:-1] + ',"agent_name":"a\\ud800b\\udc00\\ud83d\\ude00\\uDE00"}'
    assert decode_event(text.encode()).header.agent_name == "a\ufffdb\ufffd\U0001f600\ufffd"
    long = dumped(EVENT)[:-1] + ',"agent_name":"' + "a" * 5000 + '\\udfff"}'
    assert decode_event(long.encode()).header.agent_name == "a" * 5000 + "\ufffd"
    kept = dumped(EVENT)[:-1] + ',"agent_name":"a\\\\ud800"}'
    assert decode_event(kept.encode()).header.agent_name == "a\\ud800"


@pytest.mark.parametrize("version", [2, 99, 2**32 - 1])
def test_a_newer_version_is_not_read_by_either_codec(version: int) -> None:
    """The version is asked before the type of an event, since a newer one may have new types."""
    with pytest.raises(UnsupportedSchemaError, match="upgrade"):
        decode_event(dumped({**EVENT, "type": "ProcessPaused", "v": version}).encode())
    with pytest.raises(UnsupportedSchemaError, match="upgrade"):
        decode_command(dumped({**COMMAND, "v": version}).encode())


@pytest.mark.parametrize("version", ["1", 1.0, True, -1, 2**32, [], {}], ids=repr)
def test_a_version_is_a_number(version: object) -> None:
    """In both codecs."""
    with pytest.raises(EventDecodeError, match="v: expected an integer"):
        decode_event(dumped({**EVENT, "v": version}).encode())
    with pytest.raises(CommandDecodeError, match="v: expected an integer"):
        decode_command(dumped({**COMMAND, "v": version}).encode())


@pytest.mark.parametrize("version", [None, 0, 1])
def test_no_version_is_the_first_version(version: int | None) -> None:
    """Absent, null and 0 are read as 1."""
    assert decode_event(dumped({**EVENT, "v": version}).encode()) == decode_event(dumped(EVENT).encode())
    assert decode_command(dumped({**COMMAND, "v": version}).encode()) == decode_command(dumped(COMMAND).encode())


def test_an_unknown_type_is_named_on_one_short_line() -> None:
    """Whatever stands there."""
    for name in ("ProcessFinished", "", "a\nb" * 1000, None):
        for record, decode, refusal in (
            (EVENT, decode_event, UnknownEventTypeError),
            (COMMAND, decode_command, UnknownCommandTypeError),
        ):
            with pytest.raises(refusal) as caught:
                decode(dumped({**record, "type": name}).encode())
            assert len(str(caught.value).splitlines()) == 1
            assert len(str(caught.value)) < 120


def test_keys_that_differ_in_case_alone_are_a_duplicate_before_anything_else() -> None:
    """Of an unknown type or version too, as the reference has it."""
    for change in ({"type": "Nope"}, {"v": 2}):
        text = dumped({**EVENT, **change, "x": [{"a": 1, "A": 2}]})
        with pytest.raises(EventDecodeError, match="a key comes twice"):
            decode_event(text.encode())


@pytest.mark.parametrize(
    ("one", "other", "twice"),
    [
        ("\\ud800", "\\udfff", True),
        ("\\ud800", "\ufffd", True),
        ("a\\ud800", "A\\udc00", True),
        ("\\ud800", "\\ud800\\udc00", False),
        ("\u0130", "i", True),
        ("\u0130", "I", True),
        ("\u0130", "i\u0307", False),
        ("\u03a3a\u03a3", "\u03c3a\u03c3", True),
        ("a\u03a3", "a\u03c2", False),
        ("\u00c4", "\u00e4", True),
        ("\u017f", "s", False),
    ],
    ids=ascii,
)
def test_keys_are_the_same_where_the_reference_lowers_them_to_the_same(one: str, other: str, *, twice: bool) -> None:
    """Character by character, and what is no character is U+FFFD."""
    data = f'{{"type":"Nope","x":{{"{one}":1,"{other}":2}}}}'.encode()
    with pytest.raises(EventDecodeError) as caught:
        decode_event(data)
    assert ("a key comes twice" in str(caught.value)) == twice
    assert isinstance(caught.value, UnknownEventTypeError) != twice


def test_every_character_lowers_to_one() -> None:
    """Which is what makes the rule above one of single characters."""
    longer = [chr(code) for code in range(sys.maxunicode + 1) if len(chr(code).lower()) != 1]
    assert longer == ["\u0130"]


def test_the_version_and_the_type_are_asked_before_the_fields() -> None:
    """What is not read further is not judged further."""
    for rest in ('"y_at":"\\u0041"', '"event_id":7', '"x":1', '"x":' + "9" * 4000):
        with pytest.raises(UnsupportedSchemaError):
            decode_event(f'{{"type":"Nope","v":2,{rest}}}'.encode())
        with pytest.raises(UnknownEventTypeError):
            decode_event(f'{{"type":"Nope",{rest}}}'.encode())
        with pytest.raises(UnsupportedSchemaError):
            decode_command(f'{{"type":"ProcessNotification","v":2,{rest}}}'.encode())
        with pytest.raises(UnknownCommandTypeError):
            decode_command(f'{{"type":"Nope",{rest}}}'.encode())


def test_nesting_has_an_end() -> None:
    """At 64, for whatever would be said of the record otherwise; those in texts and beside each other do not count."""
    for extra in ("", ',"v":2'):
        for nested, message in ((63, "unknown event type|upgrade"), (64, "nested deeper than 64")):
            with pytest.raises(EventDecodeError, match=message):
                decode_event(f'{{"type":"Nope"{extra},"x":{"[" * nested}{"]" * nested}}}'.encode())
    with pytest.raises(UnknownEventTypeError):
        decode_event(b'{"type":"Nope","x":[' + b"[]," * 100 + b"[]]}")
    name = '[{"\\' * 100
    assert decode_event(dumped({**EVENT, "agent_name": name}).encode()).header.agent_name == name


def outcome_at(depth: int, decode: Decode, data: bytes) -> Exception | None:
    """What `decode` raises that many calls further down."""
    if depth:
        return outcome_at(depth - 1, decode, data)
    try:
        decode(data)
    except Exception as error:
        return error
    return None


@every_codec
def test_near_the_end_of_the_stack_a_record_is_refused_like_any_other(
    decode: Decode, record: dict[str, Any], refusal: type[Exception]
) -> None:
    """Never by an error that is not ours, unless there was no room for the call itself, or for making an error."""
    deep = '{"type":"Nope","x":' + "[" * 60 + '"\\ud800"' + "]" * 60 + "}"
    for data in (dumped(record).encode(), deep.encode()):
        seen: list[Exception | None] = []
        for depth in range(sys.getrecursionlimit()):
            try:
                seen.append(outcome_at(depth, decode, data))
            except RecursionError:
                break
        for error in seen:
            if isinstance(error, RecursionError):
                assert len(traceback.extract_tb(error.__traceback__)) <= 2, "raised further within"
        assert any("stack" in str(error) for error in seen if isinstance(error, refusal))


def test_a_refusal_quotes_no_value() -> None:
    """Keys are named, cut short; values never, since a wrong record may hold anything."""
    secret = "correct-horse-battery-staple"
    for record, decode, refusal in (
        (EVENT, decode_event, EventDecodeError),
        (COMMAND, decode_command, CommandDecodeError),
    ):
        for extra in (
            {"command": secret},
            {"session_id": secret},
            {"created_at": secret},
            {"cause": secret},
            {"v": secret},
        ):
            with pytest.raises(refusal) as caught:
                decode(dumped({**record, **extra}).encode())
            assert secret not in str(caught.value)
    extras: list[dict[str, Any]] = [{"k" * 5000: 1}, {"k" * 5000 + "_at": "\x00"}, {"type": "k" * 5000}]
    for extra in extras:
        with pytest.raises(EventDecodeError) as caught:
            decode_event(dumped({**EVENT, **extra}).encode())
        assert len(str(caught.value)) < 120


def test_what_is_well_formed_and_breaks_a_rule_is_named_by_the_rule() -> None:
    """The decoders validate."""
    with pytest.raises(InvalidEventError):
        decode_event(dumped({**EVENT, "loop_id": None}).encode())
    with pytest.raises(CommandValidationError):
        decode_command(dumped({**COMMAND, "notification": None}).encode())
    with pytest.raises(ProcessLifecycleValidationError):
        decode_lifecycle(b"{}")
    with pytest.raises(ProcessLifecycleValidationError):
        decode_completion(b"null")


def test_a_code_without_its_flag_is_refused_in_its_turn() -> None:
    """A code of 0 without the flag is no code at all; one that is not 0 is refused after what comes before it."""
    record = {**EVENT["process"], "exit_code": 0}
    assert decode_lifecycle(dumped(record).encode()).exit_code is None
    for extra, field in (({}, "exit_code"), ({"state": 3}, "exit_code"), ({"diagnostic": "x"}, "diagnostic")):
        with pytest.raises(ProcessLifecycleValidationError) as caught:
            decode_lifecycle(dumped({**record, "exit_code": 3, **extra}).encode())
        assert field == caught.value.field
