"""What the protocol allows, in one place; docs/serve.md says the same to whoever writes another client."""

from __future__ import annotations

VERSION = 1
"""Any change of what goes over the socket is another version; a server speaks one."""

MAX_LINE_BYTES = 1024 * 1024
"""One request or reply.  The environment and arguments of a real command are far below; all of it is held in memory."""

MAX_CHUNK_BYTES = 256 * 1024
"""Bytes of output or input in one line: base64 makes a third more of them."""

MAX_CONNECTIONS = 64
"""A person's terminals and scripts, with room.

Of each the server holds at most its requests that are not answered yet, the line that it is reading and the one that it
is sending.
"""

MAX_IN_FLIGHT = 32
"""Requests of one connection that are not answered yet."""

MAX_WORDS = 256
"""Processes that one request may name."""

PAGE_ITEMS = 100
"""Processes, events or pending records in one reply: a page of the longest ones is below a line."""

HELLO_SECONDS = 10.0
"""How long a connection may say nothing before its hello."""
