"""LangChain's own agent, with a model that plays a list of messages and a checkpointer that saves the state."""

from __future__ import annotations

import json
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from tool_ground import sdk_agent

from lastword.adapters.bridges.langchain import langchain_tools, notices_middleware


class Scripted(GenericFakeChatModel):
    """Takes tools, and asks for what its script says."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        self.metadata = {"tools": [tool.name for tool in tools]}
        return self


def _call(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"id-{arguments}"}])


async def test_tools_are_called_and_answer_in_json() -> None:
    async with sdk_agent() as one:
        model = Scripted(
            messages=iter([_call("Bash", command="echo hi; exit 3"), _call("Bash", cmd=1), AIMessage("done")])
        )
        bot = create_agent(model, langchain_tools(list(one.specs.values())))
        state = await bot.ainvoke({"messages": [HumanMessage("run it")]})
        assert model.metadata == {"tools": list(one.specs)}
        ran, refused = [json.loads(each.content) for each in state["messages"] if isinstance(each, ToolMessage)]
        assert (ran["output"], ran["exit_code"]) == ("hi\n", 3)
        assert (refused["error"], refused["field"]) == ("invalid_arguments", "cmd")


async def test_notices_reach_the_model_once_in_a_run_and_again_until_the_state_is_saved() -> None:
    async with sdk_agent() as one:
        process = await one.runtime.start("exit 3")
        await one.told_home(process.handle)
        line = f"Process {process.handle} has ended: exited 3."
        script = [_call("Bash", command="true"), AIMessage("done"), AIMessage("done"), AIMessage("done")]
        middleware = notices_middleware(one.notices)
        bot = create_agent(
            Scripted(messages=iter(script)),
            langchain_tools(list(one.specs.values())),
            middleware=[middleware],
            checkpointer=InMemorySaver(),
        )

        async def told(thread: str) -> list[str]:
            config: Any = {"configurable": {"thread_id": thread}}
            state = await bot.ainvoke({"messages": [HumanMessage("go")]}, config)
            people = [each.content for each in state["messages"] if isinstance(each, HumanMessage)]
            return [content for content in people if content != "go"]

        assert await told("never saved") == [line]
        (ran,) = [each for each in one.runtime.supervisor.list(one.runtime.loop) if each is not process]
        await one.told_home(ran.handle)
        # What the lost run was told by a result, too.
        (message,) = await told("saved")
        assert [each.removesuffix(" (You may have been told before.)") for each in message.splitlines()] == [
            line,
            f"Process {ran.handle} has ended: exited 0.",
        ]
        assert len([each for each in await one.runtime.pending() if each.status == "unacknowledged"]) == 2
        await middleware.ack()
        assert await told("next") == []
        assert await one.runtime.pending() == []
