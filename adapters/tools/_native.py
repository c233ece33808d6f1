"""The tools by their own names: Bash, ProcessOutput, ProcessInput, ProcessStop, ProcessList."""

from __future__ import annotations

from typing import Any, Literal, final

import attrs

from ...supervisor import Process, StopMode, SupervisorError
from ._arguments import MAX_HANDLE_CHARACTERS, BadArgumentError, Choice, Flag, Form, Handles, Text, Whole, argument
from ._jobs import Jobs
from ._result import Result, about, refusal, state_of
from ._spec import ToolSpec
from ._telling import Telling
from ._tool import tool

# Under the minute after which clients commonly give up a call.
DEFAULT_YIELD_MS = 30_000
DEFAULT_WAIT_MS = 30_000
MAX_WAIT_MS = 600_000
MAX_LIFETIME_SECONDS = 30 * 24 * 3600

# What a list shows: at some 300 bytes each it stays within one answer.
MAX_LISTED = 100

_PROCESS = Text("The process_id that Bash gave.", most=MAX_HANDLE_CHARACTERS)


def native_specs(jobs: Jobs) -> list[ToolSpec]:
    """The native profile."""
    native = Native(jobs)
    return [
        tool("Bash", _BASH, Form(BashArguments), native.bash, jobs),
        tool("ProcessOutput", _OUTPUT, Form(OutputArguments), native.output, jobs),
        tool("ProcessStop", _STOP, Form(StopArguments), native.stop, jobs),
        tool("ProcessList", _LIST, Form(ListArguments), native.list_processes, jobs),
    ]


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


@final
class Native:
    """What the native tools do, for one loop."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def bash(self, asked: BashArguments, telling: Telling) -> Result:
        """Run a command: to its end, or until the call's budget is over."""
        budget = call_budget(asked)
        limit = self._jobs.spool_bytes
        if asked.max_output_bytes is not None:
            limit = min(limit, asked.max_output_bytes)
        options: dict[str, Any] = {"cwd": asked.workdir, "timeout": asked.timeout or None, "output_limit": limit}
        if asked.tty:
            options["pty"] = True
        elif asked.stdin:
            options["stdin"] = "pipe"
        process = await self._jobs.start(asked.command, budget, **options)
        shown = await self._jobs.show(telling, process, 0, min(limit, self._jobs.inline_bytes))
        return shown | note_of(shown)

    async def output(self, asked: OutputArguments, telling: Telling) -> Result:
        """Show what processes have written, and what has become of them."""
        handles = _handles(asked)
        found = [self._find(handle) for handle in handles]
        processes = [each for each in found if isinstance(each, Process)]
        await self._wait(asked, processes, missing=len(processes) < len(found))
        limit = min(asked.limit_bytes or self._jobs.inline_bytes, max(1, self._jobs.inline_bytes // len(handles)))
        results = [
            await self._show(telling, each, asked, limit) if isinstance(each, Process) else about(handle, each)
            for handle, each in zip(handles, found, strict=True)
        ]
        return results[0] if asked.process_ids is None else {"results": results}

    async def stop(self, asked: StopArguments, telling: Telling) -> Result:
        """Stop a process and say what has become of it."""
        process = self._jobs.find(asked.process_id)
        grace = None if asked.grace_ms is None else asked.grace_ms / 1000
        try:
            await process.stop(StopMode[asked.mode.upper()], grace=grace)
        except SupervisorError as error:
            return telling.state(process) | refusal(error)
        return telling.state(process)

    async def list_processes(self, asked: ListArguments, telling: Telling) -> Result:
        """Say which processes there are."""
        del asked, telling
        known = self._jobs.known()
        listed = most_telling(known, MAX_LISTED)
        answer: Result = {"processes": [state_of(process) for process in listed]}
        return answer | ({"omitted": len(known) - len(listed)} if len(listed) < len(known) else {})

    def _find(self, handle: str) -> Process | Result:
        try:
            return self._jobs.find(handle)
        except SupervisorError as error:
            return refusal(error)

    async def _wait(self, asked: OutputArguments, processes: list[Process], *, missing: bool) -> None:
        every = asked.wait == "all"
        # Of a process that is not there, all is known already.
        if asked.wait == "poll" or not processes or (missing and not every):
            return
        timeout = asked.timeout_ms / 1000
        if asked.until == "end":
            await self._jobs.wait_end(processes, every=every, timeout=timeout)
        else:
            await self._jobs.wait_change(processes, asked.cursor, every=every, timeout=timeout)

    async def _show(self, telling: Telling, process: Process, asked: OutputArguments, limit: int) -> Result:
        try:
            base64 = asked.encoding == "base64"
            shown = await self._jobs.show(telling, process, asked.cursor, limit, base64=base64)
        except SupervisorError as error:
            return about(process.handle, refusal(error))
        return shown | note_of(shown)


def call_budget(asked: BashArguments) -> float | None:
    """How many seconds a call of Bash waits; None: not at all.  Raises `BadArgumentError`."""
    if asked.timeout == 0 and not asked.background and asked.yield_time_ms is None:
        raise BadArgumentError("timeout", "0 (no limit) goes only with background or yield_time_ms")
    if asked.background:
        return None
    return (DEFAULT_YIELD_MS if asked.yield_time_ms is None else asked.yield_time_ms) / 1000


def note_of(shown: Result) -> Result:
    """What the model can do next, where there is something to do."""
    running = shown["finished_at"] is None
    if shown["next_cursor"] < shown["total_bytes"]:
        missing = shown["total_bytes"] - shown["next_cursor"]
        return {"note": f"{missing} more bytes of output are there: ProcessOutput with cursor {shown['next_cursor']}"}
    if running:
        return {
            "note": f"it is still running: ProcessOutput with cursor {shown['next_cursor']} reads on, and with "
            "wait any it waits; ProcessStop ends it"
        }
    return {}


def most_telling(known: list[Process], most: int) -> list[Process]:
    """Those that run and then those that ended last, at most so many of them, in the order in which they are known."""
    ranked = sorted(range(len(known)), key=lambda at: (known[at].outcome is not None, -at))
    return [known[at] for at in sorted(ranked[:most])]


def _handles(asked: OutputArguments) -> tuple[str, ...]:
    if asked.process_ids is not None:
        if asked.process_id is not None:
            raise BadArgumentError("process_ids", "give either process_id or process_ids, not both")
        return asked.process_ids
    if asked.process_id is None:
        raise BadArgumentError("process_id", "is missing; give it, or process_ids for several")
    return (asked.process_id,)


_BASH = (
    "Run a shell command, and return its exit code and output when it has ended. One that takes longer goes on in the "
    "background: the result has status running and a process_id for ProcessOutput and ProcessStop, and you are told "
    "when it has ended."
)
_OUTPUT = (
    "Read what a process has written, and see what has become of it; wait for more, or for its end, of one process or "
    "of several. Reading takes nothing away."
)
_STOP = "Stop a process and everything that it has started, and return how it ended."
_LIST = "List your processes, running and ended, oldest first."
