"""What the native tools are asked, as the model reads it."""

from __future__ import annotations

from typing import Literal, final

import attrs

from ._arguments import MAX_HANDLE_CHARACTERS, Choice, Flag, Handles, Text, Whole, argument

# Under the minute after which clients commonly give up a call.
DEFAULT_YIELD_MS = 30_000
DEFAULT_WAIT_MS = 30_000
MAX_WAIT_MS = 600_000
MAX_LIFETIME_SECONDS = 30 * 24 * 3600

# Characters that one call can give; more than this comes from a file.
MAX_INPUT = 64 * 1024

_PROCESS = Text("The process_id that Bash gave.", most=MAX_HANDLE_CHARACTERS)


@final
@attrs.frozen(kw_only=True)
class BashArguments:
    """Of Bash."""

    command: str = argument(Text("What /bin/sh is to run."))
    workdir: str | None = argument(Text("Where to run it; by default where the host runs."), default=None)
    timeout: int | None = argument(
        Whole(
            "Seconds until the command itself is stopped, waited for or not. 0, which goes only with background or "
            "yield_time_ms, and leaving it out mean that it may run until the session ends.",
            high=MAX_LIFETIME_SECONDS,
        ),
        default=None,
    )
    background: bool = argument(Flag("Return at once and let it run in the background."), default=False)
    yield_time_ms: int | None = argument(
        Whole(
            f"How long to wait for its end, in milliseconds ({DEFAULT_YIELD_MS} by default). Then it goes on in the "
            "background, and the result has its process_id and the output so far.",
            high=MAX_WAIT_MS,
        ),
        default=None,
    )
    tty: bool = argument(Flag("Give it a terminal; fails rather than run it without one."), default=False)
    stdin: bool = argument(
        Flag("Keep its standard input open for ProcessInput; by default it reads end of file. A tty has an input."),
        default=False,
    )
    max_output_bytes: int | None = argument(
        Whole("Keep, and show, no more than its last so many bytes of output. It is not stopped for more.", low=1),
        default=None,
    )


@final
@attrs.frozen(kw_only=True)
class OutputArguments:
    """Of ProcessOutput."""

    process_id: str | None = argument(_PROCESS, default=None)
    process_ids: tuple[str, ...] | None = argument(
        Handles("Several process ids instead of one: the result is a list in their order."), default=None
    )
    cursor: int = argument(
        Whole("Read from this byte of the output on (0 by default): the next_cursor of the last result."), default=0
    )
    limit_bytes: int | None = argument(
        Whole("Show at most so many bytes; several processes share what one result can hold.", low=1), default=None
    )
    encoding: Literal["safe_text", "base64"] = argument(
        Choice("safe_text (by default), or base64 for the exact bytes.", ("safe_text", "base64")), default="safe_text"
    )
    wait: Literal["poll", "any", "all"] = argument(
        Choice("poll (by default): answer at once. any, all: wait for one of them, or each.", ("poll", "any", "all")),
        default="poll",
    )
    until: Literal["output", "end"] = argument(
        Choice(
            "What any and all wait for: output (by default) is output beyond cursor, or the end; end is the end alone.",
            ("output", "end"),
        ),
        default="output",
    )
    timeout_ms: int = argument(
        Whole(
            f"How long any and all wait at most, in milliseconds ({DEFAULT_WAIT_MS} by default). The process does not "
            "notice.",
            high=MAX_WAIT_MS,
        ),
        default=DEFAULT_WAIT_MS,
    )


@final
@attrs.frozen(kw_only=True)
class InputArguments:
    """Of ProcessInput."""

    process_id: str = argument(_PROCESS)
    data: str | None = argument(
        Text("What it is to read, exactly: a line needs its newline. \\u0003 is Ctrl-C on a tty.", most=MAX_INPUT),
        default=None,
    )
    eof: bool = argument(Flag("End its input, after data."), default=False)
    rows: int | None = argument(Whole("Its terminal's new height; goes with cols.", low=1, high=65535), default=None)
    cols: int | None = argument(Whole("Its terminal's new width; goes with rows.", low=1, high=65535), default=None)
    cursor: int | None = argument(
        Whole("Show output from this byte on; by default what is written after this call began."), default=None
    )
    yield_time_ms: int = argument(
        Whole("Wait so long for output beyond cursor, or its end; 0 (by default) is not at all.", high=MAX_WAIT_MS),
        default=0,
    )


@final
@attrs.frozen(kw_only=True)
class StopArguments:
    """Of ProcessStop."""

    process_id: str = argument(_PROCESS)
    mode: Literal["interrupt", "terminate", "kill"] = argument(
        Choice(
            "interrupt is Ctrl-C and no more; terminate (by default) asks, and kills after grace_ms; kill kills.",
            ("interrupt", "terminate", "kill"),
        ),
        default="terminate",
    )
    grace_ms: int | None = argument(
        Whole("How long it has to end before it is killed (interrupt: before this returns).", high=MAX_WAIT_MS),
        default=None,
    )


@final
@attrs.frozen(kw_only=True)
class ListArguments:
    """Of ProcessList: none."""
