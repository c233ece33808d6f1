"""The control group of one job (cgroup v2): joining it, killing all of it, the proof, and its removal.

Theory of operation
- A job is a directory in a tree that was delegated to us and that we are inside (the host finds it, see
  `launch/_delegation.py`).  The forked child moves itself there before it executes the program, so everything that it
  ever starts is born there, whatever session or parent it takes.
- `cgroup.kill` ends all of it at once: forks that race with it are killed too, so nothing is scanned and nothing is
  sent twice.  Frozen processes and groups below die as well.
- `cgroup.events` says `populated 0` when no process is left, here or below.  A zombie does not count.

Rules
- What the end of a job needs is opened at its beginning: a stop must not fail because no descriptor is left.
- Look, then wait.  The kernel tells of changes of `cgroup.events` at most every 10 ms: of a job that ends sooner after
  joining it tells late.  So `populated()` is asked whenever there is reason to (a child was reaped), where it is nearly
  always 0 already, and `fileno()` is for what outlives that.
- `populated()` is False before anybody has joined, too.
- A process that may write to our tree (the same user, or root) can leave the group on purpose; a container engine or
  `systemd-run` does it for whom it starts.  Whoever claims proof asks for ECHILD as well.

Standard library only: this runs in the shim and in the zygote, too.
"""

from __future__ import annotations

import errno
import os

_EVENTS = "cgroup.events"
_KILL = "cgroup.kill"
_PROCS = "cgroup.procs"


class JobCgroup:
    """The control group of one job.

    `kill`, `populated` and `remove` need no `create` here: whoever sweeps after a dead shim names the directory only.
    """

    def __init__(self, path: str) -> None:
        """Name the directory; nothing is done yet."""
        self._path = path
        self._events: int | None = None
        self._kill: int | None = None

    def create(self) -> None:
        """Make the group, and open what its end will need.  Raises OSError and leaves nothing.

        ENOENT where the parent is gone or the kernel has no `cgroup.kill`; EAGAIN at the tree's limit of groups.
        """
        os.mkdir(self._path, 0o700)  # noqa: PTH102 -- pathlib costs start-up time
        try:
            self._kill = os.open(f"{self._path}/{_KILL}", os.O_WRONLY)
            self._events = os.open(f"{self._path}/{_EVENTS}", os.O_RDONLY)
            os.pread(self._events, 4096, 0)  # so that poll tells of changes from here on
        except BaseException:
            self.close()
            _rmdir(self._path)
            raise

    def join(self) -> None:
        """Move the calling process here; for the forked child, before it executes anything.  Raises OSError."""
        _write(f"{self._path}/{_PROCS}", b"0")

    def kill(self) -> None:
        """SIGKILL every process here and below, newcomers too.  Quiet where nothing is left; else raises OSError."""
        try:
            if self._kill is None:
                _write(f"{self._path}/{_KILL}", b"1")
            else:
                os.write(self._kill, b"1")
        except OSError as error:
            if not self._tells_gone(error):
                raise

    def fileno(self) -> int | None:
        """What polls POLLPRI when `populated` may have changed since it was last asked; None before `create`."""
        return self._events

    def populated(self) -> bool:
        """Whether any process is left here or below, asked anew.

        False is the kernel's word: none is left, or the group itself is gone.  True where it could not be asked.
        """
        try:
            events = self._events
            said = _read(f"{self._path}/{_EVENTS}") if events is None else os.pread(events, 4096, 0)
        except OSError as error:
            return not self._tells_gone(error)
        return b"populated 0" not in said.split(b"\n")

    def remove(self) -> bool:
        """Remove the group and what the job made below it; True when it is gone.

        False where a process is left in it, or where the system refuses; nothing is raised.
        """
        return remove_tree(self._path)

    def close(self) -> None:
        """Let go of the descriptors; the group stays as it is."""
        events, self._events = self._events, None
        kill, self._kill = self._kill, None
        for descriptor in (events, kill):
            if descriptor is not None:
                os.close(descriptor)

    def _tells_gone(self, error: OSError) -> bool:
        """Whether the group was removed: ENODEV by a file of it that is open, ENOENT by its path."""
        return error.errno == errno.ENODEV or (error.errno == errno.ENOENT and not os.path.lexists(self._path))


def remove_tree(path: str) -> bool:
    """Remove the group at `path` and all below it, as far as they are empty; True when it is gone, or never was.

    Nothing is killed and nothing is raised.  Only empty directories are ever removed, of whatever file system.
    """
    try:
        return _remove(path)
    except OSError:
        return False


def _remove(path: str) -> bool:
    """Deepest first, one descriptor at a time: the groups that a job makes may be deeper than paths are long."""
    if _rmdir(path):
        return True
    here = _enter(path, None)
    try:
        names: list[str] = []  # the way from `path` to here
        left = [_folders(here)]  # of each directory on that way, here last: what was not tried yet
        while True:
            if left[-1]:
                name = left[-1].pop()
                if _rmdir(name, here):
                    continue
                names.append(name)
                here = _move(here, name)
                left.append(_folders(here))
            elif names:
                here = _move(here, "..")
                left.pop()
                _rmdir(names.pop(), here)
            else:
                return _rmdir(path)
    finally:
        os.close(here)


def _rmdir(name: str, folder: int | None = None) -> bool:
    try:
        os.rmdir(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _move(here: int, name: str) -> int:
    there = _enter(name, here)
    os.close(here)
    return there


def _enter(name: str, folder: int | None) -> int:
    """Open a directory to remove what is in it, also one that the job has closed to its own user."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        there = os.open(name, flags, dir_fd=folder)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=folder)
        there = os.open(name, flags, dir_fd=folder)
    try:  # noqa: SIM105 -- contextlib costs start-up time
        os.fchmod(there, 0o700)
    except OSError:
        pass  # somebody else's; what is in it can perhaps be removed all the same
    return there


def _folders(here: int) -> list[str]:
    with os.scandir(here) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def _write(path: str, data: bytes) -> None:
    # Never creates: a path that is no control group's stays as it is.
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
