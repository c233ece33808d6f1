"""`lastword mcp`: the door for MCP clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from ._errors import CommandFailedError

if TYPE_CHECKING:
    from ..mcp import Wire


@click.command()
@click.option(
    "--state",
    metavar="DIR",
    help="The state directory, shared with nobody.  [default: each client has its own for each folder]",
)
@click.option("--backend", type=click.Choice(["asyncio", "trio"]), default="asyncio", show_default=True)
@click.pass_context
def mcp(ctx: click.Context, state: str | None, backend: str) -> None:
    """Serve an MCP client over standard input and output.

    A client starts it, as its configuration says; it ends, and ends every job, when the client leaves.  Exits with 1
    where the state directory cannot be had, for example because another server has it.

    \b
      claude mcp add lastword -- lastword mcp
    """
    from ..mcp import NoWireError, take_wire

    directory = wanted_state(ctx, state)
    try:
        wire = take_wire()
    except NoWireError as error:
        raise CommandFailedError(str(error)) from None
    _serve(wire, directory, backend)


def wanted_state(ctx: click.Context, state: str | None) -> str | None:
    """The directory that was named, wherever in the line; None for the client's own."""
    root = ctx.find_root()
    if state is None and root.get_parameter_source("state") is ParameterSource.COMMANDLINE:
        # Not LASTWORD_STATE: a directory that every client inherits would be every client's.
        state = root.params["state"]
    if state is not None and (not state or "\0" in state):
        raise click.UsageError("the state directory's name is empty, or no name")
    return state


def _serve(wire: Wire, state: str | None, backend: str) -> None:
    try:
        from ..mcp import explained, serve_client
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types"}:
            raise
        raise click.UsageError("this command needs an extra: pip install 'lastword[cli,mcp]'") from None

    from importlib.util import find_spec

    import anyio

    from ...notifier import LastwordError

    if find_spec(backend) is None:
        raise click.UsageError(f"{backend} is not installed: pip install 'lastword[{backend}]'")
    try:
        anyio.run(serve_client, wire, state, backend=backend)
    except LastwordError as error:
        raise CommandFailedError(explained(error)) from None
