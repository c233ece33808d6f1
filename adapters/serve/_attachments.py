"""Which processes end with which client.  Plain bookkeeping."""

from __future__ import annotations

from collections.abc import Container
from typing import final

from ...supervisor import Process


@final
class Attachments:
    """The processes that were started `attached`, each with the client whose end is theirs.

    One that has ended is still held, for it may have kept survivors; it goes when its record does.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[object, Process]] = {}

    def attach(self, process: Process, client: object, known: Container[str]) -> None:
        """It ends with that client.  `known`: the handles of all whose records are kept; no other is held on."""
        self._held = {handle: pair for handle, pair in self._held.items() if handle in known}
        self._held[process.handle] = client, process

    def detach(self, handle: str) -> None:
        """It ends with nobody any more."""
        self._held.pop(handle, None)

    def __len__(self) -> int:
        return len(self._held)

    def take(self, client: object) -> list[Process]:
        """Those that end with that client, which has gone; they are attached no longer."""
        found = [process for holder, process in self._held.values() if holder is client]
        for process in found:
            del self._held[process.handle]
        return found
