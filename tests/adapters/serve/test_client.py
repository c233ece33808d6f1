"""What a client makes of a server that is ending, stuck, or none of ours."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from serve_ground import answering
from supervising import HANG_SECONDS, nothing_left

import lastword.adapters.serve._bounds as bounds
import lastword.adapters.serve._calls as calls
from lastword.adapters.serve import Client, ConnectionLostError, NotServedError, RequestError, connect
from lastword.adapters.serve._lines import Lines

WELCOME = {"id": 0, "ok": {"version": 1, "session_id": "0192f0c1-2345-7abc-8def-0123456789ab"}}


@asynccontextmanager
async def facing(directory: Path, serve: Callable[[Lines], Awaitable[None]]) -> AsyncGenerator[None]:
    """A server in `directory` that does what `serve` says with its first client."""
    with nothing_left(), anyio.fail_after(HANG_SECONDS):
        async with answering(directory, serve):
            yield


async def test_who_hangs_up_before_the_welcome_serves_nobody(tmp_path: Path) -> None:
    async def hang_up(lines: Lines) -> None:
        await lines.aclose()

    async with facing(tmp_path, hang_up):
        with pytest.raises(NotServedError):
            await connect(tmp_path).__aenter__()


@pytest.mark.parametrize(
    "said",
    [
        b"220 ready\n",
        b'{"id":0}\n',
        b'{"id":0,"ok":{"version":1}}\n',
        b'{"id":0,"ok":{},"error":{}}\n',
        b'{"id":0,"error":{"code":1}}\n',
        b'{"id":"0","ok":{}}\n',
        b"x" * (bounds.MAX_LINE_BYTES + 65536),
    ],
)
async def test_whose_welcome_is_none_is_left(tmp_path: Path, said: bytes) -> None:
    async def say(lines: Lines) -> None:
        await lines.send(said)
        await lines.receive()

    async with facing(tmp_path, say):
        with pytest.raises(ConnectionLostError):
            await connect(tmp_path).__aenter__()


async def test_who_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_PATIENCE_SECONDS", 0.05)

    async def say_nothing(lines: Lines) -> None:
        await anyio.sleep_forever()

    async with facing(tmp_path, say_nothing):
        with pytest.raises(ConnectionLostError, match="does not answer"):
            await connect(tmp_path).__aenter__()


async def test_who_does_not_read_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def only_greet(lines: Lines) -> None:
        await lines.receive()
        await lines.send(_line(WELCOME))
        await anyio.sleep_forever()

    async with facing(tmp_path, only_greet), connect(tmp_path) as client:
        monkeypatch.setattr(calls, "_PATIENCE_SECONDS", 0.05)
        with pytest.raises(ConnectionLostError, match="does not read"):
            await client.start("x" * 900_000)
        with pytest.raises(ConnectionLostError, match="does not read"):
            await client.ping()


async def test_who_is_stuck_with_a_call_is_left_by_every_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long an answer may take: it says nothing at all any more."""

    async def only_greet(lines: Lines) -> None:
        await lines.receive()
        await lines.send(_line(WELCOME))
        while await lines.receive() is not None:
            pass

    async with facing(tmp_path, only_greet), connect(tmp_path) as client:
        monkeypatch.setattr(calls, "_PATIENCE_SECONDS", 0.1)

        async def wait() -> None:
            # Where this program is stopped while it asks, it is told so in the other words.
            with pytest.raises(ConnectionLostError, match=r"does not (answer|read)"):
                await client.wait(["x"])

        async with anyio.create_task_group() as tasks:
            for _ in range(30):  # some of them wait for their turn to ask
                tasks.start_soon(wait)
        with pytest.raises(ConnectionLostError, match=r"does not (answer|read)"):
            await client.ping()


@pytest.mark.parametrize("said", [{"ok": {}}, {"error": {"code": "too_many_requests", "message": "wait"}}])
async def test_who_is_slow_with_a_call_and_says_anything_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]
) -> None:
    asked: list[str] = []

    async def be_slow(lines: Lines) -> None:
        await lines.receive()
        await lines.send(_line(WELCOME))
        shutdown = json.loads(await lines.receive() or b"")
        ping = json.loads(await lines.receive() or b"")
        asked.append(ping["op"])
        await lines.send(_line({"id": ping["id"], **said}))
        await anyio.wait_all_tasks_blocked()
        pinged.set()
        other = json.loads(await lines.receive() or b"")
        asked.append(other["op"])
        await lines.send(_line({"id": other["id"], "ok": {}}) + _line({"id": shutdown["id"], "ok": {}}))
        await lines.receive()

    probe = calls.Calls._probe  # pyright: ignore[reportPrivateUsage]  # the moment from which on nobody hurries

    async def unhurried(self: calls.Calls) -> None:
        monkeypatch.setattr(calls, "_PATIENCE_SECONDS", 1e6)
        await probe(self)

    send = calls.Calls._send  # pyright: ignore[reportPrivateUsage]  # and that from which on somebody does

    async def send_then_hurry(self: calls.Calls, line: bytes) -> None:
        await send(self, line)
        if calls._PATIENCE_SECONDS < 1e6:  # pyright: ignore[reportPrivateUsage]
            monkeypatch.setattr(calls, "_PATIENCE_SECONDS", 0.05)

    monkeypatch.setattr(calls.Calls, "_probe", unhurried)
    monkeypatch.setattr(calls.Calls, "_send", send_then_hurry)
    pinged = anyio.Event()
    async with facing(tmp_path, be_slow), connect(tmp_path) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.shutdown)
        await pinged.wait()
        await client.ping()
    assert asked == ["ping", "ping"]


async def test_however_many_calls_wait_the_server_is_asked_once_whether_it_is_there(tmp_path: Path) -> None:
    """Else what asks could take the places of what is asked."""
    asked: list[str] = []

    async def answer_late(lines: Lines) -> None:
        await lines.receive()
        await lines.send(_line(WELCOME))
        while line := await lines.receive():
            await anyio.wait_all_tasks_blocked()
            ping = json.loads(line)
            asked.append(ping["op"])
            await lines.send(_line({"id": ping["id"], "ok": {}}))
        left.set()

    left = anyio.Event()
    async with facing(tmp_path, answer_late):
        async with connect(tmp_path) as client:
            for _ in range(2):
                async with anyio.create_task_group() as tasks:
                    for _ in range(bounds.MAX_IN_FLIGHT):
                        tasks.start_soon(client._calls._probe)  # pyright: ignore[reportPrivateUsage]
        await left.wait()
    assert asked == ["ping", "ping"]


def _line(record: Any) -> bytes:
    return json.dumps(record).encode() + b"\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"what?\n",
        b'{"id":1,"ok":{"more":1}}\n',
        b'{"id":1,"ok":[]}\n',
        b'{"id":null,"error":{"code":"malformed","message":"it is"}}\n',
        b'{"id":null,"ok":{}}\n',
        b"",
    ],
)
async def test_an_answer_that_is_none_ends_the_connection_for_every_call(tmp_path: Path, answer: bytes) -> None:
    async def say(lines: Lines) -> None:
        await lines.receive()
        await lines.send(_line(WELCOME))
        await lines.receive()
        await lines.receive()
        if answer:
            await lines.send(answer)
            await lines.receive()

    async with facing(tmp_path, say), connect(tmp_path) as client:
        lost: list[str] = []

        async def call(ask: Callable[[Client], Awaitable[None]]) -> None:
            with pytest.raises(ConnectionLostError) as caught:
                await ask(client)
            lost.append(str(caught.value))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, Client.ping)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(call, Client.ping)
        assert len(lost) == 2
        with pytest.raises(ConnectionLostError):
            await client.ping()


async def test_an_answer_to_nobody_is_dropped_and_a_fault_is_one_call_s(tmp_path: Path) -> None:
    async def say(lines: Lines) -> None:
        await lines.receive()
        await lines.send(_line(WELCOME))
        await lines.receive()
        await lines.send(_line({"id": 77, "ok": {"of": "what was given up"}}))
        await lines.send(_line({"id": 1, "error": {"code": "busy", "message": "later", "field": "f"}}))
        await lines.receive()
        await lines.send(_line({"id": 2, "ok": {}}))
        await lines.receive()

    async with facing(tmp_path, say), connect(tmp_path) as client:
        with pytest.raises(RequestError) as caught:
            await client.ping()
        assert (caught.value.code, caught.value.message, caught.value.field) == ("busy", "later", "f")
        assert str(caught.value) == "busy: later"
        await client.ping()
