"""Where hostile hosts are penned in: what of their descendants is alive is asked of the kernel, never of our own code.

A host enters its pen before it starts anything, and whatever descends from it is in the pen, whatever it does to its
session, parents, descriptors or environment.

- `CgroupPen`: a control group of version 2.  Leaving it takes a write to another group's `cgroup.procs`; `cgroup.kill`
  is the end of all in it, forks included, and `populated 0` the kernel's own word that nobody is there.
- `UidPen`: where no control group can be made.  The host runs under a user id that nobody else has; leaving it takes a
  privilege.  It is scanned; that nobody is there is asked by the limit on a user's processes, which counts exactly.
- `NamespacePen`: of a host that makes a namespace of its own, where nothing better can be had.

Rules
- A zombie is not alive; but a process whose first thread has ended and whose others go on looks like one, and is.
- Who is listed and gone when looked at has perhaps left another one, so it is looked again.  A list can miss somebody
  fast; that a pen is empty is therefore asked of the kernel, which counts.
- Whoever opens a pen ends it: nothing of it is left, also of a host that fell to a bug.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import attrs
from strangers import of_uid

PROC = Path("/proc")

# Nothing takes so long once it was sent SIGKILL: it only ends a wait for what is stuck.
END_SECONDS = 90.0

# Who still comes and goes after so many looks comes and goes for ever.
LOOKS = 20

_PF_EXITING = 0x4

# As a user: SIGKILL to everybody whom it may signal, in one go, but for itself.
_KILL_ALL = "import os, sys; os.setresuid(*[int(sys.argv[1])] * 3); os.kill(-1, 9)"

# As a user who may have two processes: whether a second one can be made, and so whether there is no other.
_COUNT = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NPROC, (2, 2))
os.setresuid(*[int(sys.argv[1])] * 3)
try:
    pid = os.fork()
except BlockingIOError:
    os._exit(1)
if pid:
    os.waitpid(pid, 0)
os._exit(0)
"""


@attrs.frozen(kw_only=True)
class Seen:
    """A process as /proc shows it."""

    pid: int
    parent: int
    state: str
    name: str
    exiting: bool
    command: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.pid} (child of {self.parent}, {self.state}, {self.name}) {' '.join(self.command)[-120:]}"


def look(pid: int) -> Seen | None:
    """What `pid` is now; None where it has gone, or is a zombie through and through."""
    try:
        # In this order: whoever has no command line any more is seen to be on its way out.
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
        before, _, after = (PROC / str(pid) / "stat").read_text().rpartition(") ")
        facts = after.split()
    except OSError:
        return None
    state = facts[0]
    if state in "ZX" and not _threads_live(pid):
        return None
    return Seen(
        pid=pid,
        parent=int(facts[1]),
        state=state,
        name=before.partition("(")[2],
        exiting=bool(int(facts[6]) & _PF_EXITING),
        command=tuple(word.decode(errors="replace") for word in words[:-1]),
    )


def _threads_live(pid: int) -> bool:
    try:
        threads = [path.read_text() for path in (PROC / str(pid) / "task").glob("*/stat")]
    except OSError:
        return False
    return any(text.rpartition(") ")[2][0] not in "ZX" for text in threads)


class Pen(ABC):
    """See the module.  It can be told to another program as JSON (`facts`, `pen_of`)."""

    look_again_seconds: ClassVar[float] = 0.002

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Itself, for `pen_of`."""

    @abstractmethod
    def enter(self) -> None:
        """Put the calling process in; it comes out no more."""

    @abstractmethod
    def pids(self) -> set[int]:
        """Who is in it now."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether nobody is."""

    @abstractmethod
    def kill(self) -> None:
        """Send SIGKILL to everybody in it, and leave nobody out."""

    def members(self) -> list[Seen]:
        """Everybody in it who is alive."""
        seen: list[Seen] = []
        for _ in range(LOOKS):
            looked = [look(pid) for pid in sorted(self.pids())]
            seen = [each for each in looked if each is not None]
            if len(seen) == len(looked):
                return seen
        return [*seen, Seen(pid=0, parent=0, state="?", name="?", exiting=False, command=("too fast to be seen",))]

    def wait_empty(self, seconds: float) -> bool:
        """Until it is empty; False where it is not within `seconds`."""
        end = time.monotonic() + seconds
        while not self.is_empty():
            if time.monotonic() > end:
                return False
            time.sleep(self.look_again_seconds)
        return True

    def close(self) -> None:
        """End everybody, and take the pen away."""
        end = time.monotonic() + END_SECONDS
        self.kill()
        while not self.wait_empty(0.5):  # a fork that races with it may be missed, by the kernel of some versions too
            assert time.monotonic() < end, f"not to be ended: {[str(seen) for seen in self.members()]}"
            self.kill()


@attrs.frozen(kw_only=True)
class CgroupPen(Pen):
    """`path` is its control group; `limited` one of version 1 that counts processes, where there is one."""

    path: Path
    limited: Path | None = None

    def facts(self) -> dict[str, Any]:
        return {"path": str(self.path), "limited": None if self.limited is None else str(self.limited)}

    def enter(self) -> None:
        for group in (self.path, self.limited):
            if group is not None:
                (group / "cgroup.procs").write_text("0")

    def give_to(self, uid: int) -> None:
        """Delegate it, as a session manager does: `uid` may make groups in it, and move processes between them."""
        for path in (self.path, *(self.path / f"cgroup.{name}" for name in ("procs", "threads", "subtree_control"))):
            os.chown(path, uid, uid)

    def pids(self) -> set[int]:
        return {int(word) for group in _groups(self.path) for word in _words(group / "cgroup.procs")}

    def is_empty(self) -> bool:
        return "populated 0" in (self.path / "cgroup.events").read_text()

    def kill(self) -> None:
        (self.path / "cgroup.kill").write_text("1")
        # It signals threads, and so misses a process whose first thread has ended: that takes a signal by number.
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                try:
                    if pid in self.pids():
                        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                finally:
                    os.close(descriptor)

    def close(self) -> None:
        Pen.close(self)
        for group in reversed(list(_groups(self.path))):
            group.rmdir()
        if self.limited is not None:
            self.limited.rmdir()


@attrs.frozen(kw_only=True)
class UidPen(Pen):
    """Everything that runs as `uid`.  Entering is dropping to it, which whoever starts the host does."""

    uid: int
    look_again_seconds: ClassVar[float] = 0.05  # each look is a program

    def facts(self) -> dict[str, Any]:
        return {"uid": self.uid}

    def enter(self) -> None:
        pass

    def pids(self) -> set[int]:
        return {pid for pid in of_uid(self.uid) or of_uid(self.uid) if look(pid) is not None}

    def is_empty(self) -> bool:
        return self._run(_COUNT) == 0

    def kill(self) -> None:
        self._run(_KILL_ALL)

    def _run(self, code: str) -> int:
        return subprocess.run(
            [sys.executable, "-ISc", code, str(self.uid)], check=False, stderr=subprocess.DEVNULL
        ).returncode


@attrs.frozen(kw_only=True)
class NamespacePen(Pen):
    """Whoever is in a process namespace ends with its first process, which the host has made: so nobody is left."""

    def facts(self) -> dict[str, Any]:
        return {}

    def enter(self) -> None:
        pass

    def pids(self) -> set[int]:
        return set()

    def is_empty(self) -> bool:
        return True

    def kill(self) -> None:
        pass


def pen_of(facts: dict[str, Any]) -> Pen:
    """The pen that told `facts`."""
    if not facts:
        return NamespacePen()
    if "uid" in facts:
        return UidPen(**facts)
    limited = facts["limited"]
    return CgroupPen(path=Path(facts["path"]), limited=None if limited is None else Path(limited))


def cgroups_lack() -> str | None:
    """Why no pen can be made of control groups here; None where it can."""
    try:
        with cgroup_pen():
            return None
    except OSError as error:
        return f"a control group (version 2) cannot be made: {error.strerror}"


@contextmanager
def cgroup_pen(*, processes: int | None = None) -> Generator[CgroupPen]:
    """A pen; with `processes` no more than so many fit into it, where the machine has the controller for it."""
    parent = _own_group("")
    if parent is None:
        raise FileNotFoundError(2, "no control groups of version 2 are mounted")
    name = f"lastword-pen-{secrets.token_hex(6)}"
    limited = None
    if processes is not None and (counting := _own_group("pids")) is not None:
        limited = counting / name
        limited.mkdir()
        (limited / "pids.max").write_text(str(processes))
    pen = CgroupPen(path=parent / name, limited=limited)
    pen.path.mkdir()
    if not (pen.path / "cgroup.kill").exists():
        pen.path.rmdir()
        raise FileNotFoundError(2, "the kernel has no cgroup.kill (Linux 5.14)")
    try:
        (pen.path / "cgroup.procs").read_text()
        yield pen
    finally:
        pen.close()


@contextmanager
def uid_pen(uid: int) -> Generator[UidPen]:
    """A pen of everything that runs as `uid`, a fresh one."""
    pen = UidPen(uid=uid)
    try:
        yield pen
    finally:
        pen.close()


@functools.cache
def _own_group(controller: str) -> Path | None:
    """The folder of this process's own control group in the hierarchy of `controller` ("" is version 2)."""
    wanted = "cgroup2" if not controller else "cgroup"
    inside: dict[str, str] = {}
    for line in (PROC / "self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        inside[names] = path
    for line in (PROC / "self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, point = before.split()[3:5]
        if kind == wanted and (not controller or controller in options.split(",")):
            own = inside.get(controller)
            if own is not None and Path(own).is_relative_to(root):
                return Path(point) / Path(own).relative_to(root)
    return None


def _groups(group: Path) -> Iterator[Path]:
    """`group` and all below it, outermost first."""
    yield group
    with contextlib.suppress(FileNotFoundError):
        for below in sorted(group.iterdir()):
            if below.is_dir():
                yield from _groups(below)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # the group has gone meanwhile: it was empty
        return []
