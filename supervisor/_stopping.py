"""What a process was asked to end by, and how that went.  Plain bookkeeping: it never acts, and never waits.

Rules
- The cause is the first request that ends a process for certain; an interrupt gives way to whatever comes after it.
- That it was asked to end is told once, for the first request.
"""

from __future__ import annotations

from typing import final

from ._errors import TeardownFailedError
from ._outcome import CAUSES, StopCause


@final
class Stopping:
    """The stops of one process."""

    __slots__ = ("_cause", "_errno", "_failures", "_told")

    def __init__(self) -> None:
        self._cause: StopCause | None = None
        self._told = False
        self._failures = 0
        self._errno: int | None = None

    @property
    def cause(self) -> StopCause | None:
        """Why it ends, if it ends now and was signalled."""
        return self._cause

    @property
    def asked(self) -> bool:
        """Whether a caller's own request is the cause: then there is somebody to be told where it fails."""
        return self._cause in CAUSES.values()

    @property
    def failures(self) -> int:
        """How many orders did not end it."""
        return self._failures

    def ordered(self, cause: StopCause) -> None:
        """An order was given for `cause`."""
        if self._cause is None or self._cause is StopCause.INTERRUPT:
            self._cause = cause

    def tell(self) -> bool:
        """Whether a request is to be told: True once."""
        first, self._told = not self._told, True
        return first

    def failed(self, errno: int | None) -> None:
        """An order did not end it: `errno` is what the system answered, None where it took the signal to no effect."""
        self._errno = errno
        self._failures += 1

    def not_delivered(self) -> None:
        """The order that failed was a caller's: where no signal was delivered, it is the cause of nothing."""
        if self._errno is not None:
            self._cause = None

    def error(self) -> TeardownFailedError:
        """What the caller is told whose order has failed."""
        return TeardownFailedError(self._errno, _UNKILLABLE if self._errno is None else _UNTOUCHABLE)


_UNKILLABLE = "it took SIGKILL and lives on (most likely stuck in the kernel); it is still running: try again later"
_UNTOUCHABLE = "the system did not let it be signalled (it may run as another user); it is still running"
