"""What `run` was asked to run, judged before anything is opened.  Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict

import attrs
import click


class StartOptions(TypedDict):
    """Of `Supervisor.start`, and of `Client.start`."""

    name: str
    cwd: str
    env: dict[str, str]
    env_policy: Literal["none"]
    stdin: Literal["pipe"] | None
    timeout: float | None
    survivors: Literal["stop", "keep"]


@attrs.frozen(kw_only=True)
class Order:
    """One job to be; nothing of the command is shown by `repr`."""

    argv: tuple[str, ...] = attrs.field(repr=False)
    env: dict[str, str] = attrs.field(repr=False)
    cwd: str = attrs.field(repr=False)
    name: str
    timeout: float | None
    survivors: Literal["stop", "keep"]
    tty: bool
    size: tuple[int, int]
    """Rows and columns of its terminal, if it gets one."""

    stdin: Literal["pipe"] | None

    def options(self, *, terminal: bool) -> StartOptions:
        """What whoever starts it is told beside its arguments, whoever that is; `terminal`: it has one as its input."""
        return {
            "name": self.name,
            "cwd": self.cwd,
            "env": self.env,
            "env_policy": "none",
            "stdin": None if terminal else self.stdin,
            "timeout": self.timeout,
            "survivors": self.survivors,
        }


def order_of(
    command: Sequence[str],
    *,
    name: str,
    cwd: Path | None,
    env: Sequence[str],
    timeout: float | None,
    survivors: Literal["stop", "keep"],
    tty: bool,
    size: tuple[int, int],
    stdin: Literal["pipe"] | None,
) -> Order:
    """The order.  Raises `click.UsageError` for a variable that is none."""
    variables: dict[str, str] = {}
    for each in env:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise click.UsageError("--env takes NAME=VALUE, with a name")
        variables[key] = value
    try:
        folder = str(Path.cwd() if cwd is None else cwd.absolute())
    except FileNotFoundError:
        raise click.UsageError("the working directory is gone; go to another one, or give --cwd") from None
    return Order(
        argv=tuple(command),
        # A name that is no text comes as surrogates, and goes as them.
        env={**os.environ, **variables},
        cwd=folder,
        name=name,
        timeout=timeout,
        survivors=survivors,
        tty=tty,
        size=size,
        stdin=stdin,
    )
