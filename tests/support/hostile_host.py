"""A host whose jobs are hostile: it starts one, has it ended in some way, and looks at once who is left.

Rules
- It looks in the very step in which the outcome is returned: nobody gets a moment to vanish.
- What is our own is told from what is a job's by its command line, which a shim has from the zygote.  A job that is
  forked and not yet executed has it, too; it cannot stay so, and at the end of the life nobody at all may be left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import attrs
from hostile_lives import Life
from hostile_pens import Seen, pen_of
from hostile_tiers import launcher_of

from lastword.notifier import Owner
from lastword.supervisor import (
    Limits,
    Outcome,
    Process,
    StopMode,
    Supervisor,
    SupervisorError,
    _supervisor,  # pyright: ignore[reportPrivateUsage] -- how long closing is
    open_supervisor,
)
from lastword.supervisor.launch import _child  # pyright: ignore[reportPrivateUsage] -- how long a shim may be mute

SESSION = UUID("0192f0c1-2345-7abc-8def-0123456789ab")
OWNER = Owner(session_id=SESSION, loop_id=UUID("0192f0c1-2345-7abc-8def-00000000000a"))
LIMITS = Limits(grace_seconds=0.3, running_per_loop=64, running_per_session=64)

# Where SIGTERM ends the leader for certain, but not at once: SIGKILL must not overtake it on a busy machine.
PATIENT = attrs.evolve(LIMITS, grace_seconds=30.0)

JOBS = Path(__file__).parent / "hostile_jobs.py"

# How the zygote's command line begins.
HELPER = (sys.executable, "-I", "-S", "-c")

# Long enough for some jobs to be ready, too short for others: both are wanted.
TIMEOUT_SECONDS = 0.25

# Shims and zygote leave by themselves; it only ends a wait for one that does not.
HELPERS_SECONDS = 45.0


class Eyes:
    """Sees who is in the host's pen."""

    def __init__(self, life: Life) -> None:
        self._pen = pen_of(life.pen)

    def left(self) -> list[str]:
        """Everybody but the host and its helpers."""
        return [str(seen) for seen in self._others() if not _is_helper(seen)]

    def helpers(self) -> list[Seen]:
        """The helpers alone."""
        return [seen for seen in self._others() if _is_helper(seen)]

    async def helpers_leave(self) -> list[str]:
        """Until there is nobody at all but the host; who has not left in time."""
        with anyio.move_on_after(HELPERS_SECONDS):
            while self._others():  # noqa: ASYNC110 -- nobody is there to set an event
                await anyio.sleep(0.002)
        return [str(seen) for seen in self._others()]

    def _others(self) -> list[Seen]:
        return [seen for seen in self._pen.members() if seen.pid != os.getpid()]


def _is_helper(seen: Seen) -> bool:
    if seen.exiting and not seen.command:  # its memory is gone already; its name stays to the end
        return seen.name.startswith("lastword-")
    return seen.command[:4] == HELPER and "shim" in seen.command[4]


def job(life: Life, mode: str) -> list[str]:
    """The command line of the script's job."""
    name, *arguments = life.script["job"]
    filled = [life.pen.get("path", "/nonexistent") if argument == "PEN" else argument for argument in arguments]
    return [sys.executable, "-IS", str(JOBS), name, mode, *filled]


async def is_ready(process: Process) -> None:
    """Until the job has said so."""
    while b"ready\n" not in (chunk := await process.read_output(0, 1 << 16)).data:
        assert not chunk.ended, f"ended, and never was ready: {chunk.data!r}"
        await process.wait_output(chunk.total)


def facts_of(outcome: Outcome | None) -> dict[str, Any]:
    """What is told of an outcome."""
    if outcome is None:
        return {"state": None}
    return {
        "state": outcome.state.name,
        "reason": outcome.reason.name,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "survivors": outcome.survivors,
        "proven": outcome.proven,
        "containment": outcome.containment.name,
        "diagnostic": outcome.diagnostic,
    }


def play(life: Life) -> None:
    """The script's `endings` of its `job`, one after the other; then closing, and SIGKILL to itself, where wanted."""
    # Nobody is stopped for good here: who is mute has not been given the processor.
    setattr(_child, "_MUTE_SECONDS", 30.0)  # noqa: B010 -- a constant for everybody else
    setattr(_supervisor, "CLOSING_SECONDS", 60.0)  # noqa: B010 -- as above
    anyio.run(_play, life, backend=life.backend)


async def _play(life: Life) -> None:
    eyes = Eyes(life)
    endings: list[str] = life.script["endings"]
    launcher = launcher_of(life.containment)
    limits = PATIENT if life.script["job"][0] == "stopped_leader" else LIMITS
    with anyio.fail_after(life.seconds - 5):
        async with open_supervisor(None, session_id=SESSION, limits=limits, launcher=launcher) as supervisor:
            for ending in endings:
                if ending in ENDINGS:
                    facts = await ENDINGS[ending](supervisor, life, eyes)
                    life.say("ended", ending=ending, **facts)
            closing: dict[str, Process] = {}
            if "close" in endings:
                closing["close"] = await supervisor.start(job(life, "stay"), owner=OWNER)
                await is_ready(closing["close"])
            if "keep close" in endings:
                closing["keep close"] = await supervisor.start(job(life, "exit"), owner=OWNER, survivors="keep")
                await closing["keep close"].wait()
        left = eyes.left()
        for ending, process in closing.items():
            life.say("ended", ending=ending, left=left, **facts_of(process.outcome))
        if not left:
            life.say("closed", helpers=await eyes.helpers_leave())
        if "host" in endings:
            async with open_supervisor(None, session_id=SESSION, limits=LIMITS, launcher=launcher) as supervisor:
                await is_ready(await supervisor.start(job(life, life.script.get("mode", "stay")), owner=OWNER))
                if life.script["keep"]:
                    await (await supervisor.start(job(life, "exit"), owner=OWNER, survivors="keep")).wait()
                life.say("dying", jobs=len(eyes.left()))
                os.kill(os.getpid(), signal.SIGKILL)


def abandon(life: Life) -> None:
    """Start the script's job with nobody to keep it, and leave as soon as it is ready."""
    with subprocess.Popen(job(life, life.script["mode"]), stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        while (line := process.stdout.readline()) != b"ready\n":
            assert line, "ended, and never was ready"
        if life.script["mode"] == "exit":
            process.wait()
        os._exit(0)


def play_promoted(life: Life) -> None:
    """Stop the script's job, some process of which may not be signalled, and close."""
    anyio.run(_play_promoted, life, backend=life.backend)


async def _play_promoted(life: Life) -> None:
    eyes = Eyes(life)
    with anyio.fail_after(life.seconds - 5):
        async with open_supervisor(
            None, session_id=SESSION, limits=LIMITS, launcher=launcher_of(life.containment)
        ) as supervisor:
            process = await supervisor.start(job(life, "stay"), owner=OWNER)
            await is_ready(process)
            try:
                facts = facts_of(await process.stop())
            except SupervisorError as error:
                facts = {"state": process.state.name, "error": error.code.value}
            life.say("stopped", left=eyes.left(), **facts)
        life.say("closed", **facts_of(process.outcome))


async def _stopped(supervisor: Supervisor, life: Life, eyes: Eyes, mode: StopMode) -> dict[str, Any]:
    process = await supervisor.start(job(life, "stay"), owner=OWNER)
    await is_ready(process)
    try:
        outcome = await process.stop(mode)
    except SupervisorError as error:
        return {"left": eyes.left(), "state": None, "error": str(error)}
    return {"left": eyes.left(), **facts_of(outcome)}


async def _terminated(supervisor: Supervisor, life: Life, eyes: Eyes) -> dict[str, Any]:
    return await _stopped(supervisor, life, eyes, StopMode.TERMINATE)


async def _killed(supervisor: Supervisor, life: Life, eyes: Eyes) -> dict[str, Any]:
    return await _stopped(supervisor, life, eyes, StopMode.KILL)


async def _timed_out(supervisor: Supervisor, life: Life, eyes: Eyes) -> dict[str, Any]:
    process = await supervisor.start(job(life, "stay"), owner=OWNER, timeout=TIMEOUT_SECONDS)
    outcome = await process.wait()
    return {"left": eyes.left(), **facts_of(outcome)}


async def _exited(supervisor: Supervisor, life: Life, eyes: Eyes) -> dict[str, Any]:
    process = await supervisor.start(job(life, "exit"), owner=OWNER)
    outcome = await process.wait()
    return {"left": eyes.left(), **facts_of(outcome)}


async def _kept(supervisor: Supervisor, life: Life, eyes: Eyes) -> dict[str, Any]:
    """Survivors are kept, and stopped later; `kept` is how many there were."""
    process = await supervisor.start(job(life, "exit"), owner=OWNER, survivors="keep")
    outcome = await process.wait()
    kept = len(eyes.left())
    assert await process.stop() is outcome
    return {"left": eyes.left(), "kept": kept, **facts_of(outcome)}


ENDINGS = {
    "terminate": _terminated,
    "kill": _killed,
    "timeout": _timed_out,
    "exit": _exited,
    "keep": _kept,
}
