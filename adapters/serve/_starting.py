"""Starting a server where none is: as a process of its own, which outlives its starter.

Theory of operation
- The server's stdout is a pipe, on which it says one line: that clients can connect, or why not.  So readiness is told,
  and an end without a word is seen as the end of the pipe.  Nothing is asked again and again.
- Of two who start one at the same time, one server gets the directory; the other says that it is in use, and its
  starter connects to the first.  What that means for a moment in which the first begins or ends: see `_turn`.
- It is given nothing of the starter's but the variables that a program needs to run: it serves others after this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from os import PathLike
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process

from ...notifier._json import is_object
from ._calls import Calls, Connected, open_calls
from ._client import Client
from ._errors import NotServedError, ServeStartError
from ._replies import FaultCode

IDLE_SECONDS = 300.0
"""A server that was started for somebody ends after five to ten minutes of nothing."""

START_SECONDS = 60.0
"""Starting takes a third of a second; a predecessor that is closing may take its grace and ten seconds."""

# Who finds the directory in use and nobody listening has met a server that was about to end, or a host that is none:
# the second answer tells.
_TRIES = 2

_DETAIL_BYTES = 4096

# What the interpreter needs to find this package as this process has found it.
_INTERPRETER = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "XDG_RUNTIME_DIR")


def connect_or_start(
    directory: str | PathLike[str], *, idle_seconds: float | None = IDLE_SECONDS, start_seconds: float = START_SECONDS
) -> AbstractAsyncContextManager[Client, None]:
    """As `connect`, and starts a server where there is none: detached, and gone once it was idle for `idle_seconds`.

    Raises `ServeStartError` beside what `connect` raises: with code "directory_in_use" where a runtime that does not
    serve has the directory, "start_timeout" where it takes longer than `start_seconds`, else with what the server has
    said.  Cancelled: nothing is open; a server that was being started may go on, and ends when it was idle.
    """
    path = Path(directory).absolute()
    return Connected(lambda: _open_or_start(path, idle_seconds, start_seconds), Client)


async def _open_or_start(directory: Path, idle_seconds: float | None, start_seconds: float) -> Calls:
    try:
        with anyio.fail_after(start_seconds):
            for left in reversed(range(_TRIES)):
                try:
                    return await open_calls(directory)
                except NotServedError:
                    pass
                try:
                    await start_server(directory, idle_seconds=idle_seconds)
                except ServeStartError as error:
                    if error.code != FaultCode.DIRECTORY_IN_USE or not left:
                        raise
            return await open_calls(directory)
    except TimeoutError:
        raise ServeStartError(FaultCode.START_TIMEOUT, "the server was not ready in time; try again") from None


async def start_server(directory: Path, *, idle_seconds: float | None) -> None:
    """Start a server, and return when it is ready.  Raises `ServeStartError`."""
    arguments = [sys.executable, "-P", "-m", "lastword.adapters.serve", str(directory)]
    if idle_seconds is not None:
        arguments.append(repr(float(idle_seconds)))
    try:
        process = await anyio.open_process(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=_environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise ServeStartError(FaultCode.FAILED, f"no process could be started ({error.strerror})") from None
    async with process:
        said, detail = await _heard(process)
    if not said:
        raise ServeStartError(FaultCode.FAILED, "the server ended before it was ready", detail)
    if "ready" not in said:
        raise ServeStartError(str(said.get("code")), str(said.get("message")), detail)


async def _heard(process: Process) -> tuple[dict[str, Any], str]:
    """What the server says on stdout and on stderr, until it hangs up."""
    lines: dict[str, bytes] = {}

    async def keep(name: str, stream: Any) -> None:
        kept = b""
        async for data in stream:
            kept = (kept + data)[-_DETAIL_BYTES:]
        lines[name] = kept

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep, "out", process.stdout)
        tasks.start_soon(keep, "err", process.stderr)
    try:
        said: Any = json.loads(lines["out"])
    except ValueError:
        said = {}
    return said if is_object(said) else {}, lines["err"].decode(errors="replace")


def _environment() -> dict[str, str]:
    from ...supervisor import host_variables

    kept = {name: os.environ[name] for name in _INTERPRETER if name in os.environ}
    if "PYTHONPATH" in kept:  # it starts in another folder
        folders = kept["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(os.path.abspath(folder) for folder in folders)  # noqa: PTH100 -- as typed
    return {**host_variables("minimal", os.environ), **kept}
