"""How long it takes until nothing of a job is left, proven: killed, with 500 orphans, its shim killed, its host killed.

    python bench/ending.py [--rounds 15] [--deaths 5] [--backend asyncio]

Each job has left its session behind (`setsid`).  The first three are timed in this process, in turns, up to the return
of the waiter, whose outcome must be proven; beside them killpg, which proves nothing and does not reach what has left.
A host that dies is a host of its own, and `_pen` says how the end of all that it had started is known.

It ends with 1 where a median misses a bar.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from uuid import uuid4

import anyio
import psutil
from _figures import Bar, Table
from _pen import Pen

from lastword.notifier import Owner, main_loop_id
from lastword.supervisor import Containment, Limits, Process, StopMode, Supervisor, doctor, open_supervisor
from lastword.supervisor.launch import launcher_of

SESSION = uuid4()
OWNER = Owner(session_id=SESSION, loop_id=main_loop_id(SESSION))

TREE = "setsid sleep 600 & echo $$ $!; wait"

# Five hundred sessions whose parent has ended.
ORPHANS = (
    sys.executable,
    "-I",
    "-S",
    "-c",
    "import os, signal\n"
    "if os.fork() == 0:\n"
    "    for _ in range(500):\n"
    "        os.posix_spawn('/bin/sleep', ['sleep', '600'], os.environ, setsid=True)\n"
    "    os._exit(0)\n"
    "os.wait()\n"
    "print(os.getpid(), flush=True)\n"
    "signal.pause()\n",
)

KILL_BAR = Bar(15)
ORPHANS_BAR = Bar(80)
SHIM_BAR = Bar(30)
DEATH_BARS = {50: Bar(80), 1000: Bar(1500)}

AT_ONCE = 32  # starts, when a host fills itself


async def said(process: Process) -> list[int]:
    """The numbers that a job prints once it is there."""
    while b"\n" not in (chunk := await process.read_output()).data:
        await process.wait_output(chunk.total)
    return [int(word) for word in chunk.data.split()]


async def kill(supervisor: Supervisor, command: str | tuple[str, ...]) -> float:
    """Seconds from the order to the proof."""
    process = await supervisor.start(command, owner=OWNER)
    await said(process)
    began = time.perf_counter()
    outcome = await process.stop(StopMode.KILL)
    spent = time.perf_counter() - began
    if outcome is None or not outcome.proven:
        raise RuntimeError("a kill was not proven")
    return spent


async def kill_shim(supervisor: Supervisor) -> float:
    """Seconds from a shim's death until its job's waiter knows that all was swept."""
    process = await supervisor.start(TREE, owner=OWNER)
    leader = (await said(process))[0]
    began = time.perf_counter()
    os.kill(psutil.Process(leader).ppid(), signal.SIGKILL)
    outcome = await process.wait()
    spent = time.perf_counter() - began
    if not outcome.proven:
        raise RuntimeError("nobody has said that a dead shim's job was swept")
    return spent


async def killpg() -> float:
    """What everybody does: the group, and the leader's status.  What has left the group is ended by us, untimed."""
    with subprocess.Popen(  # noqa: ASYNC220 -- the least that Python can do
        TREE, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        escaped = int(process.stdout.readline().split()[1])
        began = time.perf_counter()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        spent = time.perf_counter() - began
        os.kill(escaped, signal.SIGKILL)
    return spent


async def measure(backend: str, rounds: int, table: Table) -> None:
    """What is timed in this process."""
    async with AsyncExitStack() as stack:
        supervisors: dict[str, Supervisor] = {}
        for tier in doctor().tiers:
            if tier.available and tier.containment.proven:
                supervisors[tier.containment.name.lower()] = await stack.enter_async_context(
                    open_supervisor(None, session_id=SESSION, launcher=launcher_of(tier.containment))
                )
        kills: dict[str, Callable[[], Awaitable[float]]] = {
            name: partial(kill, its, TREE) for name, its in supervisors.items()
        }
        await report(table, f"{backend}: kill to proof", kills | {"popen, killpg: no proof": killpg}, rounds, KILL_BAR)
        orphans: dict[str, Callable[[], Awaitable[float]]] = {
            name: partial(kill, its, ORPHANS) for name, its in supervisors.items()
        }
        await report(table, f"{backend}: kill to proof, 500 orphans", orphans, max(3, rounds // 5), ORPHANS_BAR)
        shims: dict[str, Callable[[], Awaitable[float]]] = {
            name: partial(kill_shim, its) for name, its in supervisors.items()
        }
        await report(table, f"{backend}: shim killed, swept and told", shims, rounds, SHIM_BAR)


async def report(
    table: Table, title: str, variants: dict[str, Callable[[], Awaitable[float]]], rounds: int, bar: Bar
) -> None:
    """Give each variant its turn in each round, and print."""
    figures: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name in random.sample(sorted(variants), len(variants)):
            figures[name].append(1000 * await variants[name]())
    table.title(title, "ms")
    for name, spans in figures.items():
        table.row(name, spans, bar if "proof" not in name else None)


def deaths(backend: str, tiers: list[Containment], jobs: int, count: int, table: Table) -> None:
    """Hosts that are killed, a fresh one each time."""
    figures: dict[str, list[float]] = {tier.name.lower(): [] for tier in tiers}
    oracle = ""
    for _ in range(count):
        for tier in random.sample(tiers, len(tiers)):
            with Pen(__file__, "--host", tier.name, "--backend", backend, "--jobs", str(jobs)) as pen:
                pen.line()
                figures[tier.name.lower()].append(1000 * pen.kill())
                oracle = pen.oracle
    table.title(f"{backend}: host killed, {jobs} jobs, to zero ({oracle})", "ms")
    for name, spans in figures.items():
        table.row(name, spans, DEATH_BARS[jobs])


async def host(tier: Containment, jobs: int) -> None:
    """Hold so many jobs of two sessions each (one, where there are a thousand) until we are killed."""
    limits = Limits(running_per_loop=jobs, running_per_session=jobs, spool_bytes=65536)
    command = TREE if jobs < 1000 else "exec sleep 600"
    async with open_supervisor(None, session_id=SESSION, limits=limits, launcher=launcher_of(tier)) as supervisor:
        left = jobs

        async def some() -> None:
            nonlocal left
            while left:
                left -= 1
                process = await supervisor.start(command, owner=OWNER)
                if command is TREE:
                    await said(process)

        async with anyio.create_task_group() as group:
            for _ in range(AT_ONCE):
                group.start_soon(some)
        print("full", flush=True)
        await anyio.sleep_forever()


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description="How long an end takes.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--deaths", type=int, default=5)
    parser.add_argument("--backend", choices=("asyncio", "trio"))
    parser.add_argument("--host")
    parser.add_argument("--jobs", type=int)
    arguments = parser.parse_args()
    if arguments.host is not None:
        anyio.run(host, Containment[arguments.host], arguments.jobs, backend=arguments.backend)
        return
    table = Table()
    tiers = [tier.containment for tier in doctor().tiers if tier.available and tier.containment.proven]
    for backend in ("asyncio", "trio") if arguments.backend is None else (arguments.backend,):
        anyio.run(measure, backend, arguments.rounds, table, backend=backend)
        deaths(backend, tiers, 50, arguments.deaths, table)
        # A thousand take seconds to start, and how they die is the shims' affair, not the backend's.
        if backend != "trio" or arguments.backend is not None:
            deaths(backend, tiers, 1000, max(1, arguments.deaths // 2), table)
    table.finish()


if __name__ == "__main__":
    main()
