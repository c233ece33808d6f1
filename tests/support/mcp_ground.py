"""What the tests of the MCP server share: the SDK's own client, beside the server or over the stdio of a real one."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream
from crash_hosts import support_environment
from mcp import Client, StdioServerParameters
from mcp.client import stdio
from mcp.client.stdio import stdio_client
from mcp.shared.message import SessionMessage
from mcp_types import CallToolResult, Implementation, TextContent
from supervising import HANG_SECONDS, nothing_left

import lastword
from lastword.adapters.mcp import _server, _tools
from lastword.adapters.mcp._opening import Replayed
from lastword.adapters.mcp._server import serve

# As the SDK's client calls them: "auto" finds the newest, "legacy" the handshake of those before.
GENERATIONS: Final = ["auto", "legacy"]

Result = dict[str, Any]


# --- a server beside its client, in this process


@asynccontextmanager
async def beside(
    state: Path | None, generation: str = "auto", **options: Any
) -> AsyncGenerator[tuple[Client, lastword.Runtime]]:
    """A client of a server in this process, for a block that must leave nothing and must not hang.

    `options` are those of `open_runtime`, and `message_handler` of the client.
    """
    handler = options.pop("message_handler", None)
    with nothing_left(), anyio.fail_after(HANG_SECONDS), _patient():
        async with (
            lastword.open_runtime(state, **options) as runtime,
            Client(connected(runtime), mode=generation, message_handler=handler) as client,
        ):
            yield client, runtime


@contextmanager
def _patient() -> Generator[None]:
    """A result waits for the notice that belongs to it, however slow the machine is."""
    with patch.object(_tools, "_NOTICE_SECONDS", 1e6), patch.object(_server, "_CATCH_UP_SECONDS", 1e6):
        yield


@asynccontextmanager
async def connected(runtime: lastword.Runtime) -> AsyncGenerator[Any]:
    """A transport to a server of this runtime."""
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, runtime, Replayed((), incoming), outgoing)
        async with to_server, from_server:
            yield from_server, to_server


async def call(client: Client, tool: str, **arguments: Any) -> Result:
    """What the model is told; both forms of it must say the same."""
    answer = await client.call_tool(tool, arguments)
    assert isinstance(answer, CallToolResult)
    result: Result = answer.structured_content
    (content,) = answer.content
    assert isinstance(content, TextContent)
    assert json.loads(content.text) == result
    assert answer.is_error == ("error" in result)
    return result


def told(result: Result) -> list[str]:
    """Whose notices it carries."""
    assert ("notices" in result) == ("notices_cursor" in result)
    return [notice["process_id"] for notice in result.get("notices", [])]


async def background(client: Client, command: str, **arguments: Any) -> str:
    """Start a job in the background; its handle."""
    result = await call(client, "Bash", command=command, background=True, **arguments)
    handle: str = result["process_id"]
    return handle


async def ended(client: Client, handle: str, **arguments: Any) -> Result:
    """What a call says that waits for the job's end."""
    return await call(
        client, "ProcessOutput", process_id=handle, wait="any", until="end", timeout_ms=60_000, **arguments
    )


async def telling(client: Client, result: Result, count: int = 1) -> Result:
    """The first result, from `result` on, that tells so many ends: on a slow disk notices may be late."""
    while len(told(result)) < count:
        result = await call(client, "ProcessList")
    return result


# --- a server of its own, over stdio


def server_command(backend: str, *arguments: str | Path) -> list[str]:
    """The server as a client's configuration names it; a warning would be its end."""
    return [sys.executable, "-W", "error", "-m", "lastword", "mcp", "--backend", backend, *map(str, arguments)]


def server_environment(home: Path, **more: str) -> dict[str, str]:
    """What a client gives it."""
    return support_environment() | {"HOME": str(home), "XDG_STATE_HOME": ""} | more


def own_state(home: Path) -> Path:
    """The one state directory that clients have made by default."""
    (state,) = (home / ".local/state/lastword-mcp").iterdir()
    return state


@asynccontextmanager
async def over_stdio(
    home: Path,
    backend: str,
    *arguments: str | Path,
    name: str = "tests",
    generation: str = "auto",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    patience: float = HANG_SECONDS,
) -> AsyncGenerator[Client]:
    """A client of a server that it has started, and that it lets end by itself for so many seconds: the SDK's own two
    are short on a machine with many others on it.
    """
    command, *rest = server_command(backend, *arguments)
    parameters = StdioServerParameters(
        command=command, args=rest, cwd=cwd or home, env=server_environment(home, **(env or {}))
    )
    info = Implementation(name=name, version="1")
    with (
        anyio.fail_after(HANG_SECONDS),
        (home / "stderr").open("a") as errors,
        patch.object(stdio, "PROCESS_TERMINATION_TIMEOUT", patience),
    ):
        async with Client(stdio_client(parameters, errlog=errors), mode=generation, client_info=info) as client:
            yield client


class Raw:
    """A server and its two pipes, line by line, with nobody's client between."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.stdin: Final = process.stdin
        self._stdout = BufferedByteReceiveStream(process.stdout)
        self._unread: list[Result] = []

    async def send(self, *messages: Result | bytes) -> None:
        """One line each."""
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            await self.stdin.send(line + b"\n")

    async def receive(self, who: int | str | None) -> Result:
        """The answer to that request; every line until then must be a message."""
        while True:
            for message in self._unread:
                if message.get("id", "") == who and "method" not in message:
                    self._unread.remove(message)
                    return message
            self._unread.append(_message(await self._stdout.receive_until(b"\n", 1 << 24)))

    async def hello(self) -> None:
        """The handshake."""
        await self.say_hello()
        assert "result" in await self.receive("hello")

    async def say_hello(self) -> None:
        """The client's half of it."""
        info = {"name": "raw", "version": "1"}
        await self.send(
            request("hello", "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
        )

    async def call(self, who: int | str, tool: str, **arguments: Any) -> Result:
        """A tool's result."""
        await self.send(request(who, "tools/call", name=tool, arguments=arguments))
        answer = await self.receive(who)
        result: Result = answer["result"]["structuredContent"]
        return result

    async def rest(self) -> list[Result]:
        """Everything more, up to the end of its stdout."""
        rest = b""
        with suppress(anyio.EndOfStream):
            while True:
                rest += await self._stdout.receive()
        messages = [*self._unread, *map(_message, rest.splitlines())]
        self._unread.clear()
        return messages

    async def left(self) -> int:
        """Close its stdin; its exit code."""
        await self.stdin.aclose()
        return await self.process.wait()


def _message(line: bytes) -> Result:
    message: Result = json.loads(line)
    assert message["jsonrpc"] == "2.0"
    return message


def request(who: int | str, method: str, **params: Any) -> Result:
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": who, "method": method, "params": params}


@asynccontextmanager
async def raw(
    home: Path, backend: str, *arguments: str | Path, env: dict[str, str] | None = None, command: Sequence[str] = ()
) -> AsyncGenerator[Raw]:
    """A server of its own, killed at the end where it still lives."""
    with anyio.fail_after(HANG_SECONDS), (home / "stderr").open("a") as errors:
        async with await anyio.open_process(
            command or server_command(backend, *arguments),
            cwd=home,
            env=server_environment(home, **(env or {})),
            stderr=errors,
        ) as process:
            try:
                yield Raw(process)
            finally:
                if process.returncode is None:
                    process.kill()
