"""What cannot be ended is said so: a job of an ordinary user has a process of root's, as `sudo` makes them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from crash_tools import without
from hostile_lives import Hosts, Life
from hostile_pens import cgroups_lack
from hostile_tiers import CONTAINED

from lastword.supervisor import Containment


@pytest.fixture
def setpriv() -> Generator[Path]:
    """A program that makes root of everybody, in a folder of its own for the time of a test."""
    lack = "this is another user" if os.geteuid() else cgroups_lack()
    found = shutil.which("setpriv")
    without("root with a control group, and setpriv", "a job with a process of root's", lack if found else "no setpriv")
    assert found is not None
    folder = Path(tempfile.mkdtemp(prefix="hostile-setpriv-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        program = Path(shutil.copy(found, folder))
        program.chmod(0o4755)
        yield program
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("tier", CONTAINED, ids=lambda tier: tier.name)
def test_a_process_of_roots_is_ended_or_told_of(hosts: Hosts, setpriv: Path, tier: Containment) -> None:
    """A control group's kill asks for no permission; who has only signals says that they were refused, and claims
    nothing."""
    for told in hosts.live(
        Life(
            program="hostile_host:play_promoted",
            tier=tier.name,
            backend=backend,
            ordinary=True,
            empty_seconds=0.0,
            script={"job": ["promoted", str(setpriv)]},
        )
        for backend in ("asyncio", "trio")
    ):
        told.check(0)
        (stopped,) = told.said("stopped")
        (closed,) = told.said("closed")
        if tier is Containment.CGROUP:
            assert (stopped["state"], stopped["proven"], stopped["left"]) == ("TERMINATED", True, []), stopped
            assert told.left == []
        else:
            assert stopped["error"] == "teardown_failed", stopped
            assert (stopped["state"], closed["state"], closed["proven"]) == ("RUNNING", "FAILED", False), closed
            assert closed["diagnostic"].startswith("teardown_failed:EPERM"), closed
            assert len(stopped["left"]) == 1, stopped
