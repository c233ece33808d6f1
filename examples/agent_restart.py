"""An agent that survives kill -9 and goes on where it was.

Its memory is a transcript: a file to which it adds a line for everything that it has learnt.  Two rules make it safe to
kill it at any moment:

1. A notice is written to the transcript, and only then acknowledged.  Killed in between, the agent is told again, and
   finds the notice in its transcript.
2. What to do next follows from the transcript and from what lastword says, never from what is only in memory.

Run it without arguments: it starts itself in a child, kills that child in the middle of its work, and starts it again.
With a folder (`python examples/agent_restart.py FOLDER`) it is the agent, and you may kill it as often as you like.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio

import lastword

# What is to be done, one job after the other.  A step may run twice, if the agent is killed while it runs: a job whose
# host has died is stopped or out of sight, and is told as lost.  So steps must bear repeating, as for any agent.
PLAN = {
    "build": "sleep 0.3; echo built",
    "test": "sleep 3; echo 12 passed",
    "package": "sleep 0.3; echo packed",
}


class Transcript:
    """Lines that outlive the process: `add` returns once its line is on disk."""

    def __init__(self, path: Path) -> None:
        path.touch()
        text = path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        os.truncate(path, len(whole))  # a line that the last life could not finish was never said
        self.lines: list[dict[str, str]] = [json.loads(line) for line in whole.splitlines()]
        self._path = path

    def add(self, **line: str) -> None:
        with self._path.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)

    def knows(self, command_id: str) -> bool:
        return any(line.get("ended") == command_id for line in self.lines)

    def waits_for(self, step: str) -> bool:
        return any("started" in line and not self.knows(line["started"]) for line in self.lines if line["step"] == step)

    def done(self, step: str) -> bool:
        return any(line.get("state") == "EXITED" for line in self.lines if line["step"] == step)


async def learn(notice: lastword.Notice, runtime: lastword.Runtime, transcript: Transcript) -> None:
    """Write down how a job has ended, once, and settle its notice."""
    said = notice.notification
    if transcript.knows(str(said.command_id)):
        print("   told again, and known")
    else:
        process = runtime.supervisor.get(said.process_handle, runtime.loop)
        output = (await process.read_output()).text.text.strip()
        print(f"   {process.name}: {said.state.name.lower()} {output}".rstrip())
        transcript.add(ended=str(said.command_id), step=process.name, state=said.state.name, output=output)
    await notice.ack()  # only now: it is in the transcript


async def agent(folder: Path) -> None:
    async with lastword.open_runtime(folder / "jobs") as runtime:
        transcript = Transcript(folder / "transcript.jsonl")
        print(f"-- awake, with {len(transcript.lines)} lines of memory")
        for step, command in PLAN.items():
            while not transcript.done(step):
                if not transcript.waits_for(step):
                    process = await runtime.start(command, name=step, background=True)
                    transcript.add(started=str(process.command_id), step=step)
                    print(f"-> {step}")
                # Where an earlier life was killed, this may be the last word of a job of that one: lost, with its name.
                await learn(await runtime.loop.receive(), runtime, transcript)
        # A life that was killed between the transcript and the acknowledgement has left its last notice unsettled.
        while any(record.status == "unacknowledged" for record in await runtime.pending()):
            await learn(await runtime.loop.receive(), runtime, transcript)
        print("-- all done")


def demo() -> None:
    """Start the agent, kill it while its second job runs, and start it again."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-u", __file__, folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:  # noqa: S603 -- this file
            assert first.stdout is not None
            for line in first.stdout:
                print(line, end="")
                if line == "-> test\n":
                    break
            first.kill()  # SIGKILL: no handler, no clean-up, no last wish
        print("** killed")
        subprocess.run(command, check=True)  # noqa: S603 -- this file


if __name__ == "__main__":
    if len(sys.argv) > 1:
        anyio.run(agent, Path(sys.argv[1]))
    else:
        demo()
