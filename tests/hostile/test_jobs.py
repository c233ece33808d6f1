"""Hostile jobs against every way to end them: when the outcome is there nobody is left, as the kernel sees it.

The witness is not our code: each host lives in a pen (`hostile_pens`), and looks around in it at the very moment at
which it is told an outcome.  One life is one round: every ending of the job in turn, then a supervisor that closes over
it, then one whose host gets SIGKILL.  Rounds take turns between the backends, and between root and an ordinary user.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import attrs
import pytest
from crash_sizes import report
from hostile_catalog import HOSTILE, Hostile, check, wide
from hostile_lives import Hosts, Life
from hostile_sizes import FULL_ROUNDS, FULL_WIDE, PROVE, ROUNDS, SIZES, WIDE
from hostile_tiers import CONTAINED, TIERS, Promise, promises

from lastword.supervisor import Containment

# The second is with the first's opposite in both, so that two rounds see each.
TURNS = (("asyncio", True), ("trio", False), ("asyncio", False), ("trio", True))

GROUP = Containment.PROCESS_GROUP


def _lives(hostile: Hostile, tier: Containment, rounds: int, *endings: str) -> Iterator[Life]:
    for number in range(rounds):
        backend, ordinary = TURNS[number % len(TURNS)]
        yield Life(
            program="hostile_host:play",
            tier=tier.name,
            backend=backend,
            ordinary=ordinary,
            processes=hostile.processes,
            script=hostile.script(*endings),
        )


def _nobody_escapes(hosts: Hosts, hostile: Hostile, tier: Containment, rounds: int, *endings: str) -> None:
    wanted = endings or hostile.endings
    dies = "host" in wanted
    for told in hosts.live(_lives(hostile, tier, rounds, *endings)):
        ended = told.said("ended")
        for line in ended:
            check(hostile, tier, line)
        told.check(-signal.SIGKILL if dies else 0)
        assert sorted(line["ending"] for line in ended) == sorted(set(wanted) - {"host"}), "not every ending was tried"
        assert told.said("closed") == [{"said": "closed", "helpers": []}], "a helper outlives its supervisor"
        if dies:
            (dying,) = told.said("dying")
            assert dying["jobs"] >= 1, "nobody was there when the host died"
        assert told.left == [], "somebody outlives the host"
        assert (told.groups, told.temporaries) == ([], []), "something of ours outlives the host"


@pytest.mark.parametrize("rounds", SIZES)
@pytest.mark.parametrize("tier", CONTAINED, ids=lambda tier: tier.name)
@pytest.mark.parametrize("hostile", HOSTILE, ids=str)
def test_nobody_escapes(hosts: Hosts, hostile: Hostile, tier: Containment, rounds: int) -> None:
    """Whatever the job does, and however it ends: nobody left, the right state, proven."""
    _nobody_escapes(hosts, hostile, tier, rounds)
    if rounds == FULL_ROUNDS:
        report(f"{tier.name.lower()}, {hostile}: {rounds} rounds of {len(hostile.endings)} endings, nobody escaped")


@pytest.mark.parametrize(("count", "rounds"), [(WIDE, ROUNDS), pytest.param(FULL_WIDE, FULL_ROUNDS // 4, marks=PROVE)])
@pytest.mark.parametrize("tier", CONTAINED, ids=lambda tier: tier.name)
def test_nobody_escapes_of_many(hosts: Hosts, count: int, rounds: int, tier: Containment) -> None:
    """Hundreds of orphans, each in a session of its own, are as many and no more."""
    _nobody_escapes(hosts, wide(count), tier, rounds)


@pytest.mark.parametrize("rounds", SIZES)
@pytest.mark.parametrize("hostile", [job for job in HOSTILE if job.in_group], ids=str)
def test_a_group_holds_what_stays_in_it(hosts: Hosts, hostile: Hostile, rounds: int) -> None:
    """The weakest tier, too, ends what does not leave the group; and says that it has not proven it."""
    endings = [ending for ending in hostile.endings if ending != "host"]
    _nobody_escapes(hosts, hostile, GROUP, rounds, *endings)


@pytest.mark.parametrize("hostile", [job for job in HOSTILE if not (job.in_group or job.attacks)], ids=str)
def test_who_leaves_the_group_is_seen_to_escape(hosts: Hosts, hostile: Hostile) -> None:
    """The oracle is not blind: where the weakest tier loses somebody, it sees them, and the outcome claims nothing."""
    assert not promises(GROUP, Promise.WHOLE_TREE)
    assert GROUP in TIERS
    (life,) = _lives(hostile, GROUP, 1, "exit")
    told = hosts.one(attrs.evolve(life, empty_seconds=0.0))
    (ended,) = told.said("ended")
    assert (ended["proven"], told.left != []) == (False, True), ended
    if "path" in told.life.pen or hostile.leaves is not None:  # by the user id alone the host may miss somebody fast
        assert ended["left"] != []


def test_who_outlives_the_host_is_seen_to(hosts: Hosts) -> None:
    """Nor is it blind to what a killed host leaves where nobody watches."""
    assert not promises(GROUP, Promise.HOST_DEATH)
    (life,) = _lives(HOSTILE[0], GROUP, 1, "host")
    told = hosts.one(attrs.evolve(life, empty_seconds=0.0))
    told.check(-signal.SIGKILL)
    assert len(told.left) == 3, told.left  # the leader and both children
