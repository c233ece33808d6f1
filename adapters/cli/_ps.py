"""`lastword ps`: which jobs there are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import click

from ._format import SHORT_HANDLE, age, lasted, size
from ._job_info import UNSETTLED, JobInfo
from ._print import json_option, print_json, print_rows
from ._state import state_option

HEADINGS = ("HANDLE", "NAME", "PROGRAM", "STATE", "STARTED", "RAN", "OUTPUT")


@click.command(short_help="Show the jobs that run; -a: those that have ended, too.")
@click.option("-a", "--all", "everything", is_flag=True, help="Also those that have ended.")
@click.option("-w", "--watch", "again", is_flag=True, help="Show them as they change, until Ctrl-C.")
@json_option
@state_option
def ps(everything: bool, again: bool, as_json: bool, state: Path) -> None:
    """Show the jobs that run; with -a also those that have ended and are still known.

    The directory is only looked at, whoever holds it.  The state "unsettled" is that of a job whose host has died: the
    next opening of the directory tells how it ended.

    With --watch and --json, or in a pipe, a line is printed for each job whose state is another one, also at the end
    of one that ran.

    \b
      lastword ps -a
      lastword ps --watch
      lastword ps --json | jq -r .handle
    """
    if again:
        import anyio

        from ._watch import watch

        anyio.run(partial(watch, state, everything=everything, as_json=as_json))
        return
    from ._look import jobs_of, look

    jobs = shown(jobs_of(look(state)), everything=everything)
    if as_json:
        for job in jobs:
            print_json(job.to_json())
    else:
        print_rows(HEADINGS, rows_of(jobs, datetime.now().astimezone()))


def shown(jobs: Sequence[JobInfo], *, everything: bool) -> list[JobInfo]:
    """Those that are asked for."""
    return [job for job in jobs if everything or not job.has_ended]


def rows_of(jobs: Sequence[JobInfo], now: datetime) -> list[tuple[str, ...]]:
    """A row for each job."""
    return [
        (
            job.handle[:SHORT_HANDLE],
            job.name,
            job.program,
            job.how,
            f"{age((now - (job.started_at or job.created_at)).total_seconds())} ago",
            "" if job.state == UNSETTLED else lasted(job, now),
            size(job.total_bytes),
        )
        for job in jobs
    ]
