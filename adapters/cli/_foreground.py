"""A job in the foreground: its input, output, signals, size and exit code are those of this program.

Theory of operation
- One task for each way: output (one for each stream), input, signals, progress.  When the job has ended and all of its
  output is out, the others are cancelled.  The group is left before the runtime is, so nothing is closed in its use.
- Signals are heard from before anything is opened.  Until the job runs, one of them gives everything up; from then on
  it is what the job gets.
- A standard output that nobody reads any more stops the job, and ends this program as a broken pipe ends any other.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from collections.abc import AsyncIterable
from pathlib import Path
from typing import Final, final

import anyio
from anyio.abc import TaskGroup

from ...notifier import LastwordError
from .._ending import Ending
from .._signals import heard
from ._errors import OURS, CommandFailedError, StdoutClosedError
from ._input import pump_input
from ._job import Job, Mode, Stream
from ._job_start import start_job
from ._logs import Chunk, disk_failed, failed_from
from ._order import Order
from ._outlet import Outlet
from ._print import note
from ._progress import Progress
from ._terminal import Terminal, terminal_here

# What a signal of ours does to the job, the first time, the second, and from then on.
_MODES: Final[dict[int, tuple[Mode, ...]]] = {
    signal.SIGINT: ("interrupt", "terminate", "kill"),
    signal.SIGTERM: ("terminate", "kill"),
    signal.SIGHUP: ("terminate", "kill"),
    signal.SIGQUIT: ("kill",),
}


def mode_of(number: int, times: int) -> Mode:
    """What that signal does when it comes for the `times`th time (from 1)."""
    modes = _MODES[number]
    return modes[min(times, len(modes)) - 1]


_STATES: Final[dict[Mode, str]] = {"interrupt": "interrupted", "terminate": "stopping", "kill": "being killed"}


def run_foreground(order: Order, state: Path, *, quiet: bool) -> int:
    """Run it to its end; the exit code.

    Raises `StdoutClosedError`, and `CommandFailedError` with the exit code for it.
    """
    terminal = terminal_here() if order.tty else None
    try:
        with contextlib.nullcontext() if terminal is None else terminal:
            return anyio.run(_Foreground(order, state, terminal, quiet=quiet).run)
    except StdoutClosedError:
        raise
    except Exception as error:
        raise CommandFailedError.of(error, OURS) from error


@final
class _Foreground:
    def __init__(self, order: Order, state: Path, terminal: Terminal | None, *, quiet: bool) -> None:
        self._order = order
        self._state = state
        self._terminal = terminal
        self._quiet = quiet
        self._job: Job | None = None
        self._ending: Ending | None = None
        self._error: Exception | None = None
        self._given_up: int | None = None
        self._stdout_closed = False
        self._disk_failed = False
        self._heard: Counter[int] = Counter()
        self._progress = Progress(shown=not quiet and terminal is None)

    async def run(self) -> int:
        """Its exit code."""
        code = OURS
        with anyio.open_signal_receiver(*self._signals()) as signals:
            async with anyio.create_task_group() as group:
                group.start_soon(self._listen, signals, group)
                try:
                    code = await self._run(group)
                except Exception as error:
                    self._error = error  # not through the group, which would wrap it
                group.cancel_scope.cancel()
        if self._error is not None:
            raise self._error
        return code if self._given_up is None else 128 + self._given_up

    # --- signals

    def _signals(self) -> list[signal.Signals]:
        """Those that are heard; on a terminal of the job's also that ours has another size."""
        ours = heard(_MODES)
        return [*ours, signal.SIGWINCH] if self._terminal is not None else ours

    async def _listen(self, signals: AsyncIterable[signal.Signals], group: TaskGroup) -> None:
        async for number in signals:
            if number == signal.SIGWINCH:
                await self._resize()
            elif self._job is None or self._ending is not None:
                # Before it runs, and while nobody takes its last output, there is nothing else to end.
                self._given_up = number
                group.cancel_scope.cancel()
            else:
                self._heard[number] += 1
                group.start_soon(self._stop, self._job, mode_of(number, self._heard[number]))

    async def _resize(self) -> None:
        if self._job is not None and self._terminal is not None:
            with contextlib.suppress(LastwordError):  # it has ended meanwhile
                await self._job.resize(self._terminal.size)

    async def _stop(self, job: Job, mode: Mode) -> None:
        self._progress.state = _STATES[mode]
        try:
            await job.stop(mode)
        except LastwordError as error:
            self._note(str(error))

    # --- the job

    async def _run(self, group: TaskGroup) -> int:
        size = None if self._terminal is None else self._terminal.size
        # In one stream their order is exact; that counts where both go to the same place, and else the place does.
        split = size is None and not _is_same_file(1, 2)
        streams: dict[Stream, int] = {"stdout": 1, "stderr": 2} if split else {"both": 1}
        async with start_job(self._state, self._order, size, split=split) as job:
            self._job = job
            await self._resize()  # it may have changed meanwhile
            async with anyio.create_task_group() as side:
                side.start_soon(self._watch_end, job)
                side.start_soon(self._progress.run)
                if size is not None or self._order.stdin == "pipe":
                    side.start_soon(pump_input, 0, job)
                async with anyio.create_task_group() as output:
                    for stream, descriptor in streams.items():
                        output.start_soon(self._pump_output, job, stream, Outlet(descriptor))
                self._ending = await job.wait()
                side.cancel_scope.cancel()
            await self._settle(job)
        if self._stdout_closed and not self._heard:
            raise StdoutClosedError
        assert self._ending is not None  # noqa: S101 -- it was waited for
        return self._ending.status

    async def _settle(self, job: Job) -> None:
        try:
            await job.settle()
        except LastwordError as error:  # that is no reason to hide how it ended
            self._note(f"its notice stays pending ({error})")

    async def _watch_end(self, job: Job) -> None:
        self._ending = await job.wait()

    async def _pump_output(self, job: Job, stream: Stream, outlet: Outlet) -> None:
        cursor, ended = 0, False
        while not ended:
            chunk = await job.read(cursor, stream)
            cursor, ended = chunk.next_cursor, chunk.ended
            self._progress.total = chunk.total
            if chunk.omitted is not None:
                self._tell_missing(chunk, *chunk.omitted)
            if chunk.data:
                self._progress.wrote(chunk.data, outlet.descriptor)
                try:
                    await outlet.write(chunk.data)
                except StdoutClosedError:
                    self._stdout_closed = self._stdout_closed or outlet.descriptor == 1
                    if outlet.descriptor == 1:
                        await self._stop(job, "terminate")
                    return

    def _tell_missing(self, chunk: Chunk, first: int, last: int) -> None:
        if not disk_failed(chunk):
            self._note(f"output came faster than it was taken: bytes {first} to {last} are not kept")
        elif not self._disk_failed:
            self._disk_failed = True
            self._note(failed_from(first))

    def _note(self, text: str) -> None:
        if not self._quiet:
            self._progress.clear()
            note(text if self._terminal is None else f"{text}\r")  # a raw terminal does not go back to the line's start


def _is_same_file(one: int, other: int) -> bool:
    """Whether both descriptors are of the same terminal, pipe or file; of one that is closed nothing is known."""
    try:
        return os.path.samestat(os.fstat(one), os.fstat(other))
    except OSError:
        return True
