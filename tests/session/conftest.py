"""Every test of the session runs on both backends, with both writers."""

from __future__ import annotations

from pathlib import Path

import pytest
from session_ground import GROUNDS, Ground
from session_ground import ground as make_ground


@pytest.fixture(params=GROUNDS)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    """A journal that outlives its sessions."""
    return make_ground(request.param, tmp_path)
