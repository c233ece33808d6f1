"""A job in the foreground, wherever it is kept: in a runtime of this program, or by a server."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from .._ending import Ending
from ._logs import Chunk

Mode: TypeAlias = Literal["interrupt", "terminate", "kill"]
Stream: TypeAlias = Literal["both", "stdout", "stderr"]
Size: TypeAlias = tuple[int, int]
"""Rows and columns."""


class Job(Protocol):
    """What the foreground does to a job.  All calls are checkpoints and can be cancelled."""

    async def read(self, cursor: int, stream: Stream) -> Chunk:
        """What it has written to that stream at `cursor`, once there is some, or it has ended."""
        ...

    async def send(self, data: bytes) -> bool:
        """Give it input, as soon as it takes some; False where it takes no more."""
        ...

    async def close_input(self) -> None:
        """Its input ends."""
        ...

    async def resize(self, size: Size) -> None:
        """Its terminal has that size now."""
        ...

    async def stop(self, mode: Mode) -> None:
        """Ask it to end.  Raises what says why it cannot be."""
        ...

    async def wait(self) -> Ending:
        """How it ended."""
        ...

    async def settle(self) -> None:
        """Whoever has seen its end in the foreground needs no notice of it."""
        ...
