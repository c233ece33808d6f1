"""The tiers that are tried, and what each promises, in one table; a promise that is not made is not tested for."""

from __future__ import annotations

from enum import Enum

from lastword.supervisor import Containment
from lastword.supervisor.launch import launcher_of as launcher_of

TIERS = tuple(Containment)

# Those that hold a whole tree, whatever it does.
CONTAINED = tuple(tier for tier in TIERS if tier.proven)


class Promise(Enum):
    """What a host may rely on; what is true of every tier is not listed."""

    WHOLE_TREE = "nobody escapes, whatever ends the job"
    HOST_DEATH = "the tree ends with its host"
    EXACT_STATUS = "the exit status is known although the host, or a stranger in it, takes its children's"
    CLEAN_SIGNALS = "a job starts with every signal at its default, and none blocked"
    APART = "a job's parent is not the host, so that it cannot be signalled as such"
    NO_ZOMBIES = "orphans of a job do not become the host's children"
    RESOURCES = "limits and niceness are set before the program begins"


PROMISES = {
    Containment.PROCESS_GROUP: frozenset[Promise](),
    Containment.SUBREAPER: frozenset(Promise),
    Containment.CGROUP: frozenset(Promise),
}


def promises(tier: Containment, promise: Promise) -> bool:
    """Whether `tier` makes that promise."""
    return promise in PROMISES[tier]
