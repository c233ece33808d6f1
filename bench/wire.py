"""What the codec costs: encode and decode of one event, against their bars, and the scrubber against its own length.

Run it with `make bench`.  Paired: each round times every variant once, in turn, so that whatever slows the machine
slows them alike; a ratio is the median of the rounds' ratios.  Each round reads a journal of distinct records in its
order: two events of each process, as a replay meets them, and far more ids than the reader remembers.  The second table
is of records that share nothing, which no journal holds: what reading costs without any memory.

It exits 0 also where a bar is missed: figures are for reading.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast
from uuid import UUID, uuid4

import attrs

from lastword.notifier import (
    ProcessEvent,
    ProcessLifecycleMetadata,
    Scrubber,
    build_process_event,
    decode_event,
    encode_event,
    new_uuid7,
    process_ids,
    validate_event,
)

ROUNDS = 41
PROCESSES = 250

ENCODE_BAR_MICROSECONDS = 25.0
DECODE_BAR_RATIO = 2.0


def a_journal() -> list[ProcessEvent]:
    """Started and completed of each process, in one session of two loops."""
    session_id, loops = uuid4(), (uuid4(), uuid4())
    created = datetime(2026, 3, 14, 15, 9, 26, 535897, tzinfo=UTC)
    events: list[ProcessEvent] = []
    for number in range(PROCESSES):
        created += timedelta(microseconds=7919 * (number + 1))
        ids = process_ids(new_uuid7())
        started = ProcessLifecycleMetadata(
            event_id=ids.started,
            kind=1,
            session_id=session_id,
            loop_id=loops[number % 2],
            process_handle="Zk3_xY-90AbCdEfGhIjKlM",
            origin_execution_id=uuid4(),
            state=2,
            process_created_at=created,
            process_started_at=created + timedelta(microseconds=2311),
        )
        finished = created + timedelta(seconds=1, microseconds=number)
        completed = attrs.evolve(
            started,
            event_id=ids.completed,
            kind=3,
            state=3,
            process_finished_at=finished,
            exit_code=number % 3,
            reason=1,
        )
        events += (
            build_process_event(started, created_at=created + timedelta(microseconds=2400)),
            build_process_event(completed, created_at=finished + timedelta(microseconds=90)),
        )
    return events


def strangers_journal() -> list[ProcessEvent]:
    """The same, but no two records share any id or time: nothing that the codec remembers helps it."""
    events: list[ProcessEvent] = []
    for number, event in enumerate(a_journal()):
        process = event.process
        shift = timedelta(microseconds=104_729 * number)
        finished = process.process_finished_at
        moved = attrs.evolve(
            process,
            event_id=uuid4(),
            session_id=uuid4(),
            loop_id=uuid4(),
            origin_execution_id=uuid4(),
            process_created_at=process.process_created_at + shift,
            process_started_at=process.process_created_at + shift + timedelta(microseconds=1),
            process_finished_at=None if finished is None else finished + shift,
        )
        events.append(build_process_event(moved, created_at=moved.process_created_at + timedelta(seconds=9)))
    return events


class Floor:
    """json.loads, and one `UUID` and one `fromisoformat` for each id and time: what no decoder of ours can avoid."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.ids: list[str] = []
        self.times: list[str] = []
        self._collect(json.loads(data))

    def _collect(self, record: dict[str, Any]) -> None:
        for key, value in record.items():
            if isinstance(value, dict):
                self._collect(cast("dict[str, Any]", value))
            elif key.endswith("_id"):
                self.ids.append(value)
            elif key.endswith("_at"):
                self.times.append(value)

    def __call__(self) -> int:
        json.loads(self.data)
        for text in self.ids:
            UUID(text)
        for text in self.times:
            datetime.fromisoformat(text)
        return len(self.ids) + len(self.times)


def microseconds(run: Callable[[], object], count: int) -> float:
    """How long `run` computes for each of the `count` records it goes through; waiting for a core does not count."""
    begin = time.process_time()
    run()
    return (time.process_time() - begin) / count * 1e6


def measure(events: list[ProcessEvent]) -> dict[str, list[float]]:
    """Microseconds a record, one figure for each round and variant."""
    records = [encode_event(event) for event in events]
    floors = [Floor(data) for data in records]
    variants: dict[str, Callable[[], object]] = {
        "floor": lambda: [floor() for floor in floors],
        "json.loads": lambda: [json.loads(data) for data in records],
        "decode": lambda: [decode_event(data) for data in records],
        "validate": lambda: validate_all(events),
        "encode": lambda: [encode_event(event) for event in events],
    }
    figures: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name, run in variants.items():
            figures[name].append(microseconds(run, len(events)))
    return figures


def validate_all(events: list[ProcessEvent]) -> int:
    """Ask the rules alone."""
    for event in events:
        validate_event(event)
    return len(events)


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def report_codec(title: str, figures: dict[str, list[float]], *, bars: bool) -> None:
    """One table; the bars are for the records of a journal."""
    print(f"\n{title}")
    for name, rounds in figures.items():
        print(f"  {name:<12}{statistics.median(rounds):8.2f} us a record")
    ratio = statistics.median(d / f for d, f in zip(figures["decode"], figures["floor"], strict=True))
    encode = statistics.median(figures["encode"])
    print(f"  decode / floor = {ratio:.2f}", end="")
    print(f"   (bar <= {DECODE_BAR_RATIO:.1f}: {verdict(ratio <= DECODE_BAR_RATIO)})" if bars else "")
    if bars:
        print(f"  encode = {encode:.1f} us   (bar <= {ENCODE_BAR_MICROSECONDS:.0f}: ", end="")
        print(f"{verdict(encode <= ENCODE_BAR_MICROSECONDS)})")


def report_scrubber() -> None:
    """Seconds for a megabyte of each hostile text, and how much longer a text of twice that takes (linear: 2)."""
    megabyte = 2**20
    scrubber = Scrubber({"API_KEY": "hunter2hunter2"}, values=["password" * 8, "a" * 512])
    units = (
        "password",
        "password ",
        "password=",
        "_key",
        "://",
        "eyJ",
        "sk-",
        "bearer ",
        '" ',
        "-----BEGIN ",
        "a",
        "=",
    )
    print("\nScrubber, one megabyte of           seconds   twice as long / once")
    for unit in units:
        texts = [unit * (size // len(unit)) for size in (megabyte, 2 * megabyte)]
        rounds = [[microseconds(partial(scrubber.scrub, text), 10**6) for text in texts] for _ in range(3)]
        once = statistics.median(first for first, _ in rounds)
        growth = statistics.median(second / first for first, second in rounds)
        print(f"  {unit!r:<32}{once:9.3f}{growth:12.1f}")


def main() -> None:
    gc.disable()  # a collection in one variant's turn would be charged to it
    report_codec("A journal: two events of each process", measure(a_journal()), bars=True)
    report_codec("Strangers: no id or time comes twice", measure(strangers_journal()), bars=False)
    gc.enable()
    report_scrubber()


if __name__ == "__main__":
    main()
