"""Odd hosts: what a program is, or does to its own children, descriptors and signals, is not what its jobs get.

Each is a real program (`hostile_odd_hosts`), on both backends and in every tier; it fails where something that the tier
promises is not so.  Nothing is left of it afterwards, no process and no temporary file.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import hostile_odd_hosts as odd
import pytest
from crash_tools import without
from hostile_lives import Hosts, Life, Told
from hostile_sizes import PROVE
from hostile_tiers import TIERS, Promise, promises

from lastword.supervisor import Containment

BACKENDS = ("asyncio", "trio")

ODD = (
    odd.threads,
    odd.popen,
    odd.ignores_children,
    odd.handles_children,
    odd.takes_children,
    odd.subreaper,
    odd.no_descriptors,
    odd.many_descriptors,
    odd.deaf,
    odd.piped,
    odd.homeless,
    odd.open_handed,
    odd.exhausted,
    odd.particular,
)

every_tier = pytest.mark.parametrize("tier", TIERS, ids=lambda tier: tier.name)


def _live(hosts: Hosts, host: Callable[[Life], None], tier: Containment, *, apart: bool = False) -> list[Told]:
    program = f"{host.__module__}:{host.__name__}"
    return hosts.live(
        Life(program=program, tier=tier.name, backend=backend, ordinary=not apart, apart=apart) for backend in BACKENDS
    )


def _all_is_right(lives: list[Told]) -> None:
    for told in lives:
        told.check(0)
        assert told.left == []
        assert told.temporaries == []


@every_tier
@pytest.mark.parametrize("host", ODD, ids=lambda host: host.__name__)
def test_an_odd_host_has_ordinary_jobs(hosts: Hosts, host: Callable[[Life], None], tier: Containment) -> None:
    """Statuses, output, descriptors, signals and files are as they would be of any other host's."""
    _all_is_right(_live(hosts, host, tier))


@every_tier
def test_a_host_may_be_the_first_process(hosts: Hosts, tier: Containment) -> None:
    """In a container, where every orphan becomes its child: it has no zombie, and its own children's statuses."""
    without("root", "a host that is process 1", None if os.geteuid() == 0 else "a process namespace takes a privilege")
    _all_is_right(_live(hosts, odd.first_process, tier, apart=True))


@every_tier
@pytest.mark.parametrize("host", [pytest.param(odd.big, marks=PROVE, id="big")])
def test_a_big_host_has_ordinary_jobs(hosts: Hosts, host: Callable[[Life], None], tier: Containment) -> None:
    """It is never copied."""
    _all_is_right(_live(hosts, host, tier))


@pytest.mark.parametrize("tier", [tier for tier in TIERS if promises(tier, Promise.HOST_DEATH)], ids=lambda t: t.name)
def test_a_fork_of_the_host_holds_nothing_up(hosts: Hosts, tier: Containment) -> None:
    """A killed host's trees end although a child of it lives on and holds every descriptor that it had."""
    for told in _live(hosts, odd.forked, tier):
        told.check(-signal.SIGKILL)
        assert told.said("outlived") == [{"said": "outlived", "left": []}]
        assert told.left == []
