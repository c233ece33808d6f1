"""Numbers are had again: no stranger is ever signalled for having the number that a job's process once had.

In a process namespace of its own each host gives such a number to a stranger by force, and then does all that could
signal it.  The stranger writes down every signal that it receives, and its death would be seen.
"""

from __future__ import annotations

import pytest
from hostile_identity import OF_KEEPERS, SCENARIOS
from hostile_lives import Life, Told
from hostile_tiers import TIERS, Promise, promises

from lastword.supervisor import Containment

BACKENDS = ("asyncio", "trio")


def _lives(program: str, tier: Containment, scenario: str = "") -> list[Life]:
    return [
        Life(
            program=f"hostile_identity:{program}",
            tier=tier.name,
            backend=backend,
            script={"scenario": scenario},
            apart=True,
        )
        for backend in BACKENDS
    ]


def _check(lives: list[Life], told: list[Told]) -> None:
    assert len(lives) == len(told)
    for life in told:
        life.check(0)
        assert (life.left, life.groups) == ([], [])


@pytest.mark.parametrize(
    "lives",
    [
        pytest.param(_lives("play", tier, name), id=f"{name}-{tier.name}")
        for name in SCENARIOS
        for tier in TIERS
        if name not in OF_KEEPERS or promises(tier, Promise.APART)
    ],
)
def test_a_stranger_is_never_signalled(lives: list[Life], told: list[Told]) -> None:
    """A member of a job ends, a stranger has its number: stops, timeouts, sweeps and closing pass it by."""
    _check(lives, told)


@pytest.mark.parametrize("lives", [pytest.param(_lives("restart", tier), id=tier.name) for tier in TIERS])
def test_c28_a_recycled_pid_is_not_signalled_after_a_restart(lives: list[Life], told: list[Told]) -> None:
    """C28: what a record names is lost, and whoever has its numbers now is left alone."""
    _check(lives, told)
