"""`lastword stop`: ask jobs to end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import click

from ._completion import complete_job
from ._durations import grace_of
from ._errors import NOT_DONE, CommandFailedError
from ._print import json_option, note
from ._state import state_option
from ._wait import show_end

if TYPE_CHECKING:
    from ..serve import Client

    Mode = Literal["interrupt", "terminate", "kill"]


@click.command(short_help="Ask jobs to end.")
@click.argument("jobs", nargs=-1, required=True, shell_complete=complete_job)
@click.option(
    "-m",
    "--mode",
    type=click.Choice(["interrupt", "terminate", "kill"]),
    default="terminate",
    show_default=True,
    help="SIGINT alone; SIGTERM and after the grace SIGKILL; SIGKILL at once.",
)
@click.option("-t", "--time", "grace", callback=grace_of, metavar="SEC", help="The grace, instead of the usual 5 s.")
@json_option
@state_option
def stop(jobs: tuple[str, ...], mode: str, grace: float | None, as_json: bool, state: Path) -> None:
    """Ask JOBS (handles, beginnings of them, or names) to end, all at once, and tell how they did.

    The whole tree of a job is ended, also what one with --survivors keep has left behind.  Exits with 1 where one of
    them still runs.

    \b
      lastword stop api
      lastword stop -t 30 -m terminate db api
    """
    from ..serve import NotServedError
    from ._look import find_jobs, look
    from ._served import ask_about

    known = find_jobs(jobs, look(state))
    handles = [job.handle for job in known]
    alive = [job.handle for job in known if not job.has_ended or job.survivors]
    if alive:
        wanted = cast("Mode", mode)
        try:
            for message in ask_about(known, state, lambda client: _stop_all(client, alive, wanted, grace)):
                note(message)
        except (NotServedError, CommandFailedError):
            # What a job has left behind lives no longer than who has kept it, and only a server keeps it.
            if not all(job.has_ended for job in find_jobs(handles, look(state))):
                raise
        known = find_jobs(handles, look(state))
    for job in known:
        if job.has_ended:
            show_end(job, as_json=as_json)
    left = sum(not job.has_ended for job in known)
    if left:
        note(f"{left} of them still run{'s' if left == 1 else ''}")
        raise click.exceptions.Exit(NOT_DONE)


async def _stop_all(client: Client, handles: list[str], mode: Mode, grace: float | None) -> list[str]:
    """What could not be done, in words."""
    import anyio

    from ..serve import RequestError

    failed: list[str] = []

    async def stop_one(handle: str) -> None:
        try:
            await client.stop(handle, mode, grace=grace)
        except RequestError as error:
            failed.append(error.message)

    async with anyio.create_task_group() as group:
        for handle in handles:
            group.start_soon(stop_one, handle)
    return failed
