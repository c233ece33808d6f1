"""Anthropic's own client, with a transport that plays the API: tools go out and results come back as it wants them."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest
from tool_ground import sdk_agent

from lastword.adapters.bridges.anthropic import anthropic_results, anthropic_tools


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


class Api:
    """Answers with one message after another, and keeps what it was asked."""

    def __init__(self, *contents: list[dict[str, Any]]) -> None:
        self.contents = list(contents)
        self.asked: list[dict[str, Any]] = []

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(json.loads(request.content))
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": self.contents.pop(0),
            "stop_reason": "tool_use" if self.contents else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        return httpx2.Response(200, json=message)


async def test_a_conversation_with_two_calls() -> None:
    api = Api(
        [
            {"type": "text", "text": "I run it."},
            {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "echo hi; exit 3"}},
            {"type": "tool_use", "id": "b", "name": "Bash", "input": {"cmd": "true"}},
            {"type": "tool_use", "id": "c", "name": "Other", "input": {}},
        ],
        [{"type": "text", "text": "Done."}],
    )
    async with sdk_agent() as one:
        specs = list(one.specs.values())
        transport = httpx2.AsyncClient(transport=httpx2.MockTransport(api.answer))
        async with anthropic.AsyncAnthropic(api_key="none", http_client=transport) as client:
            messages: list[Any] = [{"role": "user", "content": "Run it"}]
            for _ in range(2):
                message = await client.messages.create(
                    model="claude", max_tokens=100, tools=anthropic_tools(specs), messages=messages
                )
                messages.append({"role": "assistant", "content": message.content})
                results = await anthropic_results(specs, message.content)
                if results:
                    messages.append({"role": "user", "content": results})
        assert [tool["name"] for tool in api.asked[0]["tools"]] == list(one.specs)
        assert api.asked[0]["tools"][0]["input_schema"] == one.specs["Bash"].input_schema
        ran, refused = api.asked[1]["messages"][2]["content"]
        assert (ran["type"], ran["tool_use_id"], ran.get("is_error")) == ("tool_result", "a", None)
        said = json.loads(ran["content"])
        assert (said["output"], said["exit_code"]) == ("hi\n", 3)
        assert (refused["tool_use_id"], refused["is_error"]) == ("b", True)
        assert json.loads(refused["content"])["field"] == "cmd"
        await one.told_home(said["process_id"])
        assert (await one.notices.collect()).lines == []


async def test_blocks_may_be_dicts() -> None:
    async with sdk_agent() as one:
        block = {"type": "tool_use", "id": "a", "name": "ProcessList", "input": {}}
        (result,) = await anthropic_results(list(one.specs.values()), [{"type": "text", "text": "x"}, block])
        assert json.loads(result["content"]) == {"processes": []}
