"""One process's output on disk: a ring file of bounded size; its format, and the one writer of it.

Theory of operation
- Every byte has its offset since the process's start: the cursor, which never resets.  Byte `n` is at
  `HEADER_BYTES + n % capacity`; what the file holds is [base, end).
- A ring that rotates has room for `limit` bytes and one segment more, so that its base need move but once in a segment,
  and the last `limit` bytes can be read at any time.  One that does not rotate keeps the first `limit` bytes.
- The header is two slots, each with a checksum, written in turn: a torn one is told by its sum, and the other is there.
- What is overwritten is given up first: publish the new base, overwrite, publish the new total.  So a reader that
  copies and then finds its start at or above the base has copied well.
- The file appears by rename, with a valid header; nothing is there before the first byte, or the first note.

Rules
- By pwrite alone, no mmap: a full disk must be an error and not a signal.  The file grows as it is written.
- A failing disk is a fact and no exception: `fault`, the offset from which on nothing was kept, and the errno.  What
  comes after it is counted.  A disk that failed is not trusted again, so [base, end) has no hole.
- A slot that could not be written is written again the next time: the valid one is never put at risk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from zlib import crc32

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from typing import Final

HEADER_BYTES: Final = 4096
"""Where the data begins."""

TEMPORARY_SUFFIX: Final = ".new"
"""Ends the name of a file that has not appeared yet; a writer that was killed may leave one behind."""

# A total that nobody has asked for is published after so many bytes, or a reader would be told old news for ever by a
# writer that is never idle.
_UNTOLD_BYTES: Final = 1024 * 1024

_LEAST_SEGMENT, _LARGEST_SEGMENT = 64 * 1024, 8 * 1024 * 1024

_MAGIC: Final = b"lw-ring1"
_SLOTS: Final = (0, HEADER_BYTES // 2)
# magic, sequence, total, base, limit, status, fault's offset and errno, flags
_FIELDS: Final = struct.Struct("<8sQQQQqQII")
_SUM: Final = struct.Struct("<I")
_SLOT_BYTES: Final = _FIELDS.size + _SUM.size
_SEALED, _HAS_STATUS, _HOST_DEATH, _PROVEN, _HAS_FAULT, _ROTATES = (1 << bit for bit in range(6))


def segment_of(limit: int) -> int:
    """How many bytes a ring that rotates may hold beyond its limit."""
    return max(_LEAST_SEGMENT, min(_LARGEST_SEGMENT, limit // 8))


class RingHeader:
    """What a slot says.

    - `total`: all bytes so far, kept or not; [`base`, `end`) can be read, and from `fault` on nothing was kept.
    - `sealed`: nothing changes any more.  `proven`: then the kernel has said that nothing of the tree is left.
    - `status`: how the leader ended, as from waitpid; None while it lives, or where nobody knows.
    - `ended_by_host_death`: it was killed because the host had died.
    """

    __slots__ = (
        "base",
        "ended_by_host_death",
        "fault",
        "limit",
        "proven",
        "rotates",
        "sealed",
        "sequence",
        "status",
        "total",
    )

    def __init__(
        self,
        *,
        sequence: int = 0,
        total: int = 0,
        base: int = 0,
        limit: int,
        rotates: bool = True,
        sealed: bool = False,
        status: int | None = None,
        ended_by_host_death: bool = False,
        proven: bool = False,
        fault: tuple[int, int] | None = None,
    ) -> None:
        self.sequence: int = sequence
        self.total: int = total
        self.base: int = base
        self.limit: int = limit
        self.rotates: bool = rotates
        self.sealed: bool = sealed
        self.status: int | None = status
        self.ended_by_host_death: bool = ended_by_host_death
        self.proven: bool = proven
        self.fault: tuple[int, int] | None = fault

    @property
    def end(self) -> int:
        """Where what can be read ends."""
        end = self.total if self.fault is None else self.fault[0]
        return end if self.rotates else min(end, self.limit)

    @property
    def capacity(self) -> int:
        """How many bytes the ring has room for."""
        return self.limit + segment_of(self.limit) if self.rotates else self.limit

    def pack(self) -> bytes:
        """The bytes of a slot."""
        flags = (
            _SEALED * self.sealed
            | _HAS_STATUS * (self.status is not None)
            | _HOST_DEATH * self.ended_by_host_death
            | _PROVEN * self.proven
            | _HAS_FAULT * (self.fault is not None)
            | _ROTATES * self.rotates
        )
        fields = _FIELDS.pack(
            _MAGIC, self.sequence, self.total, self.base, self.limit, self.status or 0, *(self.fault or (0, 0)), flags
        )
        return fields + _SUM.pack(crc32(fields))


def parse_header(block: bytes) -> RingHeader | None:
    """Of the slots in `block` (the first `HEADER_BYTES` of a file) the valid one that was written last, or None."""
    slots = [header for at in _SLOTS if (header := _parse_slot(block[at : at + _SLOT_BYTES])) is not None]
    return max(slots, key=lambda header: header.sequence, default=None)


def _parse_slot(slot: bytes) -> RingHeader | None:
    if len(slot) < _SLOT_BYTES:
        return None
    fields = slot[: _FIELDS.size]
    if _SUM.unpack(slot[_FIELDS.size :])[0] != crc32(fields):
        return None
    magic, sequence, total, base, limit, status, offset, code, flags = _FIELDS.unpack(fields)
    if magic != _MAGIC:
        return None
    return RingHeader(
        sequence=sequence,
        total=total,
        base=base,
        limit=limit,
        rotates=bool(flags & _ROTATES),
        sealed=bool(flags & _SEALED),
        status=status if flags & _HAS_STATUS else None,
        ended_by_host_death=bool(flags & _HOST_DEATH),
        proven=bool(flags & _PROVEN),
        fault=(offset, code) if flags & _HAS_FAULT else None,
    )


class RingWriter:
    """The one writer of one file.  Never raises for the disk's sake."""

    def __init__(self, path: str, limit: int, *, rotate: bool = True) -> None:
        """Touch nothing yet; `rotate` keeps the last `limit` bytes (and a segment), else the first are kept."""
        self._path = path
        self._descriptor: int | None = None
        self._closed = False
        self._header = RingHeader(limit=limit, rotates=rotate)
        self._slot = 0
        self._capacity = self._header.capacity
        self._segment = segment_of(limit)
        self._told = 0  # the total that readers can see

    @property
    def total(self) -> int:
        """All bytes so far, kept or not."""
        return self._header.total

    @property
    def base(self) -> int:
        """The offset of the oldest byte that can be read."""
        return self._header.base

    @property
    def header(self) -> RingHeader:
        """Everything that it has to say; it changes as the writer goes on."""
        return self._header

    @property
    def fault(self) -> tuple[int, int] | None:
        """The offset from which on nothing was kept since the disk failed, and the errno."""
        return self._header.fault

    def append(self, data: memoryview) -> None:
        """Count `data`, and keep what the limit and the disk allow; readers see it once it is published."""
        header = self._header
        if header.sealed or self._closed:
            return
        total = header.total + len(data)
        if header.fault is None:
            if header.rotates:
                self._keep(data)
            elif header.total < header.limit:
                self._keep(data[: header.limit - header.total])
        header.total = total
        if total - self._told > _UNTOLD_BYTES:
            self.publish()

    def publish(self) -> None:
        """Let readers see what there is by now."""
        if self._descriptor is not None and self._told != self._header.total:
            self._write_header()

    def note_exit(self, status: int | None, *, by_host_death: bool, create: bool = True) -> None:
        """Note how the leader ended (as from waitpid; None where nobody knows), for whoever comes after a crash.

        Not to `create`: only where there is a file already.
        """
        self._header.status = status
        self._header.ended_by_host_death = by_host_death
        if self._descriptor is not None or (create and self._is_there()):
            self._write_header()

    def seal(self, *, proven: bool) -> None:
        """Publish for the last time; what is appended later is not even counted.  Exactly the limit stays readable."""
        header = self._header
        if header.sealed:
            return
        header.sealed = True
        header.proven = proven
        if header.rotates:
            header.base = max(header.base, header.end - header.limit)
        if self._descriptor is not None or (header.total and self._is_there()):
            self._write_header()

    def close(self) -> None:
        """Let go of the file; nothing is written after it.  Idempotent."""
        self._closed = True
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            try:
                os.close(descriptor)
            except OSError as error:  # a network file system may tell a failed write only now
                self._fail(error)

    # --- data ---------------------------------------------------------------------------------------------------------

    def _keep(self, data: memoryview) -> None:
        """Write `data` at the total, which moves with it; less where the disk fails."""
        header = self._header
        if data and not self._is_there():
            return
        try:
            while data:
                piece = data[: self._segment]
                self._make_room(len(piece))
                at = header.total % self._capacity
                written = os.pwrite(self._opened, piece[: self._capacity - at], HEADER_BYTES + at)
                header.total += _more_than_nothing(written)
                data = data[written:]
        except OSError as error:
            self._fail(error)

    def _make_room(self, size: int) -> None:
        """Give up what the next `size` bytes (a segment at most) overwrite; raises OSError, then it must not be."""
        header = self._header
        if header.total + size - self._capacity > header.base:
            header.base = header.total - header.limit
            self._put_header()

    def _fail(self, error: OSError) -> None:
        if self._header.fault is None:
            self._header.fault = (self._header.end, error.errno or errno.EIO)

    # --- the header and the file --------------------------------------------------------------------------------------

    @property
    def _opened(self) -> int:
        assert self._descriptor is not None  # noqa: S101 -- whoever writes has asked whether it is there
        return self._descriptor

    def _write_header(self) -> None:
        try:
            self._put_header()
        except OSError as error:
            self._fail(error)

    def _put_header(self) -> None:
        _write_all(self._opened, self._header.pack(), _SLOTS[self._slot])
        self._told = self._header.total
        self._header.sequence += 1
        self._slot ^= 1

    def _is_there(self) -> bool:
        """Whether there is a file, made now where there was none; where that fails it is the disk's fault."""
        if self._descriptor is None and not self._closed:
            try:
                self._create()
            except OSError as error:
                self._fail(error)
        return self._descriptor is not None

    def _create(self) -> None:
        temporary = self._path + TEMPORARY_SUFFIX
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(temporary, flags, 0o600)
        try:
            self._put_header()
            os.rename(temporary, self._path)  # noqa: PTH104 -- no pathlib in here
        except BaseException:
            descriptor, self._descriptor = self._descriptor, None
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108 -- no pathlib in here
            with contextlib.suppress(OSError):
                os.close(descriptor)
            raise


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    while data:
        written = _more_than_nothing(os.pwrite(descriptor, data, offset))
        data = data[written:]
        offset += written


def _more_than_nothing(written: int) -> int:
    if written == 0:  # what no file system should answer, and what would be tried for ever
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    return written
