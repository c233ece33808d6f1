"""How many hosts are killed: everything under `make prove`, a tenth of it under `make test`; figures are printed."""

from __future__ import annotations

# Of the loop under load: hosts that are killed at random moments.
KILLS, FULL_KILLS = 10, 100

# A life under load ends at a random moment up to this one, from the very start: opening takes up to a tenth of it.
LONGEST_LIFE_SECONDS = 0.8

# Of the example's agent: how often it is killed before it may finish.
AGENT_KILLS, FULL_AGENT_KILLS = 2, 20

# Beyond the suite's own limit for one test, which is one against hanging.
FULL_TIMEOUT_SECONDS = 900


def report(figures: str) -> None:
    """Print what `make prove` shows."""
    print(f"\n{figures}")  # noqa: T201 -- these figures are what the run is for
