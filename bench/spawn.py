"""What a contained job costs to start, to run to its end, and to be told of; beside those who contain nothing.

    python bench/spawn.py [--rounds 100] [--stamps 40] [--bursts 5] [--backend asyncio]

Paired: each round gives every variant its turn, in shuffled order and in the same event loop, so that whatever slows
the machine slows all alike; a ratio is the median of the rounds' ratios.  All do the same work: no input, both streams
into one pipe.  The `durable` variants keep their store on the disk that this is run on; `runtime` has the journal too.

Exit to waiter: the child writes CLOCK_MONOTONIC into shared memory as the last thing before `_exit`; what follows is
the system taking the process apart, the waiter's wake-up, and its task going on.  Taking an interpreter apart alone is
0.4 ms, so the child is a C program, where there is a compiler (`cc`).

It ends with 1 where a median misses a bar.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import mmap
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import anyio
from _figures import Bar, Table

from lastword import open_runtime
from lastword.notifier import Owner, main_loop_id
from lastword.session import Loop
from lastword.supervisor import Containment, Limits, Supervisor, doctor, open_supervisor
from lastword.supervisor.launch import launcher_of

SESSION = uuid4()
OWNER = Owner(session_id=SESSION, loop_id=main_loop_id(SESSION))
LIMITS = Limits(running_per_loop=256, running_per_session=256, spool_bytes=65536)

START_BAR = Bar(3.5)
LIFE_BAR = Bar(4.0)
BURST_BAR = Bar(250.0, least=True)
WAITER_BAR = Bar(1.0)

TRUE = ("/bin/true",)
AT_ONCE = 64
EACH = 3  # in one burst, one after the other

CONTAINED = ("subreaper", "cgroup")
"""The variants that the bars are for: headless, held with proof."""

# From the call to its return with a running process, and until its end is known; in seconds.
Life = tuple[float, float]
Variant = Callable[[Sequence[str]], Awaitable[Life]]


def supervised(supervisor: Supervisor) -> Variant:
    """A job of ours."""

    async def live(command: Sequence[str]) -> Life:
        began = time.perf_counter()
        process = await supervisor.start(command, owner=OWNER)
        started = time.perf_counter()
        await process.wait()
        return started - began, time.perf_counter() - began

    return live


async def with_anyio(command: Sequence[str]) -> Life:
    """anyio.open_process."""
    began = time.perf_counter()
    async with await anyio.open_process(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        started = time.perf_counter()
        await process.wait()
        return started - began, time.perf_counter() - began


async def with_asyncio(command: Sequence[str]) -> Life:
    """asyncio.create_subprocess_exec."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    started = time.perf_counter()
    await process.wait()
    return started - began, time.perf_counter() - began


async def with_popen(command: Sequence[str]) -> Life:
    """subprocess.Popen, in the way of everybody else in the loop: the least that Python can do."""
    began = time.perf_counter()
    with subprocess.Popen(  # noqa: ASYNC220 -- in the way of the loop on purpose
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        started = time.perf_counter()
        process.wait()
        ended = time.perf_counter()
    return started - began, ended - began


async def open_variants(stack: AsyncExitStack, backend: str, folder: Path) -> dict[str, Variant]:
    """Every way that this machine has, opened and warm."""
    variants: dict[str, Variant] = {"popen": with_popen, "anyio": with_anyio}
    if backend == "asyncio":
        variants["asyncio"] = with_asyncio
    for tier in doctor().tiers:
        if tier.available:
            variants[tier.containment.name.lower()] = supervised(
                await stack.enter_async_context(
                    open_supervisor(None, session_id=SESSION, limits=LIMITS, launcher=launcher_of(tier.containment))
                )
            )
    durable = folder / "durable"
    durable.mkdir(mode=0o700)
    held = launcher_of(Containment.SUBREAPER)
    variants["subreaper, durable store"] = supervised(
        await stack.enter_async_context(open_supervisor(durable, session_id=SESSION, limits=LIMITS, launcher=held))
    )
    runtime = await stack.enter_async_context(open_runtime(folder / "runtime", session_id=SESSION, limits=LIMITS))
    tasks = await stack.enter_async_context(anyio.create_task_group())
    stack.callback(tasks.cancel_scope.cancel)
    tasks.start_soon(acknowledge, runtime.loop)
    variants[f"whole runtime ({runtime.supervisor.containment.name.lower()})"] = supervised(runtime.supervisor)
    for live in variants.values():
        for _ in range(3):
            await live(TRUE)
    return variants


async def acknowledge(loop: Loop) -> None:
    """Be a well-behaved owner."""
    while True:
        await (await loop.receive()).ack()


def shuffled(variants: dict[str, Variant]) -> list[str]:
    return random.sample(sorted(variants), len(variants))


async def serial(variants: dict[str, Variant], rounds: int) -> dict[str, list[Life]]:
    """One job at a time."""
    lives: dict[str, list[Life]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name in shuffled(variants):
            lives[name].append(await variants[name](TRUE))
    return lives


async def bursts(variants: dict[str, Variant], rounds: int) -> dict[str, list[float]]:
    """Jobs a second, where so many are under way at once."""
    rates: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name in shuffled(variants):
            rates[name].append(await burst(variants[name]))
    return rates


async def burst(live: Variant) -> float:
    async def one_after_the_other() -> None:
        for _ in range(EACH):
            await live(TRUE)

    began = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(one_after_the_other)
    return AT_ONCE * EACH / (time.perf_counter() - began)


STAMP_IN_C = """
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
int main(int count, char **words) {
    struct timespec now;
    long long *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(words[1], O_RDWR), 0);
    *page = 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *page = now.tv_sec * 1000000000LL + now.tv_nsec;
    _exit(0);
}
"""

STAMP_IN_PYTHON = """
import mmap, os, struct, sys, time
page = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), mmap.PAGESIZE)
page[:8] = struct.pack("q", time.clock_gettime_ns(time.CLOCK_MONOTONIC))
os._exit(0)
"""


def stamper(folder: Path) -> tuple[str, ...]:
    """The command of a child that leaves the time in the file that it is given, and is gone."""
    source, program = folder / "stamp.c", folder / "stamp.out"
    source.write_text(STAMP_IN_C)
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        subprocess.run(["cc", "-O1", "-o", program, source], check=True, capture_output=True)
        return (str(program),)
    return (sys.executable, "-I", "-S", "-c", STAMP_IN_PYTHON)


async def stamps(variants: dict[str, Variant], rounds: int, folder: Path) -> dict[str, list[float]]:
    """Seconds from a child's last instant to its waiter's going on."""
    path = folder / "stamp"
    path.write_bytes(bytes(mmap.PAGESIZE))
    command = (*stamper(folder), str(path))
    spans: dict[str, list[float]] = {name: [] for name in variants}
    descriptor = os.open(path, os.O_RDWR)
    try:
        with mmap.mmap(descriptor, mmap.PAGESIZE) as page:
            for _ in range(rounds):
                for name in shuffled(variants):
                    await variants[name](command)
                    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                    spans[name].append((now - struct.unpack("q", page[:8])[0]) / 1e9)
    finally:
        os.close(descriptor)
    return spans


def milliseconds(seconds: Sequence[float]) -> list[float]:
    return [each * 1000 for each in seconds]


async def measure(backend: str, arguments: argparse.Namespace, table: Table) -> None:
    """All tables of one backend."""
    with tempfile.TemporaryDirectory(prefix="lastword-bench-", dir=arguments.disk) as name:
        async with AsyncExitStack() as stack:
            folder = Path(name)
            variants = await open_variants(stack, backend, folder)
            await measure_lives(backend, variants, arguments.rounds, table)
            rates = await bursts(variants, arguments.bursts)
            table.title(f"{backend}: {AT_ONCE} at once, to the end", "jobs/s")
            for each, figures in rates.items():
                table.row(each, figures, BURST_BAR if each in CONTAINED else None)
            spans = await stamps(variants, arguments.stamps, folder)
            table.title(f"{backend}: exit to waiter", "ms")
            for each, figures in spans.items():
                table.row(each, milliseconds(figures), WAITER_BAR if each in CONTAINED else None)


async def measure_lives(backend: str, variants: dict[str, Variant], rounds: int, table: Table) -> None:
    """The tables of single jobs."""
    lives = await serial(variants, rounds)
    table.title(f"{backend}: start", "ms")
    for each, figures in lives.items():
        table.row(each, milliseconds([start for start, _ in figures]), START_BAR if each in CONTAINED else None)
    table.title(f"{backend}: start, exit, wait of /bin/true", "ms")
    ends = {each: [end for _, end in figures] for each, figures in lives.items()}
    for each, spans in ends.items():
        table.row(each, milliseconds(spans))
    for each, spans in ends.items():
        if each != "anyio":
            table.ratio(f"{each} / anyio", spans, ends["anyio"], LIFE_BAR if each in CONTAINED else None)


def first_start(table: Table) -> None:
    """What the very first start costs, which brings the zygote; by backend, in this one process."""

    async def once() -> float:
        launcher = launcher_of(Containment.SUBREAPER)
        async with open_supervisor(None, session_id=SESSION, limits=LIMITS, launcher=launcher) as supervisor:
            return (await supervised(supervisor)(TRUE))[0]

    table.title("The first start of a supervisor", "ms")
    table.row("subreaper", milliseconds([anyio.run(once) for _ in range(9)]))


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description="What a contained job costs.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--stamps", type=int, default=40)
    parser.add_argument("--bursts", type=int, default=5)
    parser.add_argument("--backend", choices=("asyncio", "trio"))
    arguments = parser.parse_args()
    arguments.disk = Path.cwd()
    table = Table()
    first_start(table)
    for backend in ("asyncio", "trio") if arguments.backend is None else (arguments.backend,):
        anyio.run(measure, backend, arguments, table, backend=backend)
    table.finish()


if __name__ == "__main__":
    main()
