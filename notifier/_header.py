"""Whose an event is and where it came from: what every event carries beside its body.

An id that is not set is None; so is the zero id.  `agent_name`, `cause` and `created_at` follow no rule beyond being
what the wire can carry.
"""

from __future__ import annotations

from datetime import datetime
from typing import final
from uuid import UUID

import attrs

from ._enums import Visibility
from ._fields import is_optional_id, is_uint8, optional_id, required_id, to_visibility
from ._times import set_time


@final
@attrs.frozen(kw_only=True)
class Owner:
    """Whose a process is, fixed when it starts: a loop of a session."""

    session_id: UUID
    loop_id: UUID


@final
@attrs.frozen(kw_only=True)
class Cause:
    """What an event or command follows from; any of it may be absent.  `agency` is a number from 0 to 255."""

    session_id: UUID | None = attrs.field(default=None, converter=optional_id)
    loop_id: UUID | None = attrs.field(default=None, converter=optional_id)
    turn_id: UUID | None = attrs.field(default=None, converter=optional_id)
    step_id: UUID | None = attrs.field(default=None, converter=optional_id)
    command_id: UUID | None = attrs.field(default=None, converter=optional_id)
    event_id: UUID | None = attrs.field(default=None, converter=optional_id)
    tool_execution_id: UUID | None = attrs.field(default=None, converter=optional_id)
    agency: int = 0


NO_CAUSE = Cause()
"""The cause of what follows from nothing; the one that fields default to."""


@final
@attrs.frozen(kw_only=True)
class EventHeader:
    """An event's identity: which session, loop, turn and step it belongs to, what caused it, when it was made."""

    event_id: UUID = attrs.field(converter=required_id)
    session_id: UUID = attrs.field(converter=required_id)
    loop_id: UUID | None = attrs.field(default=None, converter=optional_id)
    turn_id: UUID | None = attrs.field(default=None, converter=optional_id)
    step_id: UUID | None = attrs.field(default=None, converter=optional_id)
    agent_name: str = ""
    cause: Cause = NO_CAUSE
    created_at: datetime | None = attrs.field(default=None, converter=set_time)
    visibility: Visibility = attrs.field(default=Visibility.PUBLIC, converter=to_visibility)


def is_cause(value: object) -> bool:
    """Whether the wire can carry `value` as a cause."""
    if value is NO_CAUSE:
        return True
    return (
        type(value) is Cause
        and is_uint8(value.agency)
        and all(
            is_optional_id(part)
            for part in (
                value.session_id,
                value.loop_id,
                value.turn_id,
                value.step_id,
                value.command_id,
                value.event_id,
                value.tool_execution_id,
            )
        )
    )
