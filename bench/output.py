"""What output costs: to drain it, to read it, to be woken by it, and what it holds of memory and disk.

    python bench/output.py [--pairs 9] [--mib 1024] [--rounds 5] [--tier subreaper] [--backend asyncio]

Paired: each round gives both sides their turn, in shuffled order, so that whatever slows the machine slows both alike;
a ratio is the median of the rounds' ratios.

- Drain: `head -c 1G /dev/zero` to its end, by a job of ours and by the least that Python can do: readv into one buffer,
  in the way of everybody else.
- Lag: how much later than asked a task goes on that sleeps for a millisecond at a time, while four jobs write as fast
  as they can; beside the same four writers into `cat > /dev/null`, which keeps nothing.
- Wake-up: a job writes the time; how old it is when a follower has it.

It ends with 1 where a median misses a bar.
"""

from __future__ import annotations

import argparse
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
import psutil
from _figures import Bar, Table

from lastword.notifier import Owner, main_loop_id
from lastword.supervisor import Containment, Limits, Process, Supervisor, doctor, open_supervisor
from lastword.supervisor.launch import launcher_of
from lastword.supervisor.output import Streams
from lastword.supervisor.shim._header import HEADER_BYTES, segment_of

SESSION = uuid4()
OWNER = Owner(session_id=SESSION, loop_id=main_loop_id(SESSION))
LIMIT = Limits().spool_bytes
MOST_ON_DISK = HEADER_BYTES + LIMIT + segment_of(LIMIT)

MIB = 1 << 20
WRITERS = 4

DRAIN_BAR = Bar(0.6, least=True)
CPU_BAR = Bar(5.0)
LAG_BAR = Bar(1.5)
READ_BAR = Bar(0.3)
WAKE_BAR = Bar(2.0)
GROWTH_BAR = Bar(1.0)
DISK_BAR = Bar(1.0)

STAMPS = """
import os, struct, sys, time
for _ in range(int(sys.argv[1])):
    time.sleep(0.005)
    os.write(1, struct.pack("q", time.clock_gettime_ns(time.CLOCK_MONOTONIC)))
"""


def zeros(mib: int) -> tuple[str, ...]:
    return "head", "-c", f"{mib}M", "/dev/zero"


# --- drain ------------------------------------------------------------------------------------------------------------


async def drained(supervisor: Supervisor, mib: int) -> tuple[float, float, float]:
    """Seconds until the end of a job that writes so much is known; of processor time of this process: for all of it,
    and from the start's return to the last byte."""
    used, began = time.process_time(), time.perf_counter()
    process = await supervisor.start(zeros(mib), owner=OWNER)
    started = time.process_time()
    await process.wait_output(mib * MIB - 1)
    over = time.process_time()
    outcome = await process.wait()
    spent = time.perf_counter() - began
    if outcome.total_bytes != mib * MIB or outcome.output_error is not None:
        raise RuntimeError("not all of it was drained")
    return spent, time.process_time() - used, over - started


def read_by_hand(mib: int) -> float:
    """Seconds of a loop of readv, kept nowhere."""
    buffer = memoryview(bytearray(64 * 1024))
    began = time.perf_counter()
    with subprocess.Popen(zeros(mib), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        if process.stdout is None:
            raise RuntimeError("no pipe")
        descriptor, total = process.stdout.fileno(), 0
        while count := os.readv(descriptor, [buffer]):
            total += count
        process.wait()
    spent = time.perf_counter() - began
    if total != mib * MIB:
        raise RuntimeError("not all of it was read")
    return spent


async def measure_drain(supervisor: Supervisor, pairs: int, mib: int, table: Table) -> None:
    ours: list[float] = []
    used: list[float] = []
    lives: list[float] = []
    raw: list[float] = []
    for _ in range(pairs):
        for mine in random.sample((True, False), 2):
            if mine:
                spent, whole, draining = await drained(supervisor, mib)
                ours.append(spent)
                lives.append(whole * 1000)
                used.append(draining * 1000 * 1024 / mib)
            else:
                raw.append(read_by_hand(mib))
    table.title(f"drain of {mib} MiB", "MiB/s")
    table.row("raw readv loop", [mib / each for each in raw])
    table.row("a job of ours", [mib / each for each in ours])
    table.ratio("ours / raw", raw, ours, DRAIN_BAR)
    table.row("the host's processor time for it", used, CPU_BAR, note="ms/GiB")
    table.row("with its start and its last word", lives, note="ms")


# --- lag --------------------------------------------------------------------------------------------------------------


async def lag(seconds: float) -> float:
    """p99 of how much too late sleeps of a millisecond end, in milliseconds."""
    late: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        await anyio.sleep(0.001)
        late.append(time.perf_counter() - began - 0.001)
    return sorted(late)[len(late) * 99 // 100] * 1000


async def beside(supervisor: Supervisor, command: str, written: int, seconds: float) -> float:
    """The lag beside so many jobs, each of which has `written` so much first."""
    jobs = [await supervisor.start(command, owner=OWNER) for _ in range(WRITERS)]
    for job in jobs:
        await job.wait_output(written)
    figure = await lag(seconds)
    for job in jobs:
        await job.stop()
    return figure


async def measure_lag(supervisor: Supervisor, rounds: int, table: Table) -> None:
    figures: dict[str, list[float]] = {"jobs": [], "cats": [], "nothing": []}
    sides: dict[str, Callable[[], Awaitable[float]]] = {
        "jobs": lambda: beside(supervisor, "exec cat /dev/zero", LIMIT, 2.0),
        # Jobs of ours, too, so that they end with this program however it ends; nobody reads what they write.
        "cats": lambda: beside(supervisor, "echo; cat /dev/zero | cat > /dev/null", 0, 2.0),
        "nothing": lambda: lag(1.0),
    }
    for _ in range(rounds):
        for name in random.sample(sorted(sides), len(sides)):
            figures[name].append(await sides[name]())
    table.title("p99 of the loop's lag", "ms")
    table.row("beside nothing", figures["nothing"])
    table.row(f"beside {WRITERS} writers into cat", figures["cats"])
    table.row(f"beside {WRITERS} jobs of ours", figures["jobs"])
    table.ratio("jobs / cat", figures["jobs"], figures["cats"], LAG_BAR)


# --- reading ----------------------------------------------------------------------------------------------------------


async def reads(process: Process, count: int, *, streams: Streams = "both") -> list[float]:
    """Milliseconds of reads of 64 KiB anywhere in what is kept."""
    chunk = await process.read_output(0, 1)
    spans: list[float] = []
    for _ in range(count):
        cursor = random.randrange(chunk.start, chunk.total - 65536)
        began = time.perf_counter()
        await process.read_output(cursor, 65536, streams=streams)
        spans.append((time.perf_counter() - began) * 1000)
    return spans


async def measure_reads(supervisor: Supervisor, table: Table) -> None:
    table.title("read_output of 64 KiB at a random cursor", "ms")
    ended = await supervisor.start(zeros(256), owner=OWNER)
    await ended.wait()
    table.row("of an ended job", await reads(ended, 500), READ_BAR)
    live = await supervisor.start("head -c 256M /dev/zero; exec sleep 600", owner=OWNER)
    await live.wait_output(256 * MIB - 1)
    table.row("of a running job", await reads(live, 500), READ_BAR)
    busy = await supervisor.start(("cat", "/dev/zero"), owner=OWNER)
    await busy.wait_output(2 * LIMIT)
    table.row("of a job at full speed", await reads(busy, 500))
    for job in (live, busy):
        await job.stop()
    turns = "import os\nfor _ in range(20000): os.write(1, bytes(1000)); os.write(2, bytes(1000))"
    apart = await supervisor.start((sys.executable, "-c", turns), owner=OWNER, split_streams=True)
    await apart.wait()
    table.row("of one stream of two", await reads(apart, 500, streams="stderr"))


async def measure_wakes(supervisor: Supervisor, count: int, table: Table) -> None:
    process = await supervisor.start((sys.executable, "-IS", "-c", STAMPS, str(count)), owner=OWNER)
    ages: list[float] = []
    async for chunk in process.follow():
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        ages += [(now - stamp) / 1e6 for (stamp,) in struct.iter_unpack("q", chunk.data)]
    table.title("from a write to the follower that waits for it", "ms")
    table.row("wake-up", ages, WAKE_BAR)


# --- what it holds ----------------------------------------------------------------------------------------------------


def _memory(process: psutil.Process) -> float:
    """What it has for itself, in MiB; of one that may not be looked into, what is resident."""
    try:
        return float(process.memory_full_info().uss) / MIB
    except psutil.AccessDenied:
        return float(process.memory_info().rss) / MIB


async def measure_room(supervisor: Supervisor, folder: Path, mib: int, table: Table) -> None:
    own = psutil.Process()
    process = await supervisor.start(f"head -c {mib}M /dev/zero; exec sleep 600", owner=OWNER)
    (shim,) = (each for each in own.children(recursive=True) if each.name() == "lastword-shim")
    file = folder / "output" / process.handle
    await process.wait_output(2 * LIMIT)
    before = _memory(own), _memory(shim)
    most, total = 0, 0
    while total < mib * MIB:
        await process.wait_output(min(total + 8 * MIB, mib * MIB - 1))
        total = (await process.read_output(total, 1)).total
        most = max(most, file.stat().st_blocks * 512)
    grown = _memory(own) - before[0], _memory(shim) - before[1]
    table.title(f"what {mib} MiB leave behind", "MiB")
    table.row("the host has grown by", [grown[0]], GROWTH_BAR)
    table.row("the shim has grown by", [grown[1]], GROWTH_BAR)
    table.row("the shim has for itself", [_memory(shim)])
    table.row("most on disk / ring and a segment", [most / MOST_ON_DISK], DISK_BAR, note="x")
    await process.stop()


async def measure(tier: Containment, backend: str, arguments: argparse.Namespace, table: Table) -> None:
    """All tables of one backend."""
    with tempfile.TemporaryDirectory(prefix="lastword-bench-", dir=Path.cwd()) as name:
        async with AsyncExitStack() as stack:
            folder = Path(name) / "state"
            folder.mkdir(mode=0o700)
            limits = Limits(retained_completed=2)
            supervisor = await stack.enter_async_context(
                open_supervisor(folder, session_id=SESSION, limits=limits, launcher=launcher_of(tier))
            )
            print(f"\n== {backend}, {tier.name.lower()}")
            await drained(supervisor, 64)
            await measure_drain(supervisor, arguments.pairs, arguments.mib, table)
            await measure_lag(supervisor, arguments.rounds, table)
            await measure_reads(supervisor, table)
            await measure_wakes(supervisor, 400, table)
            await measure_room(supervisor, folder, 4 * arguments.mib, table)


def tiers(only: str | None) -> Sequence[Containment]:
    """The contained ones that this machine has, or the one that is asked for."""
    found = [tier.containment for tier in doctor().tiers if tier.available and tier.containment.proven]
    return [tier for tier in found if only is None or tier.name.lower() == only]


def main() -> None:
    """Run what the arguments ask for; without any, the strongest tier on both backends."""
    parser = argparse.ArgumentParser(description="What output costs.")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tier", choices=("subreaper", "cgroup"))
    parser.add_argument("--backend", choices=("asyncio", "trio"))
    arguments = parser.parse_args()
    table = Table()
    for backend in ("asyncio", "trio") if arguments.backend is None else (arguments.backend,):
        anyio.run(measure, tiers(arguments.tier)[0], backend, arguments, table, backend=backend)
    table.finish()


if __name__ == "__main__":
    main()
