"""Which processes end with which client.  Plain bookkeeping."""

from __future__ import annotations

from typing import final

from ...supervisor import Process


@final
class Attachments:
    """The processes that were started `attached`, each with the client whose end is theirs."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[object, Process]] = {}

    def attach(self, process: Process, client: object) -> None:
        """It ends with that client."""
        self._held[process.handle] = client, process

    def detach(self, handle: str) -> None:
        """It ends with nobody any more."""
        self._held.pop(handle, None)

    def take(self, client: object) -> list[Process]:
        """Those that end with that client, which has gone; they are attached no longer."""
        found = [process for holder, process in self._held.values() if holder is client]
        for process in found:
            del self._held[process.handle]
        return found
