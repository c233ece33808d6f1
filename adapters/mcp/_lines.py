"""Bytes as they come, cut into lines of a bounded length.  Pure."""

from __future__ import annotations

from typing import final

MAX_LINE_BYTES = 16 * 1024 * 1024
"""What one message may have; a longer line is skipped, and said to be."""


@final
class LineSplitter:
    """Remembers the line that has begun; of one that is too long it remembers only that."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._begun = bytearray()
        self._skipping = False

    def feed(self, piece: bytes) -> list[bytes | None]:
        """The lines that `piece` ends, each without its end and none empty; None stands for one that was too long."""
        *ends, rest = piece.split(b"\n")
        lines: list[bytes | None] = []
        for end in ends:
            self._add(end)
            lines += self.finish()
        self._add(rest)
        return lines

    def finish(self) -> list[bytes | None]:
        """The line that has begun, as if it ended here."""
        line = None if self._skipping else bytes(self._begun)
        self._begun.clear()
        self._skipping = False
        return [] if line == b"" else [line]

    def _add(self, part: bytes) -> None:
        if self._skipping or len(self._begun) + len(part) > self._limit:
            self._skipping = True
            self._begun.clear()
        else:
            self._begun += part
