"""A host that may be killed: an agent's life on a real runtime with real jobs, told to a diary that outlives it.

Rules
- A line of the diary is on disk before the host goes on, so what it says was true when the host died.
- What a life does is its `Plan`; a crash point is armed by that, through a call, and kills this very process.
- A sleeping job waits for a lock that the test holds, and so ends with the test, whoever was killed in between.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Literal

import anyio
import attrs

import lastword
from lastword.notifier._crashpoints import CrashPoint, arm

# Nothing here takes so long: a host whose test has gone must not stay.
HANG_SECONDS = 150.0

# What one life under load does at once.
PRODUCERS, CONSUMERS = 6, 3


@attrs.frozen(kw_only=True)
class Plan:
    """One life: where, on which backend, which part it plays, and where it is killed, if at all.

    - "script": a job that sleeps, then two that exit, each told and acknowledged before the next.
    - "load": short jobs without end, on several tasks, told and acknowledged as they come.
    - "drain": what is waiting is received and acknowledged; nothing is started.

    `armed` says from when on the passings of `point` are counted; `kill_after` are seconds from the very start, and are
    counted outside.
    """

    folder: str
    backend: str
    part: Literal["script", "load", "drain"] = "script"
    point: CrashPoint | None = None
    passing: int = 1
    armed: Literal["opening", "first job", "second job"] = "first job"
    kill_after: float | None = None

    def to_json(self) -> str:
        """As one line."""
        return json.dumps(attrs.asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Plan:
        """From `to_json`."""
        facts = json.loads(line)
        if facts["point"] is not None:
            facts["point"] = CrashPoint(facts["point"])
        return cls(**facts)

    @property
    def state(self) -> Path:
        """The runtime's directory."""
        return Path(self.folder) / "state"


class Diary:
    """What the host has seen to be true, a line each, durable."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "diary", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def say(self, word: str, **facts: object) -> None:
        """Write one line; it is on disk on return."""
        os.write(self._file, (json.dumps({"said": word} | facts) + "\n").encode())
        os.fdatasync(self._file)


class Agent:
    """Starts jobs, and is told."""

    def __init__(self, runtime: lastword.Runtime, diary: Diary, folder: Path) -> None:
        self.runtime = runtime
        self.diary = diary
        self.folder = folder
        self._in_hand = 0

    async def sleeper(self) -> None:
        """Start a job that outlives this life if nobody stops it."""
        lock = shlex.quote(str(self.folder / "awake"))
        process = await self.runtime.start(f"exec flock -s {lock} true", background=True)
        self.diary.say("started", handle=process.handle, command=str(process.command_id), code=None)

    async def job(self, code: int) -> None:
        """Start a job that leaves a mark and exits with `code`, and wait for it."""
        mark = shlex.quote(str(self.folder / "ran"))
        process = await self.runtime.start(f": > {mark}; exit {code}")
        self.diary.say("started", handle=process.handle, command=str(process.command_id), code=code)
        outcome = await process.wait()
        self.diary.say("ended", handle=process.handle, state=outcome.state.name, code=outcome.exit_code)

    async def consume(self) -> None:
        """Receive and settle, for ever."""
        async for notice in self.runtime.loop:
            self._in_hand += 1
            told = notice.notification
            self.diary.say(
                "told",
                command=str(told.command_id),
                handle=told.process_handle,
                state=told.state,
                reason=told.reason,
                seq=notice.journal_seq,
                again=notice.redelivered,
            )
            await self.settle(notice)
            self.diary.say("acked", command=str(told.command_id))
            self._in_hand -= 1

    async def settle(self, notice: lastword.Notice) -> None:
        """Acknowledge."""
        await notice.ack()

    async def at_rest(self) -> None:
        """Until nothing is on its way: all is journaled, marked, received and settled."""
        while self._in_hand or await self.pending():  # noqa: ASYNC110 -- several things, and none tells
            await anyio.sleep(0.001)

    async def pending(self) -> int:
        """How many deliveries are not finished."""
        return len(await self.runtime.pending())


async def live(plan: Plan) -> None:
    """Play the part."""
    folder = Path(plan.folder)
    diary = Diary(folder)
    limits = lastword.Limits(running_per_loop=32, running_per_session=32)
    if plan.armed == "opening":
        _arm(plan)
    with anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(plan.state, limits=limits) as runtime, anyio.create_task_group() as tasks:
            diary.say("open", backend=plan.backend)
            agent = Agent(runtime, diary, folder)
            for _ in range(CONSUMERS if plan.part == "load" else 1):
                tasks.start_soon(agent.consume)
            if plan.part == "script":
                await _script(plan, agent)
            elif plan.part == "load":
                await _load(agent)
            await agent.at_rest()
            diary.say("done")
            tasks.cancel_scope.cancel()


async def _script(plan: Plan, agent: Agent) -> None:
    await agent.sleeper()
    await agent.at_rest()
    if plan.armed == "first job":
        _arm(plan)
    await agent.job(3)
    await agent.at_rest()
    if plan.armed == "second job":
        _arm(plan)
    await agent.job(4)


async def _load(agent: Agent) -> None:
    async def produce() -> None:
        while True:
            await agent.job(3)

    async with anyio.create_task_group() as tasks:
        for _ in range(PRODUCERS):
            tasks.start_soon(produce)


def _arm(plan: Plan) -> None:
    passed = 0

    def die(point: CrashPoint) -> None:
        nonlocal passed
        if point is plan.point:
            passed += 1
            if passed == plan.passing:
                os.kill(os.getpid(), signal.SIGKILL)

    arm(die)


def run(line: str) -> None:
    """One life, by its plan."""
    plan = Plan.from_json(line)
    anyio.run(live, plan, backend=plan.backend)


if __name__ == "__main__":
    run(sys.argv[1])
