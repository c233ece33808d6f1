"""What is reported where no keeper says it: by the ring file, or by nothing where that says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastword.supervisor.launch import ExitStatus
from lastword.supervisor.launch._reports import report_without, spool_without
from lastword.supervisor.output import SpoolState
from lastword.supervisor.shim._ring import RingWriter

TOLD = SpoolState(total=5)


@pytest.mark.parametrize("content", [None, b"", b"no ring", b"\xff" * 8192], ids=["none", "empty", "short", "damaged"])
def test_a_ring_that_says_nothing(content: bytes | None, tmp_path: Path) -> None:
    """What was told counts, and the job is lost: no error comes of it."""
    path = tmp_path / "ring"
    if content is not None:
        path.write_bytes(content)
    assert spool_without(path, TOLD) is TOLD
    report = report_without(path, TOLD, proven=True, lost=True)
    assert (report.status, report.lost, report.proven, report.spool) == (None, True, True, TOLD)


@pytest.mark.parametrize("by_host_death", [False, True])
def test_a_ring_whose_keeper_had_seen_the_end(by_host_death: bool, tmp_path: Path) -> None:
    """Truth before lost: how the leader ended by itself is told, and not how a dying host had it ended."""
    ring = RingWriter(str(tmp_path / "ring"), 65_536, rotate=True)
    ring.append(memoryview(b"some output"))
    ring.publish()
    ring.note_exit(3 << 8, by_host_death=by_host_death)
    ring.close()
    spool = spool_without(tmp_path / "ring", TOLD)
    assert spool.total == 11
    report = report_without(tmp_path / "ring", spool, proven=False, lost=True)
    assert report.status == (None if by_host_death else ExitStatus(exit_code=3, signal=None))
    assert report.lost is by_host_death
    assert report_without(tmp_path / "ring", spool, proven=False, lost=False).status is None
