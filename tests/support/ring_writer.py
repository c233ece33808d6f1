"""Writes a ring in a process of its own, as a shim does: the folder of the code alone is on its path.

ring_writer.py SUPERVISOR_FOLDER PATH LIMIT TOTAL SEED BLOCK

BLOCK: two streams take turns as in `ring_ground.in_blocks`; 0: one stream.
"""

from __future__ import annotations

import random
import signal
import sys
from typing import TYPE_CHECKING


def _ignore(_: int, __: object) -> None:
    pass


def main() -> None:
    folder, path, limit, total, seed = sys.argv[1:6]
    block = int(sys.argv[6])
    sys.path.insert(0, folder)
    if TYPE_CHECKING:
        from lastword.supervisor.shim._ring import RingWriter
    else:
        from shim._ring import RingWriter

    pattern = memoryview(random.Random(4).randbytes(65_521) * 3)
    chance = random.Random(int(seed))
    signal.signal(signal.SIGALRM, _ignore)  # its calls are interrupted all the time
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    writer = RingWriter(path, int(limit), split=block > 0)
    while writer.total < int(total):
        at = writer.total % 65_521
        size = min(chance.choice((1, 7, 4_096, 65_536, 131_042)), int(total) - writer.total)
        stream = 0
        if block:
            stream = (writer.total // block % 5) & 1
            size = min(size, block - writer.total % block)
        writer.append(pattern[at : at + min(size, 196_563 - at)], stream)
        if chance.random() < 0.5:
            writer.publish()
    assert writer.fault is None
    writer.seal(proven=True)
    writer.close()
    signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    main()
