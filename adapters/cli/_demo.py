"""`lastword demo`."""

from __future__ import annotations

import click


@click.command(short_help="Run a dozen real commands of different fates.")
@click.option("--backend", type=click.Choice(["asyncio", "trio"]), default="asyncio", show_default=True)
@click.option("--plain", is_flag=True, help="Plain lines, also on a terminal.")
def demo(backend: str, plain: bool) -> None:
    """Run a dozen real commands of different fates at once, and bring every last word home.

    Exits with 1 where a fate is missing or is not the one that the command must have.
    """
    from importlib.util import find_spec

    import anyio

    from ..demo import run_demo

    if find_spec(backend) is None:
        raise click.UsageError(f"{backend} is not installed: pip install 'lastword[{backend}]'")

    if not anyio.run(run_demo, plain, backend=backend):
        raise SystemExit(1)
