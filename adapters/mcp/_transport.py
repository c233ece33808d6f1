"""Messages over the wire, as the SDK's server takes them: one JSON object a line.

Rules
- A line that is no message is answered where an answer can be matched (`id`), or with the id null, and harms nothing.
- What cannot be written as JSON becomes an error for whoever waits for it; the writer goes on.
- At the end what was accepted is still written, for a bounded time: a client that does not read holds nobody up.

The SDK's own stdio transport reads in a thread that cannot be cancelled, so a server on it ends only when its client
lets it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
import attrs
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json

from ._lines import MAX_LINE_BYTES, LineSplitter
from ._wire import Wire, WireBrokenError

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]
Serve = Callable[[Incoming, Outgoing], Awaitable[None]]

# How long what was accepted may take to be written when all is over.
_FLUSH_SECONDS = 1.0

logger = logging.getLogger(__name__)


async def run_transport(wire: Wire, serve: Serve) -> None:
    """Have `serve` speak over the wire, until it returns.

    The end of stdin ends what it reads; it is cancelled where nobody reads stdout any more.
    """
    read_sender, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
    outgoing, write_receiver = anyio.create_memory_object_stream[SessionMessage]()
    complaints = outgoing.clone()  # the reader's own: the server closes its end when it is done
    serving = anyio.CancelScope()
    written = anyio.Event()

    async def read() -> None:
        async with read_sender, complaints:
            await _read(wire, read_sender, complaints)

    async def write() -> None:
        async with write_receiver:
            try:
                async for message in write_receiver:
                    await wire.write(encoded(message.message))
            except WireBrokenError:
                serving.cancel()
        written.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        tasks.start_soon(read)
        with serving:
            async with incoming, outgoing:
                await serve(incoming, outgoing)
        complaints.close()
        with anyio.move_on_after(_FLUSH_SECONDS):
            await written.wait()
        tasks.cancel_scope.cancel()


async def _read(wire: Wire, accepted: MemoryObjectSendStream[SessionMessage | Exception], answers: Outgoing) -> None:
    splitter = LineSplitter()
    at_end = False
    while not at_end:
        piece = await wire.read()
        at_end = not piece
        for line in splitter.finish() if at_end else splitter.feed(piece):
            if line is not None and line.isspace():
                continue
            message = _refused_for_size() if line is None else _decoded(line)
            try:
                if isinstance(message, _Refusal):
                    logger.warning("a line was refused: %s", message.answer.error.message)
                    await answers.send(SessionMessage(message.answer))
                else:
                    await accepted.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the server is done


@attrs.frozen
class _Refusal:
    """What a line that is no message is answered."""

    answer: JSONRPCError


def _decoded(line: bytes) -> JSONRPCMessage | _Refusal:
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        pass
    try:
        value = from_json(line)
    except ValueError:
        why = "the line is not JSON; send one JSON-RPC message a line, in UTF-8"
        return _Refusal(_error(None, PARSE_ERROR, why))
    why = "the line is no JSON-RPC 2.0 message; send one a line, and no batches"
    return _Refusal(_error(_id_of(value), INVALID_REQUEST, why))


def _id_of(value: object) -> RequestId | None:
    """Who asked; None where it cannot be told."""
    if not isinstance(value, dict):
        return None
    found = cast("dict[str, Any]", value).get("id")
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def _refused_for_size() -> _Refusal:
    return _Refusal(_error(None, INVALID_REQUEST, f"the line is longer than {MAX_LINE_BYTES} bytes and was skipped"))


def encoded(message: JSONRPCMessage) -> bytes:
    """The message as one line; where that cannot be, an error for whoever waits for it.  Pure but for the log."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except (PydanticSerializationError, ValueError):
        logger.exception("a message cannot be written as JSON")
        who = message.id if isinstance(message, JSONRPCResponse | JSONRPCError) else None
        return _error(who, INTERNAL_ERROR, "the answer cannot be written as JSON").model_dump_json().encode()


def _error(who: RequestId | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=who, error=ErrorData(code=code, message=message))
