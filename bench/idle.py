"""What a job costs that does nothing: in the host, in its shim, and in the zygote; beside children that nothing holds.

    python bench/idle.py [--jobs 1000] [--backend asyncio]

Each variant is a host of its own.  It is looked at with 100 jobs and again with `--jobs` more: the difference, divided,
is what one job costs, and what the imports and the first jobs cost is not in it.  Its first event is delivered, as by a
courier: what waits in the outbox is no cost of an idle job.  Memory of the host is what is private
to it (Private_Clean and Private_Dirty of smaps_rollup); of shims it is that, and PSS, which shares out what they share.

It ends with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.lowlevel
import psutil
from _figures import Bar, Table
from _pen import Pen

from lastword.notifier import Owner, main_loop_id
from lastword.supervisor import Containment, Limits, doctor, open_supervisor
from lastword.supervisor.launch import launcher_of

SESSION = uuid4()
OWNER = Owner(session_id=SESSION, loop_id=main_loop_id(SESSION))
SLEEP = ("/bin/sleep", "600")
WARM = 100
AT_ONCE = 32
SAMPLED = 50  # shims whose memory is looked at

PEERS = ("anyio", "asyncio")


def memory_of(pid: int | str) -> tuple[float, float]:
    """PSS, and what is private, in KiB."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    figures = {name: int(value) for name, value in re.findall(r"^(\w+): +(\d+) kB", rollup, re.MULTILINE)}
    return figures["Pss"], figures["Private_Clean"] + figures["Private_Dirty"]


def tasks() -> int:
    """Tasks of the loop that this runs in."""
    native = anyio.lowlevel.current_token().native_token
    if isinstance(native, asyncio.AbstractEventLoop):
        return len(asyncio.all_tasks(native))
    import trio

    return trio.lowlevel.current_statistics().tasks_living


def look() -> dict[str, float]:
    """What this process holds now."""
    gc.collect()
    return {
        "threads": psutil.Process().num_threads(),
        "tasks": tasks(),
        "fds": psutil.Process().num_fds(),
        "KiB": memory_of("self")[1],
    }


def keepers() -> dict[str, float]:
    """Memory of our zygote and its shims, where there are any."""
    found: dict[str, float] = {}
    for zygote in psutil.Process().children():
        if zygote.name() != "lastword-zygote":
            continue
        try:
            found["zygote PSS"], found["zygote private"] = memory_of(zygote.pid)
        except PermissionError:  # only root may look into those who hold the jobs
            break
        children = zygote.children()
        for spare in children:
            if spare.name() == "lastword-spare":
                found["spare PSS"], found["spare private"] = memory_of(spare.pid)
        shims = [memory_of(shim.pid) for shim in children if shim.name() == "lastword-shim"][-SAMPLED:]
        found["shim PSS"] = statistics.median(pss for pss, _ in shims)
        found["shim private"] = statistics.median(private for _, private in shims)
    return found


async def host(variant: str, jobs: int) -> None:
    """Hold idle jobs, tell what they cost, and end at the end of our input."""
    async with AsyncExitStack() as stack:
        held: list[asyncio.subprocess.Process | anyio.abc.Process] = []
        start = await starter(variant, jobs, stack, held)
        await many(start, WARM)
        before = look()
        await many(start, jobs)
        after = look()
        each = {name: (after[name] - before[name]) / jobs for name in after}
        print(json.dumps(each | keepers()), flush=True)
        sys.stdin.read()
        for process in held:
            process.kill()
        for process in held:
            await process.wait()


async def many(start: Callable[[], Awaitable[object]], count: int) -> None:
    left = count

    async def some() -> None:
        nonlocal left
        while left:
            left -= 1
            await start()

    async with anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(some)


async def starter(variant: str, jobs: int, stack: AsyncExitStack, held: list[Any]) -> Callable[[], Awaitable[object]]:
    """What starts one job."""
    if variant in PEERS:

        async def start_peer() -> None:
            # As ours: nothing to read, and a pipe for what it writes.
            if variant == "anyio":
                opened: Any = await anyio.open_process(
                    SLEEP, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
                )
            else:
                opened = await asyncio.create_subprocess_exec(
                    *SLEEP, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
                )
            held.append(opened)

        return start_peer
    most = WARM + jobs
    limits = Limits(running_per_loop=most, running_per_session=most, spool_bytes=65536, grace_seconds=0.5)
    supervisor = await stack.enter_async_context(
        open_supervisor(None, session_id=SESSION, limits=limits, launcher=launcher_of(Containment[variant]))
    )

    async def start_job() -> None:
        await supervisor.start(SLEEP, owner=OWNER)
        for unit in supervisor.outbox.heads():
            supervisor.outbox.mark_delivered(unit.position)

    return start_job


BARS = {"threads": Bar(0), "tasks": Bar(0), "fds": Bar(2), "KiB": Bar(4)}


def measure(backend: str, variants: list[str], jobs: int, table: Table) -> None:
    """A host of each variant, one after the other: a thousand shims need the machine for themselves."""
    for variant in variants:
        contained = variant in ("SUBREAPER", "CGROUP")
        with Pen(__file__, "--host", variant, "--backend", backend, "--jobs", str(jobs)) as pen:
            figures: dict[str, float] = json.loads(pen.line())
            table.title(f"{backend}, {variant.lower()}: one of {jobs} idle jobs", "")
            for name, figure in figures.items():
                if name in BARS:
                    table.row(f"{name} in the host", [figure], BARS[name] if contained else None)
                else:
                    table.row(f"{name}, KiB", [figure])
            pen.host.communicate("")


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description="What an idle job costs.")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--backend", choices=("asyncio", "trio"))
    parser.add_argument("--host")
    arguments = parser.parse_args()
    if arguments.host is not None:
        anyio.run(host, arguments.host, arguments.jobs, backend=arguments.backend)
        return
    table = Table()
    tiers = [tier.containment.name for tier in doctor().tiers if tier.available]
    for backend in ("asyncio", "trio") if arguments.backend is None else (arguments.backend,):
        # The tiers differ in what the shim holds, and the peers in the backend.
        measure(backend, [*tiers, *PEERS] if backend == "asyncio" else ["SUBREAPER", "anyio"], arguments.jobs, table)
    table.finish()


if __name__ == "__main__":
    main()
