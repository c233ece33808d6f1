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
from ._outcome import Outcome
from .output import SpoolState


@final
@attrs.frozen(kw_only=True)
class ProcessRecord:
    """One process as the store knows it; `outcome` is there exactly when the state is terminal."""

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
    kept_bytes: int = 0

    @property
    def ids(self) -> ProcessIds:
        """The ids of everything that is ever said of it."""
        return process_ids(self.base_id)

    @property
    def spool(self) -> SpoolState:
        """Its output, once it has ended."""
        if self.outcome is None:
            return SpoolState()
        return SpoolState(total=self.outcome.total_bytes, kept=self.kept_bytes, fault=self.outcome.output_error)

    def running(self, started_at: datetime, *, backgrounded: bool) -> ProcessRecord:
        """It was spawned at `started_at`."""
        state = advance(self.state, ProcessState.RUNNING)
        return attrs.evolve(self, state=state, started_at=self.not_before(started_at), backgrounded=backgrounded)

    def ended(self, outcome: Outcome, *, kept_bytes: int) -> ProcessRecord:
        """It has had its last word; raises `IllegalTransitionError` where it cannot be that, or has had one."""
        return attrs.evolve(self, state=advance(self.state, outcome.state), outcome=outcome, kept_bytes=kept_bytes)

    def not_before(self, time: datetime) -> datetime:
        """`time`, or what went before it where somebody has set the wall clock back: times never run backward."""
        return max(time, self.started_at or self.created_at)
