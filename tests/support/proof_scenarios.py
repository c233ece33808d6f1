"""What happens in a simulated life: small worlds of at most three notices, each with a trouble of its own."""

from __future__ import annotations

from enum import StrEnum

import attrs


class Fate(StrEnum):
    """What becomes of a process that nothing disturbs."""

    EXITS = "it exits"
    IS_STOPPED = "it is backgrounded, asked to stop, and ends by that"
    NEVER_RUNS = "it fails before it has run"


@attrs.frozen(kw_only=True)
class Scenario:
    """One small world.

    - `fates`: the supervisor's processes, started one after the other.
    - `capacity`: of the main loop.
    - `released`: in each life the agent gives the first notice back once.
    - `journal_turns`: how long a commit of the journal takes, in turns of the event loop.
    - `stranger`: another producer, whose payloads differ from life to life; on a loop that is open from the start
      ("open"), or opened when all is said ("late").
    - `zombie`: in each life an older holder of the journal is alive, and tries to write.
    - `settled`: the first process's notice is acknowledged before it comes: "acknowledge", or by an "event".
    - `collides`: somebody has published the first process's Started with other bytes.
    - `supersedes`: somebody has published a last word of the first process.
    """

    name: str
    fates: tuple[Fate, ...] = ()
    capacity: int = 2
    released: bool = False
    journal_turns: int = 1
    stranger: str | None = None
    zombie: bool = False
    settled: str | None = None
    collides: bool = False
    supersedes: bool = False


SCENARIOS = (
    Scenario(name="one life", fates=(Fate.IS_STOPPED,)),
    Scenario(name="two lives", fates=(Fate.EXITS, Fate.NEVER_RUNS), released=True),
    Scenario(name="three ends", fates=(Fate.NEVER_RUNS,) * 3, capacity=1),
    Scenario(name="a slow journal", fates=(Fate.NEVER_RUNS,) * 3, journal_turns=4),
    Scenario(name="a stranger", fates=(Fate.NEVER_RUNS,), stranger="late"),
    Scenario(name="a stranger at an open loop", stranger="open", journal_turns=4),
    Scenario(name="a zombie", fates=(Fate.NEVER_RUNS, Fate.NEVER_RUNS), zombie=True, capacity=1),
    Scenario(name="a zombie and a stranger", stranger="late", zombie=True),
    Scenario(name="settled early", fates=(Fate.NEVER_RUNS, Fate.EXITS), settled="acknowledge"),
    Scenario(name="settled early by an event", fates=(Fate.NEVER_RUNS,), settled="event"),
    Scenario(name="a collision", fates=(Fate.EXITS,), collides=True),
    Scenario(name="superseded", fates=(Fate.EXITS, Fate.NEVER_RUNS), supersedes=True),
)
