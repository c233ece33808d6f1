"""The client's side of a connection.

Theory of operation
- One task receives; each call sends its line and waits for the answer of its id.  Calls may be made at the same time.
- Every reply is one bounded line, and whoever reads output or events asks for the next piece when it wants it: so a
  slow reader holds up nobody but itself, and nothing piles up on either side.
- A call that is cancelled tells the server; what it had begun there (a start, a stop) goes on.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeVar, cast, final
from uuid import UUID

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from ._address import connect_socket
from ._bounds import MAX_CHUNK_BYTES, MAX_IN_FLIGHT, VERSION
from ._errors import ConnectionLostError, NotServedError, RequestError
from ._lines import Lines, LineTooLongError
from ._replies import AcknowledgeReply, Done, Fault, ProcessReply, Reply, StatusReply, StopReply, WaitReply, Welcome
from ._requests import (
    Acknowledge,
    Background,
    Cancel,
    Events,
    Get,
    Hello,
    Input,
    List,
    Mode,
    Pending,
    Ping,
    Read,
    Request,
    Resize,
    Shutdown,
    Start,
    Status,
    Stop,
    Wait,
)
from ._stream import SocketStream
from ._values import Chunk, EventInfo, PendingInfo, ProcessInfo, Resources, Size
from ._wire import Answer, WireError, decode_answer, encode_request

ReplyT = TypeVar("ReplyT", bound=Reply)

# A server answers a hello, and takes a line, at once, or it is stuck.
_PATIENCE_SECONDS = 10.0


def connect(directory: str | PathLike[str]) -> AbstractAsyncContextManager[Client, None]:
    """Talk to the server of a state directory for as long as the block lasts: `async with connect("jobs") as client`.

    Leaving the block closes the connection, which stops the processes that were started `attached` on it.  Raises
    `NotServedError`, `ForeignPeerError`, `AddressError`, `ConnectionLostError`, and `RequestError`
    (unsupported_version, too_many_connections).  Cancelled while connecting: nothing is open.
    """
    path = Path(directory)
    return ClientManager(lambda: open_lines(path))


@final
class Client:
    """A connection to a server.  `connect` and `connect_or_start` make one; there is no other way.

    Every call raises `RequestError` where the server has refused it or could not do it, and `ConnectionLostError`
    where nobody knows.  A process is named by its handle, a prefix that only one handle has, or its name.  All calls
    are checkpoints.  Cancelled: the server is told, and does not go on waiting; what it has begun it finishes.
    """

    def __init__(self, lines: Lines, session_id: UUID) -> None:
        self._lines = lines
        self._session_id = session_id
        self._ids = itertools.count(1)
        self._waiting: dict[int, _Call] = {}
        self._slots = anyio.Semaphore(MAX_IN_FLIGHT)
        self._lost: str | None = None

    @property
    def session_id(self) -> UUID:
        """The session of the directory."""
        return self._session_id

    # --- the server

    async def ping(self) -> None:
        """Return when the server has answered."""
        await self._ask(Ping(), Done)

    async def status(self) -> StatusReply:
        """What the server is, and what it does."""
        return await self._ask(Status(), StatusReply)

    async def shutdown(self, *, stop_running: bool = False) -> None:
        """Ask the server to end.  Refused ("busy") while something runs, unless `stop_running`.

        It is answered before the server closes; `ConnectionLostError` of another call is how its end shows.
        """
        await self._ask(Shutdown(stop_running=stop_running), Done)

    # --- processes

    async def start(
        self,
        command: str | Sequence[str],
        *,
        name: str = "",
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        env_policy: Literal["minimal", "inherit", "none"] = "minimal",
        stdin: bytes | Literal["pipe"] | None = None,
        pty: Size | bool = False,
        timeout: float | None = None,
        background: bool = False,
        survivors: Literal["stop", "keep"] = "stop",
        split_streams: bool = False,
        output_limit: int | None = None,
        on_output_limit: Literal["rotate", "stop"] = "rotate",
        resources: Resources | None = None,
        origin_execution_id: UUID | None = None,
        attached: bool = False,
    ) -> ProcessInfo:
        """Start a process; the options are those of `Supervisor.start`.

        `cwd` (None: the current folder) and the variables of `env_policy` are the caller's, not the server's.
        `attached`: it is stopped when this connection ends, however that comes, unless `background` was called first.
        """
        return (
            await self._ask(
                Start(
                    command=command if isinstance(command, str) else tuple(command),
                    name=name,
                    cwd=os.path.abspath(os.curdir if cwd is None else cwd),  # noqa: ASYNC240, PTH100 -- asks for the cwd alone
                    env=_environment(env, env_policy),
                    env_policy="none",
                    stdin=None if stdin == "pipe" else stdin,
                    stdin_pipe=stdin == "pipe",
                    pty=Size() if pty is True else pty or None,
                    timeout=timeout,
                    background=background,
                    survivors=survivors,
                    split_streams=split_streams,
                    output_limit=output_limit,
                    on_output_limit=on_output_limit,
                    resources=resources,
                    origin_execution_id=origin_execution_id,
                    attached=attached,
                ),
                ProcessReply,
            )
        ).process

    async def list(self) -> Sequence[ProcessInfo]:
        """The processes that are known, running or ended, oldest first."""
        found: list[ProcessInfo] = []
        more = True
        while more:
            page = await self._ask(List(after=found[-1].command_id if found else None), List.reply)
            found += page.processes
            more = page.more
        return found

    async def get(self, process: str) -> ProcessInfo:
        """One process as it is now."""
        return (await self._ask(Get(process=process), ProcessReply)).process

    async def read(
        self,
        process: str,
        cursor: int = 0,
        max_bytes: int = 32 * 1024,
        *,
        streams: Literal["both", "stdout", "stderr"] = "both",
        wait: bool = False,
    ) -> Chunk:
        """What the process has written at `cursor`; `wait`: return when there is some, or when there can be no more."""
        request = Read(process=process, cursor=cursor, max_bytes=max_bytes, streams=streams, wait=wait)
        return (await self._ask(request, Read.reply)).chunk

    async def follow(
        self, process: str, cursor: int = 0, *, streams: Literal["both", "stdout", "stderr"] = "both"
    ) -> AsyncIterator[Chunk]:
        """Its output from `cursor` on as it comes, to its end.  The next piece is asked for when it is wanted."""
        ended = False
        while not ended:
            chunk = await self.read(process, cursor, MAX_CHUNK_BYTES, streams=streams, wait=True)
            cursor, ended = chunk.next_cursor, chunk.ended
            if chunk.data or chunk.omitted:
                yield chunk

    async def wait(self, processes: Sequence[str], *, any: bool = False, timeout: float | None = None) -> WaitReply:  # noqa: A002 -- the option's name
        """Return when all of the processes have ended, or one (`any`), or after `timeout` seconds."""
        return await self._ask(Wait(processes=tuple(processes), any=any, timeout=timeout), WaitReply)

    async def stop(self, process: str, mode: Mode = "terminate", *, grace: float | None = None) -> StopReply:
        """Ask the process to end, as `Process.stop`."""
        return await self._ask(Stop(process=process, mode=mode, grace=grace), StopReply)

    async def send_input(self, process: str, data: bytes = b"", *, key: str | None = None, eof: bool = False) -> None:
        """Write `data` to its input, then what the key of that name sends, then (`eof`) end it.

        At most `MAX_CHUNK_BYTES` of data.  Calls that are made at the same time have no order.
        """
        await self._ask(Input(process=process, data=data, key=key, eof=eof), Done)

    async def resize(self, process: str, rows: int, cols: int) -> None:
        """Change the size of its terminal."""
        await self._ask(Resize(process=process, rows=rows, cols=cols), Done)

    async def background(self, process: str) -> ProcessInfo:
        """Say that nobody waits for it any more; it outlives this connection then."""
        return (await self._ask(Background(process=process), ProcessReply)).process

    # --- what is told

    async def events(self, after: int = 0, *, follow: bool = False) -> AsyncIterator[EventInfo]:
        """Public events after that sequence; `follow`: and then as they come, until the iteration is left."""
        more = True
        while more or follow:
            page = await self._ask(Events(after=after, wait=follow and not more), Events.reply)
            after, more = page.after, page.more
            for event in page.events:
                yield event

    async def pending(self) -> Sequence[PendingInfo]:
        """Every record whose way home is not finished."""
        found: list[PendingInfo] = []
        more = True
        while more:
            page = await self._ask(Pending(skip=len(found)), Pending.reply)
            found += page.pending
            more = page.more
        return found

    async def acknowledge(self, processes: Sequence[str] = (), *, all: bool = False) -> AcknowledgeReply:  # noqa: A002 -- the option's name
        """Settle the notices of these processes, or of `all` that have one; durable on return."""
        return await self._ask(Acknowledge(processes=tuple(processes), all=all), AcknowledgeReply)

    # --- one call

    async def _ask(self, request: Request, kind: type[ReplyT]) -> ReplyT:
        await checkpoint()
        async with self._slots:
            self._check()
            request_id = next(self._ids)
            call = self._waiting[request_id] = _Call()
            try:
                await self._send(_encoded(request_id, request))
                answer = await call.answered()
            except anyio.get_cancelled_exc_class():
                if request_id in self._waiting:
                    await self._give_up(request_id)
                raise
            finally:
                self._waiting.pop(request_id, None)
        if answer is None:
            raise ConnectionLostError(self._lost or "it was closed")
        if answer.fault is not None:
            raise _raised(answer.fault)
        try:
            return cast("ReplyT", answer.reply(request))
        except WireError as error:
            self._lose(error.fault.message)
            raise ConnectionLostError(error.fault.message) from None

    async def _send(self, line: bytes) -> None:
        """Send a line, whole: cancelled in its middle, nothing could follow on this connection."""
        with anyio.move_on_after(_PATIENCE_SECONDS, shield=True) as patience:
            try:
                await self._lines.send(line)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._lose("the server has closed it")
        if patience.cancelled_caught:
            self._lose("the server does not read")

    async def _give_up(self, request_id: int) -> None:
        """Have the server not wait for nobody.  Its answers, to that call and to this, are dropped."""
        del self._waiting[request_id]
        if self._lost is None:
            await self._send(_encoded(next(self._ids), Cancel(request=request_id)))

    # --- the receiving task

    async def listen(self) -> None:
        """Receive until the connection ends; the manager's task."""
        why = "the server has closed it"
        try:
            while (line := await self._lines.receive()) is not None:
                answer = decode_answer(line)
                if answer.request_id is None:
                    why = answer.fault.message if answer.fault else "an answer to nothing"
                    break
                call = self._waiting.pop(answer.request_id, None)
                if call is not None:
                    call.answer(answer)
        except LineTooLongError:
            why = "its answer is longer than a line"
        except WireError as error:
            why = error.fault.message
        self._lose(why)

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        for call in self._waiting.values():
            call.answer(None)

    def _check(self) -> None:
        if self._lost is not None:
            raise ConnectionLostError(self._lost)


class _Call:
    """One request that waits for its answer; None: there will be none."""

    def __init__(self) -> None:
        self._answer: Answer | None = None
        self._done = anyio.Event()

    def answer(self, answer: Answer | None) -> None:
        self._answer = answer
        self._done.set()

    async def answered(self) -> Answer | None:
        await self._done.wait()
        return self._answer


@final
class ClientManager(AbstractAsyncContextManager[Client, None]):
    """Connects, holds the task that receives, and closes.  What the block raises leaves as it is."""

    def __init__(self, open_connection: Callable[[], Awaitable[tuple[Lines, UUID]]]) -> None:
        self._open_connection = open_connection
        self._group: TaskGroup | None = None
        self._lines: Lines | None = None

    async def __aenter__(self) -> Client:
        if self._group is not None:
            raise RuntimeError("this connection was opened before; call connect() for another one")
        self._lines, session_id = await self._open_connection()
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        client = Client(self._lines, session_id)
        self._group.start_soon(client.listen)
        return client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None  # noqa: S101 -- it was entered
        assert self._lines is not None  # noqa: S101 -- as above
        self._group.cancel_scope.cancel()
        try:
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup:
            # The group has only wrapped what the block raised, and Python raises that anew.
            if error is None:
                raise
        finally:
            with anyio.CancelScope(shield=True):
                await self._lines.aclose()


async def open_lines(directory: Path) -> tuple[Lines, UUID]:
    """Connect and say hello.  Raises as `connect`; `NotServedError` also where a server that was ending hung up."""
    lines = Lines(SocketStream(connect_socket(directory)))
    try:
        with anyio.fail_after(_PATIENCE_SECONDS):
            return lines, await _hello(lines)
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await lines.aclose()
        if isinstance(error, TimeoutError):
            raise ConnectionLostError("the server does not answer") from None
        raise


async def _hello(lines: Lines) -> UUID:
    hello = Hello(version=VERSION)
    try:
        await lines.send(encode_request(0, hello))
        line = await lines.receive()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        line = None
    except LineTooLongError:
        raise ConnectionLostError("its answer is longer than a line") from None
    if line is None:
        raise NotServedError
    try:
        answer = decode_answer(line)
        if answer.fault is not None:
            raise _raised(answer.fault)
        return cast("Welcome", answer.reply(hello)).session_id
    except WireError as error:
        raise ConnectionLostError(error.fault.message) from None


def _encoded(request_id: int, request: Request) -> bytes:
    try:
        return encode_request(request_id, request)
    except WireError as error:
        raise _raised(error.fault) from None


def _raised(fault: Fault) -> RequestError:
    return RequestError(fault.code, fault.message, fault.field, fault.kind, fault.errno, fault.handle)


def _environment(env: Mapping[str, str] | None, policy: Literal["minimal", "inherit", "none"]) -> dict[str, str]:
    """The caller's variables that the policy lets pass, and `env`."""
    # Here, since only a start needs it, and the supervisor's import takes as long as a whole `ps`.
    from ...supervisor import host_variables

    return {**host_variables(policy, os.environ), **(env or {})}
