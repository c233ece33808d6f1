"""One process's output, as its job hands it on: where it is, how much, who waits for more, and what is too much."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import final

from ._errors import ProcessNotFoundError
from ._teller import Teller
from ._waits import Waits
from .launch import Child
from .output import OutputChunk, SpoolState, find_cursor, read_ring


@final
class JobOutput:
    """What there is by the record once it has ended, by its report before, and by what its keeper tells until then."""

    __slots__ = ("_evicted", "_folder", "_teller", "_waits", "child", "sealed", "stop_at")

    def __init__(self, folder: Path, teller: Teller, waits: Waits) -> None:
        self._folder = folder
        self._teller = teller
        self._waits = waits
        self._evicted = False
        self.child: Child | None = None
        """Who tells of it while the process runs."""
        self.sealed: SpoolState | None = None
        """How much there is in all, once that is known."""
        self.stop_at: int | None = None
        """The count of bytes above which the process is to be stopped; None once it was passed."""

    @property
    def path(self) -> Path:
        """Where it is, if there is any."""
        return self._folder / self._teller.record.handle

    @property
    def spool(self) -> SpoolState:
        """How much there is by now; sealed once it has ended."""
        record = self._teller.record
        if record.outcome is not None:
            return record.spool
        if self.sealed is not None:
            return self.sealed
        return SpoolState() if self.child is None else self.child.spool

    def evict(self) -> None:
        """Note that the record and the output are gone."""
        self._evicted = True

    def read(self, cursor: int, max_bytes: int, stream: int | None) -> OutputChunk:
        """What there is at `cursor`, of all or of one stream; raises `ProcessNotFoundError` where it was evicted."""
        if self._evicted:
            raise ProcessNotFoundError
        ended = self._teller.record.outcome is not None
        return read_ring(self.path, self.spool, cursor, max_bytes, terminal=ended, stream=stream)

    def find_cursor(self, moment: float) -> int | None:
        """From where on there is what came at `moment` or later; raises as `read`."""
        if self._evicted:
            raise ProcessNotFoundError
        ended = self._teller.record.outcome is not None
        return find_cursor(self.path, self.spool, moment, terminal=ended)

    async def wait(self, after: int) -> None:
        """Until there are more than `after` bytes, or it is over."""
        await self._waits.output(after, lambda: self.spool.total, self.arm)

    def passes_limit(self, total: int) -> bool:
        """Whether `total` bytes are too much; True once."""
        if self.stop_at is None or total <= self.stop_at:
            return False
        self.stop_at = None
        return True

    def arm(self) -> None:
        """Ask to be told of the next output that somebody waits for."""
        wanted = [count for count in (self._waits.readers.lowest, self.stop_at) if count is not None]
        if self.child is not None and wanted:
            self.child.arm(min(wanted))

    def remove_if_empty(self) -> None:
        """How the process ended is in its record now; where nothing else is in the file, that is not needed."""
        if not self._teller.record.spool.total:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
