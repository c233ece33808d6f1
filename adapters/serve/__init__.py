"""A runtime behind a socket: the server, its protocol, and the client::

    await serve("jobs")                                  # keeps a runtime in the folder for whoever connects
    async with connect_or_start("jobs") as client:       # or starts one that goes on by itself
        process = await client.start("make test", name="tests")

Importing this costs nothing until a name is used (PEP 562); the client needs little of the core.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._client import Client as Client
    from ._client import EventFeed as EventFeed
    from ._client import Follower as Follower
    from ._client import connect as connect
    from ._daemon import run_server as run_server
    from ._errors import AddressError as AddressError
    from ._errors import ConnectionLostError as ConnectionLostError
    from ._errors import ForeignPeerError as ForeignPeerError
    from ._errors import NotServedError as NotServedError
    from ._errors import RequestError as RequestError
    from ._errors import ServeError as ServeError
    from ._errors import ServeStartError as ServeStartError
    from ._errors import SilentServerError as SilentServerError
    from ._keys import key_bytes as key_bytes
    from ._limits import SERVE_LIMITS as SERVE_LIMITS
    from ._replies import AcknowledgeReply as AcknowledgeReply
    from ._replies import FaultCode as FaultCode
    from ._replies import StatusReply as StatusReply
    from ._replies import StopReply as StopReply
    from ._replies import WaitReply as WaitReply
    from ._resolve import AmbiguousProcessError as AmbiguousProcessError
    from ._resolve import Candidate as Candidate
    from ._resolve import NoSuchProcessError as NoSuchProcessError
    from ._resolve import resolve as resolve
    from ._server import serve as serve
    from ._starting import connect_or_start as connect_or_start
    from ._values import Chunk as Chunk
    from ._values import EventInfo as EventInfo
    from ._values import OutcomeInfo as OutcomeInfo
    from ._values import PendingInfo as PendingInfo
    from ._values import ProcessInfo as ProcessInfo
    from ._values import Resources as Resources
    from ._values import Size as Size

# Where each name lives.  tests/adapters/serve/test_face.py compares this table with the imports above.
_HOMES = {
    "_client": ("Client", "EventFeed", "Follower", "connect"),
    "_daemon": ("run_server",),
    "_errors": (
        "AddressError",
        "ConnectionLostError",
        "ForeignPeerError",
        "NotServedError",
        "RequestError",
        "ServeError",
        "ServeStartError",
        "SilentServerError",
    ),
    "_keys": ("key_bytes",),
    "_limits": ("SERVE_LIMITS",),
    "_replies": ("AcknowledgeReply", "FaultCode", "StatusReply", "StopReply", "WaitReply"),
    "_resolve": ("AmbiguousProcessError", "Candidate", "NoSuchProcessError", "resolve"),
    "_server": ("serve",),
    "_starting": ("connect_or_start",),
    "_values": ("Chunk", "EventInfo", "OutcomeInfo", "PendingInfo", "ProcessInfo", "Resources", "Size"),
}

__all__ = [
    "SERVE_LIMITS",
    "AcknowledgeReply",
    "AddressError",
    "AmbiguousProcessError",
    "Candidate",
    "Chunk",
    "Client",
    "ConnectionLostError",
    "EventFeed",
    "EventInfo",
    "FaultCode",
    "Follower",
    "ForeignPeerError",
    "NoSuchProcessError",
    "NotServedError",
    "OutcomeInfo",
    "PendingInfo",
    "ProcessInfo",
    "RequestError",
    "Resources",
    "ServeError",
    "ServeStartError",
    "SilentServerError",
    "Size",
    "StatusReply",
    "StopReply",
    "WaitReply",
    "connect",
    "connect_or_start",
    "key_bytes",
    "resolve",
    "run_server",
    "serve",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(f".{home}", __name__), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
