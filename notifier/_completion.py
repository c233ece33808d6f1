"""The notification that a process has come to its end: what a loop is told, and what it acknowledges.

The rules stand in `_first_invalid_field`, in the order in which they are asked.
"""

from __future__ import annotations

from typing import final
from uuid import UUID

import attrs

from ._enums import ProcessState, TerminalReason
from ._errors import ProcessLifecycleValidationError
from ._fields import is_id, required_id, to_reason, to_state
from ._lifecycle import is_handle
from ._matrix import COMPLETION_REASONS


@final
@attrs.frozen(kw_only=True)
class ProcessCompletionNotification:
    """Who is told (`session_id`, `loop_id`) that which process ended how.

    `command_id` names the notification for good: a retry carries the same one, and acknowledging names it.  The
    constructor refuses nothing; `validate` does.
    """

    command_id: UUID = attrs.field(converter=required_id)
    session_id: UUID = attrs.field(converter=required_id)
    loop_id: UUID = attrs.field(converter=required_id)
    process_handle: str
    state: ProcessState = attrs.field(converter=to_state)
    reason: TerminalReason = attrs.field(converter=to_reason)

    def validate(self) -> None:
        """Raise `ProcessLifecycleValidationError` with the first field that breaks a rule; return if none does."""
        field = _first_invalid_field(self)
        if field is not None:
            raise ProcessLifecycleValidationError(field)


def _first_invalid_field(n: ProcessCompletionNotification) -> str | None:
    """The rules, in the order of the contract.  A number that names no member is refused by its type."""
    if not is_id(n.command_id):
        return "command_id"
    if not is_id(n.session_id):
        return "session_id"
    if not is_id(n.loop_id):
        return "loop_id"
    if not is_handle(n.process_handle):
        return "process_handle"
    if type(n.state) is not ProcessState or type(n.reason) is not TerminalReason:
        return "state_reason"
    if n.reason not in COMPLETION_REASONS.get(n.state, ()):
        return "state_reason"
    return None
