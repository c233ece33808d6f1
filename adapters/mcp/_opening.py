"""The first request says who the client is; it is looked at, and then served like any other.

Rules
- Nobody is asked anything: a request before the introduction, or one that needs none, is an anonymous client's.
- Where the server cannot be had, whoever asks is told why, once: a client shows that, and not what stderr says.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast, final

import anyio
import attrs
from anyio.abc import ObjectReceiveStream
from mcp.shared.message import SessionMessage
from mcp_types import CLIENT_INFO_META_KEY, INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCRequest

from ._client_state import ANONYMOUS
from ._transport import Incoming, Outgoing

# Of what comes before the first request so much is kept; that a client has initialized is what matters there.
_MAX_KEPT = 8

# A client that probes for the newest protocol asks again by the old one; then it has heard it.
_REFUSING_SECONDS = 3.0


@final
@attrs.frozen(kw_only=True)
class Opening:
    """What came until the first request, that included."""

    messages: tuple[SessionMessage | Exception, ...]
    request: JSONRPCRequest

    @property
    def client(self) -> str:
        """By which name the client introduces itself."""
        return client_name(self.request.method, self.request.params)


async def first_request(incoming: Incoming) -> Opening | None:
    """Receive until a request has come; None where the client leaves before."""
    came: list[SessionMessage | Exception] = []
    while True:
        try:
            item = await incoming.receive()
        except anyio.EndOfStream:
            return None
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCRequest):
            return Opening(messages=(*came, item), request=item.message)
        if len(came) < _MAX_KEPT:
            came.append(item)


def client_name(method: str, params: Mapping[str, Any] | None) -> str:
    """The name in `initialize`, or in the envelope of a request of the newer protocol.  Pure."""
    given: Any = params or {}
    info = given.get("clientInfo") if method == "initialize" else _member(given.get("_meta"), CLIENT_INFO_META_KEY)
    name = _member(info, "name")
    return name if isinstance(name, str) and name else ANONYMOUS


def _member(value: object, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


async def refuse(opening: Opening, incoming: Incoming, outgoing: Outgoing, why: str) -> None:
    """Tell the client why there is no server for it; bounded."""
    request = opening.request
    gone = (anyio.BrokenResourceError, anyio.ClosedResourceError)
    with anyio.move_on_after(_REFUSING_SECONDS), suppress(*gone):
        while True:
            error = ErrorData(code=INTERNAL_ERROR, message=why)
            await outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request.id, error=error)))
            if request.method == "initialize":
                return
            again = await first_request(incoming)
            if again is None:
                return
            request = again.request


@final
class Replayed(ObjectReceiveStream[SessionMessage | Exception]):
    """A stream that gives what came already, and then what comes."""

    def __init__(self, came: tuple[SessionMessage | Exception, ...], rest: Incoming) -> None:
        self._came = list(came)
        self._rest = rest

    async def receive(self) -> SessionMessage | Exception:
        """The next one."""
        return self._came.pop(0) if self._came else await self._rest.receive()

    async def aclose(self) -> None:
        """Close what is behind it."""
        await self._rest.aclose()
