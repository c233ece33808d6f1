"""Whatever the decoders are given: a sound value, or a `LastwordError`."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_mutations import corpus, mutate

from lastword.notifier import (
    LastwordError,
    decode_command,
    decode_completion,
    decode_event,
    decode_lifecycle,
    encode_command,
    encode_event,
)

NORMAL_RECORDS = 10_000
PROVEN_RECORDS = 400_000

DECODERS: tuple[tuple[Callable[[bytes], Any], Callable[[Any], bytes] | None], ...] = (
    (decode_event, encode_event),
    (decode_command, encode_command),
    (decode_lifecycle, None),
    (decode_completion, None),
)

KEYS = [
    *("type", "v", "event_id", "session_id", "loop_id", "turn_id", "step_id", "cause", "created_at", "visibility"),
    *("process", "notification", "command_id", "agency", "kind", "state", "reason", "exit_code", "has_exit_code"),
    *("process_handle", "process_created_at", "occurred_at", "run_id", "message", "header"),
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.uuids().map(str)
    | st.datetimes().map(lambda time: time.isoformat() + "Z")
    | st.sampled_from(["ProcessCompleted", "ProcessLost", "WorkflowActivity", "ProcessNotification", "run_failed"])
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(), inner, max_size=12),
    max_leaves=30,
)


def attempt(data: bytes) -> Counter[str]:
    """Ask every decoder; what it takes must be sound: it can be written, and comes back the same."""
    outcomes: Counter[str] = Counter()
    for decode, encode in DECODERS:
        try:
            value = decode(data)
        except LastwordError as error:
            outcomes[type(error).__name__] += 1
            str(error)
            continue
        outcomes["taken"] += 1
        if encode is not None:
            again = encode(value)
            assert value == decode(again)
            assert again == encode(decode(again))
    return outcomes


@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    """Of no form at all."""
    attempt(data)


@given(st.text(st.characters() | st.sampled_from('{}[]":,\\'), max_size=60))
def test_any_text(text: str) -> None:
    """Of almost no form; lone surrogates included, as bytes that are not UTF-8."""
    attempt(text.encode("utf-8", "surrogatepass"))


@given(json_values)
def test_any_json(value: Any) -> None:
    """Of the right form, with our keys at wrong places and strangers at ours."""
    attempt(json.dumps(value).encode())
    attempt(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def fuzz(records: int, seed: int) -> Counter[str]:
    rng = random.Random(seed)
    texts = corpus()
    outcomes: Counter[str] = Counter()
    for _ in range(records):
        data = mutate(rng.choice(texts), rng, texts)
        try:
            outcomes += attempt(data)
        except Exception as error:
            error.add_note(f"seed {seed}: {data!r}")
            raise
    return outcomes


def test_records_that_were_spoilt() -> None:
    """A few thousand; the same ones each time.  Both ends are reached: some are taken, most are refused by kind."""
    outcomes = fuzz(NORMAL_RECORDS, seed=20260314)
    assert outcomes["taken"] > 50
    kinds = {"EventDecodeError", "CommandDecodeError", "InvalidEventError", "ProcessLifecycleValidationError"}
    assert kinds <= set(outcomes)
    assert {"UnknownEventTypeError", "UnknownCommandTypeError", "UnsupportedSchemaError"} <= set(outcomes)


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_very_many_records_that_were_spoilt() -> None:
    """Other ones each time; the seed is printed, and noted on whatever goes wrong."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"\ndecoders: {PROVEN_RECORDS} spoilt records for {len(DECODERS)} decoders each, seed {seed}")  # noqa: T201 - its figures
    outcomes = fuzz(PROVEN_RECORDS, seed)
    for outcome, count in outcomes.most_common():
        print(f"  {count:9d} {outcome}")  # noqa: T201 - the same
    assert outcomes.total() == PROVEN_RECORDS * len(DECODERS)
