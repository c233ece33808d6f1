"""`lastword run`: a job in the foreground, or in the background."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal, cast

import click

from ._durations import duration_of
from ._print import json_option
from ._state import state_option


@click.command(
    context_settings={"allow_interspersed_args": False},
    short_help="Run a command, in the foreground or (-d) the background.",
)
@click.option("-d", "--detach", is_flag=True, help="In the background; prints its handle.")
@click.option("-t", "--tty", is_flag=True, help="With a terminal of its own, which yours is connected to.")
@click.option("-i", "--input", "open_input", is_flag=True, help="With -d: its input stays open, for `send`.")
@click.option("--name", default="", help="What you call it; commands take it for a handle.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Its working directory.")
@click.option("--timeout", callback=duration_of, metavar="TIME", help="Its lifetime: 90, 1.5s, 5m, 2h.")
@click.option("-e", "--env", multiple=True, metavar="K=V", help="A variable beside your own; may be given again.")
@click.option(
    "--survivors",
    type=click.Choice(["stop", "keep"]),
    default="stop",
    show_default=True,
    help="What becomes of processes that it leaves behind.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress and no notes on stderr.")
@json_option
@state_option
@click.argument("command", nargs=-1, required=True, metavar="[--] COMMAND [ARGUMENT]...")
def run(
    detach: bool,
    tty: bool,
    open_input: bool,
    name: str,
    cwd: Path | None,
    timeout: float | None,
    env: tuple[str, ...],
    survivors: str,
    quiet: bool,
    as_json: bool,
    state: Path,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND as a job, with your environment; a shell's line is: sh -c '...'.

    In the foreground its input, output and exit code are passed through: 128 + n where it died of signal n, 124 where
    its --timeout was over, 126 and 127 where it cannot be executed or is not there, 125 where it is lost or the fault
    is lastword's.  Ctrl-C interrupts it, a second one stops it, a third one kills it; closing the terminal stops it,
    and nothing of it is left.

    With -d it goes on in the background, kept by `lastword serve`, which is started where it does not run; the handle
    is printed.

    \b
      lastword run -- make -j4 test
      lastword run --timeout 10m -- sh -c 'make && make install'
      lastword run -d --name api -e PORT=8000 -- ./api
      lastword run -d --input --name bc -- bc
      lastword run --tty -- python3 -i
    """
    from ._order import order_of
    from ._terminal import size_here

    if open_input and not detach:
        raise click.UsageError("--input goes with -d; in the foreground yours is its input")
    order = order_of(
        command,
        name=name,
        cwd=cwd,
        env=env,
        timeout=timeout,
        survivors=cast("Literal['stop', 'keep']", survivors),
        tty=tty,
        size=size_here(),
        stdin=("pipe" if open_input else None) if detach else input_here(),
    )
    if detach:
        from ._detach import run_detached

        run_detached(order, state, as_json=as_json)
        return
    from ._foreground import run_foreground

    raise click.exceptions.Exit(run_foreground(order, state, quiet=quiet))


def input_here() -> Literal["pipe"] | None:
    """How the job gets this program's input; None where there is none to get."""
    try:
        status = os.fstat(0)
    except OSError:  # it was closed
        return None
    nothing = stat.S_ISCHR(status.st_mode) and status.st_rdev == Path(os.devnull).stat().st_rdev
    return None if nothing else "pipe"
