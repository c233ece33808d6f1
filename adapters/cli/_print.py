"""Data on stdout: a table on a terminal, tab-separated lines elsewhere, or one JSON object a line."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click


def print_json(value: Any) -> None:
    """One object, one line."""
    click.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace"))


def print_rows(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table with headings on a terminal; else each row as a line, its cells with a tab between."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console(highlight=False, soft_wrap=False).print(build_table(headings, rows))
        return
    for row in rows:
        click.echo("\t".join(plain(cell) for cell in row))


def build_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Any:
    """A rich table; nothing in a cell is taken for markup, or obeyed by the terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    return table


def plain(cell: str) -> str:
    """The cell without anything that would end it, or that a terminal would obey."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in cell)


def note(text: str) -> None:
    """A line for people, on stderr; a stderr that nobody reads is no reason to stop."""
    with contextlib.suppress(OSError):
        click.echo(f"lastword: {text}", err=True)


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with stable keys.")
