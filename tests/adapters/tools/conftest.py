"""What every test here relies on: temporary files of its own, and a host that does not ignore Ctrl-C."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    # So that what is left of them can be counted, whatever else runs on the machine.
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _signals_as_in_a_terminal() -> Generator[None]:
    # A shell starts background commands with SIGINT ignored, and jobs inherit that.
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
