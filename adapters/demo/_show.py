"""How the demo looks: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from ...notifier import LifecycleKind
from .._ending import Ending
from ._ledger import Row

if TYPE_CHECKING:
    from rich.table import Table

# Four columns that fit into 80 characters; on the way to its last word a job has at most two other events.
_HEADINGS = ("job", "on its way", "last word", "told, acked")
_ON_ITS_WAY = {
    LifecycleKind.STARTED: "started",
    LifecycleKind.BACKGROUNDED: "background",
    LifecycleKind.STOP_REQUESTED: "stop asked",
}


class Show(Protocol):
    """Is told each thing once, as it comes; `seconds` count from the demo's start."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def event(self, seconds: float, row: Row, kind: LifecycleKind) -> None:
        """An event has come."""
        ...

    def notice(self, seconds: float, row: Row) -> None:
        """A notice has come, and its acknowledgement is durable."""
        ...

    def say(self, line: str) -> None:
        """Something about the demo itself."""
        ...


def last_word(row: Row) -> str:
    """The last word in words: `exited 3`, `exited by SIGKILL`, `timed out`, ..."""
    return "" if row.outcome is None else Ending.of_outcome(row.outcome).words


def _label(row: Row) -> str:
    # An event can come before `start` has returned the handle that tells which job it is of.
    return row.job.label if row.job is not None else "(starting)"


class PlainShow:
    """One line for each event and each notice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def event(self, seconds: float, row: Row, kind: LifecycleKind) -> None:
        """`  1.234  completed      4kDd9s  times out: timed out`"""
        word = "" if kind in _ON_ITS_WAY else f": {last_word(row)}"
        self.say(f"{seconds:7.3f}  {kind.name.lower():<15} {row.handle[:6]}  {_label(row)}{word}")

    def notice(self, seconds: float, row: Row) -> None:
        """`  1.240  told and acked  4kDd9s  times out`"""
        self.say(f"{seconds:7.3f}  {'told and acked':<15} {row.handle[:6]}  {_label(row)}")

    def say(self, line: str) -> None:
        """Print, at once."""
        print(line, flush=True)  # noqa: T201 -- this is what the demo is for


class TableShow:
    """One row for each job, filled in as events and notices come."""

    def __init__(self, rows: Mapping[str, Row]) -> None:
        from rich.live import Live

        self._rows = rows
        self._cells: dict[str, tuple[str, str, str]] = {}
        # Drawn when something has come, and never by a thread of its own.
        self._live = Live(self._table(), auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.update(self._table(), refresh=True)
        self._live.__exit__(kind, error, trace)

    def event(self, seconds: float, row: Row, kind: LifecycleKind) -> None:
        """Add it to what was on the way, or fill in the last word."""
        way, word, told = self._cells.get(row.handle, ("", "", ""))
        if kind in _ON_ITS_WAY:
            way = ", ".join(filter(None, (way, _ON_ITS_WAY[kind])))
        else:
            word = f"{last_word(row)}  {seconds:.2f}s"
        self._fill(row, (way, word, told))

    def notice(self, seconds: float, row: Row) -> None:
        """Fill in when it was acknowledged."""
        way, word, _ = self._cells.get(row.handle, ("", "", ""))
        self._fill(row, (way, word, f"{seconds:.2f}s"))

    def _fill(self, row: Row, cells: tuple[str, str, str]) -> None:
        self._cells[row.handle] = cells
        self._live.update(self._table(), refresh=True)

    def say(self, line: str) -> None:
        """Print: above the table while it is live, below it when it is done."""
        self._live.console.print(line, highlight=False)

    def _table(self) -> Table:
        from rich.table import Table

        table = Table(*_HEADINGS)
        for handle, cells in self._cells.items():
            table.add_row(_label(self._rows[handle]), *cells)
        return table


def choose_show(rows: Mapping[str, Row], *, plain: bool) -> Show:
    """A live table where standard output is a terminal and `plain` is not asked for."""
    if plain or not sys.stdout.isatty():
        return PlainShow()
    return TableShow(rows)
