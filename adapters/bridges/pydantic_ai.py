"""pydantic-ai: a toolset.

agent = Agent(model, toolsets=[pydantic_ai_toolset(tool_specs(runtime, notices=notices))])
async with notices.turn() as bulletin:
    result = await agent.run([*bulletin.lines, prompt])
    save(result.all_messages())
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..tools import ToolSpec
from ._sdk import sdk


def pydantic_ai_toolset(specs: Sequence[ToolSpec]) -> Any:
    """The tools, as a `FunctionToolset`; what is wrong with the arguments the tools say themselves."""
    pydantic_ai = sdk("pydantic_ai", "pydantic-ai-slim")
    toolsets = sdk("pydantic_ai.toolsets", "pydantic-ai-slim")
    return toolsets.FunctionToolset(
        [
            pydantic_ai.Tool.from_schema(
                _function(spec), name=spec.name, description=spec.description, json_schema=spec.input_schema
            )
            for spec in specs
        ]
    )


def _function(spec: ToolSpec) -> Callable[..., Awaitable[dict[str, Any]]]:
    async def call(**arguments: Any) -> dict[str, Any]:
        return await spec.handler(arguments)

    return call
