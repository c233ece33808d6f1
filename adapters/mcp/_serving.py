"""`lastword mcp`: one client over stdin and stdout, from its first request until it leaves.

    waits       for the first request, which says whose state directory it is      -> opens | ends
    opens       the runtime; refused: the client is told why                       -> serves | refused
    serves      until stdin ends, nobody reads stdout, or SIGINT, SIGTERM, SIGHUP  -> closes
    closes      every process stopped, last words journaled; bounded, and no signal shortens it

What dies by SIGKILL is closed by the processes' keepers and told at the next opening, to the same client.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import final

import anyio
from anyio.abc import TaskStatus

from ..._runtime import Runtime, open_runtime
from ...notifier import LastwordError
from ...supervisor import ErrorCode, StopMode, SupervisorError
from .._signals import heard
from ._client_state import client_directory
from ._explained import explained
from ._opening import Opening, Replayed, first_request, refuse
from ._server import serve
from ._transport import Incoming, Outgoing, run_transport
from ._wire import Wire

# A client waits two seconds for its server to leave, and then begins to kill: closing is to be done by then.
_GRACE_SECONDS = 1.0


async def serve_client(wire: Wire, state: str | os.PathLike[str] | None = None) -> None:
    """Serve one client over `wire` (see `take_wire`) until it leaves, or SIGINT, SIGTERM or SIGHUP comes (the first and
    the last are not heard where the process was started to ignore them).

    `state` is the state directory; None is the client's own (see `client_directory`).  Returns with every process
    stopped and its last word journaled.  To be called in the main thread, for its signals.

    Raises `LastwordError` where there can be no server: `DirectoryInUseError` where another one has the directory, what
    `open_runtime` raises besides (the client has been told why then), and `JournalFencedError` where it has lost the
    session.
    """
    session = _Session(state)
    async with anyio.create_task_group() as tasks:
        await tasks.start(session.watch_signals)
        await run_transport(wire, session.run)
        tasks.cancel_scope.cancel()
    if session.failure is not None:
        raise session.failure


@final
class _Session:
    """One client, from its first request on."""

    def __init__(self, state: str | os.PathLike[str] | None) -> None:
        self._state = state
        self._scope = anyio.CancelScope()
        self.failure: LastwordError | None = None

    async def watch_signals(self, *, task_status: TaskStatus[None]) -> None:
        """End the service at the first signal; further ones change nothing, for closing is bounded."""
        with anyio.open_signal_receiver(signal.SIGTERM, *heard((signal.SIGINT, signal.SIGHUP))) as signals:
            task_status.started()
            async for _ in signals:
                self._scope.cancel()

    async def run(self, incoming: Incoming, outgoing: Outgoing) -> None:
        """What the transport serves; a failure is kept, and not raised through what others run in."""
        with self._scope:
            opening = await first_request(incoming)
            if opening is None:
                return
            try:
                await self._serve(opening, incoming, outgoing)
            except LastwordError as error:
                self.failure = error
                await refuse(opening, incoming, outgoing, explained(error))

    async def _serve(self, opening: Opening, incoming: Incoming, outgoing: Outgoing) -> None:
        state = own_directory(opening.client, os.environ) if self._state is None else self._state
        async with open_runtime(state) as runtime:
            try:
                await serve(runtime, Replayed(opening.messages, incoming), outgoing)
            finally:
                await _stop_all(runtime)


def own_directory(client: str, environ: Mapping[str, str]) -> Path:
    """The state directory of the client in the working directory.  Raises `SupervisorError` where there is none."""
    try:
        return client_directory(client, str(Path.cwd()), environ)
    except (OSError, RuntimeError):
        raise SupervisorError(
            ErrorCode.INVALID_SETTINGS, "there is no working or no home directory; name a state directory with --state"
        ) from None


async def _stop_all(runtime: Runtime) -> None:
    """Have every process stopped as at the end, but within a client's patience and not the runtime's."""
    supervisor = runtime.supervisor
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as tasks:

            async def close() -> None:
                await supervisor.aclose()
                tasks.cancel_scope.cancel()

            tasks.start_soon(close)
            await anyio.sleep(_GRACE_SECONDS)
            for process in supervisor.list(runtime.loop):
                if process.outcome is None:
                    tasks.start_soon(_kill, runtime, process.handle)


async def _kill(runtime: Runtime, handle: str) -> None:
    try:
        await runtime.supervisor.get(handle, runtime.loop).stop(StopMode.KILL)
    except LastwordError:
        return  # what lives on after SIGKILL is told by the supervisor's own closing
