"""Hostile jobs against every way to end them: when the outcome is there nobody is left, as the kernel sees it.

The witness is not our code: each host lives in a pen (`hostile_pens`), and looks around in it at the very moment at
which it is told an outcome.  One life is one round: every ending of the job in turn, then a supervisor that closes over
it, then one whose host gets SIGKILL.  Rounds take turns between the backends, and between root and an ordinary user.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from typing import Any

import pytest
from crash_sizes import report
from hostile_catalog import HOSTILE, Hostile, check, is_late, wide
from hostile_lives import HOST_DEATH_SECONDS, Life, Told
from hostile_sizes import FULL_ROUNDS, FULL_WIDE, PROVE, ROUNDS, TURNS, WIDE
from hostile_tiers import CONTAINED, TIERS, Promise, promises

from lastword.supervisor import Containment

GROUP = Containment.PROCESS_GROUP


def _lives(hostile: Hostile, tier: Containment, rounds: int, endings: Iterable[str], seconds: float) -> list[Life]:
    return [
        Life(
            program="hostile_host:play",
            tier=tier.name,
            backend=backend,
            ordinary=ordinary,
            processes=hostile.processes,
            empty_seconds=seconds,
            script=hostile.script(*endings),
        )
        for backend, ordinary in (TURNS[number % len(TURNS)] for number in range(rounds))
    ]


def _each(
    jobs: Iterable[Hostile],
    tiers: Iterable[Containment],
    rounds: int,
    *,
    endings: tuple[str, ...] | None = None,
    without: str = "",
    marks: tuple[pytest.MarkDecorator, ...] = (),
    seconds: float = HOST_DEATH_SECONDS,
) -> list[Any]:
    """A job, its tier and its lives: of the endings that it has, or of those that are given."""
    each: list[Any] = []
    for hostile in jobs:
        for tier in tiers:
            chosen = endings or (None if marks else hostile.quick) or hostile.endings
            lives = _lives(hostile, tier, rounds, [ending for ending in chosen if ending != without], seconds)
            each.append(pytest.param(hostile, tier, lives, id=f"{hostile}-{tier.name}-{rounds}", marks=marks))
    return each


def _nobody_escapes(hostile: Hostile, tier: Containment, told: list[Told]) -> None:
    for life in told:
        wanted = life.life.script["endings"]
        ended = life.said("ended")
        late = False  # and then it may be in the way of the next endings, too
        for line in ended:
            late = late or (hostile.storm and is_late(line))
            if not late:
                check(hostile, tier, line)
        life.check(-signal.SIGKILL if "host" in wanted else 0)
        assert sorted(line["ending"] for line in ended) == sorted(set(wanted) - {"host"}), "not every ending was tried"
        assert life.said("closed") == [{"said": "closed", "helpers": []}], "a helper outlives its supervisor"
        if "host" in wanted:
            (dying,) = life.said("dying")
            assert dying["jobs"] >= 1, "nobody was there when the host died"
        assert life.left == [], "somebody outlives the host"
        assert (life.groups, life.temporaries) == ([], []), "something of ours outlives the host"


@pytest.mark.parametrize(
    ("hostile", "tier", "lives"),
    [
        *_each(HOSTILE, CONTAINED, ROUNDS),
        *_each([wide(WIDE)], CONTAINED, ROUNDS),
        *_each(HOSTILE, CONTAINED, FULL_ROUNDS, marks=PROVE),
        *_each([wide(FULL_WIDE)], CONTAINED, FULL_ROUNDS // 4, marks=PROVE),
    ],
)
def test_nobody_escapes(hostile: Hostile, tier: Containment, lives: list[Life], told: list[Told]) -> None:
    """Whatever the job does, and however it ends: nobody left, the right state, proven."""
    _nobody_escapes(hostile, tier, told)
    if len(lives) > ROUNDS:
        report(f"{tier.name.lower()}, {hostile}: {len(lives)} rounds of {len(hostile.endings)} endings, nobody escaped")


@pytest.mark.parametrize(
    ("hostile", "tier", "lives"),
    [
        *_each([job for job in HOSTILE if job.in_group], [GROUP], ROUNDS, without="host"),
        *_each([job for job in HOSTILE if job.in_group], [GROUP], FULL_ROUNDS, without="host", marks=PROVE),
    ],
)
def test_a_group_holds_what_stays_in_it(
    hostile: Hostile, tier: Containment, lives: list[Life], told: list[Told]
) -> None:
    """The weakest tier, too, ends what does not leave the group; and says that it has not proven it."""
    assert len(lives) == len(told)
    _nobody_escapes(hostile, tier, told)


@pytest.mark.parametrize(
    ("hostile", "tier", "lives"),
    _each([job for job in HOSTILE if not (job.in_group or job.attacks)], [GROUP], 1, endings=("exit",), seconds=0.0),
)
def test_who_leaves_the_group_is_seen_to_escape(
    hostile: Hostile, tier: Containment, lives: list[Life], told: list[Told]
) -> None:
    """The oracle is not blind: where the weakest tier loses somebody, it sees them, and the outcome claims nothing."""
    assert len(lives) == len(told) == 1
    assert tier in TIERS
    assert not promises(tier, Promise.WHOLE_TREE)
    (ended,) = told[0].said("ended")
    assert (ended["proven"], told[0].left != []) == (False, True), ended
    if "path" in told[0].life.pen or hostile.leaves is not None:  # by the user id alone one may miss somebody fast
        assert ended["left"] != []


@pytest.mark.parametrize(("hostile", "tier", "lives"), _each(HOSTILE[:1], [GROUP], 1, endings=("host",), seconds=0.0))
def test_who_outlives_the_host_is_seen_to(
    hostile: Hostile, tier: Containment, lives: list[Life], told: list[Told]
) -> None:
    """Nor is it blind to what a killed host leaves where nobody watches."""
    assert len(lives) == len(told) == 1
    assert hostile.in_group
    assert not promises(tier, Promise.HOST_DEATH)
    told[0].check(-signal.SIGKILL)
    assert len(told[0].left) == 3, told[0].left  # the leader and both children
