"""What every case relies on: a tier, and processes with a mark."""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator
from pathlib import Path

import pytest
import supervising
from cases_ground import TIERS, end_marked

from lastword.supervisor import Containment
from lastword.supervisor.launch import launcher_of

_numbers = itertools.count()

# A runtime keeps its state in memory or in a directory; both are tried on both backends, not in every tier.
_STATES = {
    Containment.PROCESS_GROUP: ["headless"],
    Containment.SUBREAPER: ["directory"],
    Containment.CGROUP: ["headless", "directory"],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test by the ways of holding processes that it names, and with the kinds of state that it asks for."""
    tiers: tuple[Containment, ...] = getattr(metafunc.function, TIERS, ())
    if not tiers:
        return
    if "state" in metafunc.fixturenames:
        pairs = [(tier, state) for tier in tiers for state in _STATES[tier]]
        ids = [f"{tier.name.lower()}-{state}" for tier, state in pairs]
        metafunc.parametrize(("tier", "state"), pairs, indirect=True, ids=ids)
    else:
        metafunc.parametrize("tier", tiers, indirect=True, ids=[tier.name.lower() for tier in tiers])


@pytest.fixture
def tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Containment:
    """How supervisors and runtimes of the test hold their processes.  A machine that lacks it fails: no silent skip."""
    containment: Containment = request.param
    monkeypatch.setattr(supervising, "tier", containment)
    monkeypatch.setattr("lastword.supervisor._opening.strongest_launcher", launcher_of(containment))
    return containment


@pytest.fixture
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where a runtime keeps what is durable."""
    return None if request.param == "headless" else tmp_path / "state"


@pytest.fixture
def mark() -> Generator[str]:
    """Seconds to sleep that no other process on this machine sleeps; whoever is left with them fails the test."""
    seconds = f"301.{os.getpid():07}{next(_numbers):04}"
    yield seconds
    left = end_marked(seconds)
    assert left == set(), f"{len(left)} were left"


@pytest.fixture(autouse=True)
def _patience(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    # What ends a hang must not end the long counts.
    if request.node.get_closest_marker("prove"):
        monkeypatch.setattr(supervising, "HANG_SECONDS", 600.0)
