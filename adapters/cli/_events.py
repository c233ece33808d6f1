"""`lastword events`: what was told of the jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._durations import moment_of
from ._format import SHORT_HANDLE, clock_time
from ._print import json_option, plain, print_json
from ._state import state_option
from ._told import how_told

if TYPE_CHECKING:
    from ...notifier import Event


@click.command()
@click.option("--since", callback=moment_of, metavar="TIME", help="Not what is older: 10m, 2h, or 2026-03-14T15:09.")
@click.option("--after", type=click.IntRange(0), default=0, metavar="SEQ", help="Only what follows that sequence.")
@json_option
@state_option
def events(since: datetime | None, after: int, as_json: bool, state: Path) -> None:
    """Show the public events of the journal, in its order.

    With --json each line has `seq` and `event`: the record as it was written, which docs/contract.md describes.

    \b
      lastword events --since 10m
      lastword events --json --after 120
    """
    from ._look import jobs_of, look
    from ._look_journal import journal_of

    names = {job.handle: job.name for job in jobs_of(look(state))}
    for seq, payload, event in public_events(journal_of(state), after):
        if is_wanted(event, since):
            if as_json:
                print_json(event_object(seq, payload))
            else:
                click.echo(event_line(seq, event, names))


def public_events(records: Iterator[Any], after: int) -> Iterator[tuple[int, bytes, Event]]:
    """Place, bytes and value of each public event."""
    from ...notifier import RecordKind, Visibility, decode_event

    for record in records:
        if record.seq > after and record.kind is RecordKind.EVENT and record.public:
            event = decode_event(record.payload)
            if event.header.visibility is Visibility.PUBLIC:
                yield record.seq, record.payload, event


def is_wanted(event: Event, since: datetime | None) -> bool:
    """Whether the event was made then, or later."""
    made = event.header.created_at
    return since is None or made is None or made >= since


def event_object(seq: int, payload: bytes) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {"seq": seq, "event": json.loads(payload)}


def event_line(seq: int, event: Event, names: dict[str, str]) -> str:
    """`   12  15:09:26.535  4kDd9sXX  api  completed: exited 3`"""
    made = event.header.created_at
    who, what = how_told(event)
    name = f"  {plain(names[who])}" if names.get(who) else ""
    return (
        f"{seq:>6}  {'' if made is None else clock_time(made):<12}  {plain(who)[:SHORT_HANDLE]:<8}{name}  {plain(what)}"
    )
