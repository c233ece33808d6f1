"""Servers for tests: one in the test's own loop, its socket as lines, and the daemons that a test has started."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import psutil
from supervising import HANG_SECONDS, nothing_left, until

from lastword.adapters.serve import serve
from lastword.adapters.serve._address import SOCKET_FILE, connect_socket, listening
from lastword.adapters.serve._lines import Lines
from lastword.adapters.serve._stream import SocketStream

ValueT = TypeVar("ValueT")

HELLO = {"id": 0, "op": "hello", "version": 1}


@asynccontextmanager
async def served(directory: Path, **options: Any) -> AsyncGenerator[anyio.Event]:
    """A server in `directory` for the block, which must leave nothing and not hang; the value is set when it ends."""
    ended = anyio.Event()
    with nothing_left(), anyio.fail_after(HANG_SECONDS):
        async with AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(anyio.create_task_group())
            ready = anyio.Event()

            async def run() -> None:
                await serve(directory, ready=ready.set, **options)
                ended.set()

            tasks.start_soon(run)
            await ready.wait()
            yield ended
            tasks.cancel_scope.cancel()


class Talker:
    """A client that says what a test wants, line by line."""

    def __init__(self, lines: Lines, connection: socket.socket) -> None:
        self._lines = lines
        self._connection = connection

    async def say(self, *records: object) -> None:
        """Send each as a line of JSON; bytes as they are."""
        data = b"".join(
            record if isinstance(record, bytes) else json.dumps(record).encode() + b"\n" for record in records
        )
        await self._lines.send(data)

    async def hear(self) -> Any:
        """The next answer; None where the server has hung up."""
        line = await self._lines.receive()
        return None if line is None else json.loads(line)

    async def ask(self, record: dict[str, Any]) -> Any:
        """Say it, and hear the answer to it."""
        await self.say(record)
        answer = await self.hear()
        assert answer is None or answer["id"] in {record["id"], None}, answer
        return answer

    async def greet(self) -> None:
        """Say hello."""
        assert "ok" in await self.ask(HELLO)

    def hang_up(self) -> None:
        """As the kernel does for a process that is killed."""
        self._connection.shutdown(socket.SHUT_RDWR)


@asynccontextmanager
async def talking(directory: Path, *, greet: bool = True) -> AsyncGenerator[Talker]:
    """A connection to the server of `directory`."""
    connection = connect_socket(directory)
    lines = Lines(SocketStream(connection))
    try:
        talker = Talker(lines, connection)
        if greet:
            await talker.greet()
        yield talker
    finally:
        with anyio.CancelScope(shield=True):
            await lines.aclose()


def daemons(directory: Path) -> list[psutil.Process]:
    """The servers that were started for `directory`, and only them."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            arguments = process.cmdline()
        except psutil.Error:
            continue
        if "lastword.adapters.serve" in arguments and str(directory) in arguments:
            found.append(process)
    return found


async def daemon_of(directory: Path) -> psutil.Process:
    """The one that is left where others, or who has forked it, are about to end; bounded by the caller."""
    while len(found := daemons(directory)) != 1:  # noqa: ASYNC110 -- nobody is there to set an event
        await anyio.sleep(0.005)
    return found[0]


@asynccontextmanager
async def daemons_of(directory: Path) -> AsyncGenerator[None]:
    """A block in which servers are started for `directory`; none is left after it."""
    with anyio.fail_after(HANG_SECONDS):
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(HANG_SECONDS):
                for process in daemons(directory):
                    with contextlib.suppress(psutil.NoSuchProcess):  # it was about to end
                        process.send_signal(signal.SIGTERM)
                await until(lambda: not daemons(directory))


def socket_of(directory: Path) -> Path:
    """The socket's file."""
    return directory / SOCKET_FILE


async def asked_until(question: Callable[[], Awaitable[ValueT]], holds: Callable[[ValueT], bool]) -> ValueT:
    """The answer that holds, of what is asked again and again, for what tells nobody; bounded by `served`."""
    while not holds(answer := await question()):  # noqa: ASYNC110 -- nobody is there to set an event
        await anyio.sleep(0.005)
    return answer


@asynccontextmanager
async def answering(directory: Path, serve_one: Callable[[Lines], Awaitable[None]]) -> AsyncGenerator[None]:
    """For the block, a server of the test's own, for one client."""
    with listening(directory) as listener:
        async with anyio.create_task_group() as tasks:

            async def accept() -> None:
                await anyio.wait_readable(listener)
                connection, _ = listener.accept()
                lines = Lines(SocketStream(connection))
                try:
                    with contextlib.suppress(anyio.BrokenResourceError):  # the client may leave in its middle
                        await serve_one(lines)
                finally:
                    with anyio.CancelScope(shield=True):
                        await lines.aclose()

            tasks.start_soon(accept)
            yield
            tasks.cancel_scope.cancel()
