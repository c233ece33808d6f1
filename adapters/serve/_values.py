"""What replies are made of: processes, outcomes, output, events, as a client sees them.

Plain values that need nothing of the core, so that a client starts quickly.  Times are aware, in UTC; states, reasons
and tiers are the names of the core's enums in lower case.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, final
from uuid import UUID

import attrs


@final
@attrs.frozen(kw_only=True)
class Size:
    """A terminal's size in character cells."""

    rows: int = 24
    cols: int = 80


@final
@attrs.frozen(kw_only=True)
class Resources:
    """As `ResourceLimits` of the supervisor."""

    open_files: int | None = None
    cpu_seconds: int | None = None
    address_space: int | None = None
    core: int | None = None
    nice: int | None = None
    umask: int | None = None


@final
@attrs.frozen(kw_only=True)
class OutcomeInfo:
    """How a process ended; as `Outcome` of the supervisor."""

    state: str
    reason: str
    exit_code: int | None = None
    signal: int | None = None
    shell_code: int | None = None
    started_at: datetime | None = None
    finished_at: datetime
    survivors: int
    output_open: bool
    total_bytes: int
    output_error: bool
    containment: str
    proven: bool
    diagnostic: str


@final
@attrs.frozen(kw_only=True)
class ProcessInfo:
    """A process, running or ended."""

    handle: str
    command_id: UUID
    loop_id: UUID
    name: str
    program: str
    state: str
    created_at: datetime
    started_at: datetime | None = None
    backgrounded: bool
    outcome: OutcomeInfo | None = None


@final
@attrs.frozen(kw_only=True)
class Chunk:
    """A piece of output, as `OutputChunk` of the supervisor: `data` is [start, next_cursor)."""

    data: bytes = attrs.field(repr=False)
    start: int
    next_cursor: int
    omitted: tuple[int, int] | None = None
    total: int
    ended: bool
    output_error: bool


@final
@attrs.frozen(kw_only=True)
class EventInfo:
    """A public event and its place in the journal.

    `event` is the record as it is written (see the contract), None where it is too long for a line.
    """

    seq: int
    event: dict[str, Any] | None = None


@final
@attrs.frozen(kw_only=True)
class PendingInfo:
    """A record whose way home is not finished; as `PendingDelivery`."""

    record_id: UUID
    kind: str
    process_handle: str
    attempts: int
    status: str
    last_error: str | None = None
