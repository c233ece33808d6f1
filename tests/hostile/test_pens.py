"""The oracle itself: it sees everybody who is in a pen, and a pen's end is everybody's in it."""

from __future__ import annotations

import pytest
from hostile_catalog import HOSTILE, Hostile
from hostile_lives import Life, Told

# One that can be found by nothing else, one that looks dead, and one that is never where one looks.  That a pen sees
# all the others is shown where a process group loses them.
JOBS = [job for job in HOSTILE if job.words[0] in ("daemon", "headless") or job.words == ("comets", "16")]


def _lives(hostile: Hostile, *, by_uid: bool) -> list[Life]:
    mode = "exit" if "exit" in hostile.endings else "stay"
    return [
        Life(
            program="hostile_host:abandon",
            tier="PROCESS_GROUP",
            backend="none",
            ordinary=True,
            by_uid=by_uid,
            processes=hostile.processes,
            empty_seconds=0.0,
            script={**hostile.script(), "mode": mode},
        )
    ]


@pytest.mark.parametrize(
    ("hostile", "lives"),
    [
        *(pytest.param(job, _lives(job, by_uid=False), id=f"{job}-cgroup") for job in JOBS),
        *(pytest.param(job, _lives(job, by_uid=True), id=f"{job}-uid") for job in JOBS),
    ],
)
def test_a_pen_sees_who_is_in_it_and_ends_them(hostile: Hostile, lives: list[Life], told: list[Told]) -> None:
    """A job that nobody keeps outlives its host: each process of it is seen, and then none is left of it."""
    (life,) = told
    life.check(0)
    if hostile.leaves is None:
        assert life.left, life
    else:
        assert len(life.left) == hostile.leaves + (lives[0].script["mode"] == "stay"), life
