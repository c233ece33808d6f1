"""A ring on a disk that really fails, in a process of its own; each case ends with a check of all that can be read.

ring_disks.py full FOLDER      FOLDER is a file system of 2 MiB that nobody else uses
ring_disks.py limit FOLDER     this process may write no file beyond 1 MB
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from ring_ground import everything, written

from lastword.supervisor.output import SpoolState, read_header
from lastword.supervisor.shim._header import HEADER_BYTES
from lastword.supervisor.shim._ring import RingWriter

MIB = 1024 * 1024


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    if kind == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        fault = write(folder / "ring", 4 * MIB, 3 * MIB)
        assert fault == (1_000_000 - HEADER_BYTES, errno.EFBIG), fault
        return
    fault = write(folder / "in the middle", 4 * MIB, 3 * MIB)
    assert fault is not None, "the disk has room for all of it"
    assert fault[1] == errno.ENOSPC, fault
    assert 0 < fault[0] < 2 * MIB, fault
    # Not even a header: nothing appears, and nothing else is left.
    assert write(folder / "at its creation", 4 * MIB, 1_000, there=False) == (0, errno.ENOSPC)
    assert [file.name for file in folder.iterdir()] == ["in the middle"]
    (folder / "in the middle").unlink()
    # What a ring has once it keeps: it goes round although somebody else has taken the rest.
    assert write(folder / "round", MIB, 8 * MIB, at=2 * MIB, then=lambda: fill(folder)) is None


def write(
    path: Path,
    limit: int,
    total: int,
    *,
    at: int | None = None,
    then: Callable[[], None] = lambda: None,
    there: bool = True,
) -> tuple[int, int] | None:
    """Write `total` bytes (`then` is called after `at`), check what can be read, and return the fault."""
    writer = RingWriter(str(path), limit)
    while writer.total < total:
        writer.append(memoryview(written(writer.total, min(writer.total + 50_000, total))))
        if at is not None and writer.total >= at:
            at = None
            then()
    writer.note_exit(0, by_host_death=False)
    writer.seal(proven=True)
    writer.close()
    known = SpoolState.of(writer.header)
    chunks = everything(path, known, terminal=True)
    read = sum(len(chunk.data) for chunk in chunks)
    omitted = sum(
        chunk.start - cursor for cursor, chunk in zip([0, *(c.next_cursor for c in chunks)], chunks, strict=False)
    )
    assert (read + omitted, chunks[-1].next_cursor, known.total) == (total, total, total)
    assert read == known.end - known.base == min(limit, known.end)
    header = read_header(path)
    assert (header is not None) == there
    if header is not None:  # the header's room is there since its creation, so it says all this, too
        assert SpoolState.of(header) == known
        assert (header.sealed, header.status, header.proven) == (True, 0, True)
    return writer.fault


def fill(folder: Path) -> None:
    descriptor = os.open(folder / "others", os.O_WRONLY | os.O_CREAT)
    size = 65_536
    while size:
        try:
            os.write(descriptor, bytes(size))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            size //= 2


if __name__ == "__main__":
    main()
