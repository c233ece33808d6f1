"""The control group of one job (cgroup v2): joining it, killing all of it, the proof, and its removal.

Theory of operation
- A job is a directory in a tree that was delegated to us and that we are inside (the host finds it, see
  `launch/_delegation.py`).  The child that executes the program is born there, or moves itself there first where the
  kernel has no such birth; so everything that it ever starts is born there, whatever session or parent it takes.
- `cgroup.kill` ends all of it at once: forks that race with it are killed too.  Frozen processes and groups below die
  as well.
- But it signals first threads (seen on Linux 6.18), and so misses a process whose first thread has ended while others
  go on, which looks like a zombie.  Those are looked for and signalled by themselves, as processes.
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

import contextlib
import errno
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_EVENTS = "cgroup.events"
_KILL = "cgroup.kill"
_PROCS = "cgroup.procs"
_THREADS = "cgroup.threads"


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

    def fork(self) -> int | None:
        """As `os.fork`, with the child here from birth; None where the system has no such thing.

        For a process of one thread, whose child executes at once; see `_clone`.
        """
        from ._clone import fork_into  # the host has a use for control groups, but none for ctypes

        try:
            group = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return fork_into(group)
        finally:
            os.close(group)

    def join(self) -> None:
        """Move the calling process here; for the forked child, before it executes anything.  Raises OSError."""
        _write(f"{self._path}/{_PROCS}", b"0")

    def kill(self) -> None:
        """SIGKILL every process here and below, newcomers too.  Quiet where nothing is left; else raises OSError.

        It does not wait.  While `populated` stays True it is right to call it again, after some milliseconds: a
        process whose first thread ends at this very moment may be missed.
        """
        try:
            self._kill_all()
            if _kill_headless(self._path):
                self._kill_all()  # what those have started since
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

    def _kill_all(self) -> None:
        if self._kill is None:
            _write(f"{self._path}/{_KILL}", b"1")
        else:
            os.write(self._kill, b"1")

    def _tells_gone(self, error: OSError) -> bool:
        """Whether the group was removed: ENODEV by a file of it that is open, ENOENT by its path."""
        return error.errno == errno.ENODEV or (error.errno == errno.ENOENT and not os.path.lexists(self._path))


def remove_tree(path: str) -> bool:
    """Remove the group at `path` and all below it, as far as they are empty; True when it is gone, or never was.

    Nothing is killed and nothing is raised.  Only empty directories are ever removed, of whatever file system.
    """
    if _rmdir(path):
        return True
    try:
        for folder, name in _below(path):
            _rmdir(name, folder)
    except OSError:
        return False
    return _rmdir(path)


def _rmdir(name: str, folder: int | None = None) -> bool:
    try:
        os.rmdir(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _kill_headless(path: str) -> bool:
    """SIGKILL to every process, here and below, whose first thread has ended; whether there was one.

    Best effort: what cannot be looked at (no descriptor is left, say) is passed over.
    """
    found = _kill_headless_of(path)
    with contextlib.suppress(OSError):
        for folder, name in _below(path):
            found = _kill_headless_of(name, folder) or found
    return found


def _kill_headless_of(group: str, folder: int | None = None) -> bool:
    found = False
    try:
        # A first thread that has ended is listed as a process and not as a thread: two lists, whatever their length,
        # where asking each process would take as long as ending them.
        listed = _read(f"{group}/{_PROCS}", folder).split()
        suspects = set(listed).difference(_read(f"{group}/{_THREADS}", folder).split())
    except OSError:
        return False  # a threaded group lists no process; they are in the list of the one above
    for pid in suspects:
        try:
            # /proc/<pid>/stat: after the name, which may hold anything but ends with the last bracket, the state.
            if _read(f"/proc/{int(pid)}/stat").rpartition(b")")[2].split()[0] != b"Z":
                continue
            found = True
            process = os.pidfd_open(int(pid))
            try:
                # Still listed: then what the descriptor names is the one that is here.
                if pid in _read(f"{group}/{_PROCS}", folder).split():
                    signal.pidfd_send_signal(process, signal.SIGKILL)
            finally:
                os.close(process)
        except OSError:
            continue  # it is gone
    return found


def _below(path: str) -> Iterator[tuple[int, str]]:
    """Every directory below `path`, deepest first: its name, and a descriptor of the directory that it is in.

    One descriptor at a time: the groups that a job makes may be deeper than paths are long.  Raises OSError.
    """
    here = _enter(path)
    try:
        names: list[str] = []  # the way from `path` to here
        left = [_folders(here)]  # of each directory on that way, here last: what was not visited yet
        while left[-1] or names:
            if not left[-1]:
                left.pop()
                here = _move(here, "..")
                yield here, names.pop()
                continue
            name = left[-1].pop()
            try:
                here = _move(here, name)
            except OSError:
                yield here, name  # it is gone, or closed to us
            else:
                names.append(name)
                left.append(_folders(here))
    finally:
        os.close(here)


def _move(here: int, name: str) -> int:
    there = _enter(name, here)
    os.close(here)
    return there


def _enter(name: str, folder: int | None = None) -> int:
    """Open a directory to see what is in it and to remove that, also one that the job has closed to its own user."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        there = os.open(name, flags, dir_fd=folder)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=folder)
        there = os.open(name, flags, dir_fd=folder)
    with contextlib.suppress(OSError):  # somebody else's; what is in it can perhaps be removed all the same
        os.fchmod(there, 0o700)
    return there


def _folders(here: int) -> list[str]:
    try:
        with os.scandir(here) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # it is gone, or no descriptor is left


def _read(path: str, folder: int | None = None) -> bytes:
    descriptor = os.open(path, os.O_RDONLY, dir_fd=folder)
    try:
        said = b""
        while more := os.read(descriptor, 65536):
            said += more
        return said
    finally:
        os.close(descriptor)


def _write(path: str, data: bytes) -> None:
    # Never creates: a path that is no control group's stays as it is.
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
