"""A state directory's journal, read without a trace; see `open_reader`.

It is closed before a record is given out: whoever shows it may wait for a reader of his own (`| less`), and the log of
who writes it would grow for as long as it is open here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...session.journal import Record

JOURNAL = "journal.db"

# Some megabytes: what is opened anew for each page is, of a backup, copied first.
_PAGE: Final = 4096


def journal_of(state: Path, after: int = 0) -> Iterator[Record]:
    """Every record of the directory's journal after that sequence; none where nothing has ever run."""
    yield from records_in(state / JOURNAL, after) if (state / JOURNAL).exists() else ()


def records_in(journal: Path, after: int = 0) -> Iterator[Record]:
    """Every record of that journal after that sequence, in order, up to the one that is the last now."""
    from ...session.journal import open_reader

    last: int | None = None
    while last is None or after < last:
        with open_reader(journal) as reader:
            last = reader.last_seq if last is None else last
            page = list(islice(reader.records(after), _PAGE))
        if not page:
            return
        yield from (record for record in page if record.seq <= last)
        after = page[-1].seq


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
