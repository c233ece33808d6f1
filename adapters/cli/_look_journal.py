"""A state directory's journal, read without a trace; see `open_reader`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...session.journal import Record

JOURNAL = "journal.db"


def journal_of(state: Path, after: int = 0) -> Iterator[Record]:
    """Every record of the directory's journal after that sequence; none where nothing has ever run."""
    yield from records_in(state / JOURNAL, after) if (state / JOURNAL).exists() else ()


def records_in(journal: Path, after: int = 0) -> Iterator[Record]:
    """Every record of that journal after that sequence, in order."""
    from ...session.journal import open_reader

    with open_reader(journal) as reader:
        yield from reader.records(after)


def last_sequence(state: Path) -> int:
    """The place of the directory's last record; 0 where there is none."""
    from ...session.journal import open_reader

    if not (state / JOURNAL).exists():
        return 0
    with open_reader(state / JOURNAL) as reader:
        return reader.last_seq


def journal_path(wanted: Path | None, state: Path) -> Path:
    """The journal's file: `wanted`, or the one in the folder that is meant."""
    if wanted is None:
        return state / JOURNAL
    return wanted / JOURNAL if wanted.is_dir() else wanted
