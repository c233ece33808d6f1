"""What a client asks for is what the runtime does: one test a request, and the faults that each can have."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import pytest
from serve_ground import asked_until, served
from supervising import until

from lastword.adapters.serve import (
    Client,
    ConnectionLostError,
    EventInfo,
    NotServedError,
    RequestError,
    Resources,
    Size,
    connect,
)
from lastword.adapters.serve import _bounds as bounds
from lastword.adapters.serve._requests import Mode
from lastword.supervisor import Limits

SLEEP = "echo on; exec sleep 60"


async def output(client: Client, process: str) -> bytes:
    return b"".join([chunk.data async for chunk in client.follow(process)])


async def test_a_process_is_started_followed_waited_for_and_told(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        command = "read -r _; echo out; echo err >&2; exit 3"
        started = await client.start(command, name="job", background=True, stdin="pipe")
        assert (started.name, started.program, started.state, started.backgrounded) == ("job", "sh", "running", True)
        await client.send_input("job", eof=True)
        assert await output(client, "job") == b"out\nerr\n"
        waited = await client.wait(["job"])
        (ended,) = waited.processes
        assert not waited.timed_out
        assert ended == await client.get(started.handle) == (await client.list())[0]
        assert ended.outcome is not None
        assert (ended.state, ended.outcome.reason, ended.outcome.exit_code) == ("exited", "exited", 3)
        assert (ended.outcome.shell_code, ended.outcome.total_bytes) == (3, 8)
        assert ended.handle == started.handle
        (pending,) = [each for each in await client.pending() if each.kind == "notification"]
        assert (pending.record_id, pending.process_handle) == (started.command_id, started.handle)


async def test_it_runs_as_if_its_client_had_started_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    async with served(tmp_path / "state"), connect(tmp_path / "state") as client:
        monkeypatch.chdir(here)
        monkeypatch.setenv("LANG", "xx_YY")
        monkeypatch.setenv("SECRET", "hunter2")
        before = os.umask(0o051)
        try:
            plain = await client.start("pwd; umask; echo $LANG-$SECRET-$OWN", env={"OWN": "mine"})
            everything = await client.start(["printenv", "SECRET"], env_policy="inherit")
            nothing = await client.start(["/usr/bin/env"], env_policy="none", resources=Resources(umask=0))
            there = await client.start("pwd; umask", cwd="..", resources=Resources(umask=0o007))
        finally:
            os.umask(before)
        assert await output(client, plain.handle) == f"{here}\n0051\nxx_YY--mine\n".encode()
        assert await output(client, everything.handle) == b"hunter2\n"
        assert await output(client, nothing.handle) == b""
        assert await output(client, there.handle) == f"{tmp_path}\n0007\n".encode()


async def test_a_start_takes_what_a_supervisor_takes(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        origin = UUID("0192f0c1-2345-7abc-8def-00000000000c")
        given = await client.start(["cat"], stdin=b"\x00\xff", output_limit=1, origin_execution_id=origin)
        await client.wait([given.handle])
        kept = await client.read(given.handle)
        assert (kept.data, kept.total, kept.omitted) == (b"\xff", 2, (0, 1))
        timed = await client.start(SLEEP, timeout=0.05)
        stopped = await client.start("yes", output_limit=10, on_output_limit="stop")
        ended = (await client.wait([timed.handle, stopped.handle])).processes
        assert [each.outcome and each.outcome.reason for each in ended] == ["timed_out", "output_limit"]
        started = [event async for event in client.events() if (event.event or {})["type"] == "ProcessStarted"]
        assert [(event.event or {})["process"]["origin_execution_id"] for event in started][:1] == [str(origin)]


WRONG: list[tuple[dict[str, Any], str, str | None]] = [
    ({"command": ""}, "invalid_arguments", "command"),
    ({"command": "a\0b"}, "invalid_arguments", "command"),
    ({"timeout": -1}, "invalid_arguments", "timeout"),
    ({"name": "x" * 129}, "invalid_arguments", "name"),
    ({"env": {"A=B": "C"}}, "invalid_arguments", "env[A]"),
    ({"output_limit": 0}, "invalid_arguments", "output_limit"),
    ({"resources": Resources(umask=0o1000)}, "invalid_request", "resources"),
    ({"pty": Size(rows=0)}, "invalid_request", "pty"),
    ({"command": "x" * bounds.MAX_LINE_BYTES}, "line_too_long", None),
]


async def test_a_wrong_start_names_its_field(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        for options, code, field in WRONG:
            given: dict[str, Any] = {"command": "true", **options}
            with pytest.raises(RequestError) as caught:
                await client.start(**given)
            assert (caught.value.code, caught.value.field) == (code, field)
        assert await client.list() == []


async def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    async with served(tmp_path, limits=Limits(running_per_loop=1)), connect(tmp_path) as client:
        with pytest.raises(RequestError) as caught:
            await client.start(["no-such-program"])
        error = caught.value
        assert (error.code, error.kind, error.errno) == ("spawn_failed", "not_found", 2)
        assert error.handle is not None
        assert (await client.get(error.handle)).state == "failed"
        await client.start(SLEEP)
        with pytest.raises(RequestError) as caught:
            await client.start(SLEEP)
        assert caught.value.code == "process_quota_exceeded"


async def test_output_is_read_from_any_cursor_and_waited_for(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        await client.start("printf abc; read -r go <go; printf de", name="job", cwd=_with_fifo(tmp_path))
        assert (await client.read("job", wait=True)).data == b"abc"
        early = await client.read("job", 3)
        assert (early.data, early.ended, early.next_cursor) == (b"", False, 3)
        later: list[bytes] = []
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                later.append((await client.read("job", 3, wait=True)).data)

            tasks.start_soon(wait)
            (tmp_path / "work" / "go").write_text("\n")
        assert later == [b"de"]
        assert (await client.read("job", 1, 2)).data == b"bc"
        end = await client.read("job", 5, wait=True)
        assert (end.data, end.ended) == (b"", True)
        for cursor, size, field in ((9, 1, None), (0, 0, "max_bytes"), (0, bounds.MAX_CHUNK_BYTES + 1, "max_bytes")):
            with pytest.raises(RequestError) as caught:
                await client.read("job", cursor, size)
            assert caught.value.field == field


def _with_fifo(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    os.mkfifo(folder / "go")
    return folder


async def test_a_character_is_not_split_while_its_rest_may_come(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        await client.start(r"printf '\303'; read -r go <go; printf '\251'", name="job", cwd=_with_fifo(tmp_path))
        await asked_until(lambda: client.read("job"), lambda chunk: chunk.total == 1)
        seen: list[bytes] = []
        async with anyio.create_task_group() as tasks:

            async def follow() -> None:
                seen.extend([chunk.data async for chunk in client.follow("job")])

            tasks.start_soon(follow)
            (tmp_path / "work" / "go").write_text("\n")
        assert seen == ["\u00e9".encode()]


async def test_waiting_is_for_all_or_for_any_and_has_an_end(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        long = await client.start(SLEEP, name="long")
        short = await client.start("exit 1", name="short")
        both = [long.handle, short.handle]
        first = await client.wait(both, any=True)
        assert [each.state for each in first.processes] == ["running", "exited"]
        assert not first.timed_out
        assert (await client.wait(both, timeout=0.01)).timed_out
        assert (await client.wait(["long"], any=True, timeout=0)).timed_out
        assert not (await client.wait(["short"], timeout=0)).timed_out
        assert not (await client.wait([], timeout=0)).timed_out
        with pytest.raises(RequestError, match="timeout"):
            await client.wait(both, timeout=-1)
        with pytest.raises(RequestError, match="not_found"):
            await client.wait(["long", "nobody"])


async def test_a_stop_has_its_mode_and_its_grace(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        modes: dict[Mode, str] = {"terminate": "terminated", "kill": "killed", "interrupt": "interrupted"}
        for mode, state in modes.items():
            process = await client.start(SLEEP)
            await client.read(process.handle, wait=True)
            stopped = await client.stop(process.handle, mode)
            assert (stopped.process.state, stopped.running) == (state, False)
        deaf = await client.start("trap '' INT TERM; echo on; while :; do sleep 0.02; done")
        await client.read(deaf.handle, wait=True)
        assert (await client.stop(deaf.handle, "interrupt", grace=0.05)).running
        assert (await client.stop(deaf.handle, grace=0.05)).process.state == "killed"
        with pytest.raises(RequestError, match="grace"):
            await client.stop(deaf.handle, grace=-1)


async def test_events_are_replayed_and_followed_from_any_sequence(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        job = await client.start("true")
        await client.wait([job.handle])
        seen: list[str] = []
        async with anyio.create_task_group() as tasks:

            async def follow() -> None:
                async for event in client.events(follow=True):
                    assert event.event is not None
                    seen.append(event.event["type"])
                    if len(seen) == 3:
                        return

            tasks.start_soon(follow)
            await until(lambda: len(seen) == 2)
            await client.start("true", background=True)
        assert seen == ["ProcessStarted", "ProcessCompleted", "ProcessBackgrounded"]

        async def replay() -> list[EventInfo]:
            return [event async for event in client.events()]

        replayed = await asked_until(replay, lambda known: len(known) == 4)  # the second one has ended, too
        assert replayed[0].seq < replayed[1].seq < replayed[2].seq
        assert [event.seq async for event in client.events(replayed[0].seq)] == [each.seq for each in replayed[1:]]
        with pytest.raises(RequestError, match="after"):
            await anext(client.events(-1))


async def test_nothing_is_acknowledged_but_what_a_client_acknowledges(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        jobs = [await client.start("true", name=name) for name in ("one", "two", "three")]
        await client.wait([job.handle for job in jobs])
        await until_told(client, 3)
        settled = await client.acknowledge(["two", jobs[0].handle[:20]])
        assert settled.acknowledged == 2
        assert set(settled.handles) == {jobs[0].handle, jobs[1].handle}
        assert (await client.acknowledge(["two"])).acknowledged == 0
        with pytest.raises(RequestError, match="not_found"):
            await client.acknowledge(["nobody"])
    async with served(tmp_path), connect(tmp_path) as client:
        assert [each.process_handle for each in await client.pending()] == [jobs[2].handle]
        assert (await client.acknowledge(all=True)).handles == (jobs[2].handle,)
        assert await client.pending() == []


async def until_told(client: Client, count: int) -> None:
    """Until so many last words are in the journal."""
    await asked_until(client.pending, lambda known: sum(each.status == "unacknowledged" for each in known) >= count)


async def test_the_notice_of_an_evicted_process_is_still_acknowledged_by_its_handle(tmp_path: Path) -> None:
    async with served(tmp_path, limits=Limits(retained_completed=1)), connect(tmp_path) as client:
        first, second = await client.start("true"), await client.start("true")
        await client.wait([second.handle])
        await until_told(client, 2)
        (known,) = await asked_until(client.list, lambda listed: len(listed) == 1)
        (gone,) = {first.handle, second.handle} - {known.handle}
        assert (await client.acknowledge([gone[:16]])).handles == (gone,)


async def test_what_is_many_comes_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lastword.adapters.serve._service.PAGE_ITEMS", 2)
    async with served(tmp_path), connect(tmp_path) as client:
        jobs = [await client.start("true") for _ in range(5)]
        await client.wait([job.handle for job in jobs])
        await until_told(client, 5)
        assert [each.handle for each in await client.list()] == [job.handle for job in jobs]
        assert {each.process_handle for each in await client.pending()} == {job.handle for job in jobs}
        assert len([event async for event in client.events()]) == 10
        settled = await client.acknowledge(all=True)
        assert (settled.acknowledged, len(settled.handles)) == (5, 2)


async def test_a_word_that_may_mean_two_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        one, two = await client.start(SLEEP, name="web"), await client.start(SLEEP, name="web")
        with pytest.raises(RequestError) as caught:
            await client.stop("web")
        assert caught.value.code == "ambiguous"
        await client.stop(one.handle)
        assert (await client.get("web")).handle == two.handle


async def test_input_goes_to_a_pipe_and_to_its_end(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        await client.start(["cat"], stdin="pipe", name="cat")
        await client.send_input("cat", b"one ")
        await client.send_input("cat", b"two", key="Enter")
        await client.send_input("cat", bytes(bounds.MAX_CHUNK_BYTES), eof=True)
        assert await output(client, "cat") == b"one two\r" + bytes(bounds.MAX_CHUNK_BYTES)
        with pytest.raises(RequestError) as caught:
            await client.send_input("cat", b"x")
        assert caught.value.code == "stdin_closed"
        full = await client.start("exec sleep 60", stdin="pipe")
        with pytest.raises(RequestError) as caught:
            for _ in range(16):
                await client.send_input(full.handle, bytes(bounds.MAX_CHUNK_BYTES))
        assert caught.value.code == "input_backpressure"
        with pytest.raises(RequestError) as caught:
            await client.start("true", stdin=b"", env={}, name="x" * 200)
        assert caught.value.field == "name"


# It looks up at times: Python sees no signal that comes just before a read, and cannot print in a handler for sure.
TERMINAL = """
import os, select, signal

signal.signal(signal.SIGINT, signal.SIG_DFL)
shown = None
while True:
    if (size := os.get_terminal_size(0)) != shown:
        shown = size
        print(f"{size.lines}x{size.columns}", flush=True)
    if select.select([0], [], [], 0.01)[0]:
        print(f"<{input()}>", flush=True)
"""


async def test_a_terminal_is_typed_into_and_resized(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        await client.start([sys.executable, "-c", TERMINAL], pty=Size(rows=30, cols=100), name="tty")

        async def said(expected: bytes) -> None:
            await asked_until(lambda: client.read("tty"), lambda chunk: expected in chunk.data or chunk.ended)
            assert expected in (await client.read("tty")).data

        await said(b"30x100")
        await client.resize("tty", 40, 120)
        await said(b"40x120")
        await client.send_input("tty", b"hello", key="Enter")
        await said(b"<hello>")
        await client.send_input("tty", key="C-c")
        outcome = (await client.wait(["tty"])).processes[0].outcome
        assert outcome is not None
        assert outcome.signal == 2


async def test_streams_that_are_split_are_read_one_by_one(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        await client.start(
            "echo out; echo err >&2; read -r _; echo more >&2", stdin="pipe", split_streams=True, name="j"
        )
        assert (await client.read("j", streams="stderr", wait=True)).data == b"err\n"
        seen: list[bytes] = []
        async with anyio.create_task_group() as tasks:

            async def follow() -> None:
                seen.extend([chunk.data async for chunk in client.follow("j", streams="stdout")])

            tasks.start_soon(follow)
            await until(lambda: seen == [] or seen == [b"out\n"])
            await client.send_input("j", b"\n", eof=True)
        assert seen == [b"out\n"]
        assert [chunk.data async for chunk in client.follow("j", streams="stderr")] == [b"err\nmore\n"]


async def test_a_stream_of_which_nothing_is_kept_has_an_end(tmp_path: Path) -> None:
    """The other one has reached the limit; of what is missing behind that nobody knows whose it was."""
    async with served(tmp_path), connect(tmp_path) as client:
        await client.start("exec yes", split_streams=True, output_limit=65536, on_output_limit="stop", name="j")
        chunks = [chunk async for chunk in client.follow("j", streams="stderr")]
        assert {chunk.data for chunk in chunks} <= {b""}
        read = await client.read("j", 0, streams="stderr", wait=True)
        assert (read.data, read.next_cursor, read.ended) == (b"", 65536, False)
        read = await client.read("j", read.next_cursor, streams="stderr", wait=True)
        assert (read.data, read.omitted, read.ended) == (b"", (65536, read.total), True)


async def test_input_of_a_process_that_takes_none_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path), connect(tmp_path) as client:
        job = await client.start(SLEEP)
        with pytest.raises(RequestError) as caught:
            await client.send_input(job.handle, b"x")
        assert caught.value.code == "stdin_closed"
        with pytest.raises(RequestError) as caught:
            await client.send_input(job.handle, key="Anykey")
        assert caught.value.field == "key"
        with pytest.raises(RequestError) as caught:
            await client.send_input(job.handle, bytes(bounds.MAX_CHUNK_BYTES + 1))
        assert caught.value.field == "data"
        with pytest.raises(RequestError) as caught:
            await client.resize(job.handle, 1, 1)
        assert caught.value.code == "pty_unavailable"


async def test_status_tells_what_is_there(tmp_path: Path) -> None:
    async with served(tmp_path, idle_seconds=3600), connect(tmp_path) as client, connect(tmp_path) as other:
        await other.ping()
        await client.start(SLEEP)
        status = await client.status()
        assert (status.connections, status.running, status.idle_seconds) == (2, 1, 3600)
        assert status.session_id == client.session_id == other.session_id


async def test_a_shutdown_spares_what_runs_unless_it_is_told_not_to(tmp_path: Path) -> None:
    async with served(tmp_path) as ended, connect(tmp_path) as client:
        job = await client.start(SLEEP)
        with pytest.raises(RequestError) as caught:
            await client.shutdown()
        assert caught.value.code == "busy"
        await client.shutdown(stop_running=True)
        await client.closed()
        await ended.wait()
        with pytest.raises(ConnectionLostError):
            await client.ping()
        with pytest.raises(NotServedError):
            await connect(tmp_path).__aenter__()
    async with served(tmp_path), connect(tmp_path) as client:
        outcome = (await client.get(job.handle)).outcome
        assert outcome is not None
        assert (outcome.state, outcome.reason) == ("terminated", "runner_shutdown")
