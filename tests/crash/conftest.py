"""Hosts that may be killed, and a folder in which their jobs may sleep."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from crash_hosts import Hosts, keeping_asleep, serving


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hosts]:
    with serving(tmp_path_factory.mktemp("hosts")) as hosts:
        yield hosts


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Path]:
    with keeping_asleep(tmp_path):
        yield tmp_path
