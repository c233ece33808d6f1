"""How long a call waits, by the runtime's clock and not a moment less: defaults, bounds, and what a model asks for."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from supervising import until
from tool_ground import Agent, Result, agent

import lastword
from lastword.adapters.testing import ManualClock

SLEEP = "exec sleep 300"

NATIVE: list[tuple[str, dict[str, Any], float]] = [
    ("Bash", {"command": SLEEP}, 30.0),
    ("Bash", {"command": SLEEP, "yield_time_ms": 600_000}, 600.0),
    ("ProcessOutput", {"wait": "any"}, 30.0),
    ("ProcessOutput", {"wait": "all"}, 30.0),
    ("ProcessOutput", {"wait": "all", "until": "end", "timeout_ms": 1500}, 1.5),
    ("ProcessInput", {"rows": 10, "cols": 20, "yield_time_ms": 7000}, 7.0),
]
CODEX: list[tuple[str, dict[str, Any], float]] = [
    ("exec_command", {"cmd": SLEEP}, 10.0),
    ("exec_command", {"cmd": SLEEP, "yield_time_ms": 1}, 0.25),
    ("exec_command", {"cmd": SLEEP, "yield_time_ms": 2**31 - 1}, 30.0),
    ("write_stdin", {}, 5.0),
    ("write_stdin", {"yield_time_ms": 2**31 - 1}, 300.0),
    ("write_stdin", {"chars": "x"}, 0.25),
    ("write_stdin", {"chars": "x", "yield_time_ms": 60_000}, 30.0),
]
CLAUDE: list[tuple[str, dict[str, Any], float]] = [
    ("Bash", {"command": SLEEP}, 120.0),
    ("Bash", {"command": SLEEP, "timeout": 600_000}, 600.0),
]


async def waits(one: Agent, clock: ManualClock, tool: str, arguments: dict[str, Any], seconds: float) -> Result:
    """Call, and move time on to the end of the budget: the result is there then, and not before."""
    results: list[Result] = []

    async def call() -> None:
        results.append(await one.call(tool, **arguments))

    deadline = clock.elapsed + seconds
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await until(lambda: deadline in clock.deadlines)
        clock.advance(seconds / 2)
        await anyio.wait_all_tasks_blocked()
        assert results == [], (tool, arguments)
        clock.advance(deadline - clock.elapsed)
    return results[0]


@pytest.mark.parametrize(("tool", "arguments", "seconds"), NATIVE)
async def test_the_native_tools(tool: str, arguments: dict[str, Any], seconds: float) -> None:
    clock = ManualClock()
    async with agent(clock=clock) as one:
        if tool != "Bash":
            started = await one.call("Bash", command=SLEEP, background=True, tty=True)
            arguments = {**arguments, "process_id": started["process_id"]}
        result = await waits(one, clock, tool, arguments, seconds)
        assert (result["status"], result["backgrounded"]) == ("running", True)


@pytest.mark.parametrize(("tool", "arguments", "seconds"), CODEX)
async def test_codexs(tool: str, arguments: dict[str, Any], seconds: float) -> None:
    clock = ManualClock()
    async with agent(profile="codex", clock=clock) as one:
        if tool == "write_stdin":
            started = await waits(one, clock, "exec_command", {"cmd": f"stty -echo; {SLEEP}", "tty": True}, 10.0)
            arguments = {**arguments, "session_id": started["session_id"]}
        result = await waits(one, clock, tool, arguments, seconds)
        assert (result["status"], result["wall_time_seconds"]) == ("running", seconds)


@pytest.mark.parametrize(("tool", "arguments", "seconds"), CLAUDE)
async def test_claudes(tool: str, arguments: dict[str, Any], seconds: float) -> None:
    clock = ManualClock()
    async with agent(profile="claude", clock=clock) as one:
        result = await waits(one, clock, tool, arguments, seconds)
        assert (result["status"], result["interrupted"]) == ("running", False)
        assert "backgroundTaskId" in result


async def test_where_several_waits_fail_at_once_the_model_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they do when the host closes while its store is gone."""
    async with agent() as one:
        handles = [(await one.call("Bash", command=SLEEP, background=True))["process_id"] for _ in range(2)]

        async def fail(process: lastword.Process) -> None:
            with anyio.CancelScope(shield=True):  # the first one's failure cancels the other
                await anyio.lowlevel.checkpoint()
                await anyio.lowlevel.checkpoint()
            raise lastword.SupervisorError(lastword.ErrorCode.SUPERVISOR_SHUTTING_DOWN, process.handle)

        with monkeypatch.context() as patch:
            patch.setattr(lastword.Process, "wait", fail)
            result = await one.call("ProcessOutput", process_ids=handles, wait="any", until="end")
        assert result["error"] == "supervisor_shutting_down"
        assert result["message"].startswith("the host is closing")
