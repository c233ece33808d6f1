"""Who is who: one UUIDv7 per process names everything that will ever be said of it.

The id is minted and durable before anything is spawned, and its last byte names the role (design: identity).  So every
retry and every incarnation of the host uses the same ids, nobody mints a replacement, and whoever reads one event of a
process in a journal can finish that process with its own ids.
"""

from __future__ import annotations

import base64
import secrets
import time
from enum import IntEnum
from uuid import UUID, uuid5

import attrs

from ._errors import InvalidArgumentError
from ._fields import optional_id

_ACK_NAME = "ack"


class _Role(IntEnum):
    PROCESS = 0
    STARTED = 1
    BACKGROUNDED = 2
    STOP_REQUESTED = 3
    COMPLETED = 4
    LOST = 5
    COMMAND = 6


@attrs.frozen(kw_only=True)
class ProcessIds:
    """The seven ids of one process; each differs from the others in its last byte alone."""

    process: UUID
    started: UUID
    backgrounded: UUID
    stop_requested: UUID
    completed: UUID
    lost: UUID
    command: UUID


def process_ids(base: UUID) -> ProcessIds:
    """All ids of the process that `base` belongs to; `base` may be any of the seven (its last byte is ignored).

    Raises `InvalidArgumentError` for what is no UUID.
    """
    plain = optional_id(base)
    # The zero UUID stems from nothing, but there are ids that come of it.
    if plain is None and base is not None:  # pyright: ignore[reportUnnecessaryComparison] - untyped callers
        plain = UUID(int=0)
    if type(plain) is not UUID:
        raise InvalidArgumentError("base", "must be a UUID")
    stem = plain.bytes[:-1]
    return ProcessIds(**{role.name.lower(): UUID(bytes=stem + bytes((role,))) for role in _Role})


def ack_id(command_id: UUID) -> UUID:
    """The id of the record that consumes the notification `command_id`; the same on every try, so a repeat is known."""
    return uuid5(command_id, _ACK_NAME)


def main_loop_id(session_id: UUID) -> UUID:
    """The id of a session's main loop, the same for the session's whole life."""
    return uuid5(session_id, "main")


def new_uuid7() -> UUID:
    """A fresh time-ordered UUID (RFC 9562, version 7): 48 bits of Unix milliseconds, then 74 random bits.

    Ordered ids keep a journal's unique index local: about six times fewer bytes written than with random ones.
    """
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & (2**48 - 1)) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)


def new_handle() -> str:
    """A fresh process handle: 16 random bytes as 22 characters of unpadded URL-safe base64.  It cannot be guessed."""
    return base64.urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode("ascii")
