"""The real disk fails under the journal and the store: every error is typed, and every last word still comes home.

- A limit on this very process refuses every write (EFBIG): no privilege, no tool.
- A small file system in memory is filled (ENOSPC): takes a mount, in a namespace of the host's own, so nothing is left.
- The system calls on one file are made to fail (EIO, ENOSPC, of a write or of a sync): takes strace.

Afterwards a witness reads what is on disk: the journal is sound, nothing that was acknowledged is told again or
missing, and nothing that had happened is untold.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from crash_host import Plan
from crash_hosts import SUPPORT, Hosts, support_environment
from crash_sizes import FULL_TIMEOUT_SECONDS, report
from crash_tools import need
from crash_witness import Figures, Witness

BACKENDS = ("asyncio", "trio")
TYPED = {"JournalUnavailableError", "SpawnFailedError", "QuotaExceededError", "SupervisorError"}
HOST = (sys.executable, str(SUPPORT / "crash_fault_host.py"))


def _live(*command: str) -> None:
    """One life of a host; it ends by itself, and well."""
    done = subprocess.run(command, env=support_environment(), capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr


def _come_home(folder: Path, hosts: Hosts) -> tuple[list[dict[str, Any]], Figures]:
    """What was refused; after the next opening, which has no fault, nothing is missing."""
    witness = Witness(folder)
    refused = witness.said("refused")
    assert {line["error"] for line in refused} <= TYPED
    assert not any(str(folder) in line["words"] for line in refused)
    hosts.finished(Plan(folder=str(folder), backend="asyncio", part="drain"))
    return refused, witness.judge()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_disk_that_takes_nothing_is_told_and_outlasted(backend: str, hosts: Hosts, tmp_path: Path) -> None:
    """Every write fails for a while, with a job running and a notice in hand; then all is stored, told and settled."""
    _live(*HOST, "limit", str(tmp_path), backend)
    _check_outage(tmp_path, hosts, "the disk failed to")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_full_disk_is_told_and_outlasted(backend: str, hosts: Hosts, tmp_path: Path) -> None:
    """Some other program fills the file system and takes what becomes free; then it is gone, and all comes home."""
    apart = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--mount")
    need("a mount of one's own (unshare)", *apart, "mount", "-t", "tmpfs", "none", "/mnt")
    small = tmp_path / "small"
    small.mkdir()
    mount = 'mount -t tmpfs -o size=2m none "$0" && exec "$@"'
    _live(*apart, "sh", "-c", mount, str(small), *HOST, "full", str(tmp_path), backend)
    # SQLite tells a full disk as a failed write where it meets it while opening.
    _check_outage(tmp_path, hosts, "the disk is full", "the disk failed to")


def _check_outage(folder: Path, hosts: Hosts, *words: str) -> None:
    refused, figures = _come_home(folder, hosts)
    assert {line["error"] for line in refused} == {"JournalUnavailableError", "SpawnFailedError"}
    for line in refused:
        if line["error"] == "JournalUnavailableError":
            assert any(word in line["words"] for word in words), line
    assert figures.lost == 0
    assert figures.told_again == 0


@attrs.frozen(kw_only=True)
class Injection:
    """System calls on one file that fail: which, how, and from which one on (counted in the thread that writes it)."""

    file: str
    call: str
    error: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.file} {self.call} {self.error} {self.first}-{self.last}"


FILES = ("journal.db-wal", "supervisor.db-wal")
KINDS = (("fdatasync", "EIO"), ("pwrite64", "EIO"), ("pwrite64", "ENOSPC"))

# One failure alone (the retry works), more than a retry gets over, and a disk that is away for a while.  The journal's
# first two dozen writes are its opening.
FEW = (
    Injection(file="journal.db-wal", call="fdatasync", error="EIO", first=7, last=10),
    Injection(file="journal.db-wal", call="pwrite64", error="EIO", first=30, last=42),
    Injection(file="journal.db-wal", call="pwrite64", error="ENOSPC", first=31, last=31),
    Injection(file="supervisor.db-wal", call="fdatasync", error="EIO", first=6, last=9),
    Injection(file="supervisor.db-wal", call="pwrite64", error="EIO", first=14, last=22),
    Injection(file="supervisor.db-wal", call="pwrite64", error="ENOSPC", first=9, last=9),
)
MANY = tuple(
    Injection(file=file, call=call, error=error, first=first, last=first + further)
    for file in FILES
    for call, error in KINDS
    for first in (1, 3, 7, 12, 30)
    for further in (0, 1, 8)
)


@pytest.mark.parametrize("injection", FEW, ids=str)
def test_a_call_that_fails_is_told_and_outlasted(injection: Injection, hosts: Hosts, tmp_path: Path) -> None:
    """A write or sync of the journal's or the store's log fails, once or for a while."""
    _need_strace()
    failed, _ = _inject(injection, BACKENDS[injection.first % 2], hosts, tmp_path)
    assert failed, "no call was made to fail"


@pytest.mark.parametrize("last", [6, 7, 8])
@pytest.mark.parametrize("file", FILES)
def test_nothing_is_built_on_what_a_failed_sync_has_left(file: str, last: int, hosts: Hosts, tmp_path: Path) -> None:
    """After a failed sync the log begins anew: its old pages may be absent from the disk, and no later sync helps.

    A commit that was appended behind them would be durable in name only: a power cut takes the log from there on.
    """
    _need_strace()
    failed, _ = _inject(
        Injection(file=file, call="fdatasync", error="EIO", first=6, last=last), "asyncio", hosts, tmp_path, "pwrite64"
    )
    assert failed
    _, _, after = (tmp_path / "trace").read_text().rpartition("(INJECTED)")
    # A line of a thread that strace left for another's has no result, and its rest has no offset.
    begun = re.finditer(r", (\d+)(?:\) += \d+| <unfinished \.\.\.>)$", after, re.MULTILINE)
    offsets = [int(written[1]) for written in begun]
    assert offsets[0] == 0


@pytest.mark.prove
@pytest.mark.timeout(FULL_TIMEOUT_SECONDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_any_call_may_fail(backend: str, hosts: Hosts, tmp_path: Path) -> None:
    """The same for calls early and late, alone and in rows."""
    _need_strace()
    failed = refused = 0
    for number, injection in enumerate(MANY):
        folder = tmp_path / str(number)
        folder.mkdir()
        calls, words = _inject(injection, backend, hosts, folder)
        failed += calls
        refused += len(words)
    report(f"injected into the log's calls on {backend}: {len(MANY)} lives, {failed} calls failed, {refused} refusals")
    assert failed >= len(MANY)


def _need_strace() -> None:
    need("strace", "strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=fdatasync:error=EIO", "true")


def _inject(
    injection: Injection, backend: str, hosts: Hosts, folder: Path, *also: str
) -> tuple[int, list[dict[str, Any]]]:
    """One life with that fault; how many calls failed by it, and what the host was told; `also` are traced, too."""
    trace = folder / "trace"
    when = f"inject={injection.call}:error={injection.error}:when={injection.first}..{injection.last}"
    watched = (
        "-e",
        f"trace={','.join((injection.call, *also))}",
        "-e",
        when,
        "-P",
        str(folder / "state" / injection.file),
    )
    _live("strace", "-f", "-qq", "--seccomp-bpf", "-o", str(trace), *watched, *HOST, "endure", str(folder), backend)
    refused, _ = _come_home(folder, hosts)
    return trace.read_text().count("(INJECTED)"), refused
