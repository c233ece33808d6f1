"""When to try again: full jitter, so that many senders that failed together do not come back together.

The shape (start, doubling, cap, no limit) is the design's; jitter over the whole range spreads a herd best.
"""

from __future__ import annotations

from random import Random

from ._errors import InvalidArgumentError

FIRST_DELAY_SECONDS = 0.05
MAX_DELAY_SECONDS = 30.0


def next_delay(attempt: int, rng: Random) -> float:
    """Seconds to wait after `attempt` (1-based) tries have failed: uniform in [0, min(30, 0.05 * 2**(attempt - 1))].

    Raises `InvalidArgumentError`, which is a ValueError, for an attempt that is no int or below 1.
    """
    if type(attempt) is not int or attempt < 1:
        raise InvalidArgumentError("attempt", "must be an int that counts from 1")
    # 0.05 s doubles past the cap within ten tries; the exponent is bounded so that no count can overflow a float.
    ceiling = min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(attempt - 1, 32))
    return rng.uniform(0.0, ceiling)
