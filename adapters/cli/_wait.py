"""`lastword wait`: until jobs have ended."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

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

_Answer: TypeAlias = Literal["ended", "over", "silence"]
"""Enough have ended; the time is over, says the server; it is over, and the server has said nothing."""

# It is the server that tells that the time is over; one that works does so in this time more.
_ANSWER_SECONDS: Final = 1.0


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
    answer: _Answer = "ended"
    if not _enough(known, first=first):
        handles = [job.handle for job in known]
        answer = _ask(handles, known, state, first=first, timeout=timeout)
        known = find_jobs(handles, look(state))
    ended = [job for job in known if job.has_ended]
    for job in ended:
        show_end(job, as_json=as_json)
    if answer != "ended" and not _enough(known, first=first):
        left = len(known) - len(ended)
        note(
            f"{left} of them still run{'s' if left == 1 else ''}"
            if answer == "over"
            else f"the server has not answered; {left} of them had not ended when it was last heard of"
        )
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


def _ask(handles: list[str], jobs: Sequence[JobInfo], state: Path, *, first: bool, timeout: float | None) -> _Answer:
    """Ask the server.  All that is waited for has one deadline, whoever is stuck."""
    from ..serve import ConnectionLostError, NotServedError, SilentServerError
    from ._holder import END_SECONDS, holder, wait_until_gone
    from ._look import find_jobs, look
    from ._served import ask_about

    async def question(client: Client) -> WaitReply:
        return await client.wait(handles, any=first, timeout=timeout)

    server = holder(state)
    seconds = math.inf if timeout is None else timeout + _ANSWER_SECONDS
    until = time.monotonic() + seconds
    try:
        return "over" if ask_about(jobs, state, question, seconds).timed_out else "ended"
    except TimeoutError:
        return "silence"
    except (NotServedError, ConnectionLostError) as error:
        # They, and then their server, may have ended in this very moment; or they have ended with it.
        patience = 0.0 if isinstance(error, SilentServerError) else min(END_SECONDS, until - time.monotonic())
        with contextlib.suppress(CommandFailedError):
            wait_until_gone(state, server, patience)
        if _enough(find_jobs(handles, look(state)), first=first):
            return "ended"
        if time.monotonic() >= until:
            return "silence"
        raise
