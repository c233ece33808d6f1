"""Jobs that attack who keeps them: a shim or the zygote is killed, stopped, or traced, and the tree ends all the same.

Whoever is stopped or dead cannot do its part; somebody else does, and the outcome says that it was no ordinary end.
"""

from __future__ import annotations

import signal

import attrs
import pytest
from hostile_lives import Life, Told
from hostile_sizes import SIZES, TURNS
from hostile_tiers import TIERS, Promise, promises

from lastword.supervisor import Containment

KILL, STOP = str(int(signal.SIGKILL)), str(int(signal.SIGSTOP))


@attrs.frozen(kw_only=True)
class Attack:
    """A job, what is done then, and which states may come of it."""

    words: tuple[str, ...]
    then: str
    states: frozenset[str | None]

    def __str__(self) -> str:
        return f"{' '.join(self.words)}, {self.then}"


ENDED = frozenset({"TERMINATED", "KILLED"})
FAILED = frozenset({"FAILED"})
ANY = ENDED | FAILED

ATTACKS = (
    # The shim is dead: the zygote sweeps, and the job has failed, since nobody saw how it ended.
    Attack(words=("attack", "parent", KILL), then="wait", states=FAILED),
    Attack(words=("attack", "parent", KILL), then="close", states=ANY),  # closing may come first
    # It does not answer: it is killed once the stop is overdue.
    Attack(words=("attack", "parent", STOP), then="stop", states=ANY),
    Attack(words=("attack", "parent", STOP), then="timeout", states=ANY | {"TIMED_OUT"}),
    Attack(words=("attack", "parent", STOP), then="close", states=ANY),
    Attack(words=("trace",), then="stop", states=ANY),
    # The zygote is dead: shims go on alone, and the next start has another one.
    Attack(words=("attack", "grandparent", KILL), then="stop", states=ENDED),
    Attack(words=("attack", "grandparent", KILL), then="close", states=ENDED),
    # It does not answer: running jobs do not need it.
    Attack(words=("attack", "grandparent", STOP), then="stop", states=ENDED),
    Attack(words=("attack", "grandparent", STOP), then="close", states=ENDED),
)

# The host dies right after the attack.
DYING = (("attack", "parent", KILL), ("attack", "parent", STOP), ("attack", "grandparent", KILL), ("trace",))

APART = [tier for tier in TIERS if promises(tier, Promise.APART)]


def _lives(words: tuple[str, ...], then: str, tier: Containment, rounds: int) -> list[Life]:
    return [
        Life(
            program="hostile_attacked:play",
            tier=tier.name,
            backend=backend,
            ordinary=ordinary,
            script={"job": words, "then": then},
        )
        for backend, ordinary in (TURNS[number % len(TURNS)] for number in range(rounds))
    ]


@pytest.mark.parametrize(
    ("attack", "lives"),
    [
        pytest.param(
            attack, _lives(attack.words, attack.then, tier, rounds), id=f"{attack}-{tier.name}-{rounds}", marks=marks
        )
        for rounds, marks in SIZES
        for attack in ATTACKS
        for tier in APART
    ],
)
def test_the_tree_ends_whoever_is_attacked(attack: Attack, lives: list[Life], told: list[Told]) -> None:
    """Nobody is left when the outcome is there; other jobs and the next start are as ever; then no helper is left."""
    assert len(lives) == len(told)
    for life in told:
        life.check(0)
        (ended,) = life.said("ended")
        assert ended["left"] == [], ended
        assert ended["state"] in attack.states, ended
        assert ended["proven"], ended
        assert life.said("closed") == [{"said": "closed", "helpers": []}], "a helper outlives its supervisor"
        assert life.left == []


@pytest.mark.parametrize(
    "lives",
    [
        pytest.param(_lives(words, "host", tier, rounds), id=f"{' '.join(words)}-{tier.name}-{rounds}", marks=marks)
        for rounds, marks in SIZES
        for words in DYING
        for tier in APART
    ],
)
def test_the_tree_ends_with_its_host_whoever_was_attacked(lives: list[Life], told: list[Told]) -> None:
    """Nobody is left soon after the SIGKILL of the host."""
    assert len(lives) == len(told)
    for life in told:
        life.check(-signal.SIGKILL)
        assert life.left == []
