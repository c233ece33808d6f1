"""Where a foreground job is kept, while others hold the directory."""

from __future__ import annotations

import signal
import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from cli_ground import Ground

from lastword.adapters.cli import _foreground, _job_start, _logs_follow, _served
from lastword.adapters.cli._errors import CommandFailedError
from lastword.adapters.cli._following import connected
from lastword.adapters.cli._input import pump_input
from lastword.adapters.cli._job_here import JobHere
from lastword.adapters.cli._job_served import JobServed
from lastword.adapters.cli._logs import Printer
from lastword.adapters.cli._logs_follow import follow_output
from lastword.adapters.cli._order import order_of
from lastword.adapters.cli._pending import ask_for_pending
from lastword.adapters.cli._served import ask_server
from lastword.adapters.serve import Client, ConnectionLostError, NotServedError, _calls, connect, serve
from lastword.adapters.serve import _address as address
from lastword.adapters.serve._turn import turn_of
from lastword.notifier import JournalUnavailableError, SystemClock
from lastword.supervisor import hold_directory, view_directory

ORDER = order_of(
    ("sh", "-c", "exit 6"),
    name="",
    cwd=None,
    env=(),
    timeout=None,
    survivors="stop",
    tty=False,
    size=(24, 80),
    stdin=None,
)


@pytest.mark.parametrize("lets_go", [True, False])
async def test_a_holder_that_lets_go_in_a_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lets_go: bool
) -> None:
    tried = anyio.Event()
    enter = _job_start.enter_job

    async def noted(*arguments: Any, **options: Any) -> Any:
        try:
            return await enter(*arguments, **options)
        finally:
            tried.set()

    monkeypatch.setattr(_job_start, "enter_job", noted)
    ends: list[int | None] = []
    refused: list[str] = []

    async def run() -> None:
        try:
            async with _job_start.start_job(tmp_path / "state", ORDER, None, split=False) as job:
                ends.append((await job.wait()).shell_code)
        except CommandFailedError as error:
            refused.append(error.message)

    with anyio.fail_after(90), ExitStack() as held:
        held.enter_context(hold_directory(tmp_path / "state", session_id=None, new_id=uuid4))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await tried.wait()
            if lets_go:
                held.close()
    assert (ends, len(refused)) == (([6], 0) if lets_go else ([], 1))


async def test_a_notice_that_cannot_be_acknowledged_does_not_hide_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def fail(_: JobHere) -> None:
        raise JournalUnavailableError("the disk is full")

    monkeypatch.setattr(JobHere, "settle", fail)
    with anyio.fail_after(90):
        foreground = _foreground._Foreground(ORDER, tmp_path / "state", None, quiet=False)  # pyright: ignore[reportPrivateUsage]
        assert await foreground.run() == 6
    assert capfd.readouterr().err == "lastword: its notice stays pending (the disk is full)\n"
    (waiting,) = await anyio.to_thread.run_sync(ask_for_pending, tmp_path / "state")
    assert waiting.status == "unacknowledged"


async def test_input_that_a_server_takes_no_more_is_told_and_nothing_is_said_to_whoever_gave_it(tmp_path: Path) -> None:
    ready = anyio.Event()

    async def keep() -> None:
        await serve(tmp_path / "state", ready=ready.set)

    ours, theirs = socket.socketpair()
    with ours, theirs, anyio.fail_after(90):
        theirs.send(b"data")
        theirs.setblocking(False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep)
            await ready.wait()
            async with connect(tmp_path / "state") as client:
                job = JobServed(client, (await client.start(["cat"], stdin="pipe")).handle)
                await client.shutdown(stop_running=True)
                await client.closed()
                with pytest.raises(ConnectionLostError):
                    await pump_input(ours.fileno(), job)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


async def test_beside_another_users_server_the_files_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root looks into an agent's directory."""
    ready = anyio.Event()

    async def keep() -> None:
        await serve(tmp_path / "state", ready=ready.set)

    with anyio.fail_after(90):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep)
            await ready.wait()
            async with connect(tmp_path / "state") as client:
                handle = (await client.start(["true"])).handle
                await client.wait([handle])
                while not await client.pending() or (await client.status()).undelivered:
                    await client.ping()

            def others_uid(_: socket.socket) -> int:
                return -1

            monkeypatch.setattr(address, "peer_uid", others_uid)
            async with connected(tmp_path / "state") as nobody:
                assert nobody is None
            (waiting,) = await anyio.to_thread.run_sync(ask_for_pending, tmp_path / "state")
            assert (waiting.process_handle, waiting.status) == (handle, "unacknowledged")
            tasks.cancel_scope.cancel()


async def test_who_follows_a_server_that_gets_stuck_is_told(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_logs_follow, "END_SECONDS", 0.1)
    began = anyio.Event()
    lost: list[str] = []

    def write(data: bytes) -> None:
        if data:
            monkeypatch.setattr(_calls, "_PATIENCE_SECONDS", 0.5)  # of the next call, which waits for ever
            began.set()

    async def follow() -> None:
        (process,) = view_directory(ground.state).processes
        printer = Printer(raw=True, as_json=False, write=write)
        with pytest.raises(ConnectionLostError) as caught:
            await follow_output(ground.state, process, 0, printer)
        lost.append(caught.value.why)

    with ground.start("serve") as server, anyio.fail_after(90):
        try:
            assert server.stderr is not None
            await anyio.to_thread.run_sync(server.stderr.readline)
            async with connect(ground.state) as client:
                await client.start("echo begun; exec sleep 600", background=True)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                await began.wait()
                server.send_signal(signal.SIGSTOP)
        finally:
            server.kill()
    assert lost == ["the server does not answer"]


async def test_a_server_that_is_about_to_let_go_is_no_program_that_does_not_serve(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = anyio.Event()
    take_turn = _served._take_turn  # pyright: ignore[reportPrivateUsage]  # it is called once nobody was found

    async def noted(state: Path) -> None:
        told.set()
        await take_turn(state)

    monkeypatch.setattr(_served, "_take_turn", noted)
    told = threading.Event()

    async def ask(client: Client) -> None:
        await client.ping()

    async def hear() -> None:
        await anyio.to_thread.run_sync(told.wait, 10, abandon_on_cancel=True)
        asked.set()

    def question() -> None:
        with pytest.raises(NotServedError):
            ask_server(ground.state, ask)

    with anyio.fail_after(90), ExitStack() as held:
        held.enter_context(hold_directory(ground.state, session_id=None, new_id=uuid4))
        with turn_of(ground.state, SystemClock()) as turn:
            await turn.take()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, question)
                tasks.start_soon(hear)
                await asked.wait()
                held.close()
                turn.release()
