"""`lastword verify`: is the journal sound?"""

from __future__ import annotations

from pathlib import Path

import click

from ._errors import NOT_DONE
from ._look_journal import journal_path
from ._print import json_option, print_json
from ._state import state_option


@click.command(short_help="Check a journal.")
@click.argument("journal", required=False, type=click.Path(path_type=Path))
@json_option
@state_option
def verify(journal: Path | None, as_json: bool, state: Path) -> None:
    """Ask every rule of the journal again of the whole file, which is only read.

    JOURNAL is a journal's file, or a state directory; without it, the one of --state.  Exits with 1 where something is
    wrong with it.

    \b
      lastword verify
      lastword verify backup/journal.db
    """
    from ...session.journal import verify as verify_journal

    found = verify_journal(journal_path(journal, state))
    if as_json:
        print_json(
            {
                "sound": found.sound,
                "session_id": None if found.session_id is None else str(found.session_id),
                "epoch": found.epoch,
                "records": found.records,
                "pending": found.pending,
                "unfinished": found.unfinished,
                "problems": found.problems,
            }
        )
    else:
        for problem in found.problems:
            click.echo(problem)
        click.echo(
            f"{'sound' if found.sound else 'NOT SOUND'}: records: {found.records}, notices not acknowledged: "
            f"{found.pending}, jobs without a last word: {found.unfinished}, openings: {found.epoch}"
        )
    if not found.sound:
        raise click.exceptions.Exit(NOT_DONE)
