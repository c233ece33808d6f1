"""A host one of whose jobs attacks the helpers; it goes on with the others."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
from hostile_host import LIMITS, OWNER, SESSION, Eyes, facts_of, job
from hostile_jobs import STARTED
from hostile_lives import Life
from hostile_tiers import launcher_of

from lastword.notifier import ProcessState
from lastword.supervisor import Process, Supervisor, SupervisorError, open_supervisor

# An attack takes milliseconds; a start or a stop that needs somebody who does not answer a second or two.  It only ends
# what hangs.
SECONDS = 45.0


def play(life: Life) -> None:
    """The script's `job` attacks; `then` says what is done about it."""
    anyio.run(_play, life, backend=life.backend)


async def _play(life: Life) -> None:
    eyes = Eyes(life)
    then: str = life.script["then"]
    with anyio.fail_after(life.seconds - 5):
        async with open_supervisor(
            None, session_id=SESSION, limits=LIMITS, launcher=launcher_of(life.containment)
        ) as supervisor:
            neighbour = await supervisor.start("exec sleep 300", owner=OWNER)
            own = len(eyes.left())
            process = await supervisor.start(job(life, "stay"), owner=OWNER, timeout=1.0 if then == "timeout" else None)
            before = {seen.pid for seen in eyes.helpers()}
            Path(life.folder, STARTED).touch()
            await _attacked(life, eyes, before, process)
            if then == "host":
                os.kill(os.getpid(), signal.SIGKILL)
            if then in ("wait", "stop", "timeout"):
                facts = await _ended(process, stop=then == "stop")
                left = eyes.left()
                life.say("ended", left=left if len(left) > own else [], **facts)
            with anyio.fail_after(SECONDS):
                await _goes_on(supervisor, neighbour)
        if then == "close":
            life.say("ended", left=eyes.left(), **facts_of(process.outcome))
        life.say("closed", helpers=await eyes.helpers_leave())


async def _attacked(life: Life, eyes: Eyes, before: set[int], process: Process) -> None:
    """Until the job has done it: who was killed is gone, and a shim that is stopped for good tells nothing."""
    arguments = life.script["job"]
    with anyio.fail_after(SECONDS):
        if arguments[2:] == [str(int(signal.SIGKILL))]:
            while before <= {seen.pid for seen in eyes.helpers()}:  # noqa: ASYNC110 -- nobody sets an event
                await anyio.sleep(0.002)
        else:
            while not any(seen.state in "Tt" for seen in eyes.helpers()):
                if b"ready\n" in (await process.read_output()).data:
                    return
                await anyio.sleep(0.002)


async def _ended(process: Process, *, stop: bool) -> dict[str, object]:
    with anyio.fail_after(SECONDS):
        try:
            return facts_of(await process.stop() if stop else await process.wait())
        except SupervisorError as error:
            return {"state": None, "proven": None, "error": str(error)}


async def _goes_on(supervisor: Supervisor, neighbour: Process) -> None:
    """Other jobs run on, and new ones are started."""
    assert neighbour.outcome is None
    outcome = await (await supervisor.start("exit 3", owner=OWNER)).wait()
    assert (outcome.state, outcome.exit_code, outcome.proven) == (ProcessState.EXITED, 3, True), outcome
    assert neighbour.outcome is None
