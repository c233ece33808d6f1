"""`lastword ack`: say "I know"."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._completion import complete_job
from ._errors import CommandFailedError
from ._pending import Waiting, look_for_pending
from ._print import json_option, note, print_json
from ._state import state_option

if TYPE_CHECKING:
    from ..serve import AcknowledgeReply, Client


@click.command(short_help="Acknowledge the notices of jobs.")
@click.argument("jobs", nargs=-1, shell_complete=complete_job)
@click.option("--all", "everything", is_flag=True, help="Of every job that has one.")
@json_option
@state_option
def ack(jobs: tuple[str, ...], everything: bool, as_json: bool, state: Path) -> None:
    """Acknowledge the notices of JOBS (handles, beginnings of them, or names): they are not told again.

    The handles are printed, once that is durable.  Where nobody holds the directory it is opened for it, which also
    gives jobs that were lost with their host their last word.

    \b
      lastword ack api
      lastword ack --all
    """
    if everything == bool(jobs):
        raise click.UsageError("give JOBS, or --all")
    waiting = [each for each in look_for_pending(state) if each.status == "unacknowledged"]
    chosen = waiting if everything else _chosen(jobs, waiting, state)
    if chosen:
        _acknowledge(state, chosen)
    else:
        note("there is nothing to acknowledge")
    for each in chosen:
        if as_json:
            print_json({"handle": each.process_handle, "command_id": each.record_id})
        else:
            click.echo(each.process_handle)


def _chosen(words: Sequence[str], waiting: Sequence[Waiting], state: Path) -> list[Waiting]:
    """The notices of these jobs; one that was evicted can still have one, and is known by that."""
    from ..serve import Candidate, NoSuchProcessError, resolve
    from ._look import find_jobs, look

    view = look(state)
    handles: set[str] = set()
    for word in words:
        try:
            handles.update(job.handle for job in find_jobs((word,), view))
        except NoSuchProcessError:
            handles.add(resolve(word, [Candidate(each.process_handle, "", False) for each in waiting]))
    return [each for each in waiting if each.process_handle in handles]


def _acknowledge(state: Path, chosen: Sequence[Waiting]) -> None:
    from ...supervisor import DirectoryInUseError
    from ..serve import NotServedError
    from ._served import IN_USE, ask

    try:
        ask(state, lambda client: _ask(client, [each.process_handle for each in chosen]))
    except NotServedError:
        import anyio

        try:
            anyio.run(_open_and_acknowledge, state, [each.record_id for each in chosen])
        except DirectoryInUseError:
            raise CommandFailedError(IN_USE) from None


async def _ask(client: Client, handles: Sequence[str]) -> list[AcknowledgeReply]:
    # One request names a bounded number of them.
    return [await client.acknowledge(handles[at : at + 100]) for at in range(0, len(handles), 100)]


async def _open_and_acknowledge(state: Path, ids: Sequence[str]) -> None:
    from uuid import UUID

    from ..._runtime import open_runtime
    from ..serve import SERVE_LIMITS

    async with open_runtime(state, limits=SERVE_LIMITS) as runtime:
        for command_id in ids:
            await runtime.session.acknowledge(UUID(command_id))
