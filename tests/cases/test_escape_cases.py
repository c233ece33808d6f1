"""What leaves its leader, its group or its session is still the job's (escape, policy, kill-tree)."""

from __future__ import annotations

import itertools
import os
from functools import partial
from pathlib import Path

import anyio
import attrs
import pytest
from cases_ground import (
    contained,
    end_marked,
    every_tier,
    gone,
    group_tier,
    running,
    running_in,
    story_of,
    together,
    told_once,
    within,
    words,
)
from leaping_clock import LeapingClock
from supervising import OWNER, output_of, supervising, told, until, wait_for_output

from lastword.notifier import ProcessState, TerminalReason
from lastword.supervisor import Containment, Limits, StopMode, Supervisor

S = ProcessState

LIMITS = Limits(running_per_loop=32, spool_bytes=1 << 16)

# Ways to leave one: the last ones also by session, by environment, and with every stream closed.
STAYS_IN_GROUP = (
    "nohup sleep {0} >/dev/null 2>&1 & echo started",
    "(sleep {0} & disown) >/dev/null 2>&1; echo started",
    "exec bash -c 'trap \"\" HUP; sleep {0} >&- 2>&- & echo started'",
)
LEAVES_GROUP = (
    "setsid sleep {0} >/dev/null 2>&1 & sleep 0.2; echo started",
    "(setsid sh -c 'sleep {0} & exec sleep 0' >/dev/null 2>&1); echo started",
    "env -i setsid -f sleep {0} <&- >&- 2>&-; sleep 0.2; echo started",
    "exec bash --norc -ic 'set -m; sleep {0} >/dev/null 2>&1 & echo started' 2>/dev/null",
)


async def _left_behind(supervisor: Supervisor, own: str, command: str) -> None:
    """Started under both policies: counted, its output whole, and ended at once or by its handle in the list."""
    process = await supervisor.start(command.format(own), owner=OWNER, survivors="stop")
    outcome = await process.wait()
    assert (outcome.state, outcome.exit_code, outcome.survivors) == (S.EXITED, 0, 1), command
    assert await output_of(process) == b"started\n", command
    assert running(own) == [], command
    handle = (await supervisor.start(command.format(own), owner=OWNER, survivors="keep")).handle
    kept = await supervisor.get(handle, OWNER).wait()
    assert (kept.state, kept.exit_code, kept.survivors) == (S.EXITED, 0, 1), command
    (listed,) = [process for process in supervisor.list(OWNER) if process.handle == handle]
    await until(lambda: len(running(own)) == 1)  # it may just be about to execute
    assert await listed.stop() is kept
    assert running(own) == [], command


@every_tier
async def test_c11_a_command_that_goes_to_the_background(mark: str) -> None:
    """Its end is its leader's; what runs on is counted, and the handle still stops it."""
    async with supervising(limits=LIMITS) as supervisor:
        await together(
            partial(_left_behind, supervisor, f"{mark}{number}", command)
            for number, command in enumerate(STAYS_IN_GROUP)
        )


@contained
async def test_c11_a_command_that_goes_further(mark: str) -> None:
    """Daemons, sessions of their own, and a shell with job control."""
    async with supervising(limits=LIMITS) as supervisor:
        await together(
            partial(_left_behind, supervisor, f"{mark}{number}", command) for number, command in enumerate(LEAVES_GROUP)
        )


@group_tier
async def test_c11_a_group_claims_nothing_of_who_has_left_it(mark: str) -> None:
    """It is not counted, not reached, and the outcome does not say that nothing was left."""
    async with supervising(limits=LIMITS) as supervisor:
        for number, command in enumerate(LEAVES_GROUP):
            process = await supervisor.start(command.format(f"{mark}{number}"), owner=OWNER)
            outcome = await process.wait()
            assert (outcome.state, outcome.exit_code, outcome.proven) == (S.EXITED, 0, False)
    assert end_marked(mark)


@every_tier
async def test_c11_the_notice_of_what_runs_on(state: Path | None, mark: str) -> None:
    """It comes at the leader's end, and a stop of the survivors later brings no other."""
    async with running_in(state) as runtime:
        process = await runtime.start(STAYS_IN_GROUP[0].format(mark), survivors="keep")
        told = await told_once(runtime, 1)
        assert told[process.handle].state is S.EXITED
        await until(lambda: len(running(mark)) == 1)
        await process.stop()
        assert running(mark) == []
        story = await story_of(runtime)
        assert words(story[process.handle]) == ["ProcessStarted", "ProcessCompleted"]
        assert await runtime.pending() == []


@every_tier
async def test_c12_completion_leaves_no_children(tier: Containment, mark: str) -> None:
    """Twenty leaders that leave a child each: none is alive, and every exit code is the leader's own."""
    ways = ["sleep {0} & exit 0", "(sleep {0} &); exit 0", "sleep {0} | sleep {0} & exit 0"]
    if tier.proven:
        ways += ["setsid sleep {0} & exit 0", "setsid -f sleep {0}; exit 0"]
    async with supervising(limits=LIMITS) as supervisor:
        jobs = [
            await supervisor.start(command.format(mark), owner=OWNER)
            for command in itertools.islice(itertools.cycle(ways), 20)
        ]
        outcomes = await supervisor.wait_all(jobs)
        assert {(outcome.exit_code, outcome.signal, outcome.state) for outcome in outcomes} == {(0, None, S.EXITED)}
        assert {outcome.proven for outcome in outcomes} == {tier.proven}
        assert running(mark) == []


@every_tier
@pytest.mark.prove
async def test_c12_a_code_of_its_own_survives_the_sweep(mark: str) -> None:
    """Also where what is left hears nothing but SIGKILL, and where the leader died of a signal itself."""
    deaf = f"sh -c 'trap \"\" TERM; echo deaf; while :; do sleep {mark}; done'"
    async with supervising(limits=LIMITS) as supervisor:
        jobs = [
            await supervisor.start(f"{deaf} & read line; {end}", owner=OWNER, stdin=b"\n")
            for end in ("exit 0", "exit 143", "kill -9 $$", "kill -TERM $$")
        ]
        outcomes = await supervisor.wait_all(jobs)
        ends = [(outcome.exit_code, outcome.signal) for outcome in outcomes]
        assert ends == [(0, None), (143, None), (None, 9), (None, 15)]
        assert {outcome.state for outcome in outcomes} == {S.EXITED}
        assert running(mark) == []


@every_tier
async def test_c14_what_is_kept_outlives_the_call_and_not_the_supervisor(state: Path | None, mark: str) -> None:
    """The server lives on, counted, whatever becomes of the call; closing stops it."""
    clock = LeapingClock()
    async with running_in(state, clock=clock) as runtime:
        process = await runtime.start(f"sleep {mark} & exit 0", survivors="keep", timeout=60)
        outcome = await process.wait()
        assert (outcome.state, outcome.exit_code, outcome.survivors) == (S.EXITED, 0, 1)
        clock.leap(60)  # the call's own time is over, and that is no matter of the kept ones
        await anyio.wait_all_tasks_blocked()
        assert len(running(mark)) == 1
        assert runtime.supervisor.list(runtime.loop) == [process]
        assert process.outcome is outcome
    assert running(mark) == []


@contained
async def test_c14_daemons_are_kept_and_stopped_like_others(mark: str, tmp_path: Path) -> None:
    """By the supervisor's end, though they have left their session and the job's environment."""
    os.mkfifo(tmp_path / "up")
    deaf = f'trap "" TERM; sleep {mark} & echo up >up; wait; :'
    async with supervising(limits=Limits(grace_seconds=0.3)) as supervisor:
        process = await supervisor.start(
            f"env -i setsid -f sleep {mark}; env -i setsid -f sh -c '{deaf}'; read up <up",
            owner=OWNER,
            cwd=tmp_path,
            survivors="keep",
        )
        outcome = await process.wait()
        assert outcome.survivors == 3
        assert not outcome.proven  # yet
        await until(lambda: len(running(f"sleep\0{mark}")) == 2)  # one may just be about to execute
        assert len(running(mark)) == 3
    assert running(mark) == []


# The case's own, and deeper: by shells of each kind, subshells and pipelines.  Each says "up" when its leaves are made.
TREES = (
    "sh -c 'sh -c \"sleep {0} & echo up; wait; :\"; :'",
    "bash -c '(sleep {0} | sleep {0}) & (dash -c \"sleep {0} & echo up; wait; :\"; :); :'",
    "f() {{ if [ $1 = 0 ]; then sleep {0} & echo up; wait; else (f $(($1 - 1)); :); fi; }}; f 12; :",
)
SCATTERED = (
    "sleep {0} & setsid sh -c 'sleep {0} & echo up; wait' & wait",
    "setsid -f sleep {0}; setsid sh -c '(setsid sh -c \"sleep {0} & sleep {0} & echo up; wait; :\"; :); :'",
)


@every_tier
async def test_c15_the_whole_tree_is_killed(tier: Containment, mark: str) -> None:
    """Children of children end with it, by the very signal: nobody is left to the kill at the end of the grace."""

    async def kill(supervisor: Supervisor, own: str, command: str, mode: StopMode) -> None:
        process = await supervisor.start(command.format(own), owner=OWNER)
        await wait_for_output(process, b"up\n")
        await until(lambda: len(running(f"sleep\0{own}")) == command.count("sleep {0}"))
        with within(2):
            outcome = await process.stop(mode)
        assert outcome is not None
        number, state = (15, S.TERMINATED) if mode is StopMode.TERMINATE else (9, S.KILLED)
        assert (outcome.state, outcome.signal, outcome.survivors) == (state, number, 0), command
        assert outcome.proven is tier.proven
        assert running(own) == [], command

    async with supervising(limits=attrs.evolve(LIMITS, grace_seconds=600.0)) as supervisor:
        await together(
            partial(kill, supervisor, f"{mark}{number}{mode is StopMode.KILL:d}", command, mode)
            for number, command in enumerate(TREES + (SCATTERED if tier.proven else ()))
            for mode in (StopMode.TERMINATE, StopMode.KILL)
        )


@every_tier
async def test_c15_a_restart_does_not_run_it_twice(mark: str) -> None:
    """When the stop has returned the old tree is gone, so that the next one has its place."""
    async with supervising() as supervisor:
        for _ in range(3):
            process = await supervisor.start(TREES[0].format(mark), owner=OWNER)
            await wait_for_output(process, b"up\n")
            assert running(mark)
            await process.stop()
            assert running(mark) == []


@every_tier
@pytest.mark.prove
async def test_c15_survivors_that_are_stopped_together(mark: str) -> None:
    """Many handles, whose kept survivors are stopped at once, also by a second caller."""
    async with supervising(limits=LIMITS) as supervisor:
        jobs = [await supervisor.start(f"sleep {mark} & exit 0", owner=OWNER, survivors="keep") for _ in range(10)]
        outcomes = await supervisor.wait_all(jobs)
        await until(lambda: len(running(mark)) == 10)
        with within(2):
            await together(process.stop for process in jobs * 2)
        assert running(mark) == []
        assert [process.outcome for process in jobs] == outcomes
        assert {outcome.reason for outcome in outcomes} == {TerminalReason.EXITED}
        told(supervisor.outbox)
        with within(1):
            await gone(mark)
