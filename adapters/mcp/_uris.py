"""The addresses of processes as resources.  Pure, but for `own_process`.

process://HANDLE            what has become of it, and the end of its output
process://HANDLE/output     the end of its output alone
"""

from __future__ import annotations

from typing import Literal

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from ..._runtime import Runtime
from ...supervisor import Process, SupervisorError

_SCHEME = "process://"
_OUTPUT = "/output"

PROCESS_TEMPLATE = "process://{process_id}"
OUTPUT_TEMPLATE = "process://{process_id}/output"

Part = Literal["all", "output"]


def process_uri(handle: str) -> str:
    """The address of a process."""
    return f"{_SCHEME}{handle}"


def output_uri(handle: str) -> str:
    """The address of a process's output."""
    return f"{_SCHEME}{handle}{_OUTPUT}"


def parse_uri(uri: str) -> tuple[str, Part] | None:
    """The handle, and what of it is meant; None for what is no such address."""
    if not uri.startswith(_SCHEME):
        return None
    rest = uri.removeprefix(_SCHEME)
    return (rest.removesuffix(_OUTPUT), "output") if rest.endswith(_OUTPUT) else (rest.removesuffix("/"), "all")


def own_process(runtime: Runtime, uri: str) -> tuple[Process, Part]:
    """The client's process of that address.  Raises `MCPError` (invalid params) for what is none of the client's."""
    address = parse_uri(uri)
    if address is None:
        raise no_resource("is no address of a process; those are process://PROCESS_ID")
    handle, part = address
    try:
        return runtime.supervisor.get(handle, runtime.loop), part
    except SupervisorError:
        raise no_resource("names no process of yours; ProcessList names them") from None


def no_resource(why: str) -> MCPError:
    """The error for an address, which is not shown."""
    return MCPError(code=INVALID_PARAMS, message=f"the uri {why}")
