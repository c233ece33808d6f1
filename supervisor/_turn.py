"""One at a time, of those who act for one process.

As `anyio.Lock`, of which every process would keep one (on asyncio 0.8 KB): this is nothing until somebody is in, and
makes an event only for who waits.  It is not fair: of those who wait, anybody may be next.
"""

from __future__ import annotations

from types import TracebackType
from typing import final

from anyio.lowlevel import cancel_shielded_checkpoint

from ._latch import Latch


@final
class Turn:
    """`async with turn:` waits until nobody else is in."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: Latch | None = None  # set when who is in leaves; None: nobody is

    async def __aenter__(self) -> None:
        while self._left is not None:
            await self._left.wait()
        self._left = Latch()
        await cancel_shielded_checkpoint()  # as a lock does: nobody goes ahead of those who were woken before

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left, self._left = self._left, None
        if left is not None:
            left.set()
