"""How much the server's fuzzing does: everything under `make prove`, about a seventieth of it under `make test`."""

from __future__ import annotations

# Conversations of each kind, on each backend; a conversation is a connection with up to LINES lines.
EXAMPLES, FULL_EXAMPLES = 40, 3_000
LINES = 8

# Beyond the suite's own limit for one test, which is one against hanging.
FULL_TIMEOUT_SECONDS = 1_800


def report(figures: str) -> None:
    """Print what `make prove` shows."""
    print(f"\n{figures}")  # noqa: T201 -- these figures are what the run is for
