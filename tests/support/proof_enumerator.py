"""The enumerator: every schedule of a scenario with at most so many crashes and faults, each once.

Theory
- A life is repeatable, so a schedule is a list of happenings, each at the number of an effect.  A life is first run
  undisturbed; then again for each effect with each thing that can happen there, and from a fault on, again for what can
  happen after it.
- After a crash only the disk and what the witness knows count.  Two crashes that leave the same are the same from then
  on: the lives after them are run once, and counted for both.
- In the first life each crash is acted out.  What the disk held at that moment, seen from outside in a run without the
  crash, must be what it left; so in later lives that is enough, and one run shows all crashes of a life.
- Another host that takes the journal ends a life as a crash does, and counts as one; it is always acted out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import anyio
import attrs
from proof_effects import ENDS, Effect, Happening, Kind
from proof_ground import GROUNDS
from proof_life import Disk, Ended, Left, Life, QuietLoop
from proof_scenarios import Scenario
from proof_witness import BrokenPromiseError, Witness


@attrs.define
class Counts:
    """How much was done."""

    schedules: int = 0
    lives: int = 0
    states: int = 0
    kinds: Counter[Kind] = attrs.field(factory=Counter[Kind])
    effects: Counter[str] = attrs.field(factory=Counter[str])

    @property
    def crashes(self) -> int:
        """How often a life was ended."""
        return sum(self.kinds[kind] for kind in ENDS)

    @property
    def faults(self) -> int:
        """How often something bad was survived."""
        return self.kinds.total() - self.crashes

    def add(self, other: Counts) -> None:
        """Add another's."""
        self.schedules += other.schedules
        self.lives += other.lives
        self.states += other.states
        self.kinds += other.kinds
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
        plans: list[tuple[tuple[Happening, ...], tuple[Effect, ...], Left | None]] = [((), (), None)]
        while plans:
            plan, expected, photograph = plans.pop()
            ended = await self._live(state, number, plan)
            trace = tuple(ended.power.trace)
            assert trace[: len(expected)] == expected, "a life was not repeatable"
            assert photograph is None or photograph.key() == ended.left.key(), "a crash has left something else"
            if ended.crashed:
                self._note(state, plan, trace, ended.left, found)
                continue
            self.counts.schedules += state.ways
            for at in range(plan[-1].at + 1 if plan else 0, len(trace)):
                for kind in self._kinds(state, number, plan, trace[at]):
                    crash = ended.photographs[at] if kind is Kind.CRASH and ended.photographs else None
                    if crash is not None and number:
                        self.counts.kinds[Kind.CRASH] += 1
                        self._note(state, (*plan, Happening(at, kind)), trace, crash, found)
                    else:
                        plans.append(((*plan, Happening(at, kind)), trace[: at + 1], crash))

    def _kinds(self, state: _State, number: int, plan: tuple[Happening, ...], effect: Effect) -> tuple[Kind, ...]:
        """What may happen at the effect without there being too many crashes or faults."""
        faults = effect.faults if state.faults + len(plan) < self._faults else ()
        return (*faults, *effect.ends) if number < self._crashes else faults

    async def _live(self, state: _State, number: int, plan: tuple[Happening, ...]) -> Ended:
        ground = GROUNDS[self._ground](state.disk.journal)
        photographed = number < self._crashes and self._crashes > 1  # with one crash nothing relies on it
        life = Life(self._scenario, ground, state.disk, state.witness.copy(), number, plan, photographed=photographed)
        try:
            ended = await life.run()
        except BrokenPromiseError as broken:
            self._tell(broken, state, plan, life.power.trace)
            raise
        self.counts.lives += 1
        self.counts.effects.update(effect.name for effect in ended.power.trace)
        self.counts.kinds.update(happening.kind for happening in plan)
        return ended

    def _note(
        self,
        state: _State,
        plan: tuple[Happening, ...],
        trace: tuple[Effect, ...],
        left: Left,
        found: dict[object, _State],
    ) -> None:
        """A life has ended so; whoever lives next goes on from what it has left."""
        faults = state.faults + len(plan) - 1
        key = (faults, left.key())
        known = found.get(key)
        if known is not None:
            known.ways += state.ways
            return
        try:
            left.judge()
        except BrokenPromiseError as broken:
            self._tell(broken, state, plan, trace)
            raise
        found[key] = _State(left.disk, left.witness, faults, state.ways, (*state.way, _words(plan, trace)))

    def _tell(
        self, broken: BrokenPromiseError, state: _State, plan: tuple[Happening, ...], trace: Sequence[Effect]
    ) -> None:
        """Add the schedule to the error."""
        way = enumerate((*state.way, _words(plan, trace)))
        story = "\n".join(f"  life {number}: {', '.join(words) or 'undisturbed'}" for number, words in way)
        broken.add_note(f"in the scenario {self._scenario.name!r}:\n{story}")


def _words(plan: tuple[Happening, ...], trace: Sequence[Effect]) -> tuple[str, ...]:
    names = [effect.name for effect in trace]
    return tuple(
        f"{happening.kind.value} at effect {happening.at} ({names[happening.at] if happening.at < len(names) else '?'})"
        for happening in plan
    )
