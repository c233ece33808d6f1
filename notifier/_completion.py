"""The notification that a process has come to its end: what a loop is told, and what it acknowledges.

The rules are a table, `COMPLETION_RULES`, in the order in which they are asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final
from uuid import UUID

import attrs

from ._enums import ProcessState, TerminalReason
from ._errors import ProcessLifecycleValidationError
from ._fields import is_id, required_id, to_reason, to_state
from ._lifecycle import is_handle, is_reason, is_state
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
        for field, holds in COMPLETION_RULES:
            if not holds(self):
                raise ProcessLifecycleValidationError(field)


def _state_and_reason_agree(n: ProcessCompletionNotification) -> bool:
    return is_state(n.state) and is_reason(n.reason) and n.reason in COMPLETION_REASONS.get(n.state, ())


COMPLETION_RULES: tuple[tuple[str, Callable[[ProcessCompletionNotification], bool]], ...] = (
    ("command_id", lambda n: is_id(n.command_id)),
    ("session_id", lambda n: is_id(n.session_id)),
    ("loop_id", lambda n: is_id(n.loop_id)),
    ("process_handle", lambda n: is_handle(n.process_handle)),
    ("state_reason", _state_and_reason_agree),
)
"""Each rule with the field that it names, in the order in which they are asked."""
