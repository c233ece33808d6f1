"""`lastword pending`: who has not been told yet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from ._format import SHORT_HANDLE
from ._print import json_option, print_json, print_rows
from ._state import state_option

if TYPE_CHECKING:
    from ...notifier import PendingDelivery
    from ..serve import PendingInfo

HEADINGS = ("HANDLE", "NAME", "RECORD", "STATUS", "TRIES", "LAST ERROR")


@attrs.frozen(kw_only=True)
class Waiting:
    """A record whose way home is not finished; as `PendingDelivery`."""

    record_id: str
    kind: str
    process_handle: str
    name: str
    attempts: int
    status: str
    last_error: str | None

    @classmethod
    def of(cls, record: PendingInfo | PendingDelivery, names: Mapping[str, str]) -> Waiting:
        """One that a server or the store has told of; `names` are those of the jobs."""
        return cls(
            record_id=str(record.record_id),
            kind=record.kind,
            process_handle=record.process_handle,
            name=names.get(record.process_handle, ""),
            attempts=record.attempts,
            status=record.status,
            last_error=record.last_error,
        )

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return attrs.asdict(self)


@click.command(short_help="Show what has not come home yet.")
@json_option
@state_option
def pending(as_json: bool, state: Path) -> None:
    """Show the records whose way home is not finished.

    "unacknowledged": its owner has been told, or will be, and has not said "I know".  "waiting": it is not in the
    journal yet.  "quarantined": it can never be, and why.

    \b
      lastword pending
      lastword pending --json | jq -r .process_handle
    """
    found = ask_for_pending(state)
    if as_json:
        for each in found:
            print_json(each.to_json())
    else:
        print_rows(
            HEADINGS,
            [
                (
                    each.process_handle[:SHORT_HANDLE],
                    each.name,
                    each.kind,
                    each.status,
                    str(each.attempts),
                    each.last_error or "",
                )
                for each in found
            ],
        )


def ask_for_pending(state: Path) -> list[Waiting]:
    """What its server says, which alone knows how often it has tried; else, or where that is another user's, what the
    files say.
    """
    from ..serve import ForeignPeerError, NotServedError
    from ._look import jobs_of, look
    from ._served import ask

    view = look(state)
    if view is None or not view.held:
        return look_for_pending(state)
    try:
        told = ask(state, lambda client: client.pending())
    except (NotServedError, ForeignPeerError):
        return look_for_pending(state)
    names = {job.handle: job.name for job in jobs_of(view)}
    return [Waiting.of(each, names) for each in told]


def look_for_pending(state: Path) -> list[Waiting]:
    """What the files say: what is not journaled, then what is not acknowledged, each in order."""
    from ...session.journal import open_reader
    from ._look import jobs_of, look
    from ._look_journal import JOURNAL

    view = look(state)
    if view is None:
        return []
    names = {job.handle: job.name for job in jobs_of(view)}
    undelivered, told = list(view.undelivered), []
    if (state / JOURNAL).exists():
        with open_reader(state / JOURNAL) as reader:
            told = reader.unacknowledged()
            # The mark of a delivery rides on the store's next write: until then it is in both.
            undelivered = [each for each in undelivered if not reader.holds(each.record_id)]
    return [Waiting.of(each, names) for each in undelivered] + [
        Waiting(
            record_id=str(record.record_id),
            kind="notification",
            process_handle=record.subject or "",
            name=names.get(record.subject or "", ""),
            attempts=0,
            status="unacknowledged",
            last_error=None,
        )
        for record in told
    ]
