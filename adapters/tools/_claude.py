"""The tools as Claude Code's models know them: Bash, BashOutput, KillShell, and TaskStop for KillShell's later name.

Rules
- A shell id, a bash id and a task id are all the same handle.
- `stdout` is both streams in the order in which they were written, so `stderr` is empty.
- BashOutput shows what is new since the last result that showed any.  There is no cursor to ask again with: what a
  result does not show, and no word in its text says so, is told by `note`.
"""

from __future__ import annotations

from typing import final

import attrs

from ...supervisor import Process
from ._arguments import MAX_HANDLE_CHARACTERS, Flag, Form, Text, Whole, argument
from ._cursors import Cursors
from ._jobs import Jobs
from ._result import Result, seldom_of, unread_of
from ._spec import ToolSpec
from ._telling import Telling
from ._tool import tool

# That host's own default and bound for a call in the foreground.
DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000

_MAX_DESCRIPTION = 128


def claude_specs(jobs: Jobs) -> list[ToolSpec]:
    """The claude profile."""
    claude = Claude(jobs)
    return [
        tool("Bash", _BASH, Form(ClaudeBashArguments), claude.bash, jobs),
        tool("BashOutput", _OUTPUT, Form(BashOutputArguments), claude.output, jobs),
        tool("KillShell", _KILL, Form(KillShellArguments), claude.kill, jobs),
        tool("TaskStop", _KILL, Form(TaskStopArguments), claude.stop, jobs),
    ]


@final
@attrs.frozen(kw_only=True)
class ClaudeBashArguments:
    """Of Bash."""

    command: str = argument(Text("The shell command."))
    timeout: int = argument(
        Whole(
            f"Milliseconds to wait for its end ({DEFAULT_TIMEOUT_MS} by default); then it goes on in the background.",
            low=1,
            high=MAX_TIMEOUT_MS,
        ),
        default=DEFAULT_TIMEOUT_MS,
    )
    description: str | None = argument(Text("What the command does, in a few words."), default=None)
    run_in_background: bool = argument(Flag("Return at once and let it run in the background."), default=False)


@final
@attrs.frozen(kw_only=True)
class BashOutputArguments:
    """Of BashOutput."""

    bash_id: str = argument(Text("The backgroundTaskId that Bash gave.", most=MAX_HANDLE_CHARACTERS))
    filter: str | None = argument(
        Text("Show only lines that contain this text; it is no regular expression, and the others are passed over."),
        default=None,
    )


@final
@attrs.frozen(kw_only=True)
class KillShellArguments:
    """Of KillShell."""

    shell_id: str = argument(Text("The backgroundTaskId that Bash gave.", most=MAX_HANDLE_CHARACTERS))


@final
@attrs.frozen(kw_only=True)
class TaskStopArguments:
    """Of TaskStop."""

    task_id: str = argument(Text("The backgroundTaskId that Bash gave.", most=MAX_HANDLE_CHARACTERS))


@final
class Claude:
    """What these tools do, for one loop."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._cursors = Cursors()

    async def bash(self, asked: ClaudeBashArguments, telling: Telling) -> Result:
        """Run a command: to its end, or until its time is over, or not waiting at all."""
        self._cursors.forget_all_but(self._jobs.known())
        budget = None if asked.run_in_background else asked.timeout / 1000
        process = await self._jobs.start(telling, asked.command, budget, name=printable(asked.description or ""))
        shown = await self._jobs.show_ends(telling, process, 0, self._jobs.inline_bytes)
        self._cursors.shown(process, shown)
        answer = streams_of(shown) | {"interrupted": shown["status"] in _STOPPED}
        return answer | ({"backgroundTaskId": process.handle} if shown["finished_at"] is None else {})

    async def output(self, asked: BashOutputArguments, telling: Telling) -> Result:
        """What a background command has written since the last result."""
        process = self._jobs.find(asked.bash_id)
        shown = await self._jobs.show(telling, process, self._cursors.of(process), self._jobs.inline_bytes)
        self._cursors.shown(process, shown)
        if asked.filter is not None:
            shown["output"] = lines_with(shown["output"], asked.filter)
        return {"bash_id": process.handle} | streams_of(shown)

    async def kill(self, asked: KillShellArguments, telling: Telling) -> Result:
        """End a background command."""
        process = await self._end(asked.shell_id, telling)
        return {"shell_id": process.handle, "message": f"Stopped shell {process.handle}"}

    async def stop(self, asked: TaskStopArguments, telling: Telling) -> Result:
        """End a background command, by the later name."""
        process = await self._end(asked.task_id, telling)
        return {"task_id": process.handle, "task_type": "local_bash", "message": f"Stopped task {process.handle}"}

    async def _end(self, handle: str, telling: Telling) -> Process:
        process = self._jobs.find(handle)
        await process.stop()
        telling.state(process)
        return process


def streams_of(shown: Result) -> Result:
    """A result in these tools' words."""
    answer: Result = {
        "stdout": shown["output"],
        "stderr": "",
        "status": status_of(shown),
        "exit_code": shown["exit_code"],
    }
    return answer | seldom_of(shown) | note_of(shown)


def note_of(shown: Result) -> Result:
    """What is missing before the text that is shown, and what comes after it."""
    notes: list[str] = []
    if shown["gap"]:
        first, end = shown["omitted"]
        notes.append(f"output from byte {first} to {end} is kept no more")
    notes += unread_of(shown, "the next BashOutput goes on with them")
    return {"note": "; ".join(notes)} if notes else {}


def status_of(shown: Result) -> str:
    """running, completed, failed or killed."""
    if shown["finished_at"] is None:
        return "running"
    if shown["status"] in _STOPPED:
        return "killed"
    return "completed" if shown["status"] == "exited" and shown["exit_code"] == 0 else "failed"


def lines_with(output: str, text: str) -> str:
    """The lines of `output` that contain `text`."""
    return "".join(line for line in output.splitlines(keepends=True) if text in line)


def printable(text: str) -> str:
    """As much of a description as can be a process's name."""
    return "".join(each if each.isprintable() else " " for each in text)[:_MAX_DESCRIPTION]


_STOPPED = {"timed_out", "interrupted", "terminated", "killed"}

_BASH = (
    "Run a shell command, and return what it wrote and its exit code. With run_in_background, and when its time is "
    "over, it goes on in the background: the result has a backgroundTaskId for BashOutput and TaskStop, and you are "
    "told when it has ended."
)
_OUTPUT = "Show what a background command has written since the last result, and whether it still runs."
_KILL = "Stop a background command and everything that it has started."
