"""What a fork of the host must not hold: a job would never read the end of its input, a keeper never see that its host
has let go of it, and a terminal never be hung up, for as long as that fork lives.

- In the fork the descriptors are closed, and nothing else is done: the queue that they wait in is the host's, too.
- Programs that the host executes hold none of it: every descriptor here is closed by that.
"""

from __future__ import annotations

import contextlib
import os
from typing import Protocol
from weakref import WeakSet


class Holder(Protocol):
    """Who holds descriptors for a job, or for all."""

    def close_in_fork(self) -> None:
        """This process is a fork of the host: close them.  What raises OSError keeps only itself open."""
        ...


_holders: WeakSet[Holder] = WeakSet()


def close_in_forks(holder: Holder) -> None:
    """Have `holder` asked in every fork of this process, for as long as it lives."""
    _holders.add(holder)


def _close_in_fork() -> None:
    for holder in tuple(_holders):
        with contextlib.suppress(OSError):  # somebody has closed a descriptor of ours by its number
            holder.close_in_fork()
    _holders.clear()


os.register_at_fork(after_in_child=_close_in_fork)
