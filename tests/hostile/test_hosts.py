"""Odd hosts: what a program is, or does to its own children, descriptors and signals, is not what its jobs get.

Each is a real program (`hostile_odd_hosts`), on both backends and in every tier; it fails where something that the tier
promises is not so.  Nothing is left of it afterwards, no process and no temporary file.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from typing import Any

import hostile_odd_hosts as odd
import pytest
from hostile_lives import Life, Told
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


def _lives(host: Callable[[Life], None], tier: Containment, *, apart: bool = False) -> list[Life]:
    program = f"{host.__module__}:{host.__name__}"
    return [
        Life(program=program, tier=tier.name, backend=backend, ordinary=not apart, apart=apart) for backend in BACKENDS
    ]


def _each(
    *hosts: Callable[[Life], None],
    tiers: Iterable[Containment] = TIERS,
    apart: bool = False,
    marks: tuple[pytest.MarkDecorator, ...] = (),
) -> list[Any]:
    return [
        pytest.param(_lives(host, tier, apart=apart), id=f"{host.__name__}-{tier.name}", marks=marks)
        for host in hosts
        for tier in tiers
    ]


@pytest.mark.parametrize("lives", [*_each(*ODD), *_each(odd.first_process, apart=True), *_each(odd.big, marks=PROVE)])
def test_an_odd_host_has_ordinary_jobs(lives: list[Life], told: list[Told]) -> None:
    """Statuses, output, descriptors, signals and files are as they would be of any other host's."""
    assert len(lives) == len(told)
    for life in told:
        life.check(0)
        assert (life.left, life.groups, life.temporaries) == ([], [], [])


@pytest.mark.parametrize(
    "lives", _each(odd.forked, tiers=[tier for tier in TIERS if promises(tier, Promise.HOST_DEATH)])
)
def test_a_fork_of_the_host_holds_nothing_up(lives: list[Life], told: list[Told]) -> None:
    """A killed host's trees end although a child of it lives on and holds every descriptor that it had."""
    assert len(lives) == len(told)
    for life in told:
        life.check(-signal.SIGKILL)
        assert life.said("outlived") == [{"said": "outlived", "left": []}]
        assert life.left == []
