"""What is durable about one process: a value that only ever moves forward.

It has no field for a command, an argument, an environment, a path or a process id: what is not there cannot leak.
`name` (the caller's word) and `program` (the program's base name) are for people.
"""

from __future__ import annotations

from datetime import datetime
from typing import final
from uuid import UUID

import attrs

from ..notifier import INITIAL_STATE, Owner, ProcessIds, ProcessState, advance, process_ids
from ._errors import ErrorCode, SupervisorError
from ._outcome import Outcome
from .output import STREAMS, SpoolState, Streams


@final
@attrs.frozen(kw_only=True)
class ProcessRecord:
    """One process as the store knows it; `outcome` is there exactly when the state is terminal.

    `kept`: of its output, what can be read once it has ended: from, up to.  `split_streams`: it is kept whose it is.
    """

    handle: str
    base_id: UUID
    owner: Owner
    origin_execution_id: UUID
    name: str
    program: str
    created_at: datetime
    state: ProcessState = INITIAL_STATE
    started_at: datetime | None = None
    backgrounded: bool = False
    outcome: Outcome | None = None
    kept: tuple[int, int] = (0, 0)
    split_streams: bool = False

    @property
    def ids(self) -> ProcessIds:
        """The ids of everything that is ever said of it."""
        return process_ids(self.base_id)

    @property
    def kept_bytes(self) -> int:
        """How many bytes of output are kept."""
        return self.kept[1] - self.kept[0]

    @property
    def spool(self) -> SpoolState:
        """Its output, once it has ended."""
        if self.outcome is None:
            return SpoolState()
        base, end = self.kept
        return SpoolState(total=self.outcome.total_bytes, base=base, fault=self.outcome.output_error, cut=end)

    def stream(self, streams: Streams) -> int | None:
        """Which one to read, None for both.  Raises `SupervisorError` (invalid_arguments): it cannot be told."""
        if streams not in STREAMS:
            raise SupervisorError(ErrorCode.INVALID_ARGUMENTS, f"streams must be one of {', '.join(STREAMS)}")
        if streams != "both" and not self.split_streams:
            raise SupervisorError(
                ErrorCode.INVALID_ARGUMENTS,
                "this process has one stream for both, in exact order; leave streams out, or start with split_streams",
            )
        return STREAMS[streams]

    def running(self, started_at: datetime, *, backgrounded: bool) -> ProcessRecord:
        """It was spawned at `started_at`."""
        state = advance(self.state, ProcessState.RUNNING)
        return attrs.evolve(self, state=state, started_at=self.not_before(started_at), backgrounded=backgrounded)

    def ended(self, outcome: Outcome, *, kept: tuple[int, int]) -> ProcessRecord:
        """It has had its last word; raises `IllegalTransitionError` where it cannot be that, or has had one."""
        return attrs.evolve(self, state=advance(self.state, outcome.state), outcome=outcome, kept=kept)

    def not_before(self, time: datetime) -> datetime:
        """`time`, or what went before it where somebody has set the wall clock back: times never run backward."""
        return max(time, self.started_at or self.created_at)
