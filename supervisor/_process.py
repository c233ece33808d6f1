"""A process as its owner holds it: a thin face over the job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, cast, final
from uuid import UUID

from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint

from ..notifier import Owner, ProcessState
from ._command import is_seconds
from ._errors import ErrorCode, StdinClosedError, SupervisorError
from ._limits import MAX_CELLS, TerminalSize
from .launch import StopMode, TerminalInput
from .output import OutputChunk, Streams, awaits_rest

if TYPE_CHECKING:
    from ._job import Job
    from ._outcome import Outcome

# What one read takes unless it is told otherwise: about what a model can take in one answer.
DEFAULT_READ_BYTES = 32 * 1024

_NO_INPUT = 'it takes no input while it runs; give all of it to start as stdin=bytes, or start it with stdin="pipe"'

_NO_TERMINAL = "it was started without a terminal; start it with pty="


@final
class Process:
    """A process that was started, running or ended.  `Supervisor.start` makes one; there is no other way.

    It is valid for as long as its record is kept, also after the process has ended.
    """

    __slots__ = ("__weakref__", "_job", "_touch")

    def __init__(self, job: Job, touch: Callable[[str], None]) -> None:
        self._job = job
        self._touch = touch

    def __repr__(self) -> str:
        return f"<Process {self.handle} {self.state.name.lower()}>"

    @property
    def handle(self) -> str:
        """Its name towards everybody: 22 characters that cannot be guessed."""
        return self._job.record.handle

    @property
    def command_id(self) -> UUID:
        """The id of the notification that its owner gets, or will get, when it has ended."""
        return self._job.record.ids.command

    @property
    def owner(self) -> Owner:
        """Who is told, fixed at the start."""
        return self._job.record.owner

    @property
    def name(self) -> str:
        """What the caller called it."""
        return self._job.record.name

    @property
    def origin_execution_id(self) -> UUID:
        """What asked for it: the id that `start` was given, or has minted."""
        return self._job.record.origin_execution_id

    @property
    def program(self) -> str:
        """The base name of the program, for people."""
        return self._job.record.program

    @property
    def created_at(self) -> datetime:
        """When it was asked for."""
        return self._job.record.created_at

    @property
    def state(self) -> ProcessState:
        """Where it is in its life; terminal only once that is durable."""
        return self._job.record.state

    @property
    def started_at(self) -> datetime | None:
        """When it was spawned; None where it never was."""
        return self._job.record.started_at

    @property
    def backgrounded(self) -> bool:
        """Whether somebody said that nobody waits for it."""
        return self._job.record.backgrounded

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None until that is durable."""
        return self._job.record.outcome

    async def wait(self) -> Outcome:
        """Return how it ended, once that is durable: the same object for every waiter.  A checkpoint.

        Cancelling a wait does nothing to the process.  Waiting never consumes its notification.  Raises
        `SupervisorError` (supervisor_shutting_down) where the supervisor closed before the last word could be stored,
        as every wait here does; it is told at the next opening.
        """
        return await self._job.wait()

    async def stop(self, mode: StopMode = StopMode.TERMINATE, *, grace: float | None = None) -> Outcome | None:
        """Ask it to end, and return how it did.

        TERMINATE: SIGTERM, then SIGCONT, then after `grace` seconds SIGKILL, all to the whole tree.  KILL: SIGKILL at
        once.  INTERRUPT: SIGINT and nothing more; None where it still runs after `grace`.  `grace` None is
        `Limits.grace_seconds`.  What has ended is not signalled; its outcome is returned, and kept survivors of it are
        stopped.  May be called again, also with a stronger mode.

        Cancelled: the stop goes on.  Raises `TeardownFailedError` where the process could not be ended within the grace
        and another second; it is still running then.
        """
        _check_mode(mode)
        if grace is not None and not is_seconds(grace, zero=True):
            raise SupervisorError(ErrorCode.INVALID_ARGUMENTS, "grace must be a number of seconds, 0 or more")
        await cancel_shielded_checkpoint()  # the order is given first: who asks and leaves at once has asked
        return await self._job.stop(mode, self._job.default_grace if grace is None else grace)

    async def background(self) -> None:
        """Say that nobody waits for it any more; its owner is told by Backgrounded, once.  A checkpoint.

        Does nothing to a process that has ended or is in the background already.  Where the store is unavailable the
        event goes out with the process's next one.
        """
        await checkpoint()
        await self._job.background()

    async def read_output(
        self, cursor: int = 0, max_bytes: int = DEFAULT_READ_BYTES, *, streams: Streams = "both"
    ) -> OutputChunk:
        """Return what it has written at `cursor`, at most `max_bytes`.  A checkpoint.

        The cursor counts the bytes since the start; `next_cursor` of a chunk is where the next one begins.  With
        `split_streams`, "stdout" or "stderr" reads one of the two: its bytes alone, by the same cursors, which count
        both; so a cursor of any read serves any other.

        Never waits for more: an empty chunk that is not `ended` says that there is nothing yet.  Works after the end
        too, and does not consume anything.  Raises `SupervisorError`: cursor_ahead, spool_corrupt,
        invalid_arguments; `ProcessNotFoundError` where it was evicted.
        """
        check_count("cursor", cursor, 0)
        check_count("max_bytes", max_bytes, 1)
        stream = self._job.record.stream(streams)
        await checkpoint()
        chunk = self._job.read(cursor, max_bytes, stream)
        self._touch(self.handle)
        return chunk

    async def cursor_at(self, moment: datetime) -> int | None:
        """Return from where on to read what it has written at `moment` or later.  A checkpoint.

        Never too late: what comes before `moment` from there on was written at most a second earlier, or, longer ago,
        about a tenth of that, seldom a quarter.  The total where it has written nothing since; None where that is not
        known: its output was kept by an older version.  By the system's clock; where that was put back, from further
        on back.

        Raises `SupervisorError`: spool_corrupt, invalid_arguments (a time without a zone); `ProcessNotFoundError` where
        it was evicted.
        """
        seconds = seconds_of(moment)
        await checkpoint()
        return self._job.cursor_at(seconds)

    async def wait_output(self, after: int) -> None:
        """Return once more than `after` bytes were written in all, of both streams, or it has ended.  A checkpoint."""
        check_count("after", after, 0)
        await self._job.wait_output(after)

    def follow(self, cursor: int = 0, *, streams: Streams = "both") -> OutputFollower:
        """Its output from `cursor` on as it comes, to its end: an async iterator of chunks, with `aclose`.

        `streams` as for `read_output`.

        No character is split at the end of what there is by now: its beginning waits for the rest, or for the end.
        """
        check_count("cursor", cursor, 0)
        self._job.record.stream(streams)
        return OutputFollower(self, cursor, streams)

    async def send_input(self, data: bytes) -> None:
        """Send `data` to its pipe for input (`stdin="pipe"`), or type it into its terminal (`pty=`).  A checkpoint.

        `data` is taken whole or not at all, in the order of the calls, and never mixed with another's.  It does not
        wait for the process to read: what the system has no room for yet waits here.  What waits when the process
        ends, or closes its input itself, is dropped without a word.

        Cancelled, or raised: nothing was taken (but see `StdinClosedError`).  Raises `InputBackpressureError` where
        more than `Limits.pending_input_bytes` would wait; `StdinClosedError` where it takes no input (any more), of
        which it tells only now if it was the process that closed it; `SupervisorError` (invalid_arguments) for what is
        no bytes, and for a line that the terminal would cut: of more than 4,095 bytes, in canonical mode.
        """
        taken = _bytes(data)
        await self._job.wait_launched()
        if self._job.input is None:
            raise StdinClosedError("it has ended" if self._job.has_ended else _NO_INPUT)
        self._job.input.send(taken)

    async def close_input(self) -> None:
        """End its input: it reads end of file once it has read all that was sent.  A checkpoint.

        On a terminal, where there is no such end, the character for it is typed (Ctrl-D; twice behind an unfinished
        line): a program that reads on is not stopped by it.  Does nothing where no input is open (any more).
        Cancelled: nothing was done.
        """
        await self._job.wait_launched()
        if self._job.input is not None:
            self._job.input.end()

    async def resize(self, rows: int, cols: int) -> None:
        """Change its terminal's size, in character cells; its foreground processes get SIGWINCH.  A checkpoint.

        Cancelled: nothing was done.  Raises `SupervisorError`: invalid_arguments; pty_unavailable where it was started
        without a terminal, or has ended.
        """
        check_count("rows", rows, 1, MAX_CELLS)
        check_count("cols", cols, 1, MAX_CELLS)
        await self._job.wait_launched()
        if not isinstance(self._job.input, TerminalInput):
            restored = self._job.input is None and self._job.has_ended  # then nobody knows what it had
            raise SupervisorError(ErrorCode.PTY_UNAVAILABLE, "it has ended" if restored else _NO_TERMINAL)
        self._job.input.resize(TerminalSize(rows=rows, cols=cols))


@final
class OutputFollower:
    """Iterates over a process's output; a plain object that holds nothing open."""

    def __init__(self, process: Process, cursor: int, streams: Streams) -> None:
        self._process = process
        self._cursor = cursor
        self._streams: Streams = streams
        self._over = False

    def __aiter__(self) -> OutputFollower:
        return self

    async def __anext__(self) -> OutputChunk:
        """The next chunk that has data or tells a gap; the end of iteration once there can be none.

        Cancelled: nothing is lost, the same call can be made again.
        """
        while not self._over:
            chunk = await self._process.read_output(self._cursor, streams=self._streams)
            self._over = chunk.ended
            if awaits_rest(chunk):
                await self._process.wait_output(chunk.total)
                continue
            self._cursor = chunk.next_cursor  # also where all of it was the other stream's
            if chunk.data or chunk.gap:
                return chunk
            if not chunk.ended:
                await self._process.wait_output(self._cursor)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the iteration.  Idempotent; a checkpoint."""
        self._over = True
        await checkpoint()


def _check_mode(mode: object) -> None:
    if not isinstance(mode, StopMode):
        raise SupervisorError(ErrorCode.INVALID_ARGUMENTS, "mode must be a StopMode: INTERRUPT, TERMINATE or KILL")


def _bytes(value: object) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise SupervisorError(ErrorCode.INVALID_ARGUMENTS, "data must be bytes")
    return bytes(cast("bytes", value))


def check_count(name: str, value: object, least: int, most: int = (1 << 63) - 1) -> None:
    """Raise `SupervisorError` (invalid_arguments) for what is no integer within the bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise SupervisorError(ErrorCode.INVALID_ARGUMENTS, f"{name} must be an integer from {least} to {most}")


def seconds_of(moment: object) -> float:
    """The seconds since 1970; raises `SupervisorError` (invalid_arguments) for what is no time, or has no zone."""
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise SupervisorError(ErrorCode.INVALID_ARGUMENTS, "moment must be a datetime with a time zone")
    return moment.timestamp()
