"""What the tools of every profile do with processes; the arguments are judged by then.

Theory of operation
- A call waits for a process, and never holds it: when its budget is over, or it is cancelled, the process goes on under
  its handle, in the background.
- A wait is woken by output or by the end, of whichever process; nothing is asked again and again.
- What is read and what is said of the state belong together: the state is looked at in the same step as the last read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import anyio

from ..._runtime import Runtime, StartOptions
from ...notifier import LastwordError
from ...notifier._first import first_of
from ...session import Loop
from ...supervisor import Process
from ...supervisor.output import OutputChunk
from ._excerpt import Excerpt, as_base64, as_text
from ._result import Result, output_of, state_of

# Saying that nobody waits is one commit of the store; a store that takes longer is not waited for.
_FAREWELL_SECONDS = 2.0


@final
class Jobs:
    """The processes of one loop."""

    def __init__(self, runtime: Runtime, loop: Loop | None) -> None:
        self._runtime = runtime
        self._loop = runtime.loop if loop is None else loop

    @property
    def inline_bytes(self) -> int:
        """How much output one answer shows."""
        return self._runtime.supervisor.limits.inline_bytes

    @property
    def spool_bytes(self) -> int:
        """How much is kept of one process's output."""
        return self._runtime.supervisor.limits.spool_bytes

    def find(self, handle: str) -> Process:
        """The loop's process of that handle.  Raises `ProcessNotFoundError`."""
        return self._runtime.supervisor.get(handle, self._loop)

    def known(self) -> list[Process]:
        """The loop's processes, oldest first."""
        return self._runtime.supervisor.list(self._loop)

    async def start(self, command: str | Sequence[str], budget: float | None, **options: Any) -> Process:
        """Start a process, and return it once it has ended or `budget` seconds are over (None: at once).

        One that goes on is in the background then; also where the call is cancelled.
        """
        wanted: StartOptions = {**options, "background": budget is None}  # type: ignore[typeddict-item]
        process = await self._runtime.start(command, owner=self._loop, **wanted)
        if budget is None:
            return process
        try:
            with anyio.move_on_after(budget):
                await process.wait()
            if process.outcome is None:
                await process.background()
        except anyio.get_cancelled_exc_class():
            await _take_leave(process)
            raise
        return process

    async def wait_change(self, processes: Sequence[Process], after: int, *, every: bool, timeout: float) -> None:
        """Until one (`every`: each) of `processes` has more than `after` bytes of output or has ended, or in time."""
        await _wait([partial(process.wait_output, after) for process in processes], every=every, timeout=timeout)

    async def wait_end(self, processes: Sequence[Process], *, every: bool, timeout: float) -> None:
        """Until one (`every`: each) of `processes` has ended, or in time."""
        await _wait([process.wait for process in processes], every=every, timeout=timeout)

    async def show(self, process: Process, cursor: int, limit: int, *, base64: bool = False) -> Result:
        """Its state, and its output from `cursor` on as far as that shows in `limit` bytes."""
        chunk = await process.read_output(cursor, max(limit, 4))
        return state_of(process) | output_of(chunk, _excerpt(chunk, limit, base64=base64))


def _excerpt(chunk: OutputChunk, limit: int, *, base64: bool) -> Excerpt:
    if base64:
        return as_base64(chunk.data, limit)
    return as_text(chunk.data, limit, cut=chunk.next_cursor < chunk.total)


async def _wait(waits: Sequence[Callable[[], Any]], *, every: bool, timeout: float) -> None:
    with anyio.move_on_after(timeout):
        if not every:
            await first_of(*waits)
            return
        for wait in waits:
            await wait()


async def _take_leave(process: Process) -> None:
    """Say that nobody waits for it any more, where that can still be said."""
    with anyio.CancelScope(shield=True), anyio.move_on_after(_FAREWELL_SECONDS):
        try:
            await process.background()
        except LastwordError:
            return  # it is closing: the last word is on its way, and whoever waited is gone
