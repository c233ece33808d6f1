"""The oracle itself: it sees everybody who is in a pen, and a pen's end is everybody's in it."""

from __future__ import annotations

import pytest
from hostile_catalog import HOSTILE, Hostile
from hostile_lives import Hosts, Life

JOBS = [job for job in HOSTILE if not (job.attacks or job.dies_of)]

# Enough for the other kind: one that can be found by nothing else, one that looks dead, and one that is never there.
BY_UID = [job for job in JOBS if job.words[0] in ("daemon", "headless") or job.words == ("comets", "16")]


@pytest.mark.parametrize(
    ("hostile", "by_uid"),
    [(job, False) for job in JOBS] + [(job, True) for job in BY_UID],
    ids=lambda value: {False: "cgroup", True: "uid"}.get(value) if isinstance(value, bool) else str(value),
)
def test_a_pen_sees_who_is_in_it_and_ends_them(hosts: Hosts, hostile: Hostile, by_uid: bool) -> None:
    """A job that nobody keeps outlives its host: each process of it is seen, and then none is left of it."""
    mode = "exit" if "exit" in hostile.endings else "stay"
    told = hosts.one(
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
    )
    told.check(0)
    stays = mode == "stay"
    if hostile.leaves is None:
        assert told.left, told
    else:
        assert len(told.left) == hostile.leaves + stays, told
