"""One process's output on disk: a ring file of bounded size, and the one writer of it.  Its format: `_header`.

Theory of operation
- Every byte has its offset since the process's start: the cursor, which never resets.  Byte `n` is at
  `data_at + n % capacity`; what the file holds is [base, end).
- A ring that rotates has room for `limit` bytes and one segment more, so that its base need move but once in a segment,
  and the last `limit` bytes can be read at any time.  One that does not rotate keeps the first `limit` bytes.
- Two streams are kept apart by an index in the same file: where one follows the other, a switch is noted before the
  bytes are, and the header that tells the bytes tells it, too.  So whenever a writer dies, index and bytes agree.
- The index has a fixed room.  What it has no room for any more is given up an eighth at once: those bytes can still be
  read, but not whose they were.
- What is overwritten is given up first: publish the new base (of the index: the new first switch), overwrite, publish
  the new total.  So a reader that copies and then finds its start at or above the base has copied well.
- Once a second at most it is noted when the output came: see `_spans`.
- Somebody may cut the file short while it is written, for the sake of room on the disk most of all.  What is written
  next would leave a hole, which reads as zeros: so all that was there is given up first.
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
import time

from ._header import SLOTS, STDOUT, RingHeader, pack_switch, segment_of, switches_of
from ._spans import Spans

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

TEMPORARY_SUFFIX: Final = ".new"
"""Ends the name of a file that has not appeared yet; a writer that was killed may leave one behind."""

BEST_BYTES: Final = 128 * 1024
"""What ends at a multiple of it in the file is written fastest: what was written at once a file system keeps in memory
as one piece of many pages, and looks through all of a piece for each write into it."""

# A total that nobody has asked for is published after so many bytes, or a reader would be told old news for ever by a
# writer that is never idle.
_UNTOLD_BYTES: Final = 1024 * 1024


class RingWriter:
    """The one writer of one file.  Never raises for the disk's sake."""

    def __init__(
        self,
        path: str,
        limit: int,
        *,
        rotate: bool = True,
        split: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Touch nothing yet; `rotate` keeps the last `limit` bytes (and a segment), else the first are kept.

        `split`: there are two streams, and it is noted which bytes are whose.  `now`: the seconds since 1970.
        """
        self._path = path
        self._now = now
        self._spans = Spans()
        self._descriptor: int | None = None
        self._closed = False
        self._header = RingHeader(limit=limit, rotates=rotate, split=split)
        self._slot = 0
        self._data_at = self._header.data_at
        self._capacity = self._header.capacity
        self._segment = segment_of(limit)
        self._stream: int | None = None  # whose the last bytes are
        self._size = 0  # what the file has at least, as long as nobody cuts it
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

    @property
    def best_size(self) -> int:
        """How many bytes are best appended next, at once: `BEST_BYTES`, or what a multiple of it in the file leaves."""
        if self._header.sealed:  # what is dropped has no place; the last one's might be a byte away
            return BEST_BYTES
        return BEST_BYTES - (self._data_at + self._header.total % self._capacity) % BEST_BYTES

    def append(self, data: memoryview, stream: int = STDOUT) -> None:
        """Count `data`, and keep what the limit and the disk allow; readers see it once it is published."""
        header = self._header
        if header.sealed or self._closed:
            return
        total = header.total + len(data)
        if header.fault is None:
            if header.rotates:
                self._keep(data, stream)
            elif header.total < header.limit:
                self._keep(data[: header.limit - header.total], stream)
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

    def give_up(self, total: int) -> None:
        """Keep nothing more, for a fault that is not the disk's; there are `total` bytes by now."""
        self._fail(OSError(errno.EIO, os.strerror(errno.EIO)))
        self._header.total = total

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

    def _keep(self, data: memoryview, stream: int) -> None:
        """Write `data` at the total, which moves with it; less where the disk fails."""
        header, capacity = self._header, self._capacity
        if not data or not self._is_there():
            return
        try:
            descriptor = self._opened
            self._look_for_cut(descriptor)
            if not self._spans.start <= (now := self._now()) < self._spans.end:
                _write_all(descriptor, *self._spans.begin(now, header.total, header.base))
            if header.split and stream != self._stream:
                self._note_switch(stream)
            while data:
                at = header.total % capacity
                piece = data[: min(self._segment, capacity - at)]
                if header.total + len(piece) - capacity > header.base:
                    self._give_up_a_segment()
                written = os.pwrite(descriptor, piece, self._data_at + at)
                header.total += _more_than_nothing(written)
                if (end := self._data_at + at + written) > self._size:
                    self._size = end
                data = data[written:]
        except OSError as error:
            self._fail(error)

    def _give_up_a_segment(self) -> None:
        """Of what can be read the oldest, which will be overwritten; raises OSError, then it must not be."""
        self._header.base = self._header.total - self._header.limit
        self._put_header()

    def _look_for_cut(self, descriptor: int) -> None:
        """Give up all that there is where the file is shorter than it was; raises OSError."""
        if os.lseek(descriptor, 0, os.SEEK_END) >= self._size:  # cheaper than fstat; pwrite has places of its own
            return
        header = self._header
        self._size = 0
        header.base = header.end
        header.first_switch = header.switches
        self._stream = None
        self._spans.end = 0.0  # the next one is told at once, with those before it
        self._put_header()

    def _note_switch(self, stream: int) -> None:
        """From here on it is `stream`; raises OSError."""
        header = self._header
        room = switches_of(header.limit)
        if header.switches - header.first_switch == room:
            header.first_switch += -(-room // 8)
            self._put_header()
        _write_all(self._opened, pack_switch(header.total, stream), header.switch_at(header.switches))
        header.switches += 1
        self._stream = stream

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
            self._look_for_cut(self._opened)
            self._put_header()
        except OSError as error:
            self._fail(error)

    def _put_header(self) -> None:
        _write_all(self._opened, self._header.pack(), SLOTS[self._slot])
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
