"""The client's processes as resources: a record, and the end of the output.

What is shown is what the tools show of the same process, so that neither has a field that the other must hide.
"""

from __future__ import annotations

import json
from typing import final

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from ..._runtime import Runtime
from ...supervisor import Process, SupervisorError
from .._ending import Ending
from ..tools import ToolSpec
from ._push import Context, Hints
from ._uris import OUTPUT_TEMPLATE, PROCESS_TEMPLATE, no_resource, output_uri, own_process, process_uri

_RECORD_TYPE = "application/json"
_OUTPUT_TYPE = "text/plain"


@final
class ProcessResources:
    """What `resources/list`, `resources/read` and `resources/templates/list` answer."""

    def __init__(self, runtime: Runtime, reader: ToolSpec, hints: Hints) -> None:
        self._runtime = runtime
        self._reader = reader
        self._hints = hints

    async def list_all(self, context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        """Every process that is known; they are few enough for one page."""
        refuse_pages(params)
        self._hints.has_list(context)
        known = self._runtime.supervisor.list(self._runtime.loop)
        return ListResourcesResult(resources=[_resource(process) for process in known])

    async def list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """How the addresses are made."""
        del context
        refuse_pages(params)
        record = ResourceTemplate(
            uri_template=PROCESS_TEMPLATE,
            name="process",
            description="What has become of a process (JSON), and the end of its output.",
        )
        output = ResourceTemplate(
            uri_template=OUTPUT_TEMPLATE,
            name="output",
            description="The end of a process's output, as text.",
            mime_type=_OUTPUT_TYPE,
        )
        return ListResourceTemplatesResult(resource_templates=[record, output])

    async def read(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """One process.  Raises `MCPError` (invalid params) for what is none of the client's."""
        del context
        process, part = own_process(self._runtime, params.uri)
        handle = process.handle
        try:
            total = (await process.read_output(0, 1)).total
        except SupervisorError:
            raise no_resource("cannot be read now; ProcessOutput tells why") from None
        cursor = max(0, total - self._runtime.supervisor.limits.inline_bytes)
        shown = await self._reader.handler({"process_id": handle, "cursor": cursor})
        if "output" not in shown:
            raise no_resource("cannot be read now; ProcessOutput tells why")
        text = shown.pop("output")
        shown.pop("note", None)
        output = TextResourceContents(uri=output_uri(handle), mime_type=_OUTPUT_TYPE, text=text)
        if part == "output":
            return ReadResourceResult(contents=[output])
        record = TextResourceContents(uri=process_uri(handle), mime_type=_RECORD_TYPE, text=json.dumps(shown))
        return ReadResourceResult(contents=[record, output])


def refuse_pages(params: PaginatedRequestParams | None) -> None:
    """Raise `MCPError` for a page that was never offered: every list is one page."""
    if params is not None and params.cursor is not None:
        raise MCPError(code=INVALID_PARAMS, message="there is one page only; leave the cursor out")


def _resource(process: Process) -> Resource:
    outcome = process.outcome
    return Resource(
        uri=process_uri(process.handle),
        name=process.name or process.handle,
        description=process.state.name.lower() if outcome is None else Ending.of_outcome(outcome).words,
        mime_type=_RECORD_TYPE,
    )
