"""`lastword serve`: a runtime that is kept for whoever connects."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from ._durations import duration_of
from ._errors import CommandFailedError
from ._holder import END_SECONDS, holder, wait_until_gone
from ._print import note
from ._state import state_option

# One that does not answer, or has hung up, has ended by now, or will not.
_LOST_SECONDS: Final = 2.0


@click.command(short_help="Keep the directory's jobs, for whoever connects.")
@click.option("--idle", callback=duration_of, metavar="TIME", help="End after once to twice this time of nothing.")
@click.option("--stop", "end", is_flag=True, help="End the server that runs; not while one of its jobs does.")
@click.option("--force", is_flag=True, help="With --stop: end its jobs, too.")
@state_option
def serve(idle: float | None, end: bool, force: bool, state: Path) -> None:
    """Keep the jobs of the state directory, until Ctrl-C or SIGTERM; its end is theirs.

    `run -d` starts one by itself, which ends when it has been idle for some minutes; nothing of this is needed for it.

    \b
      lastword serve --idle 30m
      lastword serve --stop
    """
    if force and not end:
        raise click.UsageError("--force goes with --stop")
    if end:
        _end(state, force=force)
        return
    import anyio

    from ..serve import run_server

    async def keep() -> None:
        await run_server(state, idle_seconds=idle, ready=lambda: note("ready; Ctrl-C ends it, and its jobs"))

    anyio.run(keep)


def _end(state: Path, *, force: bool) -> None:
    from ..serve import ConnectionLostError, NotServedError, RequestError
    from ._served import ask_server

    server = holder(state)
    patience = END_SECONDS
    try:
        ask_server(state, lambda client: client.shutdown(stop_running=force))
    except RequestError as error:
        if error.code != "busy":
            raise
        raise CommandFailedError("jobs are running; stop them first, or end them, too, with --force") from None
    except NotServedError:
        raise CommandFailedError("nobody serves this state directory; there is nothing to end") from None
    except ConnectionLostError:
        # It may have ended before it could answer, which is what was asked for.
        patience = _LOST_SECONDS
    wait_until_gone(state, server, patience)
