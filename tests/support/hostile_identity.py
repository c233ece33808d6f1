"""Hosts in whose namespace a number that a job had is given to a stranger, who must never be signalled for it.

Each scenario is a life: a job, a member of it that ends, a stranger under its number, and then everything that could
signal that number.  The stranger tells (`Stranger.check`) what it has received.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
from hostile_host import JOBS, LIMITS, OWNER, SESSION, is_ready
from hostile_lives import Life
from hostile_namespace import Stranger, is_free, run_apart, run_forked
from hostile_pens import look
from hostile_tiers import Promise, launcher_of, promises

from lastword.notifier import ProcessState
from lastword.supervisor import Process, StopMode, Supervisor, open_supervisor
from lastword.supervisor._outcome import StopCause
from lastword.supervisor.launch import _interpreter  # pyright: ignore[reportPrivateUsage] -- where helpers are run
from lastword.supervisor.shim import _keeper  # pyright: ignore[reportPrivateUsage] -- how long it waits

Scenario = Callable[[Supervisor, Life], Awaitable[None]]

# Between SIGTERM and SIGKILL, for scenarios in which a stranger comes in between: then there is no more patience.
LONG_GRACE = 60.0

# The same after a leader's own end, where nobody can ask for less.
SURVIVOR_GRACE = 3.0


def play(life: Life) -> None:
    """The scenario that the script names, in a supervisor whose end is part of it."""
    scenario: Scenario = SCENARIOS[life.script["scenario"]]

    def host() -> None:
        if scenario is gone_in_the_sweep:
            _be_patient_with_survivors(Path(life.folder, "room"))
        strangers.clear()
        anyio.run(_supervised, scenario, life, backend=life.backend)
        for stranger in strangers:  # the supervisor is closed: that has hit nobody either
            stranger.check()
            stranger.end()
        assert strangers, "nobody came"

    def first() -> None:
        code = run_forked(host)
        assert code == 0, f"the host ended with {code}"

    run_apart(first)


def _be_patient_with_survivors(room: Path) -> None:
    """Keepers, in shims (of that room) and in this process, wait long enough for a stranger to begin."""
    shutil.copytree(Path(_interpreter.__file__).parents[1] / "shim", room / "shim")
    with (room / "shim" / "_keeper.py").open("a") as file:
        file.write(f"SURVIVOR_GRACE_SECONDS = {SURVIVOR_GRACE}\n")
    setattr(_interpreter, "_ROOM", str(room))  # noqa: B010 -- a constant for everybody else
    setattr(_keeper, "SURVIVOR_GRACE_SECONDS", SURVIVOR_GRACE)  # noqa: B010 -- as above


async def _supervised(scenario: Scenario, life: Life) -> None:
    with anyio.fail_after(life.seconds - 10):
        async with open_supervisor(
            None, session_id=SESSION, limits=LIMITS, launcher=launcher_of(life.containment)
        ) as supervisor:
            await scenario(supervisor, life)


strangers: list[Stranger] = []


def _stranger(life: Life, pid: int) -> Stranger:
    stranger = Stranger(pid, Path(life.folder, f"stranger-{pid}"))
    strangers.append(stranger)
    return stranger


async def _free(pid: int) -> None:
    """Until nobody has the number."""
    with anyio.fail_after(60):
        while not is_free(pid):  # noqa: ASYNC110 -- nobody is there to set an event
            await anyio.sleep(0.001)


async def _family(supervisor: Supervisor, mode: str, *members: str, keep: bool = False) -> tuple[Process, list[int]]:
    process = await supervisor.start(
        [sys.executable, "-IS", str(JOBS), "family", mode, *members],
        owner=OWNER,
        survivors="keep" if keep else "stop",
    )
    await is_ready(process)
    (line,) = [line for line in (await process.read_output()).data.splitlines() if line.startswith(b"pids ")]
    return process, [int(word) for word in line.split()[1:]]


async def _reaped(process: Process, pid: int) -> None:
    """Until the leader has told it of its child."""
    while f"reaped {pid}\n".encode() not in (chunk := await process.read_output()).data:
        assert not chunk.ended, chunk
        await process.wait_output(chunk.total)


# --- a member ends while the job runs


async def _member_gone(supervisor: Supervisor, life: Life, kind: str) -> Process:
    """The leader lives, hears nothing but SIGKILL, and has reaped a child whose number a stranger has now."""
    process, (_, child, _) = await _family(supervisor, "stay", "deaf", kind, "deaf-apart")
    os.kill(child, signal.SIGKILL)
    await _reaped(process, child)
    _stranger(life, child)
    return process


async def gone_then_terminated(supervisor: Supervisor, life: Life) -> None:
    """SIGTERM, SIGCONT, and SIGKILL after the grace."""
    for kind in ("mortal", "mortal-apart"):
        process = await _member_gone(supervisor, life, kind)
        await process.stop()
        strangers[-1].check()


async def gone_then_killed(supervisor: Supervisor, life: Life) -> None:
    """SIGKILL at once."""
    for kind in ("mortal", "mortal-apart"):
        process = await _member_gone(supervisor, life, kind)
        await process.stop(StopMode.KILL)
        strangers[-1].check()


async def gone_then_timed_out(supervisor: Supervisor, life: Life) -> None:
    """The timeout's stop."""
    process = await _member_gone(supervisor, life, "mortal-apart")
    process._job.request(StopCause.TIMEOUT)  # pyright: ignore[reportPrivateUsage] -- as its timer, which would not wait
    assert (await process.wait()).state is ProcessState.TIMED_OUT


async def gone_then_closed(supervisor: Supervisor, life: Life) -> None:
    """The supervisor's end, which comes next."""
    await _member_gone(supervisor, life, "mortal-apart")


# --- a member ends while the job is being ended


async def gone_in_the_grace(supervisor: Supervisor, life: Life) -> None:
    """SIGTERM has ended a child; SIGKILL follows when its number is a stranger's."""
    for kind in ("mortal", "mortal-apart"):
        process, (_, child, _) = await _family(supervisor, "stay", "deaf", kind, "deaf-apart")
        if kind == "mortal-apart" and not promises(life.containment, Promise.WHOLE_TREE):
            os.kill(child, signal.SIGTERM)  # nobody else reaches it
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(process.stop, grace=LONG_GRACE))
            await _reaped(process, child)
            _stranger(life, child)
            assert process.outcome is None, "it was over before the stranger came"
            await process.stop(grace=0.0)
        strangers[-1].check()


async def gone_in_the_sweep(supervisor: Supervisor, life: Life) -> None:
    """The leader has exited; SIGTERM has ended one survivor, and the other takes SIGKILL some seconds later."""
    for _ in range(10):
        process, (_, child, _) = await _family(supervisor, "exit", "mortal", "mortal", "deaf")
        await _free(child)
        stranger = _stranger(life, child)
        in_time = process.outcome is None
        await process.wait()
        stranger.check()
        if in_time:
            return
    raise AssertionError("the stranger has always come too late")


# --- survivors are kept


async def gone_while_kept(supervisor: Supervisor, life: Life) -> None:
    """A kept survivor ends by itself; the other one is stopped later."""
    for kind, mode in (("mortal", StopMode.TERMINATE), ("mortal", StopMode.KILL)):
        process, (_, child, other) = await _family(supervisor, "exit", "mortal", kind, kind, keep=True)
        await process.wait()
        os.kill(child, signal.SIGKILL)
        await _free(child)
        _stranger(life, child)
        await process.stop(mode)
        assert look(other) is None
        strangers[-1].check()


async def over(supervisor: Supervisor, life: Life) -> None:
    """All is over, and the leader's own number, which was its group's and session's, is a stranger's."""
    process, (leader, *_) = await _family(supervisor, "exit", "mortal", "mortal")
    outcome = await process.wait()
    await _free(leader)
    _stranger(life, leader)
    for mode in StopMode:
        assert await process.stop(mode) is outcome


# --- who keeps the job ends


async def keeper_gone(supervisor: Supervisor, life: Life) -> None:
    """The job's shim is killed, by somebody; the job has failed, and the shim's number is a stranger's."""
    process, (leader, child) = await _family(supervisor, "stay", "deaf", "deaf-apart")
    shim = _parent(leader)
    os.kill(shim, signal.SIGKILL)
    outcome = await process.wait()
    assert outcome.state is ProcessState.FAILED
    for pid in (shim, leader, child):
        await _free(pid)
        _stranger(life, pid)
    assert await process.stop() is outcome


async def helper_gone(supervisor: Supervisor, life: Life) -> None:
    """The zygote is killed, and its number is a stranger's when the next job starts, and when all is closed."""
    process, (leader, _) = await _family(supervisor, "stay", "deaf", "deaf-apart")
    zygote = _parent(_parent(leader))
    os.kill(zygote, signal.SIGKILL)
    await _free(zygote)  # the host has seen it, and reaped it
    await (await supervisor.start("exit 3", owner=OWNER)).wait()
    _stranger(life, zygote)
    await process.stop()
    await (await supervisor.start("exit 3", owner=OWNER)).wait()


def _parent(pid: int) -> int:
    seen = look(pid)
    assert seen is not None
    return seen.parent


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        *(gone_then_terminated, gone_then_killed, gone_then_timed_out, gone_then_closed),
        *(gone_in_the_grace, gone_in_the_sweep, gone_while_kept, over),
        *(keeper_gone, helper_gone),
    )
}

# These are about processes that the weakest tier does not have.
OF_KEEPERS = ("keeper_gone", "helper_gone")


# --- a restart


def restart(life: Life) -> None:
    """A host is killed; strangers have its job's numbers when the next host opens the same folder (C28)."""
    folder = Path(life.folder, "state")
    folder.mkdir(mode=0o700)
    numbers = Path(life.folder, "numbers")

    async def killed() -> None:
        async with open_supervisor(
            folder, session_id=SESSION, limits=LIMITS, launcher=launcher_of(life.containment)
        ) as supervisor:
            _, pids = await _family(supervisor, "stay", "deaf", "mortal", "mortal-apart")
            keepers = [_parent(pids[0])] if promises(life.containment, Promise.APART) else []
            numbers.write_text(" ".join(str(pid) for pid in (*pids, *keepers)))
            os.kill(os.getpid(), signal.SIGKILL)

    async def next_host() -> None:
        with anyio.fail_after(life.seconds - 10):
            async with open_supervisor(
                folder, session_id=SESSION, limits=LIMITS, launcher=launcher_of(life.containment)
            ) as supervisor:
                (process,) = supervisor.list(OWNER)
                outcome = await process.wait()
                assert outcome.state is ProcessState.LOST_ON_RESTORE
                for mode in StopMode:
                    assert await process.stop(mode) is outcome

    def host() -> None:
        with _strangers(life, [int(word) for word in numbers.read_text().split()]):
            anyio.run(next_host, backend=life.backend)

    def first() -> None:
        assert run_forked(lambda: anyio.run(killed, backend=life.backend)) == -signal.SIGKILL
        pids = [int(word) for word in numbers.read_text().split()]
        if not promises(life.containment, Promise.HOST_DEATH):
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 60
        while not all(is_free(pid) for pid in pids):
            assert time.monotonic() < end, [str(look(pid)) for pid in pids]
            _reap()
            time.sleep(0.001)
        code = run_forked(host)
        assert code == 0, f"the next host ended with {code}"

    run_apart(first)


def _reap() -> None:
    """As process 1 does."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


@contextmanager
def _strangers(life: Life, pids: list[int]) -> Generator[None]:
    """Strangers under all those numbers; at the end none must have been signalled."""
    found = [_stranger(life, pid) for pid in pids]
    yield
    for stranger in found:
        stranger.check()
        stranger.end()
