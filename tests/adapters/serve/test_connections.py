"""What clients do wrong, or stop doing: each is answered or hung up on, and the server serves the others."""

from __future__ import annotations

import contextlib
import itertools
import logging
import socket
from base64 import b64decode
from pathlib import Path

import anyio
import pytest
from serve_ground import HELLO, Talker, asked_until, served, socket_of, talking
from supervising import alive, until

import lastword
import lastword.adapters.serve._address as address
import lastword.adapters.serve._bounds as bounds
from lastword.adapters.serve import Chunk, ForeignPeerError, RequestError, _service, connect
from lastword.adapters.serve._attachments import Attachments
from lastword.adapters.serve._requests import Read, Request
from lastword.adapters.serve._service import Answer, Service
from lastword.adapters.serve._views import show_chunk
from lastword.adapters.testing import ManualClock
from lastword.supervisor import OutputChunk

PING = {"id": 1, "op": "ping"}


async def test_hello_comes_first_and_in_the_right_version(tmp_path: Path) -> None:
    async with served(tmp_path):
        for said, code in (
            (PING, "hello_expected"),
            ({**HELLO, "version": 2}, "unsupported_version"),
            ({**HELLO, "version": "1"}, "invalid_request"),
            ({**HELLO, "client": "x"}, "invalid_request"),
            (b"GET / HTTP/1.1\r\n\r\n", "malformed"),
        ):
            async with talking(tmp_path, greet=False) as talker:
                await talker.say(said)
                assert (await talker.hear())["error"]["code"] == code
                assert await talker.hear() is None
        async with talking(tmp_path) as talker:
            assert (await talker.ask(HELLO))["error"]["code"] == "invalid_request"
            assert "ok" in await talker.ask(PING)


async def test_who_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    clock = ManualClock()
    async with served(tmp_path, clock=clock), talking(tmp_path, greet=False) as silent, talking(tmp_path) as polite:
        await until(lambda: clock.next_deadline == bounds.HELLO_SECONDS)
        clock.advance(bounds.HELLO_SECONDS)
        assert await silent.hear() is None
        assert "ok" in await polite.ask(PING)


async def test_what_is_malformed_is_answered_and_the_connection_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path), talking(tmp_path) as talker:
        for line in (b"\n", b"{\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"null\n"):
            await talker.say(line)
            answer = await talker.hear()
            assert (answer["id"], answer["error"]["code"]) == (None, "malformed")
        assert (await talker.ask({"id": 5, "op": "get", "process": 1}))["error"]["field"] == "process"
        assert await talker.ask({"id": 6, "op": "ping"}) == {"id": 6, "ok": {}}


async def test_a_line_without_an_end_is_not_kept(tmp_path: Path) -> None:
    async with served(tmp_path):
        for greet in (True, False):
            async with talking(tmp_path, greet=greet) as talker, anyio.create_task_group() as tasks:
                tasks.start_soon(_flood, talker)
                answer = await talker.hear()
                assert (answer["id"], answer["error"]["code"]) == (None, "line_too_long")
                assert await talker.hear() is None
                tasks.cancel_scope.cancel()
        async with talking(tmp_path) as talker:
            assert "ok" in await talker.ask(PING)


async def _flood(talker: Talker) -> None:
    with contextlib.suppress(anyio.BrokenResourceError):
        for _ in range(0, 4 * bounds.MAX_LINE_BYTES, 65536):
            await talker.say(b"x" * 65536)


async def test_requests_in_flight_are_bounded_and_their_ids_are_their_own(tmp_path: Path) -> None:
    async with served(tmp_path), talking(tmp_path) as talker:
        started = await talker.ask({"id": 1, "op": "start", "command": "exec sleep 60", "name": "job"})
        assert started["ok"]["process"]["state"] == "running"
        waits = [{"id": 100 + index, "op": "wait", "processes": ["job"]} for index in range(bounds.MAX_IN_FLIGHT)]
        await talker.say(*waits)
        assert (await talker.ask({"id": 2, "op": "ping"}))["error"]["code"] == "too_many_requests"
        twice = await talker.ask({"id": 100, "op": "wait", "processes": ["job"]})
        assert (twice["id"], twice["error"]["field"]) == (None, "id")
        await talker.say({"id": 3, "op": "cancel", "request": 100})
        assert sorted([await talker.hear(), await talker.hear()], key=lambda answer: answer["id"]) == [
            {"id": 3, "ok": {"found": True}},
            {"id": 100, "error": {"code": "cancelled", "message": "the request was given up"}},
        ]
        assert (await talker.ask({"id": 3, "op": "cancel", "request": 100}))["ok"] == {"found": False}
        assert "ok" in await talker.ask({"id": 2, "op": "ping"})
        await talker.say({"id": 4, "op": "stop", "process": "job", "mode": "kill"})
        answers = [await talker.hear() for _ in range(bounds.MAX_IN_FLIGHT)]
        assert {answer["id"] for answer in answers} == {4, *range(101, 100 + bounds.MAX_IN_FLIGHT)}
        assert all("ok" in answer for answer in answers)


async def test_connections_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lastword.adapters.serve._server.MAX_CONNECTIONS", 2)
    async with served(tmp_path), connect(tmp_path) as first:
        async with connect(tmp_path) as second:
            with pytest.raises(RequestError) as caught:
                await connect(tmp_path).__aenter__()
            assert caught.value.code == "too_many_connections"
            assert (await second.status()).connections == 2
        await asked_until(first.status, lambda status: status.connections == 1)
        async with connect(tmp_path) as second:
            await second.ping()


async def test_a_client_that_does_not_read_is_not_read_and_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = made = 0
    answer, show = Service.answer, show_chunk

    async def counted(self: Service, request: Request, client: object) -> Answer:
        nonlocal begun
        begun += isinstance(request, Read)
        return await answer(self, request, client)

    def counted_chunk(chunk: OutputChunk) -> Chunk:
        nonlocal made
        made += 1
        return show(chunk)

    monkeypatch.setattr(Service, "answer", counted)
    monkeypatch.setattr("lastword.adapters.serve._service.show_chunk", counted_chunk)
    async with served(tmp_path), connect(tmp_path) as client:
        job = await client.start("head -c 1000000 /dev/zero")
        await client.wait([job.handle])
        async with talking(tmp_path) as deaf:
            # It ends when neither side can send any more; the time is only how long this looks at that.
            with anyio.move_on_after(0.3):
                for number in itertools.count(1):
                    await deaf.say(
                        {"id": number, "op": "read", "process": job.handle, "max_bytes": bounds.MAX_CHUNK_BYTES}
                    )
            assert (await client.read(job.handle)).data
        # What the kernel's buffers take (some hundred KiB, of 350 KiB each), and the one that is being sent.
        assert 0 < made <= 6
        assert begun <= bounds.MAX_IN_FLIGHT + 6


async def test_a_client_of_another_user_is_sent_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path):
        uid = address.peer_uid

        def others_uid(connection: socket.socket) -> int:
            return uid(connection) + 1

        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
            patch.setattr(address, "peer_uid", others_uid)
            with pytest.raises(ForeignPeerError):
                await connect(tmp_path).__aenter__()
            # The server's look at a client that does not look back.
            plain = socket.socket(socket.AF_UNIX)
            plain.connect(str(socket_of(tmp_path)))
            with plain:
                plain.setblocking(False)
                await anyio.wait_readable(plain)
                assert plain.recv(100) == b""
            assert "another user" in caplog.text
        async with connect(tmp_path) as client:
            await client.ping()


async def test_hanging_up_stops_what_is_attached_and_nothing_else(tmp_path: Path) -> None:
    command = "sleep 60 & echo $! $$; exec sleep 60"
    async with served(tmp_path), connect(tmp_path) as watcher:
        async with talking(tmp_path) as talker:
            for index, options in enumerate(({"attached": True}, {}, {"attached": True})):
                answer = await talker.ask(
                    {"id": index + 1, "op": "start", "command": command, "name": f"job{index}", **options}
                )
                assert "ok" in answer
            pids = [int(pid) for index in range(3) for pid in (await _said(talker, f"job{index}")).split()]
            await watcher.background("job2")  # anybody may untie it
            talker.hang_up()
            ended = (await watcher.wait(["job0"])).processes[0]
            assert ended.outcome is not None
            assert (ended.state, ended.outcome.reason) == ("terminated", "terminated")
        assert not any(map(alive, pids[:2]))
        assert all(map(alive, pids[2:]))
        assert [(await watcher.get(name)).state for name in ("job1", "job2")] == ["running", "running"]


async def _said(talker: Talker, process: str) -> bytes:
    answer = await talker.ask({"id": 9, "op": "read", "process": process, "wait": True})
    return b64decode(answer["ok"]["chunk"]["data"])


async def test_kept_survivors_of_what_is_attached_end_with_its_client_too(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as watcher:
        async with connect(tmp_path) as client:
            await client.start("sleep 60 >/dev/null 2>&1 & echo $!", name="job", attached=True, survivors="keep")
            pid = int((await client.read("job", wait=True)).data)
            await client.wait(["job"])
            assert alive(pid)
        await until(lambda: not alive(pid))
        assert (await watcher.get("job")).state == "exited"


async def test_a_client_that_stays_does_not_hold_what_is_not_known_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Attachments] = []

    def attachments() -> Attachments:
        made.append(Attachments())
        return made[-1]

    monkeypatch.setattr(_service, "Attachments", attachments)
    limits = lastword.Limits(retained_completed=2)
    async with served(tmp_path, limits=limits), connect(tmp_path) as client:
        for _ in range(12):
            await client.wait([(await client.start("true", attached=True)).handle])
        (held,) = made
        assert 1 <= len(held) <= 6  # a record goes a moment after its job


async def test_a_start_whose_client_is_gone_is_finished(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as watcher:
        for name, attached in (("tied", True), ("free", False)):
            async with talking(tmp_path) as talker:
                await talker.say(
                    {"id": 1, "op": "start", "command": "exec sleep 60", "name": name, "attached": attached}
                )
                talker.hang_up()
        await asked_until(watcher.list, lambda known: {each.name for each in known} == {"tied", "free"})
        await watcher.wait(["tied"])
        assert (await watcher.get("free")).state == "running"


async def test_a_stop_whose_client_is_gone_is_finished(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as watcher:
        await watcher.start("exec sleep 60", name="job")
        async with talking(tmp_path) as talker:
            await talker.say({"id": 1, "op": "stop", "process": "job"})
            talker.hang_up()
        (ended,) = (await watcher.wait(["job"], timeout=60)).processes
        assert ended.state == "terminated"


async def test_an_acknowledgement_whose_client_is_gone_is_finished(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as watcher:
        await watcher.start("true", name="job")
        await watcher.wait(["job"])
        await asked_until(watcher.pending, lambda known: [each.status for each in known] == ["unacknowledged"])
        async with talking(tmp_path) as talker:
            await talker.say({"id": 1, "op": "ack", "all": True})
            talker.hang_up()
        await asked_until(watcher.pending, lambda known: not known)


async def test_a_call_that_is_given_up_is_given_up_at_the_server_too(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        job = await client.start("exec sleep 60")
        for _ in range(bounds.MAX_IN_FLIGHT + 1):
            with anyio.move_on_after(0.001):
                await client.wait([job.handle])
        await client.ping()
        with anyio.move_on_after(0) as scope:
            await client.ping()
        assert scope.cancelled_caught
        stubborn = await client.start("trap 'sleep 0.1; exit' TERM; echo on; while :; do sleep 0.01; done")
        await client.read(stubborn.handle, wait=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.stop, stubborn.handle)
            async for event in client.events(follow=True):
                if event.event is not None and event.event["type"] == "ProcessStopRequested":
                    break
            tasks.cancel_scope.cancel()
        assert (await client.wait([stubborn.handle])).processes[0].state == "terminated"


async def test_what_the_block_raises_leaves_as_it_is(tmp_path: Path) -> None:
    async with served(tmp_path):
        with pytest.raises(ZeroDivisionError):
            async with connect(tmp_path) as client:
                await client.ping()
                raise ZeroDivisionError
        manager = connect(tmp_path)
        async with manager:
            with pytest.raises(RuntimeError, match="opened before"):
                await manager.__aenter__()
