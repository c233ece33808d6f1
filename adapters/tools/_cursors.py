"""How far a model has read each process, for profiles whose tools show only what is new.

In memory alone: after a restart all that is kept is new again.
"""

from __future__ import annotations

from typing import final

from ...supervisor import Process
from ._result import Result


@final
class Cursors:
    """One agent's; only a result that was given moves a cursor."""

    def __init__(self) -> None:
        self._read: dict[str, int] = {}

    def of(self, process: Process) -> int:
        """Where the next result begins."""
        return self._read.get(process.handle, 0)

    def shown(self, process: Process, shown: Result) -> None:
        """An answer shows its output up to `next_cursor`; no await may come between this and the answer."""
        self._read[process.handle] = max(self.of(process), shown["next_cursor"])

    def forget_all_but(self, known: list[Process]) -> None:
        """Keep those of processes that are known; sync."""
        handles = {process.handle for process in known}
        self._read = {handle: cursor for handle, cursor in self._read.items() if handle in handles}
