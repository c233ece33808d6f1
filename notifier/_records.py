"""What goes into a journal, and what comes back.

A record is bytes with just enough beside them to index: who it is for, which process it is about, whether it is that
process's last word, and which notification it consumes.  The bytes are final: whoever retries appends the same bytes.
"""

from __future__ import annotations

from enum import IntEnum
from uuid import UUID

import attrs


class RecordKind(IntEnum):
    """What a record is."""

    EVENT = 1
    COMMAND = 2
    CONSUMPTION = 3
    FENCE = 4


@attrs.frozen
class NewRecord:
    """A record that is to be appended.

    - `record_id`: the idempotency key: the same id with the same bytes is a duplicate, with others a collision.
    - `loop_id`: whose it is; a command without one is pending for nobody.
    - `subject`: the handle of the process it is about; `terminal` marks that process's last word.
    - `consumes`: the id of the notification that this record settles.
    - `public`: whether replay shows it.
    """

    record_id: UUID
    kind: RecordKind
    payload: bytes = attrs.field(repr=False)
    loop_id: UUID | None = attrs.field(default=None, kw_only=True)
    subject: str | None = attrs.field(default=None, kw_only=True)
    terminal: bool = attrs.field(default=False, kw_only=True)
    consumes: UUID | None = attrs.field(default=None, kw_only=True)
    public: bool = attrs.field(default=True, kw_only=True)


@attrs.frozen
class Appended:
    """The record is new and durable, at `seq`."""

    seq: int


@attrs.frozen
class Duplicate:
    """The very same record is durable already, at `seq`; `consumed` says whether a consumption names it."""

    seq: int
    consumed: bool


@attrs.frozen
class Collision:
    """Another record has this id, at `seq`; nothing of the unit was written."""

    seq: int


@attrs.frozen
class SecondTerminal:
    """The process already has its last word, at `seq`, and this is not it; nothing of the unit was written."""

    seq: int


AppendResult = Appended | Duplicate | Collision | SecondTerminal
