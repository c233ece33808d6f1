"""The native tools over MCP; every result carries what the client has not acknowledged yet (see `adapters/_desk.py`).

Rules
- Each tool takes one argument more, `notices_cursor`, which the tool itself never sees.  It is settled before the tool
  runs, so that the result carries only what is new.
- A result is one JSON object, structured and as text: clients show models the one or the other.
- What is wrong with a call is a result too (`isError`), of an unknown tool as well: the model reads it and does better.
  It carries notices like any other.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any, cast, final

import anyio
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from ..._runtime import Runtime
from ...notifier import InvalidArgumentError, LastwordError, ProcessCompletionNotification
from ...supervisor import SupervisorError
from .._desk import Desk
from .._ending import Ending
from ..tools import ToolSpec, tool_specs
from ._arrivals import Arrivals
from ._push import Context
from ._resources import refuse_pages

CURSOR = "notices_cursor"

# A process that a result says has ended is told by a notice, too, a few milliseconds later: they go together.
_NOTICE_SECONDS = 1.0

_READ_ONLY = frozenset({"ProcessOutput", "ProcessList"})

logger = logging.getLogger(__name__)


@final
class Tools:
    """What `tools/list` and `tools/call` answer."""

    def __init__(
        self, runtime: Runtime, desk: Desk, arrivals: Arrivals, specs: Sequence[ToolSpec] | None = None
    ) -> None:
        """`specs`: those of the native profile by default."""
        self._runtime = runtime
        self._desk = desk
        self._arrivals = arrivals
        self.specs = {spec.name: spec for spec in (tool_specs(runtime) if specs is None else specs)}
        # Of these the notices were settled in an earlier life, or are at the desk already.
        self._old = {process.handle for process in runtime.supervisor.list(runtime.loop)}

    async def list_all(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        """The tools; always the same."""
        del context
        refuse_pages(params)
        return ListToolsResult(tools=[_tool(spec) for spec in self.specs.values()])

    async def call(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        """One call: settle, do, and answer with the notices.

        Cancelled: the process goes on under its handle, and what was not settled is carried by the next result.
        """
        del context
        arguments = dict(params.arguments or {})
        cursor = arguments.pop(CURSOR, None)
        if cursor is None or isinstance(cursor, str):
            if cursor is not None:
                await self._acknowledge(cursor)
            result = await self._answer(params.name, arguments)
        else:
            result = _error("invalid_arguments", f"{CURSOR}: must be a string", field=CURSOR)
        await self._await_notices(result)
        return _shown(result | await self._notices())

    async def _acknowledge(self, cursor: str) -> None:
        try:
            await self._desk.acknowledge(cursor)
        except InvalidArgumentError:
            return  # made up: it settles nothing, and the result has the right one
        except LastwordError as error:
            logger.warning("notices could not be acknowledged and will be told again: %s", type(error).__name__)

    async def _answer(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        spec = self.specs.get(name)
        if spec is None:
            return _error("not_found", f"there is no such tool; there is {', '.join(self.specs)}")
        try:
            return dict(await spec.handler(arguments))
        except Exception:
            # A handler raises nothing but cancellation; if one does, only this call is lost.
            logger.exception("the tool %s has failed", spec.name)
            return _error("internal_error", "the tool has failed in a way that nobody foresaw; the log tells")

    async def _await_notices(self, result: dict[str, Any]) -> None:
        """Let the notices come of those that ended as the result says."""
        mentioned = _handles(result) - self._old
        ended = {handle for handle in mentioned if not self._arrivals.seen(handle) and self._has_ended(handle)}
        with anyio.move_on_after(_NOTICE_SECONDS):
            await self._arrivals.wait_seen(ended)

    def _has_ended(self, handle: str) -> bool:
        try:
            return self._runtime.supervisor.get(handle, self._runtime.loop).outcome is not None
        except SupervisorError:
            return False

    async def _notices(self) -> dict[str, Any]:
        # The notices and their cursor are taken in one step: what comes in between would be confirmed unseen.
        if not (held := self._desk.held):
            return {}
        told: dict[str, Any] = {"notices": [self._told(each.notification) for each in held], CURSOR: self._desk.tell()}
        if self._arrivals.full and (waiting := await self._waiting() - len(held)) > 0:
            told["notices_waiting"] = waiting
        return told

    async def _waiting(self) -> int:
        try:
            return dict(await self._runtime.session.loops()).get(self._runtime.loop.loop_id, 0)
        except LastwordError:
            return 0  # the journal cannot be asked now; what is held is told all the same

    def _told(self, said: ProcessCompletionNotification) -> dict[str, Any]:
        told: dict[str, Any] = {
            "process_id": said.process_handle,
            "status": said.state.name.lower(),
            "reason": said.reason.name.lower(),
            "exit_code": None,
        }
        try:
            process = self._runtime.supervisor.get(said.process_handle, self._runtime.loop)
        except SupervisorError:
            return told  # its record is gone; its last word is not
        if process.name:
            told["name"] = process.name
        if process.outcome is not None:
            told["exit_code"] = Ending.of_outcome(process.outcome).shown_code
            if process.outcome.diagnostic:
                told["diagnostic"] = process.outcome.diagnostic
        return told


def _tool(spec: ToolSpec) -> Tool:
    schema = dict(spec.input_schema)
    schema["properties"] = {**schema.get("properties", {}), CURSOR: {"type": "string", "description": _CURSOR}}
    return Tool(
        name=spec.name,
        description=spec.description,
        input_schema=schema,
        annotations=ToolAnnotations(read_only_hint=True) if spec.name in _READ_ONLY else None,
    )


def _shown(result: dict[str, Any]) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=json.dumps(result, ensure_ascii=False))],
        structured_content=result,
        is_error="error" in result,
    )


def _handles(result: dict[str, Any]) -> set[str]:
    """The processes that a result is about."""
    parts = [result]
    for key in ("results", "processes"):
        listed = result.get(key)
        if isinstance(listed, list):
            parts += cast("list[dict[str, Any]]", listed)
    return {handle for part in parts if isinstance(handle := part.get("process_id"), str)}


def _error(code: str, message: str, **more: str) -> dict[str, Any]:
    return {"error": code, "message": message, **more}


_CURSOR = (
    "The notices_cursor of the last result that you have read, exactly as it was there. It says that you know its "
    "notices; until then they are repeated."
)
