"""The moments at which a death of the host would hurt most, by name; tests kill a real host at each.

Each name stands where it is passed, once, as `reached(CrashPoint.X)`.  Nobody else hears of it: no setting, no variable
of the environment and no argument arms it, only a call of `arm`, which a test host makes; until then `reached` looks at
one name and returns.  So the code that is killed is the code that ships.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum, unique


@unique
class CrashPoint(StrEnum):
    """Where a host can die, in the order of a process's life; each says what is true there."""

    IDS_STORED = "ids stored"
    """The process's ids are durable; nothing was spawned."""

    SPAWNED = "spawned but not stored"
    """The process runs; the store says that it is starting."""

    RUNNING_STORED = "running stored"
    """It is stored as running, and its first event with it; the courier has not seen it."""

    TERMINAL_STORED = "terminal stored"
    """Its last word is in the store; nobody was told that it has ended."""

    LOST_STORED = "lost stored"
    """A restored process's last word is in the store; the opening has not ended."""

    EVENT_APPENDED = "event appended"
    """The last word's event is in the journal's transaction; its notification is not, and nothing is committed."""

    COMMITTED = "committed before wake"
    """The journal has committed; no task knows."""

    NOTIFICATION_APPENDED = "notification appended before dispatch"
    """The notification is durable, and the commit handler has it in hand; no loop knows."""

    DELIVERED = "delivered before mark"
    """The sink has answered the courier; the outbox still holds the unit."""

    RECEIVED = "received"
    """A loop has taken the notice; its receiver does not have it yet."""

    ACK_ASKED = "received before ack"
    """The holder is done with the notice and settles it; nothing of that is durable."""

    ACK_COMMITTED = "ack committed before slot freed"
    """The consumption is durable; the loop still holds the slot."""

    ACKED = "ack before lazy mark"
    """The acknowledgement is about to return; the outbox's mark waits for the store's next write."""

    MARK_WRITTEN = "mark written"
    """Marks have ridden home on another write of the store."""


_hook: Callable[[CrashPoint], None] | None = None


def reached(point: CrashPoint) -> None:
    """Pass `point`; nothing, unless a test has armed it."""
    if _hook is not None:
        _hook(point)


def arm(hook: Callable[[CrashPoint], None] | None) -> None:
    """For tests: call `hook`, in whichever thread passes a point, from now on; None for no more."""
    global _hook
    _hook = hook
