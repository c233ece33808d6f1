"""Both backends pass the conformance suite; and what is particular to each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from journal_conformance import CHECKS, Check

from lastword.session.journal import Journal, MemoryJournal, MemoryLedger, SqliteJournal


def _memory(_: Path) -> Callable[[], Journal]:
    ledger = MemoryLedger()
    return lambda: MemoryJournal(ledger)


def _sqlite(folder: Path) -> Callable[[], Journal]:
    return lambda: SqliteJournal(folder / "state" / "journal.db")


BACKENDS = pytest.mark.parametrize("backend", [_memory, _sqlite])


@BACKENDS
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Check, backend: Callable[[Path], Callable[[], Journal]], tmp_path: Path) -> None:
    """The backend does what every journal must do."""
    check(backend(tmp_path))
