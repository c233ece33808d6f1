"""What cannot be ended is said so: a job of an ordinary user has a process of root's, as `sudo` makes them."""

from __future__ import annotations

import pytest
from hostile_lives import Life, Told
from hostile_tiers import CONTAINED

from lastword.supervisor import Containment


def _lives(tier: Containment) -> list[Life]:
    return [
        Life(
            program="hostile_host:play_promoted",
            tier=tier.name,
            backend=backend,
            ordinary=True,
            promotes=True,
            empty_seconds=0.0,
            script={"job": ["promoted", "./setpriv"]},
        )
        for backend in ("asyncio", "trio")
    ]


@pytest.mark.parametrize(("tier", "lives"), [pytest.param(tier, _lives(tier), id=tier.name) for tier in CONTAINED])
def test_a_process_of_roots_is_ended_or_told_of(tier: Containment, lives: list[Life], told: list[Told]) -> None:
    """A control group's kill asks for no permission; who has only signals says that they were refused, and claims
    nothing."""
    assert len(lives) == len(told)
    for life in told:
        life.check(0)
        (stopped,) = life.said("stopped")
        (closed,) = life.said("closed")
        if tier is Containment.CGROUP:
            assert (stopped["state"], stopped["proven"], stopped["left"]) == ("TERMINATED", True, []), stopped
            assert life.left == []
        else:
            assert stopped["error"] == "teardown_failed", stopped
            assert (stopped["state"], closed["state"], closed["proven"]) == ("RUNNING", "FAILED", False), closed
            assert closed["diagnostic"].startswith("teardown_failed:EPERM"), closed
            assert len(stopped["left"]) == 1, stopped
            assert len(life.left) >= 1, life
