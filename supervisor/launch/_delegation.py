"""Whether control groups for jobs can be made here, and where.

Theory of operation
- `/proc/self/cgroup` names our own group in the v2 hierarchy (the line `0::`), `/proc/self/mountinfo` where that
  hierarchy is mounted: alone, or beside v1 ("hybrid").  Both count from the root of our cgroup namespace, so a mount
  shows our group only if its root is a prefix of our path.
- Jobs get groups below our own: moving a process needs the right to write `cgroup.procs` of the common ancestor of
  where it is and where it goes, and that is our own group.  So that file is opened for writing, here and in a group
  made for the probe: the answer of every rule (ownership, read-only mounts, security modules) short of moving anybody.
- Root may write everywhere, which says nothing about what is ours: where systemd runs the machine, only what it has
  marked as delegated is (its rule of a single writer).

The probe's group exists for less than a millisecond; no process is started or moved.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

import attrs

from .._errno import errno_name
from ._lack import Lack, LackCode

# What systemd sets on the group of a unit with Delegate=: the first for everybody to read, the second for root.
_MARKS: Final = ("user.delegate", "trusted.delegate")

# sd_booted(3): there if, and only if, systemd is the system's manager.
_SYSTEMD: Final = Path("/run/systemd/system")

# proc(5): space, tab, newline and backslash are written so in mountinfo.
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")

# The kernel's word for a group that was removed while we are in it.
_DELETED: Final = " (deleted)"


@final
@attrs.frozen
class Delegation:
    """The directory, our own group's, in which a supervisor may make a group of its own with those of its jobs."""

    path: str = attrs.field(repr=False)


@final
@attrs.frozen
class Mount:
    """A mount of the v2 hierarchy: which part of it (counted from our cgroup namespace's root), where, by what id."""

    root: str
    point: str
    device: int


def find_delegation() -> Delegation | Lack:
    """Where groups for jobs can be made, tried out; or why not.  Raises nothing."""
    if sys.platform != "linux":
        return Lack(LackCode.NOT_LINUX, "control groups are a part of Linux")
    try:
        mounts = cgroup2_mounts(_text("/proc/self/mountinfo"))
        own = own_cgroup(_text("/proc/self/cgroup"))
    except OSError:
        return Lack(LackCode.NO_PROC, "/proc cannot be read, so it is unknown which control group this process is in")
    if not mounts or own is None:
        return Lack(
            LackCode.NO_CGROUP2, "the second version of control groups is not mounted here; containers often have none"
        )
    directory = _own_directory(own, mounts)
    if directory is None:
        return Lack(
            LackCode.CGROUP_NOT_VISIBLE,
            "the control group of this process does not show in the mounted hierarchy; mount it in the same namespace",
        )
    if os.geteuid() == 0 and _runs_systemd() and not _is_marked(directory, mounts):
        return Lack(
            LackCode.CGROUP_MANAGED,
            "systemd manages the control groups here and has not delegated this one; run as a unit with Delegate=yes",
        )
    try:
        return _try_out(directory) or Delegation(str(directory))
    except OSError as error:
        return _lack_of(error)


def cgroup2_mounts(mountinfo: str) -> list[Mount]:
    """The mounts of the v2 hierarchy in the text of a `mountinfo` file, in its order.  Pure."""
    return [mount for line in mountinfo.split("\n") if (mount := _mount(line)) is not None]


def own_cgroup(cgroup: str) -> str | None:
    """The path of the v2 group in the text of a `cgroup` file; None where there is none, or it was removed.  Pure."""
    for line in cgroup.split("\n"):
        if line.startswith("0::/"):
            return None if line.endswith(_DELETED) else line[3:]
    return None


def directory_of(own: str, mount: Mount) -> Path | None:
    """Where `mount` shows the group `own`; None where it does not, or where our namespace ends below it.  Pure."""
    here, root = _parts(own), _parts(mount.root)
    if ".." in here or here[: len(root)] != root:
        return None
    return Path(mount.point, *here[len(root) :])


def _mount(line: str) -> Mount | None:
    # 41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
    fields, _, filesystem = line.partition(" - ")
    words = fields.split(" ")
    major, _, minor = words[2].partition(":") if len(words) > 5 else ("", "", "")
    if not filesystem.startswith("cgroup2 ") or not (major.isdecimal() and minor.isdecimal()):
        return None
    return Mount(root=_unescaped(words[3]), point=_unescaped(words[4]), device=os.makedev(int(major), int(minor)))


def _unescaped(word: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), word)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _text(path: str) -> str:
    # Bytes that are no text stay what they are: they name directories.
    return Path(path).read_text(encoding="utf-8", errors="surrogateescape")


def _own_directory(own: str, mounts: list[Mount]) -> Path | None:
    # The last mount lies on top of the others.  One that something else lies upon is told by its device.
    for mount in reversed(mounts):
        directory = directory_of(own, mount)
        if directory is None:
            continue
        with contextlib.suppress(OSError, ValueError):
            if directory.stat().st_dev == mount.device:
                return directory
    return None


def _runs_systemd() -> bool:
    try:
        return _SYSTEMD.is_dir()
    except OSError:
        return True  # unknown, so nothing is taken


def _is_marked(directory: Path, mounts: list[Mount]) -> bool:
    """Whether systemd has delegated the group, or one above it: delegation is of all that is below."""
    points = {mount.point for mount in mounts}
    for folder in _up_to(directory, points):
        for mark in _MARKS:
            with contextlib.suppress(OSError):
                if os.getxattr(folder, mark) == b"1":
                    return True
    return False


def _up_to(directory: Path, points: set[str]) -> Iterator[Path]:
    for folder in (directory, *directory.parents):
        yield folder
        if str(folder) in points:
            return


def _try_out(directory: Path) -> Lack | None:
    """What stands against jobs below `directory`, found by doing all but moving a process; raises OSError."""
    _open_for_writing(directory / "cgroup.procs")
    probe = directory / f"lastword-probe-{secrets.token_hex(8)}"
    probe.mkdir(mode=0o700)
    try:
        _open_for_writing(probe / "cgroup.procs")
        if not (probe / "cgroup.kill").exists():
            return Lack(LackCode.NO_CGROUP_KILL, "this kernel cannot kill a control group as one (Linux 5.14 can)")
        if (probe / "cgroup.type").read_text().strip() != "domain":
            return Lack(
                LackCode.CGROUP_THREADED,
                "the control group of this process is a threaded one, and no process can be moved below such a one; "
                "run it in another group",
            )
        return None
    finally:
        probe.rmdir()


def _open_for_writing(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY))


def _lack_of(error: OSError) -> Lack:
    if error.errno in (errno.EACCES, errno.EPERM):
        return Lack(
            LackCode.CGROUP_NOT_DELEGATED,
            "the control group of this process is not delegated to its user; run it as a unit with Delegate=yes, "
            "by `systemd-run --user --scope -p Delegate=yes`, or give the group's directory to the user",
        )
    if error.errno == errno.EROFS:
        return Lack(
            LackCode.CGROUP_READ_ONLY, "control groups are mounted read-only here, as containers have them by default"
        )
    if error.errno == errno.EAGAIN:
        return Lack(LackCode.CGROUP_LIMIT, "the limit of control groups below this one is reached")
    return Lack(
        LackCode.CGROUP_REFUSED,
        f"the system refused to make a control group below this one ({errno_name(error.errno)})",
    )
