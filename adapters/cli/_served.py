"""Talking to who serves the state directory, from a command that is not asynchronous itself."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ._errors import OURS, CommandFailedError
from ._job_info import UNSETTLED, JobInfo

if TYPE_CHECKING:
    from ..serve import Client

T = TypeVar("T")

IN_USE = (
    "the state directory is in use by a program that does not serve it, such as a `lastword run` in the foreground; "
    "wait for its end, or give another --state (`lastword serve` lets many share one)"
)


def ask(state: Path, question: Callable[[Client], Awaitable[T]]) -> T:
    """What `question` makes of a client of the directory's server.

    Raises `NotServedError` where nobody serves it; other errors leave as they are, bare.
    """
    import anyio

    return anyio.run(partial(_ask, state, question))


def ask_server(state: Path, question: Callable[[Client], Awaitable[T]], seconds: float = math.inf) -> T:
    """As `ask`; `CommandFailedError` where somebody holds the directory who does not serve it.

    `TimeoutError` after so many `seconds`, whatever it is that takes them.
    """
    import anyio

    return anyio.run(partial(_ask_server, state, question, seconds))


async def _ask_server(state: Path, question: Callable[[Client], Awaitable[T]], seconds: float) -> T:
    import anyio

    from ..serve import NotServedError
    from ._look import look

    with anyio.fail_after(seconds):
        for left in (True, False):
            try:
                return await _ask(state, question)
            except NotServedError:
                view = look(state)
                if view is None or not view.held:
                    raise
                if left:
                    await _take_turn(state)
        raise CommandFailedError(IN_USE)


async def _take_turn(state: Path) -> None:
    """Return when no server is about to listen, or to let go of the directory."""
    from ...notifier import SystemClock
    from ..serve._turn import turn_of

    with turn_of(state, SystemClock()) as turn:
        await turn.take()


def ask_about(
    jobs: Sequence[JobInfo], state: Path, question: Callable[[Client], Awaitable[T]], seconds: float = math.inf
) -> T:
    """As `ask_server`, about those jobs; `CommandFailedError` where one of them has lost its server."""
    from ..serve import NotServedError
    from ._look import find_jobs, look

    try:
        return ask_server(state, question, seconds)
    except NotServedError:
        if any(job.state == UNSETTLED for job in find_jobs([job.handle for job in jobs], look(state))):
            raise CommandFailedError(
                "its host has died before its last word; the next `lastword run` or `serve` tells how it ended"
            ) from None
        raise


def ask_or_start(state: Path, question: Callable[[Client], Awaitable[T]]) -> T:
    """As `ask`, of a server that is started where there is none.  For `run`: `CommandFailedError` has its code."""
    import anyio

    return anyio.run(partial(_ask_or_start, state, question))


async def _ask(state: Path, question: Callable[[Client], Awaitable[T]]) -> T:
    from ..serve import connect

    async with connect(state) as client:
        return await question(client)


async def _ask_or_start(state: Path, question: Callable[[Client], Awaitable[T]]) -> T:
    from ..serve import ServeStartError, connect_or_start

    try:
        async with connect_or_start(state) as client:
            return await question(client)
    except ServeStartError as error:
        if error.code == "directory_in_use":
            raise CommandFailedError(IN_USE, OURS) from None
        raise
