"""An agent that uses lastword over MCP, and misses no job's end, though the server is killed under it.

A host (an editor, an agent program) does what this does: it starts `lastword mcp`, calls its tools for a model, and
passes on what they answer.  Two things are worth copying:

1. A result can have `notices`: processes that have ended.  They are on every result until the `notices_cursor` that
   came with them is given to a call.  Give it only when you have what it came with: that is all there is to "at least
   once".
2. A new server for the same client knows what the old one owed it.

Needs the extra: pip install 'lastword[cli,mcp]'
"""

import sys
import tempfile
from typing import Any

import anyio
import psutil
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import CallToolResult


class Agent:
    """Knows how its jobs have ended, and which notices it has."""

    def __init__(self) -> None:
        self.ended: dict[str, str] = {}
        self._cursor: str | None = None

    async def call(self, client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool with the last cursor, and learn what has ended meanwhile."""
        if self._cursor is not None:
            arguments["notices_cursor"] = self._cursor
        answer = await client.call_tool(tool, arguments)
        assert isinstance(answer, CallToolResult)
        result: dict[str, Any] = answer.structured_content
        for notice in result.get("notices", []):
            if notice["process_id"] not in self.ended:  # else it is told again, and known
                self.ended[notice["process_id"]] = notice["status"]
                print(f"   told: {notice['status']}, exit code {notice['exit_code']}")
        self._cursor = result.get("notices_cursor")  # a program that outlives itself writes it down, with the notices
        return result


async def main(folder: str) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "lastword", "mcp", "--state", f"{folder}/state"])
    agent, lost = Agent(), ""

    print("-- a command, and a job in the background")
    try:
        async with Client(server) as client:
            result = await agent.call(client, "Bash", command="echo hello from a job")
            print(f"   {result['output'].strip()}")
            build = await agent.call(client, "Bash", command="sleep 0.3; exit 3", background=True)
            print("-- something else meanwhile, until a result says that it has ended")
            while build["process_id"] not in agent.ended:
                await anyio.sleep(0.1)
                await agent.call(client, "ProcessList")
            lost = (await agent.call(client, "Bash", command="exec sleep 60", background=True))["process_id"]
            print("** the server is killed")
            for child in psutil.Process().children():
                child.kill()  # SIGKILL: no handler, no last wish
            await agent.call(client, "ProcessList")
    except* MCPError:
        print("-- and started again")

    async with Client(server) as client:
        while lost not in agent.ended:
            await agent.call(client, "ProcessList")
        result = await agent.call(client, "ProcessList")
        print(f"-- nothing is owed any more: {'notices' not in result}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(main, folder)
