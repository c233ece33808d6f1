"""Hosts that are forked on demand, two at a time."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from hostile_lives import Hosts, serving

# As many as the smallest machine has cores; hostile jobs wait for a good part of their time.
LANES = 3


@pytest.fixture(scope="package")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hosts]:
    with serving(tmp_path_factory.mktemp("hosts"), LANES) as hosts:
        yield hosts
