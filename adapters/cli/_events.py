"""`lastword events`: what was told of the jobs."""

from __future__ import annotations

import json
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
    from ...session.journal import Record


@click.command(short_help="Show what was told of the jobs.")
@click.option("-f", "--follow", is_flag=True, help="And then those that come, while somebody holds the directory.")
@click.option("--since", callback=moment_of, metavar="TIME", help="Not what is older: 10m, 2h, or 2026-03-14T15:09.")
@click.option(
    "--after", type=click.IntRange(0, 2**63 - 1), default=0, metavar="SEQ", help="Only what follows that sequence."
)
@json_option
@state_option
def events(follow: bool, since: datetime | None, after: int, as_json: bool, state: Path) -> None:
    """Show the public events of the journal, in its order.

    With --json each line has `seq` and `event`: the record as it was written, which docs/contract.md describes.

    \b
      lastword events -f --since 10m
      lastword events --json --after 120
    """
    from ._look import look
    from ._look_journal import journal_of

    if look(state) is None:
        return
    printer = EventPrinter(state, since, as_json=as_json)
    for record in journal_of(state, after):
        after = record.seq
        printer.show(record.seq, record.payload if is_public(record) else None)
    view = look(state) if follow else None
    if view is not None and view.held:
        import anyio

        from ._events_follow import follow_events

        anyio.run(follow_events, state, after, printer)


class EventPrinter:
    """Events, in order, as they are to be seen."""

    def __init__(self, state: Path, since: datetime | None, *, as_json: bool) -> None:
        self._state = state
        self._names: dict[str, str] = {}
        self._since = since
        self._as_json = as_json

    def show(self, seq: int, payload: bytes | None) -> None:
        """One more; None: it is nothing that the public is told."""
        from ...notifier import Visibility, decode_event

        if payload is None:
            return
        event = decode_event(payload)
        if event.header.visibility is Visibility.PUBLIC and is_wanted(event, self._since):
            if self._as_json:
                print_json(event_object(seq, payload))
            else:
                who, what = how_told(event)
                click.echo(event_line(seq, event.header.created_at, who, self._name_of(who), what))

    def _name_of(self, handle: str) -> str:
        """What it is called; the store is looked into when a job is met that it did not know the last time."""
        from ._look import jobs_of, look

        if handle and handle not in self._names:
            self._names |= {job.handle: job.name for job in jobs_of(look(self._state))}
            self._names.setdefault(handle, "")
        return self._names.get(handle, "")


def is_public(record: Record) -> bool:
    """Whether it is an event that is told."""
    from ...notifier import RecordKind

    return record.kind is RecordKind.EVENT and record.public


def is_wanted(event: Event, since: datetime | None) -> bool:
    """Whether the event was made then, or later."""
    made = event.header.created_at
    return since is None or made is None or made >= since


def event_object(seq: int, payload: bytes) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {"seq": seq, "event": json.loads(payload)}


def event_line(seq: int, made: datetime | None, handle: str, name: str, what: str) -> str:
    """`   12  15:09:26.535  4kDd9sXX  api  completed: exited 3`"""
    at = "" if made is None else clock_time(made)
    return f"{seq:>6}  {at:<12}  {plain(handle)[:SHORT_HANDLE]:<8}  {plain(name)}{'  ' * bool(name)}{plain(what)}"
