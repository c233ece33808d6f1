"""Hosts for the life after the fault, in which nothing fails."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from crash_hosts import Hosts, serving


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hosts]:
    with serving(tmp_path_factory.mktemp("hosts")) as hosts:
        yield hosts
