"""What a tool answers: plain dicts for any JSON encoder.  Pure, but for looking at a process.

Rules
- A result about a process has the same keys whatever has become of it; what is seldom so is there only when it is so
  (`signal`, `survivors`, `output_open`, `output_error`, `diagnostic`, `name`, `omitted`, `note`).
- Nothing here has a place for a command, a path or a process id of the system.  `process_id` is our handle.
- An error is a result with `error`, a code; see `ErrorCode`, and "internal_error" for what nobody foresaw.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from ...notifier._lifecycle import is_handle
from ...supervisor import ErrorCode, InvalidCommandError, Outcome, Process, SpawnFailedError, SupervisorError
from ...supervisor.output import OutputChunk
from .._ending import Ending
from .._signals import signal_name
from ._arguments import BadArgumentError
from ._excerpt import Excerpt

Result = dict[str, Any]

# What the supervisor calls by another name than the tools do.
_FIELDS = {"cwd": "workdir", "output_limit": "max_output_bytes", "pty": "tty"}

# What is there only when it is so, and is told in every profile's results.
_SELDOM = ("signal", "survivors", "output_open", "output_error", "diagnostic")

# Where its advice is for whoever calls the library.
_ADVICE = {
    ErrorCode.NOT_FOUND: "you have no process of that id; give one that a result has named",
    ErrorCode.STDIN_CLOSED: (
        "it takes no input: it has ended, its input was ended, or it was started without one; start one with an input, "
        "or a tty"
    ),
    ErrorCode.OUTPUT_QUOTA_EXCEEDED: (
        "what runs has reserved all the room that there is for output; wait for one to end, stop one, or have less kept"
    ),
    ErrorCode.SUPERVISOR_SHUTTING_DOWN: "the host is closing: nothing starts any more, and what runs is stopped",
    ErrorCode.PTY_UNAVAILABLE: "it has no terminal: start it with tty, or without where none can be had",
}


def state_of(process: Process) -> Result:
    """Where a process is in its life."""
    outcome = process.outcome
    state: Result = {
        "process_id": process.handle,
        "status": process.state.name.lower(),
        "exit_code": None if outcome is None else Ending.of_outcome(outcome).shown_code,
        "reason": None if outcome is None else outcome.reason.name.lower(),
        "started_at": _time(process.started_at),
        "finished_at": None if outcome is None else _time(outcome.finished_at),
        "backgrounded": process.backgrounded,
    }
    if process.name:
        state["name"] = process.name
    return state if outcome is None else state | _seldom(outcome)


def seldom_of(shown: Result) -> Result:
    """What of a result is seldom so, for those that have the rest in other words."""
    return {name: shown[name] for name in _SELDOM if name in shown}


def unread_of(shown: Result, tool: str) -> list[str]:
    """In words, what there is behind a piece of output and how `tool` shows it, and what there is not."""
    failed = None if "output_error" not in shown or shown["gap"] else int(shown["output_error"]["offset"])
    more = (shown["total_bytes"] if failed is None else min(failed, shown["total_bytes"])) - shown["next_cursor"]
    words = [f"{more} more bytes are there: {tool}"] if more > 0 else []
    if failed is not None and failed < shown["total_bytes"]:
        words.append(f"the disk has failed, and what was written from byte {failed} on is not kept")
    return words


def output_of(chunk: OutputChunk, excerpt: Excerpt) -> Result:
    """One piece of output, of which `excerpt` is shown."""
    return _piece(chunk, excerpt, chunk.start) | ({} if chunk.omitted is None else {"omitted": list(chunk.omitted)})


def last_of(cursor: int, tail: OutputChunk, shown: Excerpt) -> Result:
    """The end of the output from `cursor` on, whose beginning is kept no more."""
    start = tail.next_cursor - shown.taken
    return _piece(tail, shown, start) | {"gap": True, "omitted": [cursor, start]}


def ends_of(head: OutputChunk, first: Excerpt, tail: OutputChunk, last: Excerpt) -> Result:
    """The beginning and the end of some output; `omitted` is what stands between them, and can be read."""
    left_out = head.start + first.taken, tail.next_cursor - last.taken
    between = f"[... {left_out[1] - left_out[0]} bytes are left out here ...]"
    shown = Excerpt(
        taken=tail.next_cursor - head.start,
        output=f"{first.output}\n{between}\n{last.output}",
        normalized=first.normalized or last.normalized,
        binary=first.binary or last.binary,
    )
    return _piece(tail, shown, head.start) | {"omitted": list(left_out)}


def bad_argument(error: BadArgumentError) -> Result:
    """The answer to arguments that can never be right."""
    message = f"{error.field}: {error.why}" if error.field else error.why
    return {"error": str(ErrorCode.INVALID_ARGUMENTS), "field": error.field, "message": message}


def refusal(error: SupervisorError) -> Result:
    """The answer where the supervisor could not do it."""
    if isinstance(error, InvalidCommandError):
        field, why = cast("tuple[str, str]", error.args)
        return bad_argument(BadArgumentError(_FIELDS.get(field, field), why))
    answer: Result = {"error": str(error.code), "message": _ADVICE.get(error.code, error.message)}
    if isinstance(error, SpawnFailedError):
        answer |= {"process_id": error.handle, "kind": error.kind}
    return answer


def about(handle: str, answer: Result) -> Result:
    """An answer that names its process; what cannot be a handle is not shown back."""
    return ({"process_id": handle} if is_handle(handle) else {"process_id": None}) | answer


def unforeseen() -> Result:
    """The answer to a fault of ours."""
    return {"error": "internal_error", "message": "the tool has failed in a way that nobody foresaw; the log tells"}


def _piece(chunk: OutputChunk, excerpt: Excerpt, start: int) -> Result:
    piece: Result = {
        "output": excerpt.output,
        "start_cursor": start,
        "next_cursor": start + excerpt.taken,
        "total_bytes": chunk.total,
        "gap": chunk.gap,
        "normalized": excerpt.normalized,
        "binary": excerpt.binary,
    }
    if chunk.output_error is not None:
        piece["output_error"] = {"offset": chunk.output_error.offset, "code": chunk.output_error.code}
    return piece


def _seldom(outcome: Outcome) -> Result:
    answer: Result = {}
    if outcome.signal is not None:
        answer["signal"] = signal_name(outcome.signal)
    if outcome.survivors:
        answer["survivors"] = outcome.survivors
    if outcome.output_open:
        answer["output_open"] = True
    if outcome.diagnostic:
        answer["diagnostic"] = outcome.diagnostic
    return answer


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
