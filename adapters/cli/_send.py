"""`lastword send`: input for a job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._completion import complete_job
from ._errors import CommandFailedError
from ._state import state_option

if TYPE_CHECKING:
    from ..serve import Client


@click.command(short_help="Write to a job's input.")
@click.argument("job", shell_complete=complete_job)
@click.argument("text", required=False)
@click.option("-n", "--no-newline", is_flag=True, help="TEXT as it is, with no newline behind it.")
@click.option("-k", "--key", "keys", multiple=True, metavar="KEY", help="C-c, M-x, Enter, Up, ...; may be given again.")
@click.option("--eof", is_flag=True, help="And then the end of its input.")
@state_option
def send(job: str, text: str | None, no_newline: bool, keys: tuple[str, ...], eof: bool, state: Path) -> None:
    """Write TEXT and a newline to the input of JOB, then what KEY sends, then its end.

    TEXT "-" is all of standard input, as it is.  JOB needs an input: it was run with -d --input or -d --tty.  Keys are
    for one with a terminal.

    \b
      lastword send repl 'print(6 * 7)'
      lastword send repl --key C-c
      lastword send sort --eof - < names
    """
    if text is None and not keys and not eof:
        raise click.UsageError("there is nothing to send: give TEXT, --key or --eof")
    from ..serve import RequestError
    from ._look import find_jobs, look
    from ._served import ask_about

    (found,) = find_jobs((job,), look(state))
    if found.has_ended:
        raise CommandFailedError("it has ended, and takes no input any more")
    data = b"" if text is None else _bytes_of(text, newline=not no_newline)
    try:
        ask_about([found], state, lambda client: _send(client, found.handle, data, keys, eof=eof))
    except RequestError as error:
        if error.code != "stdin_closed":
            raise
        raise CommandFailedError("it takes no input (any more); run it with -d --input or -d --tty for that") from None


def _bytes_of(text: str, *, newline: bool) -> bytes:
    if text == "-":
        return sys.stdin.buffer.read()
    return text.encode("utf-8", "surrogateescape") + (b"\n" if newline else b"")


async def _send(client: Client, handle: str, data: bytes, keys: tuple[str, ...], *, eof: bool) -> None:
    from ._job_served import send_patiently

    await send_patiently(client, handle, data)
    for key in keys:
        await client.send_input(handle, key=key)
    if eof:
        await client.send_input(handle, eof=True)
