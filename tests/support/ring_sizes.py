"""How much the ring's tests do: everything under `make prove`, about a tenth of it under `make test`."""

from __future__ import annotations

# Lives of a writer under faults and crashes; meetings of a reader and a writer, call by call.
EXAMPLES, FULL_EXAMPLES = 300, 3_000

# Lives of a drain and its ring, over real pipes; each takes thrice as long as one of a ring alone.
DRAINS, FULL_DRAINS = 200, 1_000

# Rounds of two real processes, in each of which so many times the ring's size is written.
ROUNDS, FULL_ROUNDS = 3, 30
TIMES = 8

# Beyond the suite's own limit for one test, which is one against hanging.
FULL_TIMEOUT_SECONDS = 900


def report(figures: str) -> None:
    """Print what `make prove` shows."""
    print(f"\n{figures}")  # noqa: T201 -- these figures are what the run is for
