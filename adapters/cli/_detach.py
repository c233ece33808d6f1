"""`run -d`: a job that goes on by itself, kept by the directory's server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._errors import OURS, CommandFailedError
from ._order import Order
from ._print import print_json
from ._served import ask_or_start

if TYPE_CHECKING:
    from ..serve import Client, ProcessInfo


def run_detached(order: Order, state: Path, *, as_json: bool) -> None:
    """Start it, and print its handle.  Raises `CommandFailedError` with the exit code for it."""
    from ...notifier import LastwordError
    from ..serve import RequestError, Size
    from ._job_served import told_here

    async def start(client: Client) -> ProcessInfo:
        try:
            return await client.start(
                order.argv,
                **order.options(terminal=order.tty),
                pty=Size(rows=order.size[0], cols=order.size[1]) if order.tty else False,
                background=True,
            )
        except RequestError as error:
            raise await told_here(client, error) from None

    try:
        info = ask_or_start(state, start)
    except LastwordError as error:
        raise CommandFailedError.of(error, OURS) from None
    if as_json:
        print_json({"handle": info.handle, "command_id": str(info.command_id), "name": info.name})
    else:
        click.echo(info.handle)
