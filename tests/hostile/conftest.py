"""Hosts that are forked on demand, and their lives, which are lived side by side: most of their time is waiting.

A test says by its parameter `lives` what is to be lived, and gets by `told` what came of it.  The lives of a module's
selected tests begin together, as many at a time as there are lanes, in the tests' order.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from concurrent.futures import Future
from typing import cast

import pytest
from hostile_lives import Hosts, Life, Told, serving

# Two for each core: a life waits for more than half of its time.
LANES = min(2 * (os.cpu_count() or 1), 8)

Lived = dict[tuple[Life, ...], list[Future[Told]]]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hosts]:
    with serving(tmp_path_factory.mktemp("hosts"), LANES) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def lived(request: pytest.FixtureRequest, hosts: Hosts) -> dict[str, list[Future[Told]]]:
    """Of each test, by its name."""
    return {
        item.nodeid: [hosts.begin(life) for life in cast("list[Life]", item.callspec.params["lives"])]
        for item in request.session.items
        if item.path == request.path  # only this module's: their hosts end with it
        and isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and "lives" in item.callspec.params
    }


@pytest.fixture
def told(request: pytest.FixtureRequest, lived: dict[str, list[Future[Told]]]) -> list[Told]:
    """What came of the test's `lives`, in their order."""
    return [future.result() for future in lived[request.node.nodeid]]
