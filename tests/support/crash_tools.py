"""What a test needs of the system, tried out; without it the test fails on a build server, and is skipped elsewhere.

A build server that silently lacks a tool would show green for what was never run.
"""

from __future__ import annotations

import functools
import os
import subprocess

import pytest


def need(tool: str, *trial: str) -> None:
    """Go on if the command `trial` works; else fail where CI=true, and skip elsewhere, saying what is missing."""
    without(tool, "a fault of the real disk", _lack(trial))


def without(tool: str, matter: str, lack: str | None) -> None:
    """Go on if there is no `lack`; else fail or skip, saying that `matter` was not tested."""
    if lack is None:
        return
    words = f"{tool} does not work here, so {matter} was NOT tested: {lack}"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(words)
    pytest.skip(words)


@functools.cache
def _lack(trial: tuple[str, ...]) -> str | None:
    try:
        done = subprocess.run(trial, capture_output=True, text=True, timeout=100, check=False)
    except OSError as error:
        return f"{trial[0]}: {error.strerror}"
    return None if done.returncode == 0 else (done.stderr.strip() or f"{trial[0]} exits with {done.returncode}")
