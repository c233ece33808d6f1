"""Run by `make bridges`, each file in the environment of its SDK; pytest does not collect `check_*.py` by itself."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    # The SDKs run on asyncio alone, but for Anthropic's, whose file says so.
    return "asyncio"
