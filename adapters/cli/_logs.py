"""`lastword logs`: what a job has written."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from ._completion import complete_job
from ._durations import moment_of
from ._errors import CommandFailedError
from ._print import json_option, note, print_json
from ._state import state_option

if TYPE_CHECKING:
    from ...supervisor import ProcessView, TextRenderer

READ_BYTES = 256 * 1024

# A line is looked for backward in pieces of this size.
_BACK_BYTES = 64 * 1024


class Chunk(Protocol):
    """A piece of output: that of the supervisor, or one that came over a socket."""

    @property
    def data(self) -> bytes:
        """The bytes, with no gap."""
        ...

    @property
    def start(self) -> int:
        """The offset of the first of them."""
        ...

    @property
    def next_cursor(self) -> int:
        """Where to read on."""
        ...

    @property
    def omitted(self) -> tuple[int, int] | None:
        """[from, to) of what is not there and was asked for."""
        ...

    @property
    def total(self) -> int:
        """All that was written by then, in bytes."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing comes after it."""
        ...

    @property
    def output_error(self) -> object:
        """True in a boolean context where the disk has failed, and what came then is not kept."""


@click.command(short_help="Show what a job has written; -f: and what it writes.")
@click.argument("job", shell_complete=complete_job)
@click.option("-f", "--follow", is_flag=True, help="And then what it writes, to its end.")
@click.option("--tail", type=click.IntRange(0), metavar="LINES", help="Only the last lines.")
@click.option("--since", callback=moment_of, metavar="TIME", help="Only what came since: 10m, 2h, or 2026-03-14T15:09.")
@click.option("--cursor", type=click.IntRange(0, 2**63 - 1), metavar="BYTE", help="From that byte of its output on.")
@click.option("--raw", is_flag=True, help="Its bytes as they are: colours, cursor movements, anything.")
@json_option
@state_option
def logs(
    job: str,
    follow: bool,
    tail: int | None,
    since: datetime | None,
    cursor: int | None,
    raw: bool,
    as_json: bool,
    state: Path,
) -> None:
    """Show what JOB (a handle, the beginning of one, or a name) has written and is kept.

    Shown as the text that a terminal would have left, with nothing that yours would obey, each line when it has ended;
    --raw gives the bytes as they come.  What is not kept any more is told on stderr.  A handle that begins with a dash
    goes behind "--".

    --since is exact to a second, or, longer ago, to about a tenth of that: it may show a little more, and never less.

    \b
      lastword logs -f api --tail 20
      lastword logs --since 10m api
      lastword logs --raw 3kX > build.log
      lastword logs --json --cursor 4096 -- -f3kX
    """
    if sum(each is not None for each in (tail, since, cursor)) > 1:
        raise click.UsageError("give one of --tail, --since and --cursor")
    from ._look import find_view, look

    view = look(state)
    found, process = find_view(job, view)
    if tail is not None:
        start = _tail_start(process, tail)
    elif since is not None:
        start = _since_start(process, since, whole_lines=not (raw or as_json))
    else:
        start = cursor or 0
    printer = Printer(raw=raw, as_json=as_json, write=_to_stdout)
    if follow and not found.has_ended and view is not None and view.held:
        import anyio

        from ._logs_follow import follow_output

        anyio.run(follow_output, state, process, start, printer)
    else:
        for chunk in pieces(process, start):
            printer.show(chunk)
    printer.finish()


def pieces(process: ProcessView, cursor: int) -> Iterator[Chunk]:
    """Its output from `cursor` on, as far as it is written by now."""
    while True:
        chunk = process.read_output(cursor, READ_BYTES)
        if not chunk.data and not chunk.gap:
            return
        yield chunk
        cursor = chunk.next_cursor


class Printer:
    """Chunks, in order, as they are to be seen; what is missing between them is told."""

    def __init__(self, *, raw: bool, as_json: bool, write: Callable[[bytes], None]) -> None:
        self._raw = raw
        self._as_json = as_json
        self._write = write
        self._renderer: TextRenderer | None = None
        self._failed = False

    def show(self, chunk: Chunk) -> None:
        """One more."""
        if self._as_json:
            print_json(chunk_object(chunk, raw=self._raw))
            return
        if chunk.omitted is not None and not (self._failed and disk_failed(chunk)):
            self._failed = disk_failed(chunk)
            self.finish()
            first, last = chunk.omitted
            if disk_failed(chunk):
                note(failed_from(first))
            else:
                note(f"{last - first} bytes before byte {last} of the output are not kept")
        if self._raw:
            self._write(chunk.data)
        else:
            self._write(_shown(self._rendering().feed(chunk.data)))

    def finish(self) -> None:
        """Nothing follows, or something is missing here: the last line is given out, too."""
        if self._renderer is not None:
            rest = self._renderer.finish()
            self._renderer = None
            self._write(_shown(rest if rest.endswith("\n") or not rest else f"{rest}\n"))

    def _rendering(self) -> TextRenderer:
        from ...supervisor import TextRenderer

        if self._renderer is None:
            self._renderer = TextRenderer()
        return self._renderer


def disk_failed(chunk: Chunk) -> bool:
    """Whether the disk is why something is missing: then there is nothing behind it.  Told once, however much comes."""
    return bool(chunk.output_error) and not chunk.data


def failed_from(byte: int) -> str:
    """What is said of it."""
    return f"the disk has failed: what was written from byte {byte} on is not kept"


def chunk_object(chunk: Chunk, *, raw: bool) -> dict[str, Any]:
    """The object that `--json` prints: with the bytes in base64 (`raw`), or the text of them."""
    from ...supervisor.output import view_text

    content = {"base64": b64encode(chunk.data).decode()} if raw else {"text": view_text(chunk.data).text}
    return {
        "start": chunk.start,
        "next_cursor": chunk.next_cursor,
        "omitted": chunk.omitted,
        "total": chunk.total,
        "ended": chunk.ended,
        "output_error": bool(chunk.output_error),
        **content,
    }


def _shown(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _to_stdout(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _since_start(process: ProcessView, moment: datetime, *, whole_lines: bool) -> int:
    """Where what came since begins; with `whole_lines` the line in which that is, if its beginning is near.

    Where nothing came since, that is the end, though the last line may be unfinished.
    """
    start = process.cursor_at(moment)
    if start is None:
        raise CommandFailedError("when its output came is not known, for an older version has kept it; use --tail")
    if whole_lines and start:
        begin = max(0, start - _BACK_BYTES)
        chunk = process.read_output(begin, start - begin)
        newline = chunk.data.rfind(b"\n")
        is_near = newline >= 0 or chunk.start > begin or not begin
        if chunk.next_cursor == start < chunk.total and is_near:
            return chunk.start + newline + 1
    return start


def _tail_start(process: ProcessView, lines: int) -> int:
    """Where the last `lines` lines of what is kept begin."""
    first = process.read_output(0, 1)
    if not lines:
        return first.total
    # Where the disk has failed, nothing from there on is kept.
    kept = first.total if first.output_error is None else min(first.total, first.output_error.offset)
    end, found = kept, 0
    while end > 0:
        begin = max(0, end - _BACK_BYTES)
        chunk = process.read_output(begin, end - begin)
        if not chunk.data or chunk.start >= end:  # what was there has been overwritten meanwhile
            return max(begin, chunk.start)
        data = chunk.data[: end - chunk.start]
        # The newline that ends the last line begins none.
        at = len(data) - 1 if end == kept and data.endswith(b"\n") else len(data)
        while (at := data.rfind(b"\n", 0, at)) >= 0:
            found += 1
            if found == lines:
                return chunk.start + at + 1
        if chunk.omitted is not None:
            return chunk.start
        end = begin
    return 0
