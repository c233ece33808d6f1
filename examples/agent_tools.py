"""An agent that takes turns: its model calls tools, is told what has ended meanwhile, and every turn is saved.

The model is played by a function; all else is real.  Kill it at any moment and run it again in the same folder
(`python examples/agent_tools.py FOLDER`): what it was not told for certain it is told then.
"""

import json
import sys
from pathlib import Path
from typing import Any

import anyio

import lastword
from lastword.adapters.tools import Notices, tool_specs

Message = dict[str, Any]


def model(transcript: list[Message]) -> Message | None:
    """What it calls next; None once it has seen what the build wrote.  A real one is shown the specs' schemas, too."""
    last = transcript[-1]
    if last["role"] == "user":
        return {"name": "Bash", "arguments": {"command": "sleep 0.5; echo 2 errors; exit 3", "background": True}}
    if last["role"] == "notice":
        return {"name": "ProcessOutput", "arguments": {"process_id": transcript[2]["result"]["process_id"]}}
    if last.get("name") == "ProcessOutput":
        return None
    return {"name": "Bash", "arguments": {"command": "sleep 0.2; echo read some code"}}


def save(transcript: list[Message], file: Path) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(transcript, indent=1))
    new.replace(file)


def load(file: Path) -> list[Message]:
    return json.loads(file.read_text()) if file.exists() else [{"role": "user", "content": "Build it."}]


async def main(folder: Path) -> None:
    file = folder / "transcript.json"
    async with lastword.open_runtime(folder) as runtime:
        transcript = load(file)
        notices = Notices(runtime)
        tools = {spec.name: spec.handler for spec in tool_specs(runtime, notices=notices)}
        while (call := model(transcript)) is not None:
            result = await tools[call["name"]](call["arguments"])
            turn: list[Message] = [{"role": "assistant", **call}]
            turn.append({"role": "tool", "name": call["name"], "result": result})
            bulletin = await notices.collect()  # after the results: what they have told is not told again
            turn += [{"role": "notice", "content": line} for line in bulletin.lines]
            transcript += turn
            save(transcript, file)
            await bulletin.ack()  # only now: what has been saved is never told again
            for message in turn[1:]:
                print(message["role"], message.get("content") or result["output"].strip() or "(running)")


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1] if len(sys.argv) > 1 else "agent"))
