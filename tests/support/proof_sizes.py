"""How much the simulated proofs do: everything under `make prove`, about a tenth of it under `make test`.

A schedule is one history of a session: lives that end in crashes, and a last one that comes to rest.  What is counted
and printed are schedules, the lives that were really run for them (equal states after a crash are run once), and the
examples of the stateful model.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Search:
    """One search of every scenario: the journal's ground, and at most so many crashes and faults in one schedule.

    A fault is anything bad that is survived: a failed write, an unknown one, a journal that is down, a cancelled call.
    """

    ground: str
    crashes: int
    faults: int

    def __str__(self) -> str:
        return f"{self.ground} {self.crashes} crashes {self.faults} faults"


# On disk a life costs three times as much, so it is searched less deeply.
SEARCHES = (Search("memory", 1, 0), Search("memory", 0, 1), Search("disk", 1, 0))
FULL_SEARCHES = (Search("memory", 3, 0), Search("memory", 1, 1), Search("memory", 0, 2), Search("disk", 2, 0))

# Of the stateful model, on each backend; each example has at most so many steps.
EXAMPLES, FULL_EXAMPLES = 20, 200
STEPS, FULL_STEPS = 50, 50


def report(figures: str) -> None:
    """Print what `make prove` shows."""
    print(f"\n{figures}")  # noqa: T201 -- these figures are what the run is for


# Beyond the suite's own limit for one test, which is one against hanging.
FULL_TIMEOUT_SECONDS = 900
