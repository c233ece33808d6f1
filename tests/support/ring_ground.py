"""Ground for the ring file: bytes that say where they belong, and a system whose calls fail or are the last.

A system takes the place of the module `os` in the module under test alone, so nothing else is touched.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from lastword.supervisor.output import OutputChunk, SpoolState, read_ring

# A prime, so that no two bytes that share a place in a ring look alike by rule.
PERIOD = 65_521
_PATTERN = random.Random(4).randbytes(PERIOD) * 2


def written(start: int, end: int) -> bytes:
    """The bytes [start, end) of the one stream that everybody here writes."""
    pieces: list[bytes] = []
    while start < end:
        at = start % PERIOD
        piece = _PATTERN[at : at + min(end - start, PERIOD)]
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)


Whose = Callable[[int], int]
"""Which of two streams the byte at an offset belongs to."""


def in_blocks(size: int) -> Whose:
    """Two streams by turns, of so many bytes each but where a turn is missed."""
    return lambda offset: (offset // size % 5) & 1


def own(start: int, end: int, whose: Whose, stream: int) -> bytes:
    """The bytes of [start, end) that are of `stream`."""
    return bytes(byte for at, byte in enumerate(written(start, end), start) if whose(at) == stream)


def everything(
    path: Path,
    known: SpoolState | None,
    *,
    terminal: bool,
    cursor: int = 0,
    most: int = 1 << 30,
    whose: Whose | None = None,
    stream: int | None = None,
) -> list[OutputChunk]:
    """All that can be read from `cursor` on, of all or of one `stream`, each chunk checked."""
    chunks: list[OutputChunk] = []
    while True:
        chunk = read_ring(path, known, cursor, most, terminal=terminal, stream=stream)
        check_chunk(chunk, cursor, whose, stream)
        chunks.append(chunk)
        if chunk.next_cursor == cursor:
            return chunks
        cursor = chunk.next_cursor


def check_chunk(chunk: OutputChunk, cursor: int, whose: Whose | None = None, stream: int | None = None) -> None:
    """No wrong byte, and what was omitted and what was read join exactly."""
    if whose is None or stream is None:
        assert chunk.data == written(chunk.start, chunk.next_cursor)
    elif chunk.data or chunk.start < chunk.total:
        assert chunk.data == own(chunk.start, chunk.next_cursor, whose, stream)
    assert chunk.omitted == (None if chunk.start == cursor else (cursor, chunk.start))
    assert cursor <= chunk.start <= chunk.next_cursor <= chunk.total
    if chunk.output_error is not None:
        assert chunk.next_cursor <= chunk.output_error.offset or chunk.start == chunk.total


class Crash(BaseException):
    """The process is gone."""


@attrs.frozen
class Act:
    """What becomes of one call: of a pwrite `done` bytes are written first; then it says so, fails, or is the last."""

    kind: str  # "short", "fail", "crash"
    done: int
    code: int = errno.ENOSPC


@attrs.define
class System:
    """Counts the calls that change something, and does at each what the plan says; `look` is called before each."""

    plan: Mapping[int, Act] = attrs.field(factory=dict[int, Act])
    look: Callable[[], None] = lambda: None
    calls: int = 0
    failed: list[int] = attrs.field(factory=list[int])
    dead: bool = False
    litter: bool = False  # a file could not be removed
    held: set[int] = attrs.field(factory=set[int])

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        self._reach()
        descriptor = os.open(path, flags, mode)
        self.held.add(descriptor)
        return descriptor

    def pwrite(self, descriptor: int, data: memoryview | bytes, offset: int) -> int:
        act = self._next()
        if act is None:
            return os.pwrite(descriptor, data, offset)
        done = min(act.done, len(data) - 1)
        if done > 0:
            os.pwrite(descriptor, data[:done], offset)
        self._do(act)
        # One that falls short has still written something.
        return done if done > 0 else os.pwrite(descriptor, data[:1], offset)

    def rename(self, old: str, new: str) -> None:
        self._reach()
        Path(old).rename(new)

    def unlink(self, path: str) -> None:
        self.litter = True
        self._reach()
        Path(path).unlink()
        self.litter = False

    def close(self, descriptor: int) -> None:
        """As on Linux: closed, whatever it answers."""
        if self.dead:
            raise Crash
        self.held.discard(descriptor)
        os.close(descriptor)
        self._reach()

    def release(self) -> None:
        """What a dead process's end does."""
        for descriptor in self.held:
            os.close(descriptor)
        self.held.clear()

    def _reach(self) -> None:
        act = self._next()
        if act is not None:
            self._do(act)

    def _next(self) -> Act | None:
        if self.dead:
            raise Crash
        self.look()
        act = self.plan.get(self.calls)
        self.calls += 1
        return act

    def _do(self, act: Act) -> None:
        if act.kind == "crash":
            self.dead = True
            raise Crash
        if act.kind == "fail":
            self.failed.append(act.code)
            raise OSError(act.code, os.strerror(act.code))


@attrs.define
class Interrupted:
    """The `os` of a reader, to whom `between` happens before each of its reads."""

    between: Callable[[], None]
    opened: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Path, flags: int) -> int:
        descriptor = os.open(path, flags)
        self.opened += 1
        return descriptor

    def close(self, descriptor: int) -> None:
        self.opened -= 1
        os.close(descriptor)

    def pread(self, descriptor: int, size: int, offset: int) -> bytes:
        self.between()
        return os.pread(descriptor, size, offset)
