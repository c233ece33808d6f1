"""What events and notices have said; the demo believes nothing else."""

from __future__ import annotations

import anyio
import attrs

from ...notifier import LifecycleKind, ProcessCompletionNotification, ProcessLifecycleMetadata
from ...supervisor import Outcome
from ._jobs import Job


@attrs.define(kw_only=True)
class Row:
    """What has been said of one job so far."""

    handle: str
    job: Job | None = None
    kinds: list[LifecycleKind] = attrs.field(factory=list[LifecycleKind])
    last_word: ProcessLifecycleMetadata | None = None
    outcome: Outcome | None = None
    """What the supervisor says more: for people, and judged by nobody."""
    notices: list[ProcessCompletionNotification] = attrs.field(factory=list[ProcessCompletionNotification])
    acknowledged: bool = False
    told: anyio.Event = attrs.field(factory=anyio.Event)
    """Set when the last word has come."""

    @property
    def settled(self) -> bool:
        """Whether its last word has been told and its notice acknowledged."""
        return self.last_word is not None and self.acknowledged

    @property
    def faults(self) -> list[str]:
        """What is missing, or is not as it must be; empty when all is well."""
        if self.job is None:
            return ["it belongs to no job"]
        fate, word = self.job.fate, self.last_word
        faults: list[str] = []
        if word is None:
            faults.append("no last word")
        elif (word.state, word.reason, word.exit_code) != (fate.state, fate.reason, fate.exit_code):
            faults.append(f"its last word is {word.state.name} {word.reason.name} {word.exit_code}")
        if sorted(self.kinds) != sorted(fate.kinds):
            faults.append(f"its events are {', '.join(kind.name for kind in self.kinds) or 'none'}")
        if [(notice.state, notice.reason) for notice in self.notices] != [(fate.state, fate.reason)]:
            faults.append(f"{len(self.notices)} notices")
        if not self.acknowledged:
            faults.append("not acknowledged")
        return faults


class Ledger:
    """One row for each handle that was ever mentioned; `settled` is set when all `expected` jobs are."""

    def __init__(self, expected: int) -> None:
        self.rows: dict[str, Row] = {}
        self.settled = anyio.Event()
        self._expected = expected

    def row(self, handle: str) -> Row:
        """The row of `handle`, new where it is mentioned for the first time."""
        return self.rows.setdefault(handle, Row(handle=handle))

    def note(self) -> None:
        """Look whether everything is settled; called after each change."""
        if sum(row.settled for row in self.rows.values()) >= self._expected:
            self.settled.set()
