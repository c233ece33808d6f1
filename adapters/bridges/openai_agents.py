"""The OpenAI Agents SDK: function tools, and the executor of its own ShellTool.

notices = Notices(runtime)
specs = tool_specs(runtime, notices=notices)
agent = Agent(..., tools=[ShellTool(executor=shell_executor(specs)), *function_tools(specs)])
async with notices.turn() as bulletin:
    result = await Runner.run(agent, "\n".join([*bulletin.lines, prompt]))
    save(result.to_input_list())
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from signal import Signals
from typing import Any

from .._ending import Ending, spawn_status
from ..tools import MAX_WAIT_MS, ToolSpec, one_answer
from ._sdk import as_json, parsed, sdk, spec_of


def function_tools(specs: Sequence[ToolSpec]) -> list[Any]:
    """The tools, as the SDK's `FunctionTool`s."""
    agents = sdk("agents", "openai-agents")
    return [
        agents.FunctionTool(
            name=spec.name,
            description=spec.description,
            params_json_schema=spec.input_schema,
            on_invoke_tool=_invoke(spec),
            strict_json_schema=False,  # the strict kind knows no argument that may be left out
        )
        for spec in specs
    ]


def shell_executor(specs: Sequence[ToolSpec]) -> Callable[[Any], Awaitable[Any]]:
    """What `ShellTool` takes as its executor; `specs` are those of the native profile.

    A command that does not end within the model's `timeout_ms` is told as timed out and goes on in the background; its
    stderr names the process id: add `function_tools`, and the model can read on and stop it.  Cancelled between two
    commands: what the first has told counts as told no longer, and the next bulletin tells it.
    """
    bash = spec_of(specs, "Bash")
    if bash is None:
        raise ValueError("shell_executor takes the tools of the native profile, and there is no Bash among these")

    async def execute(request: Any) -> Any:
        agents = sdk("agents", "openai-agents")
        action = request.data.action
        with one_answer():
            outputs = [await _run(agents, bash, command, action.timeout_ms) for command in action.commands]
            return agents.ShellResult(output=outputs, max_output_length=action.max_output_length)

    return execute


async def _run(agents: Any, bash: ToolSpec, command: str, timeout_ms: int | None) -> Any:
    budget = {} if timeout_ms is None else {"yield_time_ms": min(max(timeout_ms, 0), MAX_WAIT_MS)}
    result = await bash.handler({"command": command, **budget})
    running = result.get("status") == "running"
    outcome = {"type": "timeout"} if running else {"type": "exit", "exit_code": status_of(result)}
    said = result.get("message", "")
    if running:
        said = f"it goes on in the background as process {result['process_id']}"
    return agents.ShellCommandOutput(
        stdout=result.get("output", ""), stderr=said, outcome=agents.ShellCallOutcome(**outcome), command=command
    )


def status_of(result: dict[str, Any]) -> int:
    """A number, which this SDK must have: what a shell would make of it, or of a command that never ran."""
    code: int | None = result.get("exit_code")
    if "error" in result or code is None:
        number = Signals.__members__.get(result.get("signal", ""))
        ending = Ending(state=result.get("status", ""), shell_code=None if number is None else 128 + number)
        return spawn_status(result["kind"]) if "kind" in result else ending.status
    return code


def _invoke(spec: ToolSpec) -> Callable[[Any, str], Awaitable[str]]:
    async def invoke(context: Any, arguments: str) -> str:
        del context
        return as_json(await spec.handler(parsed(arguments)))

    return invoke
