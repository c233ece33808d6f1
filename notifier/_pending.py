"""What is still on its way home, for people to look at."""

from __future__ import annotations

from typing import Literal, final
from uuid import UUID

import attrs


@final
@attrs.frozen(kw_only=True)
class PendingDelivery:
    """A record whose way home is not finished.

    `status` is "waiting" (in the outbox, not yet journaled: `attempts` tries have failed, `last_error` tells the last
    one), "quarantined" (in the outbox, and can never be journaled: `last_error` says why), or "unacknowledged"
    (journaled, and not acknowledged by its loop).
    """

    record_id: UUID
    kind: Literal["event", "notification"]
    process_handle: str
    attempts: int = 0
    status: Literal["waiting", "quarantined", "unacknowledged"]
    last_error: str | None = None
