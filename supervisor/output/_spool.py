"""One process's output on disk: an append-only file, bounded, and what is read of it.

Theory of operation
- The cursor is the count of bytes that the process has written since its start; it never resets.  The file holds the
  bytes [0, kept); what came after the limit, or after the disk failed, was drained, counted and discarded, so that the
  process is never blocked.  [kept, total) is told as omitted.
- The file appears with the first byte (0600, in a private folder); a process that writes nothing leaves none.

Rules
- A failing disk is not an exception but a fact: `SpoolState.fault`, with the offset from which on nothing was kept.
- Reading opens the file by its path each time: an ended process costs no descriptor.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import final

import attrs

from .._errors import ErrorCode, SupervisorError
from ._text import TextView, view_text


@final
@attrs.frozen(kw_only=True)
class OutputFault:
    """The disk failed: nothing from `offset` on was kept; `code` is the system's name for it, such as "ENOSPC"."""

    offset: int
    code: str


@final
@attrs.frozen(kw_only=True)
class SpoolState:
    """How much a process has written (`total`), how much of it can be read (`kept`), and what failed."""

    total: int = 0
    kept: int = 0
    fault: OutputFault | None = None


@final
@attrs.frozen(kw_only=True)
class OutputChunk:
    """One piece of a process's output.

    - `data`: the bytes [start, next_cursor); give `next_cursor` to the next read.
    - `omitted`: the range that this read passed over since it was not kept, None if there is none; `gap` says the same.
    - `total`: all bytes that the process had written by then, kept or not.
    - `ended`: nothing will ever follow `next_cursor`.
    - `output_error`: set once the disk has failed.
    """

    data: bytes = attrs.field(repr=False)
    start: int
    next_cursor: int
    omitted: tuple[int, int] | None
    total: int
    ended: bool
    output_error: OutputFault | None

    @property
    def gap(self) -> bool:
        """Whether bytes are missing before `start`."""
        return self.omitted is not None

    @property
    def text(self) -> TextView:
        """The data as text that can be shown; the raw bytes stay in `data`."""
        return view_text(self.data)


class SpoolWriter:
    """The one writer of one file.  Never raises for the disk's sake."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._descriptor: int | None = None
        self._total = 0
        self._kept = 0
        self._fault: OutputFault | None = None

    @property
    def state(self) -> SpoolState:
        """How much there is by now."""
        return SpoolState(total=self._total, kept=self._kept, fault=self._fault)

    def append(self, data: memoryview) -> None:
        """Count `data`, and keep what the limit and the disk allow."""
        room = min(len(data), self._limit - self._kept)
        # What is left out is left out for good: the limit does not move, and a disk that failed is not trusted again.
        # So the file is [0, kept) without a hole.
        if self._fault is None and room > 0:
            self._keep(data[:room])
        self._total += len(data)

    def close(self) -> None:
        """Let go of the file.  Idempotent."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            try:
                os.close(descriptor)
            except OSError as error:  # a network file system may tell a failed write only now
                self._fail(error)

    def _keep(self, data: memoryview) -> None:
        try:
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                self._descriptor = os.open(self._path, flags, 0o600)
            while data:
                written = os.pwrite(self._descriptor, data, self._kept)
                self._kept += written
                data = data[written:]
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        if self._fault is None:
            self._fault = OutputFault(offset=self._kept, code=errno.errorcode.get(error.errno or 0, "EIO"))


def read_spool(path: Path, state: SpoolState, cursor: int, max_bytes: int, *, terminal: bool) -> OutputChunk:
    """What is at `cursor` of the file at `path`, at most `max_bytes` of it.

    A chunk that `max_bytes` cuts short ends before a UTF-8 sequence that it would split.  Raises `SupervisorError`:
    cursor_ahead beyond the total, spool_corrupt where the file has less than was kept.
    """
    if cursor > state.total:
        raise SupervisorError(
            ErrorCode.CURSOR_AHEAD,
            f"cursor {cursor} is beyond the {state.total} bytes written so far; use the last next_cursor",
        )
    start, data, omitted = cursor, b"", None
    if cursor < state.kept:
        data = _read(path, cursor, min(max_bytes, state.kept - cursor))
        if cursor + len(data) < state.kept:
            data = data[: len(data) - _split_tail(data)]
    elif cursor < state.total:
        start, omitted = state.total, (cursor, state.total)
    end = start + len(data)
    return OutputChunk(
        data=data,
        start=start,
        next_cursor=end,
        omitted=omitted,
        total=state.total,
        ended=terminal and end == state.total,
        output_error=state.fault,
    )


def _read(path: Path, offset: int, size: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            data = os.pread(descriptor, size, offset)
        finally:
            os.close(descriptor)
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "EIO")
        raise SupervisorError(
            ErrorCode.SPOOL_CORRUPT, f"the kept output cannot be read ({code}); the process itself is not affected"
        ) from None  # the original names a host path
    if len(data) < size:
        raise SupervisorError(ErrorCode.SPOOL_CORRUPT, f"the kept output was cut short at {offset + len(data)}")
    return data


def _split_tail(data: bytes) -> int:
    """How many bytes at the end of `data` begin a UTF-8 sequence that is not whole (0 to 3); never all of it."""
    for back in range(1, min(3, len(data) - 1) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if length > back else 0
        if byte < 0x80:
            return 0
    return 0
