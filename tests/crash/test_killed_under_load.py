"""Hosts under load are killed at random moments, one after the other in one folder; then all is brought home.

The moments are drawn from a seed that is printed; what the host was doing at each is the machine's affair, so the seed
repeats the pattern and not the history.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from crash_host import Plan
from crash_hosts import Hosts
from crash_sizes import FULL_KILLS, FULL_TIMEOUT_SECONDS, KILLS, LONGEST_LIFE_SECONDS, report
from crash_witness import Witness


def _kill(hosts: Hosts, folder: Path, kills: int, seed: int) -> None:
    rng, witness, longest = random.Random(seed), Witness(folder), LONGEST_LIFE_SECONDS
    for number in range(kills):
        seconds = rng.uniform(0.0, longest)
        backend = ("asyncio", "trio")[number % 2]
        hosts.killed(Plan(folder=str(folder), backend=backend, part="load", kill_after=seconds))
        witness.look()
        if not witness.said("acked"):
            longest *= 2  # so slow a machine has hardly opened by then
    hosts.finished(Plan(folder=str(folder), backend="asyncio", part="drain"))
    figures = witness.judge()
    report(f"{kills} kills under load, seed {seed}: {figures}; 0 lost, 0 told otherwise, 0 told again after an ack")
    # A loop that killed idle hosts would show nothing.
    assert figures.lost
    assert figures.acked
    hosts.finished(Plan(folder=str(folder), backend="trio", part="drain"))
    assert witness.judge().told == figures.told


def test_ten_hosts_killed_under_load_lose_nothing(hosts: Hosts, folder: Path) -> None:
    _kill(hosts, folder, KILLS, seed=random.randrange(1_000_000))


@pytest.mark.prove
@pytest.mark.timeout(FULL_TIMEOUT_SECONDS)
def test_a_hundred_hosts_killed_under_load_lose_nothing(hosts: Hosts, folder: Path) -> None:
    _kill(hosts, folder, FULL_KILLS, seed=random.randrange(1_000_000))
