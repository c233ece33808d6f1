"""A server as a process of its own: started where none is, once, detached; gone when nobody needs it."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio.abc import Process
from serve_ground import daemon_of, daemons_of, served, socket_of
from supervising import alive, nothing_left, until

import lastword
import lastword.adapters.serve._starting as starting
from lastword.adapters.serve import (
    ConnectionLostError,
    NotServedError,
    ServeStartError,
    connect,
    connect_or_start,
)
from lastword.adapters.serve._daemon import LOG_BYTES
from lastword.adapters.serve._service import Service
from lastword.adapters.testing import ManualClock
from lastword.notifier import PendingDelivery, new_uuid7
from lastword.supervisor import Supervisor


async def test_it_is_started_where_there_is_none_and_lives_on_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "state"
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        async with daemons_of(directory):
            with nothing_left():
                async with connect_or_start("state", idle_seconds=3600) as client:
                    job = await client.start("echo on; exec sleep 60", name="job", background=True)
                    await client.read("job", wait=True)
            daemon = await daemon_of(directory)
            assert daemon.ppid() != os.getpid()
            assert daemon.cwd() == "/"
            assert os.getsid(daemon.pid) not in {os.getsid(0), daemon.pid}
            assert daemon.terminal() is None
            assert "hunter2" not in str(daemon.environ())
            pipe = str(Path(f"/proc/self/fd/{read}").readlink())
            held: set[str] = set()
            for link in Path(f"/proc/{daemon.pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # it has closed that one meanwhile
                    held.add(str(link.readlink()))
            assert held
            assert pipe not in held
            before = os.umask(0o051)  # another one than that in which the server was started
            try:
                async with connect(directory) as client:
                    await client.start("umask", name="umask")
                    assert (await client.read("umask", wait=True)).data == b"0051\n"
            finally:
                os.umask(before)
            async with connect_or_start(directory) as client:
                assert (await client.get("job")).state == "running"
                assert (await client.status()).idle_seconds == 3600
            assert (await daemon_of(directory)).pid == daemon.pid
            assert job.backgrounded
    finally:
        os.close(read)
        os.close(write)


async def test_of_starters_at_the_same_time_one_server_is_left(tmp_path: Path) -> None:
    async with daemons_of(tmp_path):
        sessions: list[object] = []

        async def start() -> None:
            async with connect_or_start(tmp_path) as client:
                await client.start("true")
                sessions.append(client.session_id)

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(start)
        assert len(sessions) == 4
        assert len(set(sessions)) == 1
        await daemon_of(tmp_path)
        async with connect(tmp_path) as client:
            assert len(await client.list()) == 4


async def test_one_that_is_about_to_end_is_waited_for(tmp_path: Path) -> None:
    async with daemons_of(tmp_path):
        async with connect_or_start(tmp_path) as client:
            # It takes its time to end, as its job does: longer than two starts.
            job = await client.start("trap 'sleep 1.5; exit' TERM; echo on; while :; do sleep 0.01; done", name="slow")
            await client.read(job.handle, wait=True)
            await client.shutdown(stop_running=True)
            await client.closed()
            with pytest.raises(NotServedError):
                await connect(tmp_path).__aenter__()
        async with connect_or_start(tmp_path) as client:
            outcome = (await client.get("slow")).outcome
            assert outcome is not None
            assert outcome.reason == "runner_shutdown"


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.prove),
        pytest.param(signal.SIGHUP, marks=pytest.mark.prove),
    ],
)
async def test_a_signal_ends_it_and_every_last_word_is_kept(tmp_path: Path, number: signal.Signals) -> None:
    async with daemons_of(tmp_path):
        async with connect_or_start(tmp_path) as client:
            job = await client.start("echo $$; exec sleep 60")
            pid = int((await client.read(job.handle, wait=True)).data)
            daemon = await daemon_of(tmp_path)
            daemon.send_signal(number)
            with pytest.raises(ConnectionLostError):
                await client.wait([job.handle])
        await until(lambda: not alive(daemon.pid))
        assert not alive(pid)
        assert not socket_of(tmp_path).exists()
        async with lastword.open_runtime(tmp_path) as runtime:
            notice = await runtime.loop.receive()
            assert notice.notification.process_handle == job.handle
            assert notice.notification.reason is lastword.TerminalReason.RUNNER_SHUTDOWN


async def test_one_that_is_killed_leaves_no_process_and_the_next_tells_of_it(tmp_path: Path) -> None:
    async with daemons_of(tmp_path):
        async with connect_or_start(tmp_path) as client:
            job = await client.start("echo $$; exec sleep 60")
            pid = int((await client.read(job.handle, wait=True)).data)
            daemon = await daemon_of(tmp_path)
            daemon.kill()
            await client.closed()
        assert socket_of(tmp_path).exists()
        async with connect_or_start(tmp_path) as client:
            assert (await client.get(job.handle)).state == "lost_on_restore"
            assert not alive(pid)


async def test_it_ends_when_it_is_idle_and_not_for_a_notice_that_nobody_acknowledges(tmp_path: Path) -> None:
    async with daemons_of(tmp_path):
        async with connect_or_start(tmp_path, idle_seconds=1.5) as client:
            job = await client.start("exec sleep 0.3", background=True)
            daemon = await daemon_of(tmp_path)
            await client.wait([job.handle])
        await until(lambda: not alive(daemon.pid))
        assert not socket_of(tmp_path).exists()
        async with connect_or_start(tmp_path) as client:
            assert [each.process_handle for each in await client.pending()] == [job.handle]


async def test_whoever_holds_the_directory_and_does_not_serve_is_told_of(tmp_path: Path) -> None:
    async with daemons_of(tmp_path), lastword.open_runtime(tmp_path):
        with nothing_left(), pytest.raises(ServeStartError) as caught:
            await connect_or_start(tmp_path).__aenter__()
        assert caught.value.code == "directory_in_use"
        assert "another process" in str(caught.value)


async def test_what_stands_in_the_way_of_a_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with daemons_of(tmp_path):
        others = tmp_path / "others"
        others.mkdir(mode=0o755)
        (others / "file").write_text("")
        with pytest.raises(ServeStartError) as caught:
            await connect_or_start(others).__aenter__()
        assert caught.value.code == "invalid_settings"
        assert str(tmp_path) not in str(caught.value)

        monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
        with pytest.raises(ServeStartError) as caught:
            await connect_or_start(tmp_path / "state").__aenter__()
        assert caught.value.code == "failed"

        broken = tmp_path / "python"
        broken.write_text("#!/bin/sh\necho it is broken >&2\nexit 3\n")
        broken.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(broken))
        with pytest.raises(ServeStartError) as caught:
            await connect_or_start(tmp_path / "state").__aenter__()
        assert (caught.value.code, caught.value.detail) == ("failed", "it is broken\n")
        assert "broken" not in str(caught.value)

        broken.write_text("#!/bin/sh\nexec sleep 60\n")
        with nothing_left(), pytest.raises(ServeStartError) as caught:
            await connect_or_start(tmp_path / "state", start_seconds=0.2).__aenter__()
        assert caught.value.code == "start_timeout"


@pytest.mark.prove
async def test_a_starter_that_gives_up_leaves_a_server_that_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemons_of(tmp_path):
        hung_up = anyio.Event()

        async def hang_up(process: Process) -> None:
            # Once it is a process of its own, and before it can say that it is ready.
            await process.wait()
            hung_up.set()
            await anyio.sleep_forever()

        monkeypatch.setattr(starting, "_heard", hang_up)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connect_or_start(tmp_path, idle_seconds=3.0).__aenter__)
            await hung_up.wait()
            tasks.cancel_scope.cancel()
        daemon = await daemon_of(tmp_path)
        await until(lambda: socket_of(tmp_path).exists() or not alive(daemon.pid))
        assert alive(daemon.pid)
        await until(lambda: not alive(daemon.pid))
        assert not socket_of(tmp_path).exists()


@pytest.mark.prove
async def test_its_log_is_private_and_bounded(tmp_path: Path) -> None:
    log, older = tmp_path / "serve.log", tmp_path / "serve.log.1"
    async with daemons_of(tmp_path):
        async with connect_or_start(tmp_path) as client:
            assert stat.S_IMODE(log.stat().st_mode) == 0o600
            daemon = await daemon_of(tmp_path)
            assert log.samefile(f"/proc/{daemon.pid}/fd/2")
            assert "serving" in log.read_text()
            log.write_bytes(bytes(LOG_BYTES))  # as if it had had much to say
            await client.shutdown()
        await until(lambda: not alive(daemon.pid))
        assert older.stat().st_size == LOG_BYTES
        assert "a client has asked" in log.read_text()
        assert stat.S_IMODE(log.stat().st_mode) == 0o600


async def test_idle_is_counted_from_the_last_visit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services: list[Service] = []
    clock = ManualClock()

    def kept(*args: Any, **options: Any) -> Service:
        services.append(Service(*args, **options))
        return services[-1]

    monkeypatch.setattr("lastword.adapters.serve._server.Service", kept)
    async with served(tmp_path, clock=clock, idle_seconds=10.0) as ended:
        (service,) = services

        async def pass_by(connections: int = 0) -> None:
            """An idle time in which so many are connected; what follows from it has happened on return."""
            await until(lambda: service.connections == connections)
            looks = clock.elapsed + 10
            await until(lambda: looks in clock.deadlines)
            clock.advance(10)
            await until(lambda: looks + 10 in clock.deadlines or ended.is_set())

        async with connect(tmp_path) as client:
            await client.start("exec sleep 60", name="job")
        await pass_by()  # the job lives
        await pass_by()
        async with connect(tmp_path) as client:
            await client.stop("job")
            await until(lambda: not service.busy)
        await pass_by()  # idle, once
        async with connect(tmp_path):
            for _ in range(3):
                await pass_by(connections=1)
        await pass_by()  # idle, once since that visit
        with monkeypatch.context() as patch:
            patch.setattr(Supervisor, "pending", undelivered("waiting"))
            for _ in range(3):
                await pass_by()
        monkeypatch.setattr(Supervisor, "pending", undelivered("quarantined"))
        await pass_by()  # idle, once more: what can never be delivered is not waited for
        assert not ended.is_set()
        await pass_by()
        await ended.wait()


def undelivered(status: Literal["waiting", "quarantined"]) -> Callable[[object], list[PendingDelivery]]:
    """A supervisor's list of what is not journaled: one record."""
    record = PendingDelivery(record_id=new_uuid7(), kind="event", process_handle="x", status=status)
    return lambda _: [record]
