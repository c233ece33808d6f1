"""The tools as Codex's models know them: exec_command and write_stdin, with numbers for sessions.

Rules
- A session's number is made of its handle, so it means the same process in every life of the host.
- A call waits for its yield time, or the end; the time is brought into its bounds, not refused.
- A result shows what is new since the last one; of much output its beginning and its end.
"""

from __future__ import annotations

from typing import Any, cast, final

import attrs

from ...supervisor import InvalidCommandError, Process, ProcessNotFoundError, StdinClosedError, StopMode
from ._arguments import Flag, Form, Text, Whole, argument
from ._cursors import Cursors
from ._jobs import Jobs
from ._naming import session_number
from ._native_arguments import MAX_INPUT
from ._result import Result, seldom_of
from ._spec import ToolSpec
from ._telling import Telling
from ._tool import tool

# That host's own bounds, in milliseconds: of a wait for a command, and of one for nothing but news.
LEAST_YIELD_MS, MOST_YIELD_MS = 250, 30_000
LEAST_POLL_MS, MOST_POLL_MS = 5_000, 300_000
DEFAULT_YIELD_MS = 10_000
DEFAULT_TOKENS = 10_000

# What it counts a token as.
BYTES_PER_TOKEN = 4

_CTRL_C = "\x03"


def codex_specs(jobs: Jobs) -> list[ToolSpec]:
    """The codex profile."""
    codex = Codex(jobs)
    return [
        tool("exec_command", _EXEC, Form(ExecArguments), codex.execute, jobs),
        tool("write_stdin", _WRITE, Form(WriteArguments), codex.write, jobs),
    ]


_YIELD = Whole("How long to wait, in milliseconds; brought into its bounds.", high=2**31 - 1)
_TOKENS = Whole("Show no more than about so many tokens of output.", low=1, high=2**31 - 1)


@final
@attrs.frozen(kw_only=True)
class ExecArguments:
    """Of exec_command."""

    cmd: str = argument(Text("The shell command."))
    workdir: str | None = argument(Text("Where to run it; by default where the host runs."), default=None)
    shell: str = argument(Text("The shell that runs it."), default="/bin/sh")
    login: bool = argument(Flag("Run the shell as a login shell."), default=False)
    tty: bool = argument(Flag("Give it a terminal, which takes input; without one it has none."), default=False)
    yield_time_ms: int = argument(_YIELD, default=DEFAULT_YIELD_MS)
    max_output_tokens: int = argument(_TOKENS, default=DEFAULT_TOKENS)


@final
@attrs.frozen(kw_only=True)
class WriteArguments:
    """Of write_stdin."""

    session_id: int = argument(Whole("The session_id that exec_command gave."))
    chars: str = argument(
        Text("What it is to read, exactly; nothing (by default) only waits for news.", least=0, most=MAX_INPUT),
        default="",
    )
    yield_time_ms: int = argument(_YIELD, default=LEAST_YIELD_MS)
    max_output_tokens: int = argument(_TOKENS, default=DEFAULT_TOKENS)


@final
class Codex:
    """What these tools do, for one loop."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._cursors = Cursors()

    async def execute(self, asked: ExecArguments, telling: Telling) -> Result:
        """Run a command: to its end, or until its yield time is over."""
        began = self._jobs.now()
        options: dict[str, Any] = {"cwd": asked.workdir} | ({"pty": True} if asked.tty else {})
        argv = [asked.shell, *(["-l"] if asked.login else []), "-c", asked.cmd]
        self._cursors.forget_all_but(self._jobs.known())
        budget = clamp(asked.yield_time_ms, LEAST_YIELD_MS, MOST_YIELD_MS)
        try:
            process = await self._jobs.start(telling, argv, budget, **options)
        except InvalidCommandError as error:
            raise in_its_words(error) from None
        return await self._show(telling, process, began, asked.max_output_tokens)

    async def write(self, asked: WriteArguments, telling: Telling) -> Result:
        """Give a session input, if there is any, and wait for what comes of it."""
        began = self._jobs.now()
        process = self._find(asked.session_id)
        if asked.chars:
            await self._give(process, asked.chars)
            budget = clamp(asked.yield_time_ms, LEAST_YIELD_MS, MOST_YIELD_MS)
        else:
            budget = clamp(asked.yield_time_ms, LEAST_POLL_MS, MOST_POLL_MS)
        await self._jobs.wait_end([process], every=True, timeout=budget)
        return await self._show(telling, process, began, asked.max_output_tokens)

    def _find(self, session: int) -> Process:
        for process in reversed(self._jobs.known()):
            if session_number(process.handle) == session:
                return process
        raise ProcessNotFoundError

    async def _give(self, process: Process, chars: str) -> None:
        try:
            await self._jobs.send(process, "chars", chars)
        except StdinClosedError:
            # There is no other tool to stop it with; on a terminal the character does it.
            if chars != _CTRL_C or process.outcome is not None:
                raise
            await process.stop(StopMode.INTERRUPT, grace=0)

    async def _show(self, telling: Telling, process: Process, began: float, tokens: int) -> Result:
        limit = min(tokens * BYTES_PER_TOKEN, self._jobs.inline_bytes)
        cursor = self._cursors.of(process)
        shown = await self._jobs.show_ends(telling, process, cursor, limit)
        self._cursors.shown(process, shown)
        return answer_of(shown, cursor, self._jobs.now() - began)


def clamp(milliseconds: int, least: int, most: int) -> float:
    """Seconds, within bounds of milliseconds."""
    return min(max(milliseconds, least), most) / 1000


def in_its_words(error: InvalidCommandError) -> InvalidCommandError:
    """The refusal of an argument vector, by the names of exec_command's arguments."""
    field, why = cast("tuple[str, str]", error.args)
    if field.startswith("argv["):
        return InvalidCommandError("shell" if field == "argv[0]" else "cmd", why)
    return error


def answer_of(shown: Result, cursor: int, seconds: float) -> Result:
    """A result in these tools' words."""
    answer: Result = {"output": shown["output"], "wall_time_seconds": round(seconds, 3), "status": shown["status"]}
    if shown["finished_at"] is None:
        answer["session_id"] = session_number(shown["process_id"])
    elif shown["exit_code"] is not None:
        answer["exit_code"] = shown["exit_code"]
    if "omitted" in shown or shown["next_cursor"] < shown["total_bytes"]:
        answer["original_token_count"] = -(-(shown["total_bytes"] - cursor) // BYTES_PER_TOKEN)
    return answer | seldom_of(shown)


_EXEC = (
    "Run a shell command. Returns its output and exit code, or, when it takes longer than yield_time_ms, the output so "
    "far and a session_id for write_stdin; it goes on meanwhile, and you are told when it has ended."
)
_WRITE = "Write to a running session, or with empty chars only wait for news of it. Returns what it has written since."
