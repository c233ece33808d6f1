"""Numbers are had again: no stranger is ever signalled for having the number that a job's process once had.

In a process namespace of its own each host gives such a number to a stranger by force, and then does all that could
signal it.  The stranger writes down every signal that it receives, and its death would be seen.
"""

from __future__ import annotations

import os

import pytest
from crash_tools import without
from hostile_identity import OF_KEEPERS, SCENARIOS
from hostile_lives import Hosts, Life
from hostile_tiers import TIERS, Promise, promises

from lastword.supervisor import Containment

BACKENDS = ("asyncio", "trio")

EACH = [(name, tier) for name in SCENARIOS for tier in TIERS if name not in OF_KEEPERS or promises(tier, Promise.APART)]


@pytest.fixture(autouse=True)
def _root() -> None:
    without(
        "root", "a number that is had again", None if os.geteuid() == 0 else "a process namespace takes a privilege"
    )


def _check(hosts: Hosts, program: str, tier: Containment, scenario: str = "") -> None:
    lives = (
        Life(
            program=f"hostile_identity:{program}",
            tier=tier.name,
            backend=backend,
            script={"scenario": scenario},
            apart=True,
        )
        for backend in BACKENDS
    )
    for told in hosts.live(lives):
        told.check(0)
        assert told.left == []


@pytest.mark.parametrize(("scenario", "tier"), EACH, ids=lambda value: getattr(value, "name", value))
def test_a_stranger_is_never_signalled(hosts: Hosts, scenario: str, tier: Containment) -> None:
    """A member of a job ends, a stranger has its number: stops, timeouts, sweeps and closing pass it by."""
    _check(hosts, "play", tier, scenario)


@pytest.mark.parametrize("tier", TIERS, ids=lambda tier: tier.name)
def test_c28_a_recycled_pid_is_not_signalled_after_a_restart(hosts: Hosts, tier: Containment) -> None:
    """C28: what a record names is lost, and whoever has its numbers now is left alone."""
    _check(hosts, "restart", tier)
