"""An MCP server for agents: background jobs whose end is on every tool result until the client has confirmed it.

    wire = take_wire()
    anyio.run(serve_client, wire)

Needs the extra `mcp`.  The SDK is loaded when `serve_client` is looked up and not before (PEP 562), so that the wire
can be taken first: what the import of others prints would be on it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ._client_state import client_directory as client_directory
from ._wire import NoWireError as NoWireError
from ._wire import Wire as Wire
from ._wire import take_wire as take_wire

if TYPE_CHECKING:
    from ._explained import explained as explained
    from ._serving import serve_client as serve_client

__all__ = ["NoWireError", "Wire", "client_directory", "explained", "serve_client", "take_wire"]


_LATER = {"explained": "._explained", "serve_client": "._serving"}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value: object = getattr(import_module(_LATER[name], __name__), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types"}:
            raise
        raise ModuleNotFoundError(
            "the MCP server needs an extra: pip install 'lastword[mcp]'", name=error.name
        ) from None
    globals()[name] = value
    return value
