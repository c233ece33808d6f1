"""What every case relies on: a tier, temporary files of its own, processes with a mark, and Ctrl-C as in a terminal."""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
import supervising
from cases_ground import TIERS, end_marked

from lastword.supervisor import Containment
from lastword.supervisor.launch import launcher_of

_numbers = itertools.count()

_TYPED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


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


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    # So that what is left of them can be counted, whatever else runs on the machine.
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _signals_as_in_a_terminal() -> Generator[None]:
    # A shell starts background commands with some ignored, as does nohup, and jobs of the weakest tier inherit that.
    ignored = [number for number in _TYPED if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
