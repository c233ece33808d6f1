"""The tools by their own names: Bash, ProcessOutput, ProcessInput, ProcessStop, ProcessList."""

from __future__ import annotations

from typing import Any, final

from ...supervisor import Process, StopMode, SupervisorError
from ._arguments import BadArgumentError, Form
from ._jobs import Jobs
from ._native_arguments import (
    DEFAULT_YIELD_MS,
    BashArguments,
    InputArguments,
    ListArguments,
    OutputArguments,
    StopArguments,
)
from ._result import Result, about, refusal, state_of, unread_of
from ._spec import ToolSpec
from ._telling import Telling
from ._tool import tool

# What a list shows: at some 300 bytes each it stays within one answer.
MAX_LISTED = 100


def native_specs(jobs: Jobs) -> list[ToolSpec]:
    """The native profile."""
    native = Native(jobs)
    return [
        tool("Bash", _BASH, Form(BashArguments), native.bash, jobs),
        tool("ProcessOutput", _OUTPUT, Form(OutputArguments), native.output, jobs),
        tool("ProcessInput", _INPUT, Form(InputArguments), native.input, jobs),
        tool("ProcessStop", _STOP, Form(StopArguments), native.stop, jobs),
        tool("ProcessList", _LIST, Form(ListArguments), native.list_processes, jobs),
    ]


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
        process = await self._jobs.start(telling, asked.command, budget, **options)
        shown = await self._jobs.show_ends(telling, process, 0, min(limit, self._jobs.inline_bytes))
        return shown | note_of(shown)

    async def input(self, asked: InputArguments, telling: Telling) -> Result:
        """Give a process input, or its terminal a size, and show what it answers."""
        check_input(asked)
        process = self._jobs.find(asked.process_id)
        # Before anything is done: who is refused must not have written, or it would be written twice.
        cursor = await self._jobs.total(process, asked.cursor)
        if asked.rows is not None and asked.cols is not None:
            await process.resize(asked.rows, asked.cols)
        if asked.data is not None:
            await self._jobs.send(process, "data", asked.data)
        if asked.eof:
            await process.close_input()
        if asked.yield_time_ms:
            await self._jobs.wait_change([process], cursor, every=True, timeout=asked.yield_time_ms / 1000)
        shown = await self._jobs.show(telling, process, cursor, self._jobs.inline_bytes)
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


def check_input(asked: InputArguments) -> None:
    """Whether there is something to do.  Raises `BadArgumentError`."""
    if (asked.rows is None) != (asked.cols is None):
        raise BadArgumentError("rows" if asked.rows is None else "cols", "is missing; rows and cols go together")
    if asked.data is None and not asked.eof and asked.rows is None:
        raise BadArgumentError("data", "is missing; give data, eof, or rows and cols")


def note_of(shown: Result) -> Result:
    """What the model can do next, where there is something to do."""
    notes: list[str] = []
    if "omitted" in shown:
        first, end = shown["omitted"]
        where = "is kept no more" if shown["gap"] else f"can be read: ProcessOutput with cursor {first}"
        notes.append(f"output from byte {first} to {end} is not shown, and {where}")
    notes += unread_of(shown, f"ProcessOutput with cursor {shown['next_cursor']}")
    if shown["finished_at"] is None:
        notes.append(
            f"it is still running: ProcessOutput with cursor {shown['next_cursor']} and wait any waits for more, "
            "ProcessStop ends it"
        )
    return {"note": "; ".join(notes)} if notes else {}


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
_INPUT = (
    "Write to the standard input, or the terminal, of a process that was started with stdin or tty; end its input; "
    "change its terminal's size. Returns what it has written since."
)
_STOP = "Stop a process and everything that it has started, and return how it ended."
_LIST = "List your processes, running and ended, oldest first."
