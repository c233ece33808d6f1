"""What the command line costs: how soon it starts, and what `ps --watch` takes of a core.

    python bench/cli.py [--rounds 15] [--jobs 100] [--seconds 20]

Start: from the start of the interpreter to the end of the command, in a directory with as many ended jobs as are kept;
beside it the interpreter alone, and with `import click`: what no command in Python can be below.  `ps --watch` runs on
a terminal (a pseudo-terminal that is read), beside a server that holds the jobs, all of them running; its CPU time is
taken once it has drawn the first time.

It ends with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import anyio
import psutil
from _figures import Bar, Table

from lastword.adapters.serve import connect, serve
from lastword.supervisor import Limits

LASTWORD = [sys.executable, "-m", "lastword"]


async def server(directory: str, jobs: int) -> None:
    """A server that takes so many jobs; says when it is ready."""
    limits = Limits(running_per_loop=jobs + 8, running_per_session=jobs + 8, spool_bytes=65536, grace_seconds=0.5)
    await serve(directory, limits=limits, ready=lambda: print("ready", flush=True))


async def fill(directory: Path, jobs: int, command: list[str]) -> None:
    """Start so many jobs."""
    async with connect(directory) as client:
        for number in range(jobs):
            await client.start(command, name=f"job-{number}", background=True)
        if command == ["true"]:
            await client.wait([process.handle for process in await client.list()])


async def churn(directory: Path, seconds: float) -> None:
    """A job begins and ends about ten times a second."""
    async with connect(directory) as client:
        with anyio.move_on_after(seconds):
            while True:
                info = await client.start(["true"], background=True)
                await client.wait([info.handle])
                await anyio.sleep(0.1)


async def end(directory: Path) -> None:
    """End the server, and everything that it holds."""
    async with connect(directory) as client:
        await client.shutdown(stop_running=True)


def started(command: list[str], directory: Path) -> tuple[float, float]:
    """How long it takes, and for how much of that a core works for it, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(command, env={**os.environ, "LASTWORD_STATE": str(directory)}, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(directory: Path, rounds: int, table: Table) -> None:
    """In turn, so that all of them meet the same machine."""
    commands: dict[str, tuple[list[str], Bar | None]] = {
        "python -c pass": ([sys.executable, "-c", "pass"], None),
        "python -c 'import click'": ([sys.executable, "-c", "import click"], None),
        "lastword --help": ([*LASTWORD, "--help"], Bar(0.35)),
        "lastword ps": ([*LASTWORD, "ps"], Bar(0.35)),
        "lastword ps -a, 100 ended jobs": ([*LASTWORD, "ps", "-a"], Bar(0.35)),
        "lastword events": ([*LASTWORD, "events"], None),
        "lastword pending": ([*LASTWORD, "pending"], None),
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, (line, _) in commands.items():
            taken[name].append(started(line, directory))
    for name, (_, bar) in commands.items():
        table.row(name, [wall for wall, _ in taken[name]], bar)
    table.title("the same in CPU time, which a busy machine does not change much", "seconds")
    for name in commands:
        table.row(name, [spent for _, spent in taken[name]])


def watched(directory: Path, seconds: float, table: Table, name: str, bar: Bar | None) -> None:
    """Run `ps --watch` for so long, and tell what it has taken of a core."""
    master, slave = os.openpty()
    environment = {**os.environ, "LASTWORD_STATE": str(directory), "TERM": "xterm", "COLUMNS": "120", "LINES": "120"}
    with subprocess.Popen([*LASTWORD, "ps", "--watch"], stdin=slave, stdout=slave, env=environment) as command:
        os.close(slave)
        drawn = threading.Event()

        def read() -> None:
            try:
                while os.read(master, 65536):
                    drawn.set()
            except OSError:
                return

        threading.Thread(target=read, daemon=True).start()
        drawn.wait(30)
        time.sleep(2)  # its imports are not what is measured
        process = psutil.Process(command.pid)
        before, began = sum(process.cpu_times()[:2]), time.perf_counter()
        time.sleep(seconds)
        share = (sum(process.cpu_times()[:2]) - before) / (time.perf_counter() - began) * 100
        command.terminate()
    os.close(master)
    table.row(name, [share], bar)


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description="What the command line costs.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--server")
    arguments = parser.parse_args()
    if arguments.server is not None:
        anyio.run(server, arguments.server, arguments.jobs)
        return
    table = Table()
    with tempfile.TemporaryDirectory(prefix="lastword-bench-") as folder:
        for command, title in ((["true"], "start"), (["sleep", "600"], "watch")):
            directory = Path(folder, title)
            host = [sys.executable, __file__, "--jobs", str(arguments.jobs), "--server", str(directory)]
            with subprocess.Popen(host, stdout=subprocess.PIPE, text=True) as holder:
                assert holder.stdout is not None
                holder.stdout.readline()
                try:
                    anyio.run(fill, directory, arguments.jobs, command)
                    if title == "start":
                        table.title("from start to end of the command", "seconds")
                        measure(directory, arguments.rounds, table)
                    else:
                        table.title(f"ps --watch beside {arguments.jobs} running jobs", "% of a core")
                        watched(directory, arguments.seconds, table, "nothing happens", Bar(2.0))
                        other = threading.Thread(target=anyio.run, args=(churn, directory, arguments.seconds + 5))
                        other.start()
                        watched(directory, arguments.seconds, table, "a job begins and ends, 10 a second", None)
                        other.join()
                finally:
                    anyio.run(end, directory)
    table.finish()


if __name__ == "__main__":
    main()
