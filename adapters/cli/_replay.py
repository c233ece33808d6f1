"""`lastword replay`: a journal as a timeline that people can read."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from ._format import SHORT_HANDLE, clock_time
from ._look_journal import journal_path, records_in
from ._print import json_option, plain, print_json
from ._state import state_option
from ._told import how_told

if TYPE_CHECKING:
    from ...session.journal import Record


@attrs.frozen(kw_only=True)
class Moment:
    """One record of the journal, read."""

    seq: int
    record: str
    at: datetime | None
    handle: str
    what: str

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {**attrs.asdict(self), "at": None if self.at is None else self.at.isoformat()}


class Timeline:
    """Reads records in order, and counts what has become of the jobs."""

    def __init__(self) -> None:
        self._handles: dict[object, str] = {}  # of each notification's id
        self._openings = 0
        self._jobs: set[str] = set()
        self._ended: set[str] = set()
        self._told: set[object] = set()
        self._acknowledged: set[object] = set()

    def read(self, record: Record) -> Moment:
        """The next one."""
        from ...notifier import LastwordError, RecordKind, decode_event, process_ids

        at: datetime | None = None
        handle = record.subject or ""
        match record.kind:
            case RecordKind.FENCE:
                self._openings += 1
                what = f"the session is opened, for the {ordinal(self._openings)} time"
            case RecordKind.CONSUMPTION:
                self._acknowledged.add(record.consumes)
                handle = self._handles.get(record.consumes, "")
                what = "its notice is acknowledged"
            case RecordKind.COMMAND:
                self._handles[record.record_id] = handle
                self._told.add(record.record_id)
                what = "its notice waits for its owner"
            case RecordKind.EVENT:
                try:
                    event = decode_event(record.payload)
                except LastwordError:
                    what = "an event that this version cannot read"
                else:
                    at = event.header.created_at
                    handle, what = how_told(event)
                    # A notice can be acknowledged before it comes; its id follows from that of any event.
                    self._handles.setdefault(process_ids(event.header.event_id).command, handle)
        if handle:
            self._jobs.add(handle)
        if record.terminal:
            self._ended.add(handle)
        return Moment(seq=record.seq, record=record.kind.name.lower(), at=at, handle=handle, what=what)

    def summary(self) -> str:
        """What has become of them all."""
        open_notices = len(self._told - self._acknowledged)
        return (
            f"{len(self._jobs)} jobs, {len(self._ended)} last words, {len(self._told)} notices, "
            f"{open_notices} of them not acknowledged"
        )


@click.command(short_help="Tell what a journal says, as a timeline.")
@click.argument("journal", required=False, type=click.Path(path_type=Path))
@json_option
@state_option
def replay(journal: Path | None, as_json: bool, state: Path) -> None:
    """Tell what a journal says, from its first record to its last.

    JOURNAL is a journal's file, or a state directory; without it, the one of --state.  It is only read, also beside
    whoever writes it.

    \b
      lastword replay
      lastword replay backup/journal.db
    """
    timeline = Timeline()
    day = None
    for record in records_in(journal_path(journal, state)):
        moment = timeline.read(record)
        if as_json:
            print_json(moment.to_json())
            continue
        if moment.at is not None and moment.at.astimezone().date() != day:
            day = moment.at.astimezone().date()
            click.echo(f"--- {day.isoformat()}")
        click.echo(line_of(moment))
    if not as_json:
        click.echo(f"--- {timeline.summary()}")


def line_of(moment: Moment) -> str:
    """`    12  15:09:26.535  4kDd9sXX  completed: exited 3`; a notice has no time of its own."""
    at = "" if moment.at is None else clock_time(moment.at)
    return f"{moment.seq:>6}  {at:<12}  {plain(moment.handle)[:SHORT_HANDLE]:<8}  {plain(moment.what)}"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `4th`, `11th`."""
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
