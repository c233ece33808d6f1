"""A state directory of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_ground import Ground


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """The command line on a directory that nobody has used yet."""
    return Ground(tmp_path / "state")
