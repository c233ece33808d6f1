"""A runtime that is kept for whoever connects: opened, listened for, and closed when nobody needs it any more.

Rules
- The directory's lock is the runtime's: of two servers one gets it, and the other is told `DirectoryInUseError`.
- Idle is: nobody is connected, nothing lives, nothing is on its way to the journal.  What is in the journal waits
  there, acknowledged or not, so it keeps no server up.  It is looked at every `idle_seconds`; a server that was idle
  twice in a row, and had no visitor in between, ends: after once to twice that time.
- However it ends, the last words are journaled by the runtime's own closing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import final

import anyio
from anyio.abc import TaskGroup

from ..._runtime import Observer, open_runtime
from ...notifier import Clock, SystemClock
from ...supervisor import Containment, Limits, Process, SupervisorError
from ._address import check_peer, listening
from ._bounds import MAX_CONNECTIONS
from ._connection import Connection
from ._errors import ForeignPeerError
from ._limits import SERVE_LIMITS
from ._lines import Lines
from ._replies import Fault, FaultCode
from ._service import Service
from ._stream import SocketStream
from ._turn import END_SECONDS, Turn, turn_of
from ._wire import encode_fault

logger = logging.getLogger(__name__)

# No descriptor is left: one may come free in a moment.
_ACCEPT_PAUSE = 0.1

# How long a client that is one too many may take to read why.
_FAREWELL_SECONDS = 1.0


async def serve(
    directory: str | os.PathLike[str],
    *,
    idle_seconds: float | None = None,
    ready: Callable[[], None] | None = None,
    limits: Limits | None = None,
    require: Containment | None = None,
    observer: Observer | None = None,
    clock: Clock | None = None,
) -> None:
    """Keep a runtime in `directory`, and serve it on a socket there, until it is told to end or has been idle.

    - `idle_seconds`: after once to twice this time without clients, processes or work it returns; None: never.
    - `ready`: called once clients can connect.
    - `limits`, `require`, `observer`, `clock`: as for `open_runtime`, but for the limits' default: see `SERVE_LIMITS`.

    Cancelled: it ends as for a `shutdown` request: connections are closed, processes stopped, last words journaled; see
    `open_runtime` for how long that takes.  Raises what `open_runtime` raises, `DirectoryInUseError` among it, and
    `AddressError` where it cannot listen.  It sets no signal handlers: `run_server` does.
    """
    path = Path(os.path.abspath(directory))  # noqa: ASYNC240, PTH100 -- asks for the cwd alone; links stay what they are
    clock = SystemClock() if clock is None else clock
    with turn_of(path, clock) as turn:
        await turn.take()
        opening = open_runtime(
            path, limits=SERVE_LIMITS if limits is None else limits, require=require, observer=observer, clock=clock
        )
        async with opening as runtime:
            with listening(path) as listener:
                service = Service(runtime, clock=clock, idle_seconds=idle_seconds)
                server = _Server(service, turn, clock, idle_seconds)
                turn.release()
                try:
                    await server.run(listener, ready)
                finally:
                    with anyio.CancelScope(shield=True):
                        await turn.take(END_SECONDS)


@final
class _Server:
    """The clients of one runtime."""

    def __init__(self, service: Service, turn: Turn, clock: Clock, idle_seconds: float | None) -> None:
        self._service = service
        self._turn = turn
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._visits = 0
        self._end = anyio.Event()
        self._idle = False

    async def run(self, listener: socket.socket, ready: Callable[[], None] | None) -> None:
        """Until a client, or the lack of any, ends it."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._accept, listener, tasks)
            if self._idle_seconds is not None:
                tasks.start_soon(self._watch_idle, self._idle_seconds)
            if ready is not None:
                ready()
            logger.info("serving")
            await self._end.wait()
            logger.info("ending, since %s", "it was idle" if self._idle else "a client has asked for it")
            tasks.cancel_scope.cancel()

    # --- clients

    async def _accept(self, listener: socket.socket, tasks: TaskGroup) -> None:
        while True:
            await anyio.wait_readable(listener)
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                continue
            except OSError as error:
                logger.warning("a client cannot be taken in (%s)", error.strerror)
                await self._clock.sleep(_ACCEPT_PAUSE)
                continue
            tasks.start_soon(self._serve, connection, tasks)

    async def _serve(self, connection: socket.socket, tasks: TaskGroup) -> None:
        self._visits += 1
        self._service.connections += 1
        lines = Lines(SocketStream(connection))
        try:
            check_peer(connection)
            await self._attend(lines, tasks)
        except ForeignPeerError:
            logger.warning("a client of another user was sent away")
        except Exception:
            logger.exception("a client's connection has failed")
        finally:
            self._service.connections -= 1
            with anyio.CancelScope(shield=True):
                await lines.aclose()

    async def _attend(self, lines: Lines, tasks: TaskGroup) -> None:
        if self._service.connections > MAX_CONNECTIONS:
            message = f"{MAX_CONNECTIONS} clients are connected; end one of them"
            fault = Fault(code=FaultCode.TOO_MANY_CONNECTIONS, message=message)
            with anyio.move_on_after(_FAREWELL_SECONDS), contextlib.suppress(anyio.BrokenResourceError):
                await lines.send(encode_fault(None, fault))
            return
        client = Connection(lines, self._service, self._end.set)
        try:
            await client.serve()
        finally:
            for process in self._service.attachments.take(client):
                tasks.start_soon(_stop_attached, process)

    # --- the end

    async def _watch_idle(self, seconds: float) -> None:
        idle_at: int | None = None
        while True:
            await self._clock.sleep(seconds)
            before, idle_at = idle_at, self._idle_since()
            if idle_at is None or idle_at != before:
                continue
            await self._turn.take(END_SECONDS)
            if self._idle_since() == idle_at:
                self._idle = True
                self._end.set()
                return
            self._turn.release()

    def _idle_since(self) -> int | None:
        """The number of the last visit where it is idle now, else None."""
        return None if self._service.connections or self._service.busy else self._visits


async def _stop_attached(process: Process) -> None:
    try:
        await process.stop()
    except SupervisorError as error:
        logger.warning("a process whose client has gone could not be stopped (%s)", error.code)
