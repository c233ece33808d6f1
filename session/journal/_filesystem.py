"""Where a journal cannot live: what is no file, and file systems over a network, which SQLite's log cannot trust.

A network is told where the system tells: Linux lists its mounts.  Elsewhere nothing is known, and nothing is refused.
"""

from __future__ import annotations

import stat
from pathlib import Path

# WAL needs memory shared by all openers, and POSIX locks that hold: see sqlite.org/wal.html ("does not work over a
# network filesystem").  FUSE names its kind after a dot; 9p is how virtual machines share their host's folders.
NETWORK = frozenset(
    {"9p", "afs", "ceph", "cifs", "coda", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "glusterfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "smb3", "smbfs"}
)

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def misplaced(path: Path) -> str | None:
    """What is wrong with something that is at `path` and is no file; None where a journal can be, or nothing is."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        return "its path names a folder; name a file in it"
    # A pipe would be waited for, for ever, by whoever opens it.
    return None if stat.S_ISREG(mode) else "its path names a device, a pipe or a socket; name a file"


def network_filesystem(folder: Path, mounts: Path = _MOUNTS) -> str | None:
    """The kind of network file system that `folder` is on; None where it is on none, or nothing can be told."""
    try:
        listed = mounts.read_text(errors="surrogateescape")
    except OSError:
        return None
    kind = filesystem_of(folder.resolve(), listed)
    return kind if kind in NETWORK else None


def filesystem_of(folder: Path, listed: str) -> str | None:
    """The kind of the file system that holds `folder`, by the text of a mountinfo file; the last mount wins."""
    found: tuple[int, str] | None = None
    for line in listed.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = fields[4]
        for escaped, plain in _ESCAPED.items():
            point = point.replace(escaped, plain)
        parts = Path(point).parts
        if folder.parts[: len(parts)] == parts and (found is None or len(parts) >= found[0]):
            found = (len(parts), after.split(" ")[0])
    return None if found is None else found[1]
