"""Anthropic's Messages API: tool dicts for the request, and tool results for the next one.  It needs no SDK.

async with notices.turn() as bulletin:
    messages.append({"role": "user", "content": "\n".join([*bulletin.lines, prompt])})
    message = await client.messages.create(..., tools=anthropic_tools(specs), messages=messages)
    messages.append({"role": "assistant", "content": message.content})
    messages.append({"role": "user", "content": await anthropic_results(specs, message.content)})
    save(messages)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from ..tools import ToolSpec, one_answer
from ._sdk import as_json, spec_of


def anthropic_tools(specs: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """The tools, as the API takes them."""
    return [{"name": spec.name, "description": spec.description, "input_schema": spec.input_schema} for spec in specs]


async def anthropic_results(specs: Sequence[ToolSpec], content: Iterable[Any]) -> list[dict[str, Any]]:
    """Call what the message's content asks for, one after the other, and return the tool_result blocks.

    Blocks may be the SDK's objects or dicts; a tool that is not of `specs` is left to the caller.  Cancelled: the
    results that were there are lost, so what they have told counts as told no longer, and the next bulletin tells it.
    """
    results: list[dict[str, Any]] = []
    with one_answer():
        for block in content:
            found = cast("dict[str, Any]", block if isinstance(block, dict) else vars(block))
            spec = spec_of(specs, found["name"]) if found.get("type") == "tool_use" else None
            if spec is not None:
                result = await spec.handler(found["input"])
                answer = {"type": "tool_result", "tool_use_id": found["id"], "content": as_json(result)}
                results.append(answer | ({"is_error": True} if "error" in result else {}))
    return results
