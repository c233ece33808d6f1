"""What every test here relies on: a tier, a gate, and where shims can be held.

Modules that say `pytestmark = pytest.mark.usefixtures("each_tier")` run once for each way of holding processes, and
with "each_contained_tier" once for each that has shims.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import supervising
from shim_ground import Stations

from lastword.supervisor import Containment

_PROVED = {(Containment.SUBREAPER, "trio"), (Containment.CGROUP, "asyncio")}


@pytest.fixture(params=list(Containment), ids=lambda containment: containment.name.lower())
def each_tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Containment:
    """How the supervisors of the test hold their processes.  A machine that lacks a tier fails: nothing is skipped."""
    containment: Containment = request.param
    monkeypatch.setattr(supervising, "tier", containment)
    return containment


@pytest.fixture(params=[Containment.SUBREAPER, Containment.CGROUP], ids=lambda containment: containment.name.lower())
def each_contained_tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Containment:
    """As `each_tier`, for the tiers whose processes are kept by shims."""
    containment: Containment = request.param
    monkeypatch.setattr(supervising, "tier", containment)
    return containment


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A FIFO, for a process that must wait until the test opens the other end."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


@pytest.fixture
def stations(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Stations:
    """Where zygotes and shims can be held."""
    return Stations(tmp_path_factory.mktemp("stations"), monkeypatch)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the tiers with shims, each runs on one of the two event loops under `make test`, and on the other under
    `make prove`; a module's `PROVED_BACKEND` runs there, too.  Where every tier runs, only the strongest does that:
    it differs from the one below it in how a tree is killed, which tests/cases and tests/hostile ask on both."""
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            given = item.callspec.params
            backend = given.get("anyio_backend")
            loop = "trio" if backend == "trio" else "asyncio"
            combined = (given.get("each_contained_tier"), loop) in _PROVED or (
                given.get("each_tier"),
                loop,
            ) == (Containment.CGROUP, "asyncio")
            if combined or (backend and backend == getattr(item.module, "PROVED_BACKEND", None)):
                item.add_marker(pytest.mark.prove)
