"""Bytes that almost are records: the vectors' texts, spoilt at random in the ways that records get spoilt."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, cast

from vector_values import rows

TOKENS = tuple(
    text.encode("utf-8", "surrogatepass")
    for text in (
        *(
            '"',
            "\\",
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            " ",
            "\n",
            "\x00",
            "\x7f",
            "\ufeff",
            "\u2028",
            "\ud800",
            "\U0001f600",
        ),
        *("null", "true", "false", "NaN", "-Infinity", "1e5", "-0", "1.0", "0x1", "9" * 30, "9" * 5000, "-1", "256"),
        *('"1"', '""', "{}", "[]", "[[[[", '{"a":' * 40, "\\u0000", "\\ud800", "\\udc00", "\\u005a", "\\x"),
        *("event_id", "process", "notification", "header", "cause", "has_exit_code", "exit_code", "type", "v", "Kind"),
        *('"kind":3,', '"kind":null,', '"v":2,', '"x":1,', '"type":"ProcessLost",', '"loop_id":null,'),
        *("00000000-0000-0000-0000-000000000000", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "+23:59"),
    )
)


def corpus() -> list[bytes]:
    """Every text of the vectors that a decoder reads, and the bare objects inside."""
    texts = [row["input"] for row in rows("decode_cases")]
    texts += [row["wire"] for row in rows("wire_events") if "wire" in row]
    texts += [json.dumps(row["input"]) for row in rows("metadata_cases") + rows("workflow_cases")]
    return [text.encode() for text in texts]


def mutate(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """`data` after one to three accidents."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(_ACCIDENTS)(data, rng, others)
    return data


def _cut(data: bytes, rng: random.Random, _: list[bytes]) -> bytes:
    begin, end = sorted(rng.choices(range(len(data) + 1), k=2))
    return data[:begin] + data[min(end, begin + rng.choice((1, 3, 40, 4000))) :]


def _repeat(data: bytes, rng: random.Random, _: list[bytes]) -> bytes:
    begin, end = sorted(rng.choices(range(len(data) + 1), k=2))
    return data[:end] + data[begin:end] + data[end:]


def _insert(data: bytes, rng: random.Random, _: list[bytes]) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice(TOKENS) + data[at:]


def _overwrite(data: bytes, rng: random.Random, _: list[bytes]) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + bytes((rng.randrange(256),)) + data[at + 1 :]


def _splice(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    other = rng.choice(others)
    return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]


def _exchange_token(data: bytes, rng: random.Random, _: list[bytes]) -> bytes:
    """One part between structural characters becomes something else: what is left is often still JSON."""
    marks = [at for at, byte in enumerate(data) if byte in b',:{}"']
    if len(marks) < 2:
        return data
    which = rng.randrange(len(marks) - 1)
    return data[: marks[which] + 1] + rng.choice(TOKENS) + data[marks[which + 1] :]


VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, 3, 5, 9, 10, 255, 256, -1, 2**31 - 1, 2**31, 2**64, 1.0, "", " ", "x", {}, [], [[]]),
    *("01234567-89ab-4cde-8f01-23456789abcd", "00000000-0000-0000-0000-000000000000", "a" * 513, "<&>\u2028\u0000"),
    *("2026-03-14T15:10:56.5Z", "0001-01-01T01:00:00+01:00", "2026-03-14T20:40:56.123456789+05:30", "2026-03-14"),
    *("ProcessStarted", "ProcessCompleted", "ProcessLost", "WorkflowActivity", "ProcessNotification", "run_failed"),
)


def _exchange_value(data: bytes, rng: random.Random, _: list[bytes]) -> bytes:
    """One field, at any depth, gets another value, goes, or comes with another name: it stays JSON."""
    try:
        record: Any = json.loads(data)
    except (ValueError, RecursionError):
        return data
    inner = record
    while isinstance(inner, dict) and inner:
        holder = cast("dict[str, Any]", inner)
        key = rng.choice(list(holder))
        inner = holder[key]
        if not isinstance(inner, dict) or rng.random() < 0.3:
            value = holder.pop(key)
            match rng.randrange(4):
                case 0:
                    holder[rng.choice((key, key.upper(), "x", "loop_id", "cause", "exit_code"))] = value
                case 1 | 2:
                    holder[key] = rng.choice(VALUES)
                case _:
                    pass
            break
    return json.dumps(record, ensure_ascii=rng.random() < 0.5, separators=(",", ":")).encode("utf-8", "surrogatepass")


_ACCIDENTS: tuple[Callable[[bytes, random.Random, list[bytes]], bytes], ...] = (
    _cut,
    _repeat,
    _insert,
    _overwrite,
    _splice,
    _exchange_token,
    _exchange_value,
    _exchange_value,
    _exchange_value,
)
