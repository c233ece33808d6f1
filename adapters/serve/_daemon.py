"""The server as a process of its own: signals end it, and what it has to say goes to a bounded log in its directory."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

import anyio

from ...notifier import LastwordError
from ...notifier._first import first_of
from ...supervisor import Containment, DirectoryInUseError, Limits, SupervisorError
from .._causes import root_of
from .._signals import heard
from ._replies import FaultCode
from ._server import serve

LOG_FILE = "serve.log"

# One file and its predecessor: enough to see what was wrong, and never a disk that fills up.
LOG_BYTES = 256 * 1024


async def run_server(
    directory: str | os.PathLike[str],
    *,
    idle_seconds: float | None = None,
    ready: Callable[[], None] | None = None,
    limits: Limits | None = None,
    require: Containment | None = None,
) -> None:
    """`serve`, until SIGTERM, SIGINT or SIGHUP ends it as well.  For a process that does nothing else.

    SIGINT and SIGHUP are not heard where the process was started to ignore them, as `nohup` does it.  A second signal
    while it closes changes nothing; closing is bounded.
    """
    with anyio.open_signal_receiver(signal.SIGTERM, *heard((signal.SIGINT, signal.SIGHUP))) as signals:
        served = partial(serve, directory, idle_seconds=idle_seconds, ready=ready, limits=limits, require=require)
        await first_of(served, signals.__anext__)


def main(directory: str, idle_seconds: float | None) -> None:
    """The process that `connect_or_start` starts.  Says one line on stdout: that it is ready, or why it is not."""
    # The starter's child ends at once, so that it can be waited for; what serves is nobody's child, and leads no
    # session, so that no terminal can become its own.
    if os.fork():
        os._exit(0)
    try:
        anyio.run(_main, directory, idle_seconds)
    except Exception as error:
        _report(root_of(error))


async def _main(directory: str, idle_seconds: float | None) -> None:
    await run_server(directory, idle_seconds=idle_seconds, ready=lambda: _be_ready(Path(directory)))


def _be_ready(directory: Path) -> None:
    """From now on what is said goes to the log, and the starter is told."""
    handler = _Log(directory / LOG_FILE, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    logging.captureWarnings(capture=True)
    _tell({"ready": True})


class _Log(RotatingFileHandler):
    """Also what is written to stderr goes to the file: a traceback of the interpreter's own."""

    def _open(self) -> TextIOWrapper:
        # The umask is the starter's, and stays so: it is that of the jobs.
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        stream = open(descriptor, "a", encoding="utf-8")  # noqa: PTH123, SIM115 -- a descriptor; the handler closes it
        os.dup2(stream.fileno(), sys.stderr.fileno())
        return stream


def _report(error: BaseException) -> None:
    logging.getLogger(__name__).error("the server has failed", exc_info=error)
    code: str = FaultCode.FAILED
    message = "it has failed; its log says why"
    if isinstance(error, DirectoryInUseError):
        code, message = FaultCode.DIRECTORY_IN_USE, error.message
    elif isinstance(error, SupervisorError):
        code, message = error.code, error.message
    elif isinstance(error, LastwordError):
        message = str(error)
    _tell({"code": code, "message": message})
    raise SystemExit(1)


def _tell(line: dict[str, object]) -> None:
    """Say it to the starter, once, and hang up: stdout is then nobody's."""
    with contextlib.suppress(OSError):  # it may have given up waiting
        os.write(1, json.dumps(line).encode() + b"\n")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
