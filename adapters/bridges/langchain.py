"""LangChain: tools, and a middleware that tells the model what has happened meanwhile.

notices = Notices(runtime)
middleware = notices_middleware(notices)
agent = create_agent(model, langchain_tools(tool_specs(runtime, notices=notices)), middleware=[middleware])
state = await agent.ainvoke({"messages": [...]})  # saved by your checkpointer, or by you
await middleware.ack()
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..tools import Notices, ToolSpec
from ._sdk import as_json, sdk


def langchain_tools(specs: Sequence[ToolSpec]) -> list[Any]:
    """The tools, as `StructuredTool`s; they are async alone."""
    tools = sdk("langchain_core.tools", "langchain-core")
    return [
        tools.StructuredTool.from_function(
            coroutine=_coroutine(spec), name=spec.name, description=spec.description, args_schema=spec.input_schema
        )
        for spec in specs
    ]


def notices_middleware(notices: Notices) -> Any:
    """An `AgentMiddleware` that puts notices before the model as a message; its `ack()` settles what was shown.

    Call `await middleware.ack()` when the run's state is saved.  After a run that was not, the next one tells
    the same again, by messages also what tools' results had told.  One middleware serves one conversation, as one
    `Notices` does.
    """
    base = sdk("langchain.agents.middleware", "langchain").AgentMiddleware
    message = sdk("langchain_core.messages", "langchain-core").HumanMessage

    class NoticesMiddleware(base):  # type: ignore[misc, valid-type]  # the SDK's class is known when it is there
        """Tells the model what has happened since it was last told."""

        def __init__(self) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType] -- as above
            self._cursor: str | None = None

        async def abefore_agent(self, state: Any, runtime: Any) -> None:
            """A run begins: what is not settled is news to it, also what results have told one that was not saved."""
            del state, runtime
            self._cursor = None
            notices.release()

        async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
            """What has come since the run's last call of the model."""
            del state, runtime
            bulletin = await notices.collect(since=self._cursor)
            self._cursor = bulletin.cursor
            return {"messages": [message("\n".join(bulletin.lines))]} if bulletin.lines else None

        async def ack(self) -> None:
            """Settle what the last run has told, by messages and by results; see `Notices.ack`."""
            if self._cursor is not None:
                await notices.ack(self._cursor)

    return NoticesMiddleware()


def _coroutine(spec: ToolSpec) -> Callable[..., Awaitable[str]]:
    async def call(**arguments: Any) -> str:
        return as_json(await spec.handler(arguments))

    return call
