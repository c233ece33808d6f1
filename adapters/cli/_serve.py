"""`lastword serve`: a runtime that is kept for whoever connects."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click

from ._durations import duration_of
from ._errors import CommandFailedError
from ._print import note
from ._state import state_option

_LOOK_SECONDS: Final = 0.02

# Longer than a server takes to close: its runtime's grace and ten seconds, and its turn.
_END_SECONDS: Final = 30.0

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

    server = _holder(state)
    patience = _END_SECONDS
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


def wait_until_gone(state: Path, server: int | None, patience: float) -> None:
    """Return when that process has let go of the directory; who holds it next is nobody to wait for.

    A server answers before it closes, and nobody tells when it has let go: what follows in a script wants the
    directory.  Raises `CommandFailedError` where it has not after `patience` seconds.
    """
    until = time.monotonic() + patience
    while server is not None and _holder(state) == server:
        if time.monotonic() >= until:
            raise CommandFailedError(
                "the server has not ended, though it was told to: it is stopped, or stuck; its serve.log may say why, "
                "and killing it ends its jobs, too"
            )
        time.sleep(_LOOK_SECONDS)


def _holder(state: Path) -> int | None:
    from ...supervisor._directory import holder_of

    return holder_of(state) if state.exists() else None
