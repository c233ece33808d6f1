"""The OpenAI Agents SDK's own runner, with a model that plays a list of answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, ShellTool, Usage
from openai.types.responses import (
    ResponseFunctionShellToolCall,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from tool_ground import sdk_agent

from lastword.adapters.bridges.openai_agents import function_tools, shell_executor


class Scripted(Model):
    """Answers with one output after another, and keeps what it was given."""

    def __init__(self, *outputs: Any) -> None:
        self.outputs = [*outputs, _message("done")]
        self.given: list[Any] = []
        self.tools: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **options: Any) -> ModelResponse:  # noqa: A002 -- the SDK's name
        self.given.append(input)
        self.tools = rest[1] if len(rest) > 1 else options["tools"]
        return ModelResponse(output=[self.outputs.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def _message(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(annotations=[], text=text, type="output_text")
    return ResponseOutputMessage(id="m", content=[content], role="assistant", status="completed", type="message")


def _call(name: str, arguments: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(arguments=arguments, call_id=f"call-{arguments}", name=name, type="function_call")


def _shell(*commands: str, timeout_ms: int | None = None) -> ResponseFunctionShellToolCall:
    action = {"commands": list(commands), "timeout_ms": timeout_ms, "max_output_length": 1000}
    return ResponseFunctionShellToolCall.model_validate(
        {"id": "s", "action": action, "call_id": f"call-{commands}", "status": "completed", "type": "shell_call"}
    )


def _outputs(given: Any) -> list[Any]:
    return [item for item in given if isinstance(item, dict) and str(item.get("type")).endswith("_output")]


async def test_function_tools_are_called_and_answer_in_json() -> None:
    async with sdk_agent() as one:
        model = Scripted(
            _call("Bash", '{"command": "echo hi; exit 3"}'), _call("Bash", '{"cmd": 1}'), _call("Bash", "{")
        )
        bot = Agent(name="bot", model=model, tools=function_tools(list(one.specs.values())))
        result = await Runner.run(bot, "run it")
        assert result.final_output == "done"
        # Strict ones must name every argument as required, so a schema with optional ones is sent as it is.
        assert [(tool.name, tool.params_json_schema, tool.strict_json_schema) for tool in model.tools] == [
            (name, spec.input_schema, False) for name, spec in one.specs.items()
        ]
        ran, refused, no_json = [json.loads(item["output"]) for item in _outputs(model.given[-1])]
        assert (ran["output"], ran["exit_code"]) == ("hi\n", 3)
        assert (refused["error"], refused["field"]) == ("invalid_arguments", "cmd")
        assert (no_json["error"], no_json["field"]) == ("invalid_arguments", "")
        await one.told_home(ran["process_id"])
        assert (await one.notices.collect()).lines == []


async def test_the_shell_tool_runs_commands_and_what_takes_longer_goes_on() -> None:
    async with sdk_agent() as one:
        specs = list(one.specs.values())
        model = Scripted(_shell("echo hi; exit 3", "kill -9 $$"), _shell("echo begun; exec sleep 60", timeout_ms=100))
        bot = Agent(name="bot", model=model, tools=[ShellTool(executor=shell_executor(specs)), *function_tools(specs)])
        assert (await Runner.run(bot, "run it")).final_output == "done"
        first, second = _outputs(model.given[-1])
        ended, killed = first["output"]
        assert (ended["stdout"], ended["outcome"]) == ("hi\n", {"type": "exit", "exit_code": 3})
        assert killed["outcome"] == {"type": "exit", "exit_code": 137}
        (running,) = second["output"]
        assert running["outcome"] == {"type": "timeout"}
        (process,) = [each for each in one.runtime.supervisor.list(one.runtime.loop) if each.outcome is None]
        assert process.handle in running["stderr"]
        assert process.backgrounded


async def test_what_never_ran_has_a_code_and_says_why() -> None:
    async with sdk_agent() as one:
        model = Scripted(_shell("a\0b"))
        bot = Agent(name="bot", model=model, tools=[ShellTool(executor=shell_executor(list(one.specs.values())))])
        await Runner.run(bot, "run it")
        (output,) = _outputs(model.given[-1])[0]["output"]
        assert output["outcome"] == {"type": "exit", "exit_code": 125}
        assert "NUL" in output["stderr"]
