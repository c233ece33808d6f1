"""Whose children are whose: a host that takes or ignores every child, or that adopts orphans (reap)."""

from __future__ import annotations

import os

from cases_ground import contained, every_tier, host, sizes
from crash_tools import without

from lastword.supervisor import Containment

TRUE = "('EXITED', 3, '')"
UNKNOWN = "('FAILED', None, 'exit_unknown')"


def _is_true(line: str, count: int, tier: Containment) -> None:
    """So many ended, and what was told of them is true: the code where a keeper of their own saw it, else unknown."""
    number, _, told = line.partition(" ")
    assert int(number) == count
    if tier.proven:
        assert told == f"[{TRUE}]"
    else:
        assert told in (f"[{TRUE}]", f"[{UNKNOWN}]", f"[{TRUE}, {UNKNOWN}]")


@every_tier
async def test_c31_a_host_that_ignores_its_children(tier: Containment, anyio_backend_name: str) -> None:
    """No hang and nothing invented; with keepers of their own the true code, whenever the host changes its mind."""
    with host("ignores_its_children", tier, anyio_backend_name, "headless") as it:
        for count in (20, 5, 5):
            _is_true(it.line(), count, tier)
        it.succeed()


@every_tier
@sizes(100, 1000)
async def test_c31_a_thread_that_takes_every_child(count: int, tier: Containment, anyio_backend_name: str) -> None:
    """The same while somebody in the host waits for any child without end."""
    with host("waits_for_anybody", tier, anyio_backend_name, "headless", str(count)) as it:
        _is_true(it.line(), count, tier)
        it.succeed()


@contained
@sizes(20, 200)
async def test_c33_a_subreaper_gets_no_orphan_and_keeps_its_own_children(
    count: int, tier: Containment, anyio_backend_name: str
) -> None:
    """No zombie is left to it while it runs and after it has closed; its own children's codes are theirs."""
    with host("adopts", tier, anyio_backend_name, str(count)) as it:
        assert it.line() == "codes [5, 6, 7, 8]"
        assert it.line() == "no zombies"
        it.succeed()


@contained
@sizes(20, 200)
async def test_c33_process_1_of_a_container(count: int, tier: Containment, anyio_backend_name: str) -> None:
    """The same where it adopts everybody."""
    without("root", "a host that is process 1", None if os.geteuid() == 0 else "a process namespace takes a privilege")
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    with host("is_first", tier, anyio_backend_name, str(count), before=unshare) as it:
        assert it.line() == "codes [5, 6, 7, 8]"
        assert it.line() == "no zombies"
        it.succeed()
