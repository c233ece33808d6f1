"""A host without privileges: what it may not raise, whom it may not end, and where no process is left for it.

The host is a program of its own, run as nobody; its job may contain a process of root's, made by a setuid program.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from own_cgroups import give, own_cgroup
from shim_ground import run_as_stranger
from strangers import STRANGER

# Each test is a program or two of its own.
PROVED_BACKEND = "trio"

_PRELUDE = """
import errno, json, os, resource, signal, sys, time
import anyio, psutil
import supervising as support
from supervising import OWNER, alive, pids_without_spares, supervising, until
from lastword.supervisor import (
    Containment, Limits, ResourceLimits, SpawnFailedError, StopMode, TeardownFailedError
)

backend, tier, *arguments = sys.argv[1:]
support.tier = Containment[tier]
told = {}

def cpu_of_shims():
    return sum(
        sum(child.cpu_times()[:2]) for child in psutil.Process().children(recursive=True)
        if child.name() == "lastword-shim"
    )

async def has_failed(supervisor, **options):
    try:
        await supervisor.start(["/bin/true"], owner=OWNER, **options)
    except SpawnFailedError as error:
        outcome = supervisor.get(error.handle, OWNER).outcome
        return [error.kind, errno.errorcode[error.errno], outcome.diagnostic, str(error)]

async def main():
"""

_EPILOGUE = """
anyio.run(main, backend=backend)
print(json.dumps(told))
"""


def _run(body: str, *arguments: str, inside: Path | None = None) -> dict[str, Any]:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    told: dict[str, Any] = json.loads(run_as_stranger(_PRELUDE + lines + _EPILOGUE, *arguments, inside=inside))
    return told


# --- limits


def test_what_may_not_be_raised_is_named(anyio_backend_name: str) -> None:
    """A limit above the host's own hard one, a niceness below its own: EPERM, the setting, a failed record."""
    told = _run(
        """
for name, hard in (("NOFILE", 256), ("CPU", 600), ("AS", 1 << 36), ("CORE", 0)):
    resource.setrlimit(getattr(resource, "RLIMIT_" + name), (hard, hard))
async with supervising() as supervisor:
    for name, value in (
        ("open_files", 257), ("cpu_seconds", 601), ("address_space", 1 << 37), ("core", 1), ("nice", -1)
    ):
        told[name] = await has_failed(supervisor, resources=ResourceLimits(**{name: value}))
    given = ResourceLimits(open_files=256, cpu_seconds=600, address_space=1 << 36, core=0, nice=1)
    process = await supervisor.start("ulimit -Ht; exit 3", owner=OWNER, resources=given)
    told["fine"] = [(await process.wait()).exit_code, (await process.read_output()).data.decode()]
""",
        anyio_backend_name,
        "SUBREAPER",
    )
    assert told.pop("fine") == [3, "600\n"]
    assert told.keys() == {"open_files", "cpu_seconds", "address_space", "core", "nice"}
    for name, (kind, number, diagnostic, message) in told.items():
        assert (kind, number, diagnostic) == ("other", "EPERM", "spawn_failed:other:EPERM")
        assert ("niceness" if name == "nice" else "resource limit") in message


# --- no process, no descriptor


@pytest.mark.parametrize("spare", [0, 1, 2])
def test_no_process_is_left_for_it(spare: int, anyio_backend_name: str) -> None:
    """For the zygote, for the shim, for the job: resources, all the same; nothing is left, and it works again."""
    told = _run(
        """
spare = int(arguments[0])

def others():
    found = psutil.process_iter(["uids", "status"])
    return [
        each.pid for each in found
        if each.info["uids"].real == os.getuid() and each.info["status"] != "zombie" and each.pid != os.getpid()
    ]

await until(lambda: not others())  # of a test before this one
threads = 0
for process in psutil.process_iter(["uids"]):
    if process.info["uids"].real == os.getuid():
        threads += process.num_threads()
soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
async with supervising() as supervisor:
    if spare:
        told["before"] = (await (await supervisor.start("exit 3", owner=OWNER)).wait()).exit_code
        (zygote,) = (child.pid for child in psutil.Process().children())
        await until(lambda: len(pids_without_spares()) == 1)
        # The limit is the zygote's own; it holds for the host's user in all.
        resource.prlimit(zygote, resource.RLIMIT_NPROC, (threads + spare, hard))
    else:
        resource.setrlimit(resource.RLIMIT_NPROC, (threads, hard))
    told["failed"] = [await has_failed(supervisor) for _ in range(3)]
    if spare:
        resource.prlimit(zygote, resource.RLIMIT_NPROC, (soft, hard))
        told["zygote"] = alive(zygote)
    else:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
    told["after"] = (await (await supervisor.start("exit 4", owner=OWNER)).wait()).exit_code
""",
        anyio_backend_name,
        "SUBREAPER",
        str(spare),
    )
    assert {tuple(failed[:3]) for failed in told["failed"]} == {
        ("resources", "EAGAIN", "spawn_failed:resources:EAGAIN")
    }
    assert told["after"] == 4
    assert told.get("zygote", True)


def test_no_descriptor_is_left_for_the_zygote(anyio_backend_name: str) -> None:
    """Nor for the shim: resources, at whatever step; nothing is left, and it works again when there are some."""
    told = _run(
        """
told["failed"] = []
async with supervising() as supervisor:
    told["before"] = (await (await supervisor.start("exit 3", owner=OWNER)).wait()).exit_code
    (zygote,) = (child.pid for child in psutil.Process().children())
    limit = resource.prlimit(zygote, resource.RLIMIT_NOFILE)
    for files in range(3, 40):
        resource.prlimit(zygote, resource.RLIMIT_NOFILE, (files, limit[1]))
        answers = [await has_failed(supervisor, env=environment) for environment in ({}, {"A": "x" * 100_000})]
        if answers == [None, None]:
            break
        told["failed"] += [answer for answer in answers if answer]
        resource.prlimit(zygote, resource.RLIMIT_NOFILE, limit)
        assert (await (await supervisor.start("exit 4", owner=OWNER)).wait()).exit_code == 4
    told["zygote"] = alive(zygote)
""",
        anyio_backend_name,
        "SUBREAPER",
    )
    assert len(told["failed"]) > 10
    for failed in told["failed"]:
        assert failed[:3] == ["resources", "EMFILE", "spawn_failed:resources:EMFILE"]
    assert (told["before"], told["zygote"]) == (3, True)


def test_its_own_folder_may_be_closed_to_it(anyio_backend_name: str) -> None:
    """A job that is told where to work does not need it; one that is not cannot be there."""
    told = _run(
        """
os.mkdir(os.environ["TMPDIR"] + "/closed")
os.chdir(os.environ["TMPDIR"] + "/closed")
os.chmod(".", 0)
async with supervising() as supervisor:
    process = await supervisor.start("pwd", owner=OWNER, cwd="/usr")
    told["there"] = [(await process.wait()).exit_code, (await process.read_output()).data.decode()]
    told["here"] = (await has_failed(supervisor))[:3]
    told["relative"] = (await has_failed(supervisor, cwd="x"))[:3]
os.chmod(os.environ["TMPDIR"] + "/closed", 0o700)
""",
        anyio_backend_name,
        "SUBREAPER",
    )
    assert told["there"] == [0, "/usr\n"]
    assert told["here"] == told["relative"] == ["cwd", "EACCES", "spawn_failed:cwd:EACCES"]


# --- whom it may not end


@pytest.fixture
def setuid() -> Generator[Path]:
    """A program that runs the rest of its arguments as root, for the stranger alone; fails where it cannot be made."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="lastword-test-"))
    try:
        os.chown(folder, 0, STRANGER)
        folder.chmod(0o710)
        program = folder / "as-root"
        shutil.copy(shutil.which("setpriv") or "setpriv", program)
        os.chown(program, 0, STRANGER)
        program.chmod(0o4710)
        flags = os.statvfs(folder).f_flag
        assert not flags & os.ST_NOSUID, "setuid programs do not work there; this cannot be tested"
        assert program.stat().st_mode & stat.S_ISUID
        yield program
    finally:
        shutil.rmtree(folder)


# A process of root's in the job; `options` decide whether it leads it, and whether its leader stays.
_STRANGER = """
(program, kind) = arguments
as_root = f"{program} --reuid=0 --regid=0 --clear-groups sleep 300"
command = {
    "beside": f"echo $$; setsid {as_root} </dev/null >/dev/null 2>&1 & echo $!; wait",
    "leads": f"echo $$; echo $$; exec {as_root}",
    "survives": (
        f"echo $$; setsid {as_root} </dev/null >/dev/null 2>&1 & echo $!; "
        "until pgrep -u 0 -s $! sleep; do :; done"
    ),
}[kind]

async def begin(supervisor, **options):
    process = await supervisor.start(command, owner=OWNER, **options)
    while (chunk := await process.read_output()).data.count(b"\\n") < 2:
        await process.wait_output(chunk.total)
    stranger = int((await process.read_output()).data.split()[1])
    await until(lambda: psutil.Process(stranger).name() == "sleep")
    assert psutil.Process(stranger).uids().real == 0
    return process, stranger

async def end(stranger):
    print("kill", stranger, flush=True)
    await until(lambda: not alive(stranger))
"""


def _play(body: str, backend: str, tier: str, program: Path, kind: str) -> dict[str, Any]:
    if tier == "SUBREAPER":
        return _run(_STRANGER + body, backend, tier, str(program), kind)
    with own_cgroup() as group:
        give(group)
        return _run(_STRANGER + body, backend, tier, str(program), kind, inside=group)


@pytest.mark.parametrize("kind", ["beside", pytest.param("leads", marks=pytest.mark.prove)])
def test_a_stop_that_may_not_signal_somebody_raises(kind: str, setuid: Path, anyio_backend_name: str) -> None:
    """EPERM within the grace and a second or so; it is still running, costs no processor time, and can end later."""
    told = _play(
        """
async with supervising(limits=Limits(grace_seconds=0.2)) as supervisor:
    process, stranger = await begin(supervisor)
    told["stops"] = []
    for mode in (StopMode.TERMINATE, StopMode.KILL):
        try:
            await process.stop(mode, grace=0.2)
        except TeardownFailedError as error:
            told["stops"].append([error.errno, process.state.name, alive(stranger)])
    before, began = cpu_of_shims(), time.monotonic()
    await anyio.sleep(1)
    told["cpu"] = (cpu_of_shims() - before) / (time.monotonic() - began)
    await end(stranger)
    outcome = await process.stop()
    told["outcome"] = [outcome.state.name, outcome.proven]
""",
        anyio_backend_name,
        "SUBREAPER",
        setuid,
        kind,
    )
    assert told["stops"] == [[1, "RUNNING", True]] * 2
    assert told["cpu"] < 0.1, "it fights what it was refused"
    print(f"processor time of a shim that was refused: {told['cpu']:.3f} s in 1 s")  # noqa: T201
    assert told["outcome"][1] is True


@pytest.mark.parametrize(
    "kind", [*(pytest.param(kind, marks=pytest.mark.prove) for kind in ("beside", "leads")), "survives"]
)
def test_a_control_group_ends_even_those(kind: str, setuid: Path, anyio_backend_name: str) -> None:
    """The kernel kills all that is in it, whoever that is."""
    told = _play(
        """
async with supervising(limits=Limits(grace_seconds=0.2)) as supervisor:
    process, stranger = await begin(supervisor)
    outcome = await process.stop(grace=0.2)
    told["outcome"] = [outcome.proven, alive(stranger)]
""",
        anyio_backend_name,
        "CGROUP",
        setuid,
        kind,
    )
    assert told["outcome"] == [True, False]


@pytest.mark.parametrize("kind", ["beside", pytest.param("leads", marks=pytest.mark.prove)])
@pytest.mark.parametrize("how", ["timeout", "close"])
def test_what_nobody_can_be_told_of_fails(how: str, kind: str, setuid: Path, anyio_backend_name: str) -> None:
    """By a timeout or by closing: failed, teardown_failed:EPERM, in bounded time; a shim holds on until it ends."""
    told = _play(
        """
from lastword.supervisor import _supervisor
from lastword.supervisor._outcome import StopCause
from lastword.supervisor.launch import _contained
_supervisor.CLOSING_SECONDS = 2.0
_contained._LEAVING_SECONDS = 0.5
how = "HOW"
async with support.open_supervisor(
    None, session_id=support.SESSION, limits=Limits(grace_seconds=0.2), launcher=support.launcher_of(support.tier)
) as supervisor:
    process, stranger = await begin(supervisor)
    if how == "timeout":
        process._job.request(StopCause.TIMEOUT)  # as its timer, which would not wait until all is there
        outcome = await process.wait()
        told["outcome"] = [outcome.state.name, outcome.diagnostic, outcome.proven]
outcome = process.outcome
told["outcome"] = [outcome.state.name, outcome.diagnostic, outcome.proven]
told["alive"] = alive(stranger)
left = [child for child in psutil.Process().children(recursive=True)]
await end(stranger)
await until(lambda: not any(alive(child.pid) for child in left))
""".replace("HOW", how),
        anyio_backend_name,
        "SUBREAPER",
        setuid,
        kind,
    )
    assert told["outcome"] == ["FAILED", "teardown_failed:EPERM", False]
    assert told["alive"]


def test_one_that_cannot_be_ended_reads_the_end_of_its_input(setuid: Path, anyio_backend_name: str) -> None:
    """With its last word, as everybody's: nobody can send to it any more, and so it can end by itself."""
    told = _run(
        """
(program,) = arguments
async with supervising(limits=Limits(grace_seconds=0.2)) as supervisor:
    command = f"echo $$; exec {program} --reuid=0 --regid=0 --clear-groups cat"
    process = await supervisor.start(
        command, owner=OWNER, stdin="pipe", output_limit=100, on_output_limit="stop"
    )
    await process.wait_output(0)
    stranger = int((await process.read_output()).data)
    await until(lambda: psutil.Process(stranger).name() == "cat")
    await process.send_input(b"x" * 200)
    outcome = await process.wait()
    told["outcome"] = [outcome.state.name, outcome.diagnostic]
    await until(lambda: not alive(stranger))
""",
        anyio_backend_name,
        "SUBREAPER",
        str(setuid),
    )
    assert told["outcome"] == ["FAILED", "teardown_failed:EPERM"]


def test_a_survivor_that_may_not_be_ended_keeps_no_last_word_waiting(setuid: Path, anyio_backend_name: str) -> None:
    """The leader exited by itself; that is told, and that nothing is proven."""
    told = _play(
        """
async with supervising(limits=Limits(grace_seconds=0.2)) as supervisor:
    process, stranger = await begin(supervisor)
    outcome = await process.wait()
    told["outcome"] = [outcome.state.name, outcome.exit_code, outcome.survivors, outcome.proven]
    await end(stranger)
""",
        anyio_backend_name,
        "SUBREAPER",
        setuid,
        "survives",
    )
    assert told["outcome"] == ["EXITED", 0, 1, False]


def test_a_dead_shims_stranger_is_told_as_unproven(setuid: Path, anyio_backend_name: str) -> None:
    """The zygote may not end it either; it says so after a bounded time, and serves on."""
    told = _play(
        """
async with supervising(limits=Limits(grace_seconds=0.2)) as supervisor:
    process, stranger = await begin(supervisor)
    (shim,) = (c for c in psutil.Process().children(recursive=True) if c.name() == "lastword-shim")
    shim.kill()
    outcome = await process.wait()
    told["outcome"] = [outcome.state.name, outcome.diagnostic, outcome.proven]
    process = await supervisor.start("exit 3", owner=OWNER)
    outcome = await process.wait()
    told["next"] = [outcome.exit_code, outcome.proven]
    await end(stranger)
""",
        anyio_backend_name,
        "SUBREAPER",
        setuid,
        "beside",
    )
    assert told == {"outcome": ["FAILED", "shim_lost", False], "next": [3, True]}
