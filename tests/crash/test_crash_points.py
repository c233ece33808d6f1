"""A real host is killed at each named moment, and the next one brings everything home.

`PLACES` says for each point when it is armed and which passing of it kills, and what an outsider finds on disk right
after: so a point is where its name says, and one that no run reaches fails.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Literal

import attrs
import pytest
from crash_host import Plan
from crash_hosts import Hosts, keeping_asleep
from crash_sizes import FULL_TIMEOUT_SECONDS, report
from crash_witness import Witness

from lastword.notifier import ProcessState, RecordKind, process_ids
from lastword.notifier._crashpoints import CrashPoint, arm, reached

BACKENDS = ("asyncio", "trio")
OTHER = {"asyncio": "trio", "trio": "asyncio"}

STARTED = ("ProcessStarted",)
TOLD = (*STARTED, "ProcessCompleted", "COMMAND")
NOTHING: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Place:
    """How a host is brought to a point, and what must be found of the job that it was about when it is dead.

    `journal`: what may be journaled of it.  `unit`: what the outbox must hold, at its end.  `said`: whether the host
    had been told, and whether its ack had returned.  None: any.
    """

    armed: Literal["opening", "first job", "second job"] = "first job"
    passing: int = 1
    state: ProcessState = ProcessState.EXITED
    journal: tuple[tuple[str, ...], ...]
    unit: tuple[RecordKind, ...] | None = None
    consumed: bool | None = False
    told: bool | None = False
    acked: bool = False


LAST_WORD = (RecordKind.EVENT, RecordKind.COMMAND)

PLACES = {
    CrashPoint.IDS_STORED: Place(state=ProcessState.STARTING, journal=(NOTHING,), unit=()),
    CrashPoint.SPAWNED: Place(state=ProcessState.STARTING, journal=(NOTHING,), unit=()),
    CrashPoint.RUNNING_STORED: Place(state=ProcessState.RUNNING, journal=(NOTHING,), unit=(RecordKind.EVENT,)),
    CrashPoint.TERMINAL_STORED: Place(journal=(NOTHING, STARTED), unit=LAST_WORD),
    CrashPoint.EVENT_APPENDED: Place(journal=(STARTED,), unit=LAST_WORD),
    # The first passing is the job's start, the second its last word.
    CrashPoint.COMMITTED: Place(passing=2, journal=(TOLD,), unit=LAST_WORD),
    CrashPoint.NOTIFICATION_APPENDED: Place(journal=(TOLD,), unit=LAST_WORD),
    # Meanwhile the loop may have been told.
    CrashPoint.DELIVERED: Place(passing=2, journal=(TOLD,), unit=LAST_WORD, consumed=None, told=None),
    CrashPoint.RECEIVED: Place(journal=(TOLD,), unit=LAST_WORD),
    CrashPoint.ACK_ASKED: Place(journal=(TOLD,), unit=LAST_WORD, told=True),
    CrashPoint.ACK_COMMITTED: Place(journal=(TOLD,), unit=LAST_WORD, consumed=True, told=True),
    CrashPoint.ACKED: Place(journal=(TOLD,), unit=LAST_WORD, consumed=True, told=True),
    # The marks of the first job ride on the first write of the second.
    CrashPoint.MARK_WRITTEN: Place(armed="second job", journal=(TOLD,), unit=(), consumed=True, told=True, acked=True),
    # Only an opening passes it: a host was killed before, at its first job's start.
    CrashPoint.LOST_STORED: Place(
        armed="opening", state=ProcessState.RUNNING, journal=(NOTHING,), unit=(RecordKind.EVENT,)
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("point", CrashPoint)
def test_a_host_killed_there_loses_nothing(point: CrashPoint, backend: str, hosts: Hosts, folder: Path) -> None:
    """Killed at the point, restarted on the other backend: everything is told, once, with the payload it had."""
    witness = Witness(folder)
    place = PLACES[point]
    if place.armed == "opening":
        hosts.killed(Plan(folder=str(folder), backend=OTHER[backend], point=CrashPoint.RUNNING_STORED))
        witness.look()
    hosts.killed(Plan(folder=str(folder), backend=backend, point=point, passing=place.passing, armed=place.armed))
    witness.look()
    _check_place(place, witness)
    if point in {CrashPoint.IDS_STORED, CrashPoint.SPAWNED}:
        _check_spawned(folder, spawned=point is CrashPoint.SPAWNED)
    hosts.finished(Plan(folder=str(folder), backend=OTHER[backend], part="drain"))
    figures = witness.judge()
    # The one that sleeps, the one that the point was about, and the one whose first write carried the mark.
    assert figures.processes == (3 if point is CrashPoint.MARK_WRITTEN else 2)
    # And a life after that has nothing to tell.
    hosts.finished(Plan(folder=str(folder), backend=backend, part="drain"))
    assert attrs.evolve(witness.judge(), lives=figures.lives) == figures


def _check_place(place: Place, witness: Witness) -> None:
    """What is on disk is what the point's name says."""
    sleeper, handle, *_ = sorted(witness.bases, key=lambda handle: witness.bases[handle])
    names = tuple(row.name for row in witness.story(handle))
    command = process_ids(witness.bases[handle]).command
    told = [line["command"] for line in witness.said("told")]
    acked = [line["command"] for line in witness.said("acked")]
    unit = [record.kind for record in witness.units.get(handle, [])]
    if place.armed == "opening":
        # One of the two is lost in the store by now, whichever came first, and none of that is journaled.
        states = [witness.states[one] for one in (sleeper, handle)]
        assert states == [ProcessState.LOST_ON_RESTORE, ProcessState.RUNNING]
        assert [record.kind for record in witness.units[sleeper]][-2:] == list(LAST_WORD)
        assert [row.name for row in witness.story(sleeper)] == ["ProcessBackgrounded"]
    assert witness.states[handle] is place.state
    assert names in place.journal
    if place.unit is not None:
        assert tuple(unit[-len(place.unit) :] if place.unit else unit) == place.unit
    if place.consumed is not None:
        assert witness.consumed(command) == place.consumed
    if place.told is not None:
        assert (str(command) in told) is place.told
    assert (str(command) in acked) is place.acked


def _check_spawned(folder: Path, *, spawned: bool) -> None:
    """The job, which nobody waits for any more, leaves its mark, if there is one."""
    mark = folder / "ran"
    while spawned and not mark.exists():  # bounded by the suite's own limit
        time.sleep(0.005)
    assert mark.exists() is spawned


def test_every_point_has_its_place() -> None:
    assert set(PLACES) == set(CrashPoint)


def test_a_point_says_nothing_unless_it_is_armed() -> None:
    passed: list[CrashPoint] = []
    reached(CrashPoint.ACKED)
    arm(passed.append)
    reached(CrashPoint.ACKED)
    arm(None)
    reached(CrashPoint.COMMITTED)
    assert passed == [CrashPoint.ACKED]


@pytest.mark.prove
@pytest.mark.timeout(FULL_TIMEOUT_SECONDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_two_hosts_killed_one_after_the_other_lose_nothing(backend: str, hosts: Hosts, tmp_path: Path) -> None:
    """Every point, then every point in the life after it, its opening included."""
    # What only an opening passes takes a death before it: as the second it is here.
    firsts = [point for point in PLACES if PLACES[point].armed != "opening"]
    pairs = list(itertools.product(firsts, CrashPoint))
    lost = 0
    for first, second in pairs:
        folder = tmp_path / f"{first}, {second}"
        folder.mkdir()
        with keeping_asleep(folder):
            witness = Witness(folder)
            place = PLACES[first]
            hosts.killed(
                Plan(folder=str(folder), backend=backend, point=first, passing=place.passing, armed=place.armed)
            )
            witness.look()
            hosts.killed(Plan(folder=str(folder), backend=OTHER[backend], point=second, armed="opening"))
            witness.look()
            hosts.finished(Plan(folder=str(folder), backend=backend, part="drain"))
            lost += witness.judge().lost
    report(f"two crash points, the first on {backend}: {len(pairs)} histories, {lost} processes lost with a host")
