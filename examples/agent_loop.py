"""An agent that starts a job in the background, goes on with other work, and is told when the job has ended.

The model is played by a list of turns; all else is real.  Run it twice in the same folder with the first run killed in
between (`python examples/agent_loop.py FOLDER`), and the second run is told what it missed.
"""

import sys
from collections.abc import AsyncIterator

import anyio

import lastword


async def turns() -> AsyncIterator[str]:
    """What the agent does while the job runs: a turn every now and then."""
    for number in range(1, 6):
        await anyio.sleep(0.3)
        yield f"turn {number}: thinking about something else"


async def listen(runtime: lastword.Runtime, told: dict[str, anyio.Event]) -> None:
    """Take every notice to the agent, and settle it once the agent has it."""
    async for notice in runtime.loop:
        said = notice.notification
        # The notice names the job; what else is known of it is the supervisor's to tell, also after a restart.
        outcome = await runtime.supervisor.get(said.process_handle, runtime.loop).wait()
        code = "" if outcome.exit_code is None else f" {outcome.exit_code}"
        again = " (told before, not acknowledged)" if notice.redelivered else ""
        print(f"-- job {said.process_handle[:6]} has ended: {said.state.name.lower()}{code}{again}")
        # An agent would put this line into its transcript and save it; only then is the notice settled.
        await notice.ack()
        if said.process_handle in told:
            told[said.process_handle].set()


async def main(folder: str | None) -> None:
    async with lastword.open_runtime(folder) as runtime, anyio.create_task_group() as tasks:
        told: dict[str, anyio.Event] = {}
        process = await runtime.start("sleep 0.8; echo all tests passed", background=True, name="tests")
        told[process.handle] = anyio.Event()
        tasks.start_soon(listen, runtime, told)
        print(f"-- job {process.handle[:6]} is running in the background")
        async for turn in turns():
            print(turn)
        await told[process.handle].wait()  # nothing else to do, so it can as well wait
        chunk = await process.read_output()
        print(f"-- its output: {chunk.text.text.strip()}")
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else None)
