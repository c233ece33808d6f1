"""A server's client: one method for each thing that can be asked; see `_calls` for what happens below."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias, final
from uuid import UUID

import attrs
from anyio.lowlevel import checkpoint

from ._bounds import MAX_CHUNK_BYTES
from ._calls import Calls, Connected, open_calls
from ._replies import (
    AcknowledgeReply,
    Done,
    EventsReply,
    ListReply,
    PendingReply,
    ProcessReply,
    ReadReply,
    StatusReply,
    StopReply,
    WaitReply,
)
from ._requests import (
    Acknowledge,
    Background,
    Events,
    Get,
    Input,
    List,
    Mode,
    Pending,
    Ping,
    Read,
    Resize,
    Shutdown,
    Start,
    Status,
    Stop,
    Wait,
)
from ._values import Chunk, EventInfo, PendingInfo, ProcessInfo, Resources, Size

EnvPolicy: TypeAlias = Literal["minimal", "inherit", "none"]
Streams: TypeAlias = Literal["both", "stdout", "stderr"]


def connect(directory: str | PathLike[str]) -> AbstractAsyncContextManager[Client, None]:
    """Talk to the server of a state directory for as long as the block lasts: `async with connect("jobs") as client`.

    Leaving the block closes the connection, which stops the processes that were started `attached` on it.  Raises
    `NotServedError`, `ForeignPeerError`, `AddressError`, `ConnectionLostError`, and `RequestError`
    (unsupported_version, too_many_connections).  Cancelled while connecting: nothing is open.
    """
    path = Path(directory)
    return Connected(lambda: open_calls(path), Client)


@final
class Client:
    """A connection to a server.  `connect` and `connect_or_start` make one; there is no other way.

    Every call raises `RequestError` where the server has refused it or could not do it, and `ConnectionLostError`
    where nobody knows: it has gone, or (`SilentServerError`) is stuck, and has not answered for twenty seconds whether
    it is there.  All calls are checkpoints and may be made at the same time.  A process is named by its handle, a
    prefix that only one handle has, or its name.  Cancelled: the server is told, and does not go on waiting; what it
    has begun it finishes.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    @property
    def session_id(self) -> UUID:
        """The session of the directory."""
        return self._calls.session_id

    # --- the server

    async def ping(self) -> None:
        """Return when the server has answered."""
        await self._calls.ask(Ping(), Done)

    async def status(self) -> StatusReply:
        """What the server is, and what it does."""
        return await self._calls.ask(Status(), StatusReply)

    async def shutdown(self, *, stop_running: bool = False) -> None:
        """Ask the server to end.  Refused ("busy") while something runs, unless `stop_running`.

        It is answered before the server closes: that it is gone is when the connection ends (`closed`).
        """
        await self._calls.ask(Shutdown(stop_running=stop_running), Done)

    async def closed(self) -> None:
        """Return when the server has closed the connection."""
        await self._calls.ended.wait()

    # --- processes

    async def start(
        self,
        command: str | Sequence[str],
        *,
        name: str = "",
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        env_policy: EnvPolicy = "minimal",
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

        `cwd` (None: the current folder), the variables of `env_policy`, and a umask that `resources` does not set, are
        the caller's, not the server's.  `attached`: it is stopped when this connection ends, however that comes, unless
        `background` was called for it first.
        """
        request = Start(
            command=command if isinstance(command, str) else tuple(command),
            name=name,
            cwd=os.path.abspath(os.curdir if cwd is None else cwd),  # noqa: ASYNC240, PTH100 -- asks for the cwd alone
            env=_variables(env, env_policy),
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
            resources=_with_umask(resources or Resources()),
            origin_execution_id=origin_execution_id,
            attached=attached,
        )
        return (await self._calls.ask(request, ProcessReply)).process

    async def list(self) -> Sequence[ProcessInfo]:
        """The processes that are known, running or ended, of every loop, oldest first."""
        found: list[ProcessInfo] = []
        more = True
        while more:
            page = await self._calls.ask(List(after=found[-1].command_id if found else None), ListReply)
            found += page.processes
            more = page.more
        return found

    async def get(self, process: str) -> ProcessInfo:
        """One process as it is now."""
        return (await self._calls.ask(Get(process=process), ProcessReply)).process

    async def read(
        self,
        process: str,
        cursor: int = 0,
        max_bytes: int = MAX_CHUNK_BYTES,
        *,
        streams: Streams = "both",
        wait: bool = False,
    ) -> Chunk:
        """What the process has written at `cursor`; `wait`: return when there is some, or when there can be no more.

        At most `max_bytes`, which is at most 256 KiB.
        """
        request = Read(process=process, cursor=cursor, max_bytes=max_bytes, streams=streams, wait=wait)
        return (await self._calls.ask(request, ReadReply)).chunk

    def follow(self, process: str, cursor: int = 0, *, streams: Streams = "both") -> Follower:
        """Its output from `cursor` on as it comes, to its end.  The next piece is asked for when it is wanted."""
        return Follower(self, process, cursor, streams)

    async def wait(self, processes: Sequence[str], *, any: bool = False, timeout: float | None = None) -> WaitReply:  # noqa: A002 -- the option's name
        """Return when all of the processes have ended, or one (`any`), or after `timeout` seconds of the server's."""
        return await self._calls.ask(Wait(processes=tuple(processes), any=any, timeout=timeout), WaitReply)

    async def stop(self, process: str, mode: Mode = "terminate", *, grace: float | None = None) -> StopReply:
        """Ask the process to end, as `Process.stop`, and return when it has."""
        return await self._calls.ask(Stop(process=process, mode=mode, grace=grace), StopReply)

    async def send_input(self, process: str, data: bytes = b"", *, key: str | None = None, eof: bool = False) -> None:
        """Write `data` to its input, then what the key of that name sends, then (`eof`) end it.

        At most 256 KiB of data.  Calls that are made at the same time have no order.
        """
        await self._calls.ask(Input(process=process, data=data, key=key, eof=eof), Done)

    async def resize(self, process: str, rows: int, cols: int) -> None:
        """Change the size of its terminal."""
        await self._calls.ask(Resize(process=process, rows=rows, cols=cols), Done)

    async def background(self, process: str) -> ProcessInfo:
        """Say that nobody waits for it any more; it outlives the connection that it was attached to."""
        return (await self._calls.ask(Background(process=process), ProcessReply)).process

    # --- what is told

    def events(self, after: int = 0, *, follow: bool = False) -> EventFeed:
        """Public events after that sequence; `follow`: and then as they come, until the iteration is left."""
        return EventFeed(self._calls, after, follow=follow)

    async def pending(self) -> Sequence[PendingInfo]:
        """Every record whose way home is not finished."""
        found: list[PendingInfo] = []
        more = True
        while more:
            page = await self._calls.ask(Pending(skip=len(found)), PendingReply)
            found += page.pending
            more = page.more
        return found

    async def acknowledge(self, processes: Sequence[str] = (), *, all: bool = False) -> AcknowledgeReply:  # noqa: A002 -- the option's name
        """Settle the notices of these processes, or of `all` that have one; durable on return."""
        return await self._calls.ask(Acknowledge(processes=tuple(processes), all=all), AcknowledgeReply)


@final
class Follower:
    """Iterates over a process's output; a plain object that holds nothing open.  Made by `Client.follow`."""

    def __init__(self, client: Client, process: str, cursor: int, streams: Streams) -> None:
        self._client = client
        self._process = process
        self._cursor = cursor
        self._streams: Streams = streams
        self._over = False

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> Chunk:
        """The next chunk that has data or tells a gap; the end of iteration once there can be none.

        Cancelled: nothing is lost, the same call can be made again.
        """
        while not self._over:
            chunk = await self._client.read(self._process, self._cursor, streams=self._streams, wait=True)
            self._cursor, self._over = chunk.next_cursor, chunk.ended
            if chunk.data or chunk.omitted:
                return chunk
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the iteration.  Idempotent; a checkpoint."""
        self._over = True
        await checkpoint()


@final
class EventFeed:
    """Iterates over events; a plain object that holds nothing open.  Made by `Client.events`."""

    def __init__(self, calls: Calls, after: int, *, follow: bool) -> None:
        self._calls = calls
        self._after = after
        self._follow = follow
        self._page: deque[EventInfo] = deque()
        self._more = True

    def __aiter__(self) -> EventFeed:
        return self

    async def __anext__(self) -> EventInfo:
        """The next event.  Cancelled: nothing is lost."""
        while not self._page:
            if not self._more and not self._follow:
                raise StopAsyncIteration
            request = Events(after=self._after, wait=self._follow and not self._more)
            reply = await self._calls.ask(request, EventsReply)
            self._after, self._more = reply.after, reply.more
            self._page.extend(reply.events)
        return self._page.popleft()

    async def aclose(self) -> None:
        """End the iteration.  Idempotent; a checkpoint."""
        self._page.clear()
        self._more = self._follow = False
        await checkpoint()


# The two below import when they are called: only a start needs them, and the supervisor takes as long as a whole `ps`.


def _variables(env: Mapping[str, str] | None, policy: EnvPolicy) -> dict[str, str]:
    """The caller's variables that the policy lets pass, and `env`."""
    from ...supervisor import host_variables

    return {**host_variables(policy, os.environ), **(env or {})}


def _with_umask(resources: Resources) -> Resources | None:
    """The caller's umask where none is asked for, if this system can tell it: the server's is somebody else's."""
    from ...supervisor.shim._proc import umask_of_self

    if resources.umask is None:
        try:
            resources = attrs.evolve(resources, umask=umask_of_self())
        except OSError:
            return None if resources == Resources() else resources
    return resources
