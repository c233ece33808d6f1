"""The addresses of processes as resources.  Pure.

process://HANDLE            what has become of it, and the end of its output
process://HANDLE/output     the end of its output alone
"""

from __future__ import annotations

from typing import Literal

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
