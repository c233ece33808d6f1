"""Whose state directory it is: one for each client, and the same one when that client comes back.  Pure.

What a client is: the name by which it introduces itself (`clientInfo.name`), and the folder in which it has started the
server.  A version is no part of it, for a client that was updated is still the one that waits for its jobs.  Two at
once with the same name in the same folder cannot be told apart: the second is refused, and needs `--state`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from .._state_home import state_home

ANONYMOUS = "client"
"""Who does not introduce itself."""

_MAX_NAME_CHARACTERS = 32


def client_directory(name: str, folder: str, environ: Mapping[str, str]) -> Path:
    """Where the state of the client `name` in `folder` is, by the XDG rules.

    Raises `RuntimeError` where there is no home directory either.
    """
    identity = "\0".join((name, folder)).encode(errors="surrogatepass")
    shown = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_MAX_NAME_CHARACTERS].strip("-") or ANONYMOUS
    return state_home(environ) / "lastword-mcp" / f"{shown}-{hashlib.sha256(identity).hexdigest()[:16]}"
