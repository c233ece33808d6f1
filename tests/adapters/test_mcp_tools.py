"""The tools over MCP: whatever a client sends, it gets a result, and the server lives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import MCPError
from mcp_ground import GENERATIONS, background, beside, call, ended, told
from mcp_types import CallToolRequestParams

import lastword
from lastword.adapters._desk import Desk
from lastword.adapters.mcp._arrivals import Arrivals
from lastword.adapters.mcp._tools import Tools
from lastword.adapters.tools import ToolSpec, tool_specs


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_the_native_tools_are_there_and_take_a_cursor_more(generation: str) -> None:
    async with beside(None, generation) as (client, runtime):
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        specs = tool_specs(runtime)
        assert list(listed) == [spec.name for spec in specs]
        for spec in specs:
            tool = listed[spec.name]
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            properties = dict(tool.input_schema["properties"])
            assert properties.pop("notices_cursor")["type"] == "string"
            assert tool.input_schema | {"properties": properties} == spec.input_schema
            assert tool.description == spec.description
        assert listed["ProcessList"].annotations is not None
        assert listed["Bash"].annotations is None
        assert client.instructions is not None
        assert "notices_cursor" in client.instructions


WRONG: Sequence[tuple[str, dict[str, Any], str, str | None]] = [
    ("NoSuchTool", {}, "not_found", None),
    ("Bash", {}, "invalid_arguments", "command"),
    ("Bash", {"command": "true", "nonsense": 1}, "invalid_arguments", "nonsense"),
    ("Bash", {"command": 7}, "invalid_arguments", "command"),
    ("Bash", {"command": "true", "notices_cursor": 7}, "invalid_arguments", "notices_cursor"),
    ("ProcessOutput", {"process_id": "nobody", "notices_cursor": ["1-aa"]}, "invalid_arguments", "notices_cursor"),
    ("ProcessOutput", {"process_id": "A" * 22}, "not_found", None),
    ("ProcessStop", {"process_id": "../../etc"}, "not_found", None),
    ("Bash", {"command": "true", "workdir": "/nowhere/at/all"}, "spawn_failed", None),
    ("Bash", {"command": "\0"}, "invalid_arguments", "command"),
]


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_a_wrong_call_is_told_what_is_wrong(generation: str) -> None:
    async with beside(None, generation) as (client, _):
        for tool, arguments, code, field in WRONG:
            result = await call(client, tool, **arguments)
            assert (result["error"], result.get("field")) == (code, field), (tool, arguments)
            assert "/nowhere" not in str(result)
        assert (await call(client, "Bash", command="echo alive"))["output"] == "alive\n"


async def test_pages_that_were_never_offered_are_refused() -> None:
    async with beside(None) as (client, _):
        for asked in (client.list_tools, client.list_resources, client.list_resource_templates):
            with pytest.raises(MCPError, match="one page only"):
                await asked(cursor="2")


async def test_a_tool_that_fails_as_nobody_foresaw_costs_its_call_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: dict[str, Any]) -> dict[str, Any]:
        raise ZeroDivisionError("a secret")

    async with lastword.open_runtime() as runtime:
        spec = ToolSpec(name="Broken", description="", input_schema={"type": "object"}, handler=fail)
        desk = Desk(runtime, runtime.loop)
        tools = Tools(runtime, desk, Arrivals(runtime, desk), [spec])
        answer = await tools.call(None, CallToolRequestParams(name="Broken"))  # type: ignore[arg-type]  # it looks at none
        assert answer.is_error
        assert answer.structured_content["error"] == "internal_error"
        assert "secret" not in str(answer)
        assert "Broken" in caplog.text


async def test_calls_run_at_the_same_time(tmp_path: Path) -> None:
    async with beside(None) as (client, _):
        outputs: list[str] = []

        async def meet(name: str) -> None:
            # Each waits for all the others: one after the other would never end.
            wait = f"cd '{tmp_path}'; touch {name}; until [ -e a ] && [ -e b ] && [ -e c ]; do sleep 0.01; done"
            result = await call(client, "Bash", command=f"{wait}; echo {name}")
            outputs.append(result["output"])

        async with anyio.create_task_group() as tasks:
            for name in "abc":
                tasks.start_soon(meet, name)
        assert sorted(outputs) == ["a\n", "b\n", "c\n"]


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_a_cancelled_call_leaves_its_process_under_its_handle(tmp_path: Path, generation: str) -> None:
    gate = tmp_path / "gate"
    async with beside(None, generation) as (client, runtime):
        with anyio.CancelScope() as scope:
            async with (
                runtime.session.subscribe(lastword.EventFilter(enduring=lastword.LoopScope.all())) as events,
                anyio.create_task_group() as tasks,
            ):

                async def run() -> None:
                    command = f"until [ -e '{gate}' ]; do sleep 0.01; done; echo done"
                    await call(client, "Bash", command=command, yield_time_ms=600_000)

                tasks.start_soon(run)
                started = await anext(events)
                assert isinstance(started.event, lastword.ProcessStarted)
                scope.cancel()
        (known,) = (await call(client, "ProcessList"))["processes"]
        assert known["status"] == "running"
        gate.touch()
        result = await ended(client, known["process_id"])
        assert (result["status"], result["output"]) == ("exited", "done\n")
        assert result["backgrounded"]
        assert told(result) == [known["process_id"]]


async def test_a_call_that_waits_is_no_hindrance_to_others() -> None:
    async with beside(None) as (client, _), anyio.create_task_group() as tasks:
        handle = await background(client, "exec sleep 300")
        results: list[dict[str, Any]] = []

        async def wait() -> None:
            results.append(await ended(client, handle))

        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        stopped = await call(client, "ProcessStop", process_id=handle, mode="kill")
        assert stopped["status"] == "killed"
        while not results:
            await anyio.lowlevel.checkpoint()
        assert results[0]["status"] == "killed"
