"""A real server over its real stdin and stdout: what it says, what it survives, and how it ends."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import anyio
import psutil
import pytest
from cases_ground import gone, running
from mcp import MCPError
from mcp_ground import (
    GENERATIONS,
    Result,
    background,
    call,
    ended,
    over_stdio,
    own_state,
    raw,
    request,
    server_command,
    server_environment,
    telling,
    told,
)
from supervising import HANG_SECONDS, until

import lastword
from lastword.adapters.mcp._lines import MAX_LINE_BYTES
from lastword.session.journal import SqliteJournal
from lastword.supervisor import view_directory


@pytest.fixture
def other_backend(anyio_backend_name: str) -> str:
    """Client and server need not run on the same one."""
    return "trio" if anyio_backend_name == "asyncio" else "asyncio"


@pytest.fixture
def mark() -> str:
    """What the command lines of a test's jobs have, and no other."""
    return f"mcp-{uuid4()}"


def sleeper(mark: str) -> str:
    """A job that runs for ever, and is to be found by its mark."""
    return f"'{sys.executable}' -c 'import time; time.sleep(300)' {mark}"


def stubborn(mark: str) -> str:
    """One that has children out of its group, and none of them hears what it is asked."""
    return f"trap '' TERM INT HUP; setsid {sleeper(mark)} & {sleeper(mark)} & {sleeper(mark)}"


async def last_words(state: Path) -> dict[str, str]:
    """Of a directory that nobody has any more: whose end is not acknowledged, and why it ended."""
    with anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(state) as runtime:
            await runtime.supervisor.outbox.wait_empty()
            words: dict[str, str] = {}
            for _ in await runtime.pending():
                said = (await runtime.loop.receive()).notification
                words[said.process_handle] = said.reason.name
            return words


# --- the end


async def test_when_the_client_leaves_no_process_is_left_and_every_last_word_is_journaled(
    tmp_path: Path, anyio_backend_name: str, mark: str
) -> None:
    async with over_stdio(tmp_path, anyio_backend_name) as client:
        command = f"setsid {sleeper(mark)} & {sleeper(mark)} & exec {sleeper(mark)}"
        handles = [await background(client, command) for _ in range(2)]
        await until(lambda: len(running(mark)) >= 6)
    assert running(mark) == []
    assert await last_words(own_state(tmp_path)) == dict.fromkeys(handles, "RUNNER_SHUTDOWN")


@pytest.mark.prove
async def test_jobs_that_hear_nothing_are_ended_within_the_clients_patience(
    tmp_path: Path, anyio_backend_name: str, mark: str
) -> None:
    # The SDK's client waits two seconds, and two after SIGTERM; then it kills.
    async with over_stdio(tmp_path, anyio_backend_name, patience=2.0) as client:
        handle = await background(client, stubborn(mark))
        await until(lambda: len(running(mark)) >= 4)
    assert running(mark) == []
    assert await last_words(own_state(tmp_path)) == {handle: "RUNNER_SHUTDOWN"}


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGTERM, id="SIGTERM"),
        pytest.param(signal.SIGINT, id="SIGINT", marks=pytest.mark.prove),
        pytest.param(signal.SIGHUP, id="SIGHUP", marks=pytest.mark.prove),
    ],
)
async def test_a_signal_ends_it_as_the_clients_leaving_does_and_a_second_one_changes_nothing(
    tmp_path: Path, other_backend: str, mark: str, number: signal.Signals
) -> None:
    async with raw(tmp_path, other_backend, "--state", tmp_path / "state") as server:
        await server.hello()
        handle = (await server.call(1, "Bash", command=stubborn(mark), background=True))["process_id"]
        await server.send(request(2, "tools/call", name="Bash", arguments={"command": f"exec {sleeper(mark)}"}))
        while [each["status"] for each in (await server.call(3, "ProcessList"))["processes"]] != ["running"] * 2:
            pass
        await until(lambda: len(running(mark)) >= 5)
        server.process.send_signal(number)
        assert (await server.receive(2))["error"]["message"] == "Connection closed"
        with suppress(ProcessLookupError):  # it takes a second, unless this is slower
            server.process.send_signal(number)
        assert await server.rest() == []
        assert await server.process.wait() == 0
    assert running(mark) == []
    words = await last_words(tmp_path / "state")
    assert len(words) == 2
    assert set(words.values()) == {"RUNNER_SHUTDOWN"}
    assert handle in words


async def test_killed_and_started_again_it_tells_what_the_client_had_not_confirmed(
    tmp_path: Path, anyio_backend_name: str, other_backend: str, mark: str
) -> None:
    async with over_stdio(tmp_path, other_backend) as client:
        known = await telling(client, await call(client, "Bash", command="exit 6"))
        quick = await background(client, "exit 7", notices_cursor=known["notices_cursor"])
        first = await telling(client, await ended(client, quick))
        assert told(first) == [quick]
        slow = await background(client, f"exec {sleeper(mark)}")
        await until(lambda: bool(running(mark)))
        (server,) = {each.pid for each in psutil.Process().children()}.intersection(running("lastword\0mcp"))
        os.kill(server, signal.SIGKILL)
        with pytest.raises(MCPError, match="Connection closed"):
            await call(client, "ProcessList")
        await gone(mark)
    async with over_stdio(tmp_path, anyio_backend_name) as client:
        again = await telling(client, await call(client, "ProcessList"), 2)
        assert told(again) == [quick, slow]
        assert [(each["status"], each["exit_code"]) for each in again["notices"]] == [
            ("exited", 7),
            ("lost_on_restore", None),
        ]
        # What the first life gave out is a receipt in the second one, too.
        rest = await call(client, "ProcessList", notices_cursor=first["notices_cursor"])
        assert told(rest) == [slow]
        assert told(await call(client, "ProcessList", notices_cursor=rest["notices_cursor"])) == []


@pytest.mark.prove
async def test_a_client_that_reads_nothing_and_leaves_is_waited_for_by_nobody(
    tmp_path: Path, other_backend: str, mark: str
) -> None:
    async with raw(tmp_path, other_backend, "--state", tmp_path / "state") as server:
        await server.hello()
        await server.call(0, "Bash", command=f"exec {sleeper(mark)}", background=True)
        for who in range(1, 200):  # each answer has tools/list, some kilobytes: more than a pipe holds
            await server.send(request(who, "tools/list"))
        assert await server.left() == 0
        assert running(mark) == []


@pytest.mark.prove
async def test_where_nobody_reads_any_more_it_ends_though_its_stdin_is_open(
    tmp_path: Path, other_backend: str, mark: str
) -> None:
    own = shlex.join(server_command(other_backend, "--state", tmp_path / "state"))
    # Two answers are read, and no more.
    script = f"{{ {own}; echo $? > code; }} | {{ head -n 2 > heard; exec <&-; : > left; }}"
    async with raw(tmp_path, other_backend, command=["/bin/sh", "-c", script]) as server:
        await server.say_hello()
        job = {"command": f"exec {sleeper(mark)}", "background": True}
        await server.send(request(1, "tools/call", name="Bash", arguments=job))
        await until(lambda: bool(running(mark)) and (tmp_path / "left").exists())
        await server.send(request(2, "ping"))
        assert await server.process.wait() == 0
    assert (tmp_path / "code").read_text() == "0\n"
    assert running(mark) == []


# --- what is on the wire

NOISE = """
import os, sys, threading, time

class Noisy:
    def find_spec(self, name, path=None, target=None):
        if name == "mcp":
            sys.meta_path.remove(self)
            print("noise of an import", flush=True)
            threading.Thread(target=make).start()

def make():
    while threading.main_thread().is_alive():  # a thread that writes while Python ends may be the end of it
        print("noise of a thread", flush=True)
        os.write(1, b"noise on the descriptor\\n")
        time.sleep(0.002)

sys.meta_path.insert(0, Noisy())
"""


async def test_on_stdout_there_is_the_protocol_and_nothing_else(tmp_path: Path, other_backend: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(NOISE)
    path = server_environment(tmp_path)["PYTHONPATH"]
    async with raw(tmp_path, other_backend, env={"PYTHONPATH": f"{tmp_path}:{path}"}) as server:
        await server.hello()
        result = await server.call(1, "Bash", command=f"echo noise of a job >> /proc/{server.process.pid}/fd/1; cat")
        assert (result["status"], result["exit_code"]) == ("exited", 0)
        await server.send(request(2, "ping"))
        assert (await server.receive(2))["result"] == {}
        assert Path(f"/proc/{server.process.pid}/fd/0").readlink() == Path("/dev/null")
        await server.stdin.aclose()
        assert await server.rest() == []  # each line until here was a message
        assert await server.process.wait() == 0
    said = (tmp_path / "stderr").read_text()
    for noise in ("of an import", "of a thread", "on the descriptor", "of a job"):
        assert f"noise {noise}" in said


NESTED = b"[" * 5000 + b"]" * 5000

# What is sent, and what is answered: the error's id and code, or nothing.
HOSTILE: list[tuple[bytes, tuple[object, int] | None]] = [
    (b"", None),
    (b"\r", None),
    (b"garbage", (None, -32700)),
    (b'{"jsonrpc": "2.0", "id": 1', (None, -32700)),
    (b"\xff\xfe\x00", (None, -32700)),
    (b"[" * 100_000, (None, -32700)),
    (
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": ' + b"[" * 5000 + b"]" * 5000 + b"}}",
        (None, -32700),
    ),
    (b'{"jsonrpc": "2.0", "id": ' + b"9" * 6000 + b', "method": "ping"}', (None, -32700)),
    (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', (None, -32700)),
    (b"7", (None, -32600)),
    (b"[]", (None, -32600)),
    (json.dumps([request(1, "ping")]).encode(), (None, -32600)),
    (json.dumps(request("bad", 7)).encode(), ("bad", -32600)),  # type: ignore[arg-type]  # the point
    (b'{"jsonrpc": "1.0", "id": 70, "method": "ping"}', (70, -32600)),
    (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None),  # to the SDK a notification
    (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', None),
    (b'{"jsonrpc": "2.0", "id": 71, "method": "ping", "params": 7}', (71, -32600)),
    (json.dumps(request(72, "no/such/method")).encode(), (72, -32601)),
    (json.dumps(request(73, "tools/call", name="Bash", arguments="rm")).encode(), (73, -32602)),
    (json.dumps(request(74, "tools/call")).encode(), (74, -32602)),
    (json.dumps(request(75, "resources/read", uri=["x"])).encode(), (75, -32602)),
    (b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 999}}', None),
    (b'{"jsonrpc": "2.0", "method": "notifications/no/such"}', None),
    (b'{"jsonrpc": "2.0", "id": 998, "result": {}}', None),
    (b"x" * (MAX_LINE_BYTES + 1), (None, -32600)),
]


# Before the client has introduced itself: nobody is answered, and nobody is waited for.
EARLY: list[Result | bytes] = [
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "hello"}},
    {"jsonrpc": "2.0", "id": 997, "result": {}},
    *[{"jsonrpc": "2.0", "method": "notifications/no/such"}] * 20,
    b"garbage",
]


async def test_no_line_kills_it(tmp_path: Path, other_backend: str) -> None:
    async with raw(tmp_path, other_backend, "--state", tmp_path / "state") as server:
        await server.send(*EARLY)
        assert (await server.receive(None))["error"]["code"] == -32700
        await server.hello()
        for line, answer in HOSTILE:
            await server.send(line)
            if answer is not None:
                who, code = answer
                got: Result = await server.receive(who)  # type: ignore[arg-type]  # an id, or None
                assert got["error"]["code"] == code, (line[:80], got)
        result = await server.call("last", "Bash", command="echo alive")
        assert result["output"] == "alive\n"
        await server.stdin.aclose()
        assert await server.rest() == []
        assert await server.process.wait() == 0
    assert "Traceback" not in (tmp_path / "stderr").read_text()


@pytest.mark.prove
async def test_a_cancelled_request_is_not_answered_and_its_process_goes_on(tmp_path: Path, other_backend: str) -> None:
    async with raw(tmp_path, other_backend, "--state", tmp_path / "state") as server:
        await server.hello()
        command = f"touch '{tmp_path}/up'; until [ -e '{tmp_path}/gate' ]; do sleep 0.01; done; echo done"
        await server.send(request("call", "tools/call", name="Bash", arguments={"command": command}))
        await until((tmp_path / "up").exists)
        # What it does can be seen before the server knows that it runs; a start that is cancelled is taken back.
        while [each["status"] for each in (await server.call(0, "ProcessList"))["processes"]] != ["running"]:
            pass
        await server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "call"}})
        (process,) = (await server.call(1, "ProcessList"))["processes"]
        assert process["status"] == "running"
        (tmp_path / "gate").touch()
        handle = process["process_id"]
        result = await server.call(2, "ProcessOutput", process_id=handle, wait="any", until="end")
        assert (result["exit_code"], result["output"], told(result)) == (0, "done\n", [handle])
        await server.stdin.aclose()
        assert await server.rest() == []


# --- what it refuses


HELD = "another server has this client's state directory; end it, or give this one a directory of its own with --state"


async def test_where_another_server_has_the_directory_the_client_is_told_so(tmp_path: Path, other_backend: str) -> None:
    async with (
        lastword.open_runtime(tmp_path / "state"),
        raw(tmp_path, other_backend, "--state", tmp_path / "state") as server,
    ):
        await server.say_hello()
        assert (await server.receive("hello"))["error"]["message"] == HELD
        assert await server.process.wait() == 1
    assert (tmp_path / "stderr").read_text() == f"lastword: {HELD}\n"


@pytest.mark.prove
async def test_the_sdks_client_is_told_so_too_by_whichever_generation_it_asks(
    tmp_path: Path, other_backend: str
) -> None:
    async with lastword.open_runtime(tmp_path / "state"):
        for generation in GENERATIONS:
            with pytest.RaisesGroup(pytest.RaisesExc(MCPError, match=HELD), flatten_subgroups=True):
                async with over_stdio(tmp_path, other_backend, "--state", tmp_path / "state", generation=generation):
                    pytest.fail("it is connected")


TAKEN = (
    "another process has taken this server's state directory, so this server has ended, and its jobs with it; end that "
    "process or give this server a directory of its own with --state, and start it again"
)


async def test_where_its_session_is_taken_by_another_the_client_is_told_so_and_what_to_do(
    tmp_path: Path, other_backend: str
) -> None:
    """As a second host does that has found the directory's lock free: on a file system that loses it."""
    state = tmp_path / "state"
    async with raw(tmp_path, other_backend, "--state", state) as server:
        await server.hello()
        other = SqliteJournal(state / "journal.db")
        other.open(view_directory(state).session_id)
        other.close()
        await server.send(request(1, "tools/call", name="Bash", arguments={"command": "exec sleep 300"}))
        (heard,) = await server.rest()
        assert (heard["id"], heard["error"]["message"]) == (1, TAKEN)
        assert await server.process.wait() == 1
    *_, why = (tmp_path / "stderr").read_text().splitlines()
    assert why == f"lastword: {TAKEN}"


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mcp'] = None; from lastword.adapters.cli import main; main(['mcp'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("lastword: this command needs an extra: pip install 'lastword[cli,mcp]'")


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_without_a_wire_it_says_so(tmp_path: Path, closed: str) -> None:
    command = f"'{sys.executable}' -m lastword mcp {closed}"
    done = subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "lastword: stdin or stdout is closed; a client speaks to this command over them\n"


@pytest.mark.prove
async def test_a_wire_that_cannot_be_waited_for_is_read_and_written_all_the_same(
    tmp_path: Path, other_backend: str
) -> None:
    own = shlex.join(server_command(other_backend, "--state", tmp_path / "state"))
    async with raw(tmp_path, other_backend, command=["/bin/sh", "-c", f"exec {own} > heard"]) as server:
        await server.send(request(1, "ping"))
        await until(lambda: (tmp_path / "heard").exists() and (tmp_path / "heard").read_bytes().endswith(b"\n"))
        assert await server.left() == 0
    assert json.loads((tmp_path / "heard").read_text()) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    async with raw(tmp_path, other_backend, command=["/bin/sh", "-c", f"exec {own} < heard"]) as server:
        assert await server.process.wait() == 0
    assert (tmp_path / "stderr").read_text() == ""
