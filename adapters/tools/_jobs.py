"""What the tools of every profile do with processes; the arguments are judged by then.

Theory of operation
- A call waits for a process, and never holds it: when its budget is over, or it is cancelled, the process goes on under
  its handle, in the background.
- A wait is woken by output or by the end, of whichever process; nothing is asked again and again.
- A budget is time of the runtime's clock.  (What bounds a commit of the store is no promise to anybody, and real time.)
- What is read and what is said of the state belong together: the state is looked at in the same step as the last read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast, final

import anyio

from ..._runtime import Runtime, StartOptions
from ...notifier import LastwordError, new_uuid7
from ...notifier._first import first_of
from ...session import Loop
from ...supervisor import ErrorCode, Process, SupervisorError
from ...supervisor.output import OutputChunk
from .._causes import root_of
from ._arguments import BadArgumentError, encode
from ._excerpt import Excerpt, as_base64, as_text, end_as_text
from ._result import Result, ends_of, last_of, output_of
from ._telling import Listener, Telling, Unheard

# Saying that nobody waits is one commit of the store; a store that takes longer is not waited for.
_FAREWELL_SECONDS = 2.0

# Below it two halves would say nothing; and what the words between them take.
_LEAST_FOR_BOTH = 1024
_MARKER_BYTES = 64


@final
class Jobs:
    """The processes of one loop."""

    def __init__(self, runtime: Runtime, loop: Loop | None, listener: Listener | None = None) -> None:
        self._runtime = runtime
        self._loop = runtime.loop if loop is None else loop
        self.listener: Listener = Unheard() if listener is None else listener

    def now(self) -> float:
        """Seconds of the runtime's clock, to measure a span."""
        return self._runtime.clock.monotonic()

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

    async def start(
        self, telling: Telling, command: str | Sequence[str], budget: float | None, **options: Any
    ) -> Process:
        """Start a process, and return it once it has ended or `budget` seconds are over (None: at once).

        One that goes on is in the background then.
        """
        origin = new_uuid7()
        wanted = cast("StartOptions", {**options, "background": budget is None, "origin_execution_id": origin})
        try:
            process = await self._runtime.start(command, owner=self._loop, **wanted)
        except anyio.get_cancelled_exc_class():
            # It may run although `start` has not said so: who is cancelled in the moment of the hand-over gets nothing.
            for process in self.known():
                if process.origin_execution_id == origin:
                    telling.began(process)
            raise
        telling.began(process)
        if budget is not None:
            await self._within(budget, process.wait)
            if process.outcome is None:
                await process.background()
        return process

    async def leave(self, processes: Sequence[Process]) -> None:
        """Nobody waits for them any more, and no result names them: say so, where that can still be said."""
        for process in processes:
            try:
                with anyio.CancelScope(shield=True), anyio.move_on_after(_FAREWELL_SECONDS), suppress(LastwordError):
                    await process.background()  # where it fails the supervisor is closing: the last word is on its way
            finally:
                if process.outcome is None:
                    self.listener.left(process)

    async def total(self, process: Process, cursor: int | None = None) -> int:
        """How much it has written by now; or `cursor`, if that is not beyond it.  Raises `SupervisorError`."""
        total = (await process.read_output(cursor or 0, 1)).total
        return total if cursor is None else cursor

    async def send(self, process: Process, field: str, text: str) -> None:
        """Write `text`, the argument of that name, to its pipe or its terminal.  Raises `BadArgumentError`."""
        data = encode(field, text)
        try:
            await process.send_input(data)
        except SupervisorError as error:
            if error.code is ErrorCode.INVALID_ARGUMENTS:
                raise BadArgumentError(field, error.message) from None
            raise

    async def wait_change(self, processes: Sequence[Process], after: int, *, every: bool, timeout: float) -> None:
        """Until one (`every`: each) of `processes` has more than `after` bytes of output or has ended, or in time."""
        await self._wait([partial(process.wait_output, after) for process in processes], every=every, timeout=timeout)

    async def wait_end(self, processes: Sequence[Process], *, every: bool, timeout: float) -> None:
        """Until one (`every`: each) of `processes` has ended, or in time."""
        await self._wait([process.wait for process in processes], every=every, timeout=timeout)

    async def show(
        self, telling: Telling, process: Process, cursor: int, limit: int, *, base64: bool = False
    ) -> Result:
        """Its state, and its output from `cursor` on as far as that shows in `limit` bytes."""
        chunk = await process.read_output(cursor, max(limit, 4))
        return telling.state(process) | output_of(chunk, _excerpt(chunk, limit, base64=base64))

    async def show_ends(self, telling: Telling, process: Process, cursor: int, limit: int) -> Result:
        """As `show`; where that does not fit, its beginning and its end up to now, the middle left out.

        Where the beginning is kept no more, its end alone.
        """
        head = await process.read_output(cursor, max(limit, 4))
        excerpt = _excerpt(head, limit, base64=False)
        if head.start + excerpt.taken == head.total or limit < _LEAST_FOR_BOTH:
            return telling.state(process) | output_of(head, excerpt)
        half = (limit - _MARKER_BYTES) // 2
        tail = await process.read_output(max(head.start, head.total - half), half)
        if not tail.data:  # the disk has failed, and there is no end to show
            return telling.state(process) | output_of(head, excerpt)
        last = end_as_text(tail.data, half)
        if head.gap:
            return telling.state(process) | last_of(cursor, tail, last)
        return telling.state(process) | ends_of(head, as_text(head.data[:half], half, cut=True), tail, last)

    async def _wait(self, waits: Sequence[Callable[[], Any]], *, every: bool, timeout: float) -> None:
        async def for_each() -> None:
            for wait in waits:
                await wait()

        await self._within(timeout, *([for_each] if every else waits))

    async def _within(self, seconds: float, *waits: Callable[[], Any]) -> None:
        """Until one of `waits` returns, or in time."""
        try:
            await first_of(*waits, lambda: self._runtime.clock.sleep(seconds))
        except ExceptionGroup as group:  # the host closes: each of several has said so
            raise root_of(group) from None


def _excerpt(chunk: OutputChunk, limit: int, *, base64: bool) -> Excerpt:
    if base64:
        return as_base64(chunk.data, limit)
    return as_text(chunk.data, limit, cut=chunk.next_cursor < chunk.total)
