"""Every schedule of small worlds with crashes at every effect: no promise is broken, and twelve wrong protocols are.

The code that runs is the real one (session, commit handler, loops, courier, teller, store, outbox, journals), on its
inline writer; `proof_enumerator.py` says how.
"""

from __future__ import annotations

import pytest
from proof_effects import Kind
from proof_enumerator import Counts, enumerate_schedules
from proof_mutants import MUTANTS, Mutant
from proof_scenarios import SCENARIOS, Scenario
from proof_sizes import FULL_SEARCHES, FULL_TIMEOUT_SECONDS, SEARCHES, Search, report
from proof_witness import BrokenPromiseError, watching

# Each place where the power can go, by name: one that is never passed any more would be a hole that nobody sees.
EFFECTS = {
    *("journal opens", "journal is open", "journal appends", "journal has appended", "journal reopens"),
    *("older journal opens", "older journal is open", "older journal appends", "older journal has appended"),
    *("older journal reopens", "older agent received", "older agent tries"),
    *("store commits", "store has committed", "start refused", "mark", "quarantine"),
    *("dispatch", "received", "in hand", "ack", "ack has returned", "acknowledge", "consuming event"),
    *("somebody's Started", "somebody's last word", "stranger publishes ProcessStarted", "stranger notifies"),
    *("stranger publishes ProcessCompleted", "stranger publishes ProcessLost", "stranger is late"),
}

_FULL: dict[tuple[Search, str], Counts] = {}

searches = pytest.mark.parametrize("search", SEARCHES, ids=str)
full_searches = pytest.mark.parametrize("search", FULL_SEARCHES, ids=str)
scenarios = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)


@searches
@scenarios
def test_no_schedule_breaks_a_promise(scenario: Scenario, search: Search) -> None:
    """Wherever the power goes, or one thing fails: nothing lost, changed, told again or out of order."""
    counts = enumerate_schedules(scenario, search.ground, crashes=search.crashes, faults=search.faults)
    assert counts.schedules > counts.lives // 4
    assert (counts.crashes > 0) == (search.crashes > 0)
    assert (counts.faults > 0) == (search.faults > 0)


@pytest.mark.prove
@pytest.mark.timeout(FULL_TIMEOUT_SECONDS)
@full_searches
@scenarios
def test_no_schedule_breaks_a_promise_in_full(scenario: Scenario, search: Search) -> None:
    """The same with three crashes, with a fault and a crash together, and with two crashes on the disk's own files."""
    counts = enumerate_schedules(scenario, search.ground, crashes=search.crashes, faults=search.faults)
    _FULL[search, scenario.name] = counts
    report(f"{scenario.name}, {search}: {counts}")


@pytest.mark.prove
def test_the_full_searches_left_nothing_out() -> None:
    """Each search of each scenario has been run before this, and has passed every effect that there is."""
    total = Counts()
    for counts in _FULL.values():
        total.add(counts)
    report(f"the enumerator, {len(_FULL)} searches: {total}")
    assert set(_FULL) == {(search, scenario.name) for search in FULL_SEARCHES for scenario in SCENARIOS}
    assert set(total.effects) == EFFECTS
    assert set(total.kinds) == set(Kind)


@pytest.mark.parametrize("ground", ["memory", "disk"])
@pytest.mark.parametrize("mutant", [pytest.param(mutant, id=name) for name, mutant in MUTANTS.items()])
def test_a_wrong_protocol_is_caught(mutant: Mutant, ground: str) -> None:
    """The mutant breaks the very promise that it is there to break, with that promise alone watched; ours does not."""
    (scenario,) = (scenario for scenario in SCENARIOS if scenario.name == mutant.scenario)
    with watching(mutant.breaks):
        with mutant.make(), pytest.raises(BrokenPromiseError) as caught:
            enumerate_schedules(scenario, ground, crashes=mutant.crashes, faults=mutant.faults)
        assert caught.value.promise is mutant.breaks
        enumerate_schedules(scenario, ground, crashes=mutant.crashes, faults=mutant.faults)


def test_every_wrong_protocol_has_its_sentence() -> None:
    """There are twelve, and each says in one sentence what it does wrong."""
    assert len(MUTANTS) == 12
    assert all((mutant.make.__doc__ or "").count("\n") == 0 for mutant in MUTANTS.values())
    assert len({mutant.make.__doc__ for mutant in MUTANTS.values()}) == 12
