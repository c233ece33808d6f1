"""The enumerator: every schedule of a scenario with at most so many crashes and faults, each once.

Theory
- A life is repeatable, so a schedule is a list of happenings, each at the number of an effect.  A life is first run
  undisturbed; then again for each effect with each thing that can happen there, and from a fault on, again for what can
  happen after it.
- After a crash only the disk and what the witness knows count.  Two crashes that leave the same are the same from then
  on: the lives after them are run once, and counted for both.
"""

from __future__ import annotations

from collections import Counter

import anyio
import attrs
from proof_effects import Effect, Happening, Kind
from proof_ground import GROUNDS, store_key
from proof_life import Disk, Ended, Life, QuietLoop
from proof_scenarios import Scenario
from proof_witness import BrokenPromiseError, Witness


@attrs.define
class Counts:
    """How much was done."""

    schedules: int = 0
    lives: int = 0
    crashes: int = 0
    faults: int = 0
    states: int = 0
    effects: Counter[str] = attrs.field(factory=Counter[str])

    def add(self, other: Counts) -> None:
        """Add another's."""
        self.schedules += other.schedules
        self.lives += other.lives
        self.crashes += other.crashes
        self.faults += other.faults
        self.states += other.states
        self.effects += other.effects

    def __str__(self) -> str:
        return (
            f"{self.schedules} schedules ({self.lives} lives run, {self.states} different states after a crash), "
            f"{self.crashes} crashes and {self.faults} faults acted out at {len(self.effects)} kinds of effect"
        )


@attrs.define
class _State:
    """What a crash has left, after so many faults, and how many schedules lead to it; `way` is one of them."""

    disk: Disk
    witness: Witness
    faults: int
    ways: int
    way: tuple[tuple[str, ...], ...]


def enumerate_schedules(scenario: Scenario, ground: str, *, crashes: int, faults: int) -> Counts:
    """Run them all; raises `BrokenPromiseError`, with the schedule, for the first that breaks a promise.

    On asyncio alone: it takes tasks in turn, and a schedule that cannot be repeated says nothing; trio shuffles them.
    """
    search = _Search(scenario, ground, crashes, faults)
    anyio.run(search.run, backend="asyncio", backend_options={"loop_factory": QuietLoop})
    return search.counts


class _Search:
    def __init__(self, scenario: Scenario, ground: str, crashes: int, faults: int) -> None:
        self.counts = Counts()
        self._scenario = scenario
        self._ground = ground
        self._crashes = crashes
        self._faults = faults

    async def run(self) -> None:
        states = [_State(Disk(), Witness(), 0, 1, ())]
        for number in range(self._crashes + 1):
            found: dict[object, _State] = {}
            for state in states:
                await self._lives_from(state, number, found)
            states = list(found.values())
            self.counts.states += len(states)

    async def _lives_from(self, state: _State, number: int, found: dict[object, _State]) -> None:
        plans: list[tuple[tuple[Happening, ...], tuple[Effect, ...]]] = [((), ())]
        while plans:
            plan, expected = plans.pop()
            ended = await self._live(state, number, plan)
            trace = tuple(ended.power.trace)
            assert trace[: len(expected)] == expected, "a life was not repeatable"
            if ended.crashed:
                self._note(state, plan, ended, found)
                continue
            self.counts.schedules += state.ways
            first = plan[-1].at + 1 if plan else 0
            for at in range(first, len(trace)):
                kinds = list(trace[at].faults) if state.faults + len(plan) < self._faults else []
                if number < self._crashes:
                    kinds.append(Kind.CRASH)
                plans += [((*plan, Happening(at, kind)), trace[: at + 1]) for kind in kinds]

    async def _live(self, state: _State, number: int, plan: tuple[Happening, ...]) -> Ended:
        ground = GROUNDS[self._ground](state.disk.journal)
        life = Life(self._scenario, ground, state.disk, state.witness.copy(), number, plan)
        try:
            ended = await life.run()
        except BrokenPromiseError as broken:
            way = (*state.way, _words(plan, life.power.trace))
            story = "\n".join(f"  life {n}: {', '.join(words) or 'undisturbed'}" for n, words in enumerate(way))
            broken.add_note(f"in the scenario {self._scenario.name!r}:\n{story}")
            raise
        self.counts.lives += 1
        self.counts.effects.update(effect.name for effect in ended.power.trace)
        for happening in plan:
            if happening.kind is Kind.CRASH:
                self.counts.crashes += 1
            else:
                self.counts.faults += 1
        return ended

    def _note(self, state: _State, plan: tuple[Happening, ...], ended: Ended, found: dict[object, _State]) -> None:
        faults = state.faults + len(plan) - 1
        key = (faults, ended.ledger, store_key(ended.disk.store), ended.witness.key())
        known = found.get(key)
        if known is not None:
            known.ways += state.ways
            return
        way = (*state.way, _words(plan, ended.power.trace))
        found[key] = _State(ended.disk, ended.witness, faults, state.ways, way)


def _words(plan: tuple[Happening, ...], trace: list[Effect]) -> tuple[str, ...]:
    names = [effect.name for effect in trace]
    return tuple(
        f"{happening.kind.value} at effect {happening.at} ({names[happening.at] if happening.at < len(names) else '?'})"
        for happening in plan
    )
