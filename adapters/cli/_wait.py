"""`lastword wait`: until jobs have ended."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .._ending import TIMED_OUT
from ._completion import complete_job
from ._durations import duration_of
from ._errors import CommandFailedError
from ._job_info import JobInfo
from ._print import json_option, note, plain, print_json
from ._state import state_option

if TYPE_CHECKING:
    from ..serve import Client, WaitReply


@click.command(short_help="Wait until jobs have ended.")
@click.argument("jobs", nargs=-1, required=True, shell_complete=complete_job)
@click.option("--any", "first", is_flag=True, help="Until one of them has ended.")
@click.option("--timeout", callback=duration_of, metavar="TIME", help="Wait at most so long; 124 then.")
@json_option
@state_option
def wait(jobs: tuple[str, ...], first: bool, timeout: float | None, as_json: bool, state: Path) -> None:
    """Wait until JOBS (handles, beginnings of them, or names) have ended, and tell how.

    Exits as `run` would for the first of them, in the order given, that did not end with 0.  Waiting takes no notice
    away: `ack` does.

    \b
      lastword wait api && echo well
      lastword wait --any --timeout 10m build test
    """
    from ._look import find_jobs, look

    known = find_jobs(jobs, look(state))
    timed_out = False
    if not _enough(known, first=first):
        handles = [job.handle for job in known]
        timed_out = _ask(handles, known, state, first=first, timeout=timeout)
        known = find_jobs(handles, look(state))
    ended = [job for job in known if job.has_ended]
    for job in ended:
        show_end(job, as_json=as_json)
    if timed_out:
        note(f"{len(known) - len(ended)} of them still run")
        raise click.exceptions.Exit(TIMED_OUT)
    raise click.exceptions.Exit(next((code for job in ended if (code := job.ending.status)), 0))


def show_end(job: JobInfo, *, as_json: bool) -> None:
    """A line for a job that has ended, or its object."""
    if as_json:
        print_json(job.to_json())
    else:
        click.echo(f"{job.handle}\t{plain(job.name)}\t{job.how}")


def _enough(jobs: Sequence[JobInfo], *, first: bool) -> bool:
    return (any if first else all)(job.has_ended for job in jobs)


def _ask(handles: list[str], jobs: Sequence[JobInfo], state: Path, *, first: bool, timeout: float | None) -> bool:
    from ..serve import ConnectionLostError, NotServedError
    from ._holder import END_SECONDS, holder, wait_until_gone
    from ._look import find_jobs, look
    from ._served import ask_about

    async def question(client: Client) -> WaitReply:
        return await client.wait(handles, any=first, timeout=timeout)

    server = holder(state)
    try:
        return ask_about(jobs, state, question).timed_out
    except (NotServedError, ConnectionLostError):
        # They, and then their server, may have ended in this very moment; or they have ended with it.
        with contextlib.suppress(CommandFailedError):
            wait_until_gone(state, server, END_SECONDS)
        if not _enough(find_jobs(handles, look(state)), first=first):
            raise
        return False
