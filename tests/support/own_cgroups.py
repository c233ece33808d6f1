"""Real control groups for tests, made below the group that the tests run in, and programs that run inside them.

What is made here is found and removed without the library's own code, which is what is being tested.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from crash_tools import without
from strangers import STRANGER

_ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


def need_root(matter: str) -> None:
    """Go on as root; else fail where CI=true, and skip elsewhere."""
    without("root", matter, None if os.geteuid() == 0 else "the tests run as somebody else")


@contextmanager
def own_cgroup() -> Generator[Path]:
    """A fresh group below that of the tests; whatever is in it at the end is killed and removed."""
    path = _parent() / f"lastword-test-{secrets.token_hex(6)}"
    try:
        path.mkdir()
    except OSError as error:
        without("a control group", "how jobs are held in one", f"{error.strerror}; run in a delegated one, or as root")
    try:
        yield path
    finally:
        _clear(path)


def pids(group: Path) -> set[int]:
    """Who is in the group itself."""
    try:
        return {int(word) for word in (group / "cgroup.procs").read_text().split()}
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return set()  # a threaded group: its processes are listed in the one above


def run_inside(group: Path, program: str, *arguments: str, via: tuple[str, ...] = ()) -> str:
    """What the Python `program` prints, run inside `group` and started by the command `via`."""
    done = subprocess.run(
        ["sh", "-c", _ENTER, str(group), *via, sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def give(group: Path, *, files: tuple[str, ...] = ("cgroup.procs", "cgroup.threads", "cgroup.subtree_control")) -> None:
    """Delegate the group to the stranger, as a session manager does."""
    for path in (group, *(group / name for name in files)):
        os.chown(path, STRANGER, STRANGER)


def _parent() -> Path:
    own = next((line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line[:3] == "0::"), None)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, point = before.split()[3:5]
        if own is not None and after.startswith("cgroup2 ") and Path(own).is_relative_to(root):
            return Path(point) / Path(own).relative_to(root)
    return Path("/no/control/groups/are/mounted")


def _clear(path: Path) -> None:
    end = time.monotonic() + 60
    events = os.open(path / "cgroup.events", os.O_RDONLY)
    try:
        changes = select.poll()
        changes.register(events, select.POLLPRI)
        while "populated 0" not in os.pread(events, 4096, 0).decode():
            for group in _deepest_first(path):
                with contextlib.suppress(OSError):  # a group may go, with whoever has made it
                    for pid in pids(group):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
            # Who was forked meanwhile is in no list, and nothing changes then: it is looked again.
            assert changes.poll(1_000) or time.monotonic() < end, "a test left something that cannot be killed"
    finally:
        os.close(events)
    for group in _deepest_first(path):
        with contextlib.suppress(FileNotFoundError):
            group.rmdir()


def _deepest_first(path: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError):
        for below in path.iterdir():
            if below.is_dir():
                yield from _deepest_first(below)
    yield path
