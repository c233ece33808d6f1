"""Which state directory a command works on."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from .._state_home import state_home
from ._errors import CommandFailedError

STATE_HELP = "The state directory.  [default: $LASTWORD_STATE, or lastword below $XDG_STATE_HOME or ~/.local/state]"

F = TypeVar("F", bound=Callable[..., Any])


def state_option(function: F) -> F:
    """Give a command `--state`, as parameter `state`: the directory's path, wherever in the line it was named."""
    return click.option("--state", metavar="DIR", callback=_resolved, help=STATE_HELP)(function)


def _resolved(ctx: click.Context, _: click.Parameter, value: str | None) -> Path:
    return state_of(ctx, value)


def state_of(ctx: click.Context, value: str | None = None) -> Path:
    """The directory that `value`, the command, or the group before it (which reads LASTWORD_STATE) was given."""
    if value is None:
        value = ctx.find_root().params.get("state")
    return state_directory(value, os.environ)


def state_directory(wanted: str | None, environ: Mapping[str, str]) -> Path:
    """The directory: `wanted`, or `lastword` in the user's folder for state.

    Raises `CommandFailedError` where there is no such folder.
    """
    if wanted is not None:
        if not wanted or "\0" in wanted:
            raise click.UsageError("the state directory's name is empty, or no name")
        return Path(wanted).absolute()
    try:
        return state_home(environ) / "lastword"
    except RuntimeError:
        raise CommandFailedError(
            "there is no home directory to keep state in; give --state DIR, or set LASTWORD_STATE"
        ) from None
