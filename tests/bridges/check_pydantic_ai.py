"""pydantic-ai's own agent, with a function for a model."""

from __future__ import annotations

import json
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from tool_ground import sdk_agent

from lastword.adapters.bridges.pydantic_ai import pydantic_ai_toolset


async def test_tools_are_called_and_notices_go_with_the_prompt() -> None:
    script: list[Any] = [
        ToolCallPart("Bash", {"command": "echo hi; exit 3"}),
        ToolCallPart("Bash", '{"cmd": 1}'),
        TextPart("done"),
    ]
    seen: list[Any] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append([(tool.name, tool.parameters_json_schema) for tool in info.function_tools])
        return ModelResponse(parts=[script.pop(0)])

    async with sdk_agent() as one:
        process = await one.runtime.start("exit 4")
        await one.told_home(process.handle)
        bulletin = await one.notices.collect()
        bot = Agent(FunctionModel(model), toolsets=[pydantic_ai_toolset(list(one.specs.values()))])
        result = await bot.run([*bulletin.lines, "run it"])
        assert result.output == "done"
        assert seen[0] == [(name, spec.input_schema) for name, spec in one.specs.items()]
        parts = [part for message in result.all_messages() for part in message.parts]
        ran, refused = [part.content for part in parts if isinstance(part, ToolReturnPart)]
        assert (ran["output"], ran["exit_code"]) == ("hi\n", 3)
        assert (refused["error"], refused["field"]) == ("invalid_arguments", "cmd")
        assert f"Process {process.handle} has ended: exited 4." in str(parts[0].content)
        json.dumps(ran)
        await bulletin.ack()
        assert [each.process_handle for each in await one.runtime.pending()] == [ran["process_id"]]
