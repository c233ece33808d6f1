"""The requests, each with its word on the wire (`op`) and the reply that it gets.

A field that names a process takes its handle, a prefix of it that is the only one, or its name; see `resolve`.
Types and bounds are judged here; what a value means, where it is used.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias, final
from uuid import UUID

import attrs

from ._replies import (
    AcknowledgeReply,
    CancelReply,
    Done,
    EventsReply,
    ListReply,
    PendingReply,
    ProcessReply,
    ReadReply,
    StatusReply,
    StopReply,
    WaitReply,
    Welcome,
)
from ._values import Resources, Size

Mode: TypeAlias = Literal["interrupt", "terminate", "kill"]


@final
@attrs.frozen(kw_only=True)
class Hello:
    """The first request of a connection."""

    op: ClassVar[str] = "hello"
    reply: ClassVar[type[Welcome]] = Welcome

    version: int


@final
@attrs.frozen(kw_only=True)
class Ping:
    """Is anybody there?"""

    op: ClassVar[str] = "ping"
    reply: ClassVar[type[Done]] = Done


@final
@attrs.frozen(kw_only=True)
class Status:
    """What the server is, and what it does."""

    op: ClassVar[str] = "status"
    reply: ClassVar[type[StatusReply]] = StatusReply


@final
@attrs.frozen(kw_only=True)
class Start:
    """Start a process; the fields are the options of `Supervisor.start`, and

    - `stdin`: bytes that are all there is to read; `stdin_pipe`: input comes by `input` requests.
    - `cwd`: None is the root folder, where the server lives; clients send their own.
    - `attached`: the process is stopped when this connection ends, unless a `background` request came first.
    """

    op: ClassVar[str] = "start"
    reply: ClassVar[type[ProcessReply]] = ProcessReply

    command: str | tuple[str, ...] = attrs.field(repr=False)
    name: str = ""
    cwd: str | None = attrs.field(default=None, repr=False)
    env: dict[str, str] | None = attrs.field(default=None, repr=False)
    env_policy: Literal["minimal", "inherit", "none"] = "minimal"
    stdin: bytes | None = attrs.field(default=None, repr=False)
    stdin_pipe: bool = False
    pty: Size | None = None
    timeout: float | None = None
    background: bool = False
    survivors: Literal["stop", "keep"] = "stop"
    split_streams: bool = False
    output_limit: int | None = None
    on_output_limit: Literal["rotate", "stop"] = "rotate"
    resources: Resources | None = None
    origin_execution_id: UUID | None = None
    attached: bool = False


@final
@attrs.frozen(kw_only=True)
class List:
    """The processes that are known, of every loop, oldest first; a page of those after the one of that command id."""

    op: ClassVar[str] = "list"
    reply: ClassVar[type[ListReply]] = ListReply

    after: UUID | None = None


@final
@attrs.frozen(kw_only=True)
class Get:
    """One process."""

    op: ClassVar[str] = "get"
    reply: ClassVar[type[ProcessReply]] = ProcessReply

    process: str


@final
@attrs.frozen(kw_only=True)
class Read:
    """Output from `cursor` on.  `wait`: answer when there is some, or when there can be no more."""

    op: ClassVar[str] = "read"
    reply: ClassVar[type[ReadReply]] = ReadReply

    process: str
    cursor: int = 0
    max_bytes: int = 32 * 1024
    streams: Literal["both", "stdout", "stderr"] = "both"
    wait: bool = False


@final
@attrs.frozen(kw_only=True)
class Wait:
    """Answer when all of the processes have ended (`any`: one of them), or after `timeout` seconds."""

    op: ClassVar[str] = "wait"
    reply: ClassVar[type[WaitReply]] = WaitReply

    processes: tuple[str, ...]
    any: bool = False
    timeout: float | None = None


@final
@attrs.frozen(kw_only=True)
class Stop:
    """Ask a process to end, and answer when it has, or (interrupt) when it still runs after `grace` seconds."""

    op: ClassVar[str] = "stop"
    reply: ClassVar[type[StopReply]] = StopReply

    process: str
    mode: Mode = "terminate"
    grace: float | None = None


@final
@attrs.frozen(kw_only=True)
class Input:
    """Write to a process's stdin: `data`, then the bytes of `key` ("C-c", "Enter", ...), then its end (`eof`)."""

    op: ClassVar[str] = "input"
    reply: ClassVar[type[Done]] = Done

    process: str
    data: bytes = attrs.field(default=b"", repr=False)
    key: str | None = None
    eof: bool = False


@final
@attrs.frozen(kw_only=True)
class Resize:
    """Change the size of a process's terminal."""

    op: ClassVar[str] = "resize"
    reply: ClassVar[type[Done]] = Done

    process: str
    rows: int
    cols: int


@final
@attrs.frozen(kw_only=True)
class Background:
    """Nobody waits for the process any more: it is told as backgrounded, and outlives its connection."""

    op: ClassVar[str] = "background"
    reply: ClassVar[type[ProcessReply]] = ProcessReply

    process: str


@final
@attrs.frozen(kw_only=True)
class Events:
    """Public events after that sequence; `wait`: answer when there is one."""

    op: ClassVar[str] = "events"
    reply: ClassVar[type[EventsReply]] = EventsReply

    after: int = 0
    wait: bool = False


@final
@attrs.frozen(kw_only=True)
class Pending:
    """What is not acknowledged, or not journaled yet; a page of what follows the first `skip` records."""

    op: ClassVar[str] = "pending"
    reply: ClassVar[type[PendingReply]] = PendingReply

    skip: int = 0


@final
@attrs.frozen(kw_only=True)
class Acknowledge:
    """Settle the notices of these processes, or `all`; durable when it is answered."""

    op: ClassVar[str] = "ack"
    reply: ClassVar[type[AcknowledgeReply]] = AcknowledgeReply

    processes: tuple[str, ...] = ()
    all: bool = False


@final
@attrs.frozen(kw_only=True)
class Cancel:
    """Give up the request of that id, of this connection; what it had begun (a start, a stop) goes on."""

    op: ClassVar[str] = "cancel"
    reply: ClassVar[type[CancelReply]] = CancelReply

    request: int


@final
@attrs.frozen(kw_only=True)
class Shutdown:
    """End the server; refused ("busy") while something runs, unless `stop_running`."""

    op: ClassVar[str] = "shutdown"
    reply: ClassVar[type[Done]] = Done

    stop_running: bool = False


Request: TypeAlias = (
    Hello
    | Ping
    | Status
    | Start
    | List
    | Get
    | Read
    | Wait
    | Stop
    | Input
    | Resize
    | Background
    | Events
    | Pending
    | Acknowledge
    | Cancel
    | Shutdown
)
