"""Agents for tests: a runtime, its tools, and a check of every result that they give."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from supervising import HANG_SECONDS, nothing_left

import lastword
from lastword.adapters.tools import Notices, ToolSpec, tool_specs
from lastword.notifier import ProcessEvent
from lastword.session import LoopScope

Result = dict[str, Any]

STATE_KEYS = {"process_id", "status", "exit_code", "reason", "started_at", "finished_at", "backgrounded"}
OUTPUT_KEYS = {"output", "start_cursor", "next_cursor", "total_bytes", "gap", "normalized", "binary"}


class Agent:
    """Calls tools by name, and looks at what every result must be."""

    def __init__(self, runtime: lastword.Runtime, specs: list[ToolSpec], notices: Notices) -> None:
        self.runtime = runtime
        self.specs = {spec.name: spec for spec in specs}
        self.notices = notices

    async def call(self, name: str, /, **arguments: Any) -> Result:
        """The tool's result, as it is after a way through JSON."""
        result = await self.specs[name].handler(arguments)
        check(result)
        return result

    async def told_home(self, handle: str) -> None:
        """Until the journal has the last word of a process, and so the loop its notice, if that is not settled."""
        everything = lastword.EventFilter(enduring=LoopScope.all())
        async for delivery in self.runtime.session.watch(everything):
            match delivery.event:
                case lastword.ProcessCompleted(process=told) | lastword.ProcessLost(process=told):
                    if told.process_handle == handle:
                        return
                case _:
                    pass

    async def events(self, handle: str) -> list[str]:
        """What the journal has of a process by now, in order."""
        return [
            type(delivery.event).__name__
            async for delivery in self.runtime.session.replay()
            if isinstance(delivery.event, ProcessEvent) and delivery.event.process.process_handle == handle
        ]

    def process(self, result: Result) -> lastword.Process:
        """The process that a result is about."""
        return self.runtime.supervisor.get(result["process_id"], self.runtime.loop)


def check(result: Result) -> None:
    """A result is plain JSON that any encoder can write, and an error says what it is."""
    assert type(result) is dict
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    json.dumps(result, ensure_ascii=False).encode()  # no lone surrogate
    assert result.get("error") != "internal_error"
    if "error" in result:
        assert isinstance(result["message"], str)
        assert result["message"]


@asynccontextmanager
async def agent(directory: Path | None = None, *, profile: Any = "native", **options: Any) -> AsyncGenerator[Agent]:
    """An agent with the tools of the main loop, for a block that must leave nothing and must not hang."""
    with nothing_left():
        async with sdk_agent(directory, profile=profile, **options) as one:
            yield one


@asynccontextmanager
async def sdk_agent(directory: Path | None = None, *, profile: Any = "native", **options: Any) -> AsyncGenerator[Agent]:
    """As `agent`, where an SDK keeps threads of its own that outlast the block."""
    with anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(directory, **options) as runtime:
            notices = Notices(runtime, profile=profile)
            yield Agent(runtime, tool_specs(runtime, profile=profile, notices=notices), notices)
