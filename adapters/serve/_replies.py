"""The replies, and the fault that stands in the place of one."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TypeAlias, final
from uuid import UUID

import attrs

from ._values import Chunk, EventInfo, PendingInfo, ProcessInfo


class FaultCode(StrEnum):
    """What can be wrong beside what the supervisor says by its `ErrorCode`."""

    MALFORMED = "malformed"
    LINE_TOO_LONG = "line_too_long"
    HELLO_EXPECTED = "hello_expected"
    UNSUPPORTED_VERSION = "unsupported_version"
    UNKNOWN_OP = "unknown_op"
    INVALID_REQUEST = "invalid_request"
    TOO_MANY_REQUESTS = "too_many_requests"
    TOO_MANY_CONNECTIONS = "too_many_connections"
    AMBIGUOUS = "ambiguous"
    CANCELLED = "cancelled"
    BUSY = "busy"
    SHUTTING_DOWN = "shutting_down"
    JOURNAL_UNAVAILABLE = "journal_unavailable"
    DIRECTORY_IN_USE = "directory_in_use"
    START_TIMEOUT = "start_timeout"
    REPLY_TOO_LONG = "reply_too_long"
    FAILED = "failed"


@final
@attrs.frozen(kw_only=True)
class Fault:
    """Why a request was not done; see `RequestError`."""

    code: str
    message: str
    field: str | None = None
    kind: str | None = None
    errno: int | None = None
    handle: str | None = None


@final
@attrs.frozen(kw_only=True)
class Welcome:
    """The server speaks this version, and serves this session."""

    version: int
    session_id: UUID


@final
@attrs.frozen(kw_only=True)
class Done:
    """It is done."""


@final
@attrs.frozen(kw_only=True)
class StatusReply:
    """`running` counts processes that have something alive, `undelivered` records that are not journaled yet.

    `idle_seconds` is after how long without clients and processes the server ends; None: never.
    """

    session_id: UUID
    release: str
    started_at: datetime
    idle_seconds: float | None = None
    connections: int
    running: int
    undelivered: int
    containment: str


@final
@attrs.frozen(kw_only=True)
class ProcessReply:
    """The process as it is now."""

    process: ProcessInfo


@final
@attrs.frozen(kw_only=True)
class ListReply:
    """A page; `more`: ask again, after the last one of it."""

    processes: tuple[ProcessInfo, ...]
    more: bool


@final
@attrs.frozen(kw_only=True)
class ReadReply:
    """Output."""

    chunk: Chunk


@final
@attrs.frozen(kw_only=True)
class WaitReply:
    """The processes that were asked for, in that order, as they are now; `timed_out`: not enough of them have ended."""

    processes: tuple[ProcessInfo, ...]
    timed_out: bool


@final
@attrs.frozen(kw_only=True)
class StopReply:
    """The process as it is now; `running`: it has outlived an interrupt."""

    process: ProcessInfo
    running: bool


@final
@attrs.frozen(kw_only=True)
class EventsReply:
    """A page; ask for what is `after` it next.  `more`: there is some already."""

    events: tuple[EventInfo, ...]
    after: int
    more: bool


@final
@attrs.frozen(kw_only=True)
class PendingReply:
    """A page; `more`: skip this many more, and ask again."""

    pending: tuple[PendingInfo, ...]
    more: bool


@final
@attrs.frozen(kw_only=True)
class AcknowledgeReply:
    """The handles of the notices that were settled, a hundred at most; `acknowledged` counts them all."""

    acknowledged: int
    handles: tuple[str, ...]


@final
@attrs.frozen(kw_only=True)
class CancelReply:
    """Whether there was such a request."""

    found: bool


Reply: TypeAlias = (
    Welcome
    | Done
    | StatusReply
    | ProcessReply
    | ListReply
    | ReadReply
    | WaitReply
    | StopReply
    | EventsReply
    | PendingReply
    | AcknowledgeReply
    | CancelReply
)
