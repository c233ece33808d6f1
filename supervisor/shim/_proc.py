"""What /proc tells of other processes.  Every answer may be old by the time it is read; whoever acts checks again."""

from __future__ import annotations

import contextlib
import errno
import os

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Stat:
    """A line of /proc/<pid>/stat."""

    __slots__ = ("group", "parent", "state")

    def __init__(self, state: str, parent: int, group: int) -> None:
        self.state = state
        self.parent = parent
        self.group = group

    @property
    def live(self) -> bool:
        """Whether it has not ended (a zombie has)."""
        return self.state not in "ZX"


def stat_of(pid: int) -> Stat | None:
    """State, parent and group of `pid`; None where there is no such process."""
    data = _read(f"/proc/{pid}/stat")
    if not data:
        return None
    # The name comes second, in parentheses, and may hold anything: what counts begins after the last one.
    state, parent, group = data[data.rindex(b")") + 2 :].split(maxsplit=3)[:3]
    return Stat(state.decode(), int(parent), int(group))


def name_of(pid: int) -> bytes:
    """What `pid` calls itself, as /proc/<pid>/stat has it; b"" where there is no such process."""
    data = _read(f"/proc/{pid}/stat")
    return data[data.find(b"(") + 1 : data.rfind(b")")]


def handles(pid: int, number: int) -> bool:
    """Whether `pid` could live through the signal: it catches or ignores it.  True where that cannot be told."""
    data = _read(f"/proc/{pid}/status")
    masks = [int(line[7:], 16) for line in data.splitlines() if line.startswith((b"SigIgn:", b"SigCgt:"))]
    return not masks or any(mask >> (number - 1) & 1 for mask in masks)


def umask_of_self() -> int:
    """This process's umask.  The system call can only tell it by changing it, for all threads.

    Raises OSError where it cannot be looked up: a guess could open somebody's files to all.
    """
    for line in _contents("/proc/self/status").splitlines():
        if line.startswith(b"Umask:"):
            return int(line[6:], 8)
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))  # before Linux 4.7


def placement_of_self() -> tuple[bytes, bytes]:
    """This process's control groups, and how ready the system is to end it when memory is short; b"" where unknown."""
    return _read("/proc/self/cgroup"), _read("/proc/self/oom_score_adj")


def children_finder() -> Callable[[int], list[int]]:
    """A function that lists a process's children, by what this kernel has; good for one scan."""
    pid = os.getpid()
    if os.access(f"/proc/{pid}/task/{pid}/children", os.R_OK):
        return _listed_children
    parents: dict[int, list[int]] = {}
    for entry in _numbers("/proc"):
        found = stat_of(entry)
        if found is not None:
            parents.setdefault(found.parent, []).append(entry)
    return lambda parent: parents.get(parent, [])


def own_children() -> list[int]:
    """This process's children, zombies too.  Raises OSError where they cannot be listed: then nobody knows."""
    own = os.getpid()
    try:
        threads = os.listdir(f"/proc/{own}/task")  # noqa: PTH208 -- no pathlib here
        return [int(pid) for thread in threads for pid in _contents(f"/proc/{own}/task/{thread}/children").split()]
    except FileNotFoundError:
        pass  # this kernel has no such lists
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 -- no pathlib here
    return [pid for pid in pids if _parent_of(pid) == own]


def _parent_of(pid: int) -> int | None:
    try:
        data = _contents(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None  # it is gone
    return int(data[data.rindex(b")") + 2 :].split(maxsplit=2)[1])


def _listed_children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in _numbers(f"/proc/{pid}/task"):  # a child belongs to the thread that has forked it
        found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def _numbers(folder: str) -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from (int(name) for name in os.listdir(folder) if name.isdigit())  # noqa: PTH208 -- no pathlib here


def _read(path: str) -> bytes:
    """All of a file of /proc, b"" where it is not there (any more), or cannot be read."""
    try:
        return _contents(path)
    except OSError:
        return b""


def _contents(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces: list[bytes] = []
        while piece := os.read(descriptor, 1 << 16):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)
