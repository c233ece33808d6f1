"""What a scripted job has that a process has not: it starts nothing, a `play` lives its life, and time can be moved."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from signal import Signals
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from supervising import HANG_SECONDS, nothing_left, pids_without_spares

import lastword
from lastword import ErrorCode, ProcessState, SpawnFailedError, SupervisorError
from lastword.adapters.testing import ManualClock, ScriptedJob, ScriptedJobs, ScriptedSpawnError
from lastword.adapters.tools import tool_specs
from lastword.supervisor import Limits, TeardownFailedError, view_directory


def end(output: bytes, code: int, job: ScriptedJob) -> None:
    """A whole life."""
    job.write(output)
    job.exit(code)


async def test_no_process_is_started_and_what_it_would_be_given_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    for module, name in ((subprocess, "Popen"), (os, "posix_spawn"), (os, "fork")):
        monkeypatch.setattr(module, name, refuse)
    before = pids_without_spares()
    jobs = ScriptedJobs()
    with nothing_left(), anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(launcher=jobs) as runtime:
            process = await runtime.start("make test", cwd="/nowhere", env={"COLOR": "no"}, env_policy="none")
            job = await jobs.next_job()
            assert (job.argv, job.cwd, job.env) == (("/bin/sh", "-c", "make test"), "/nowhere", {"COLOR": "no"})
            assert (job.handle, job.running, job.signals) == (process.handle, True, ())
            assert jobs.started == [job]
            assert repr(job) == f"<ScriptedJob {process.handle} running>"  # what it is given is a secret in it, too
            assert pids_without_spares() == before
    assert not job.running


async def test_jobs_are_handed_out_once_in_order_to_who_waits() -> None:
    jobs = ScriptedJobs()
    with anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(launcher=jobs) as runtime:
            handed: list[str] = []

            async def take() -> None:
                handed.append((await jobs.next_job()).handle)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take)
                await wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()  # takes nothing
            started: list[str] = []
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take)
                tasks.start_soon(take)
                await wait_all_tasks_blocked()
                started += [(await runtime.start(["a"])).handle, (await runtime.start(["b"])).handle]
            assert sorted(handed) == sorted(started)
            assert [job.handle for job in jobs.started] == started


async def test_a_play_lives_a_whole_life_before_start_returns() -> None:
    def play(job: ScriptedJob) -> None:
        if job.argv == ("missing",):
            raise ScriptedSpawnError("not_found", errno.ENOENT)
        job.write(b"hello\n")
        job.exit(3)

    jobs = ScriptedJobs(play)
    with nothing_left(), anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(launcher=jobs) as runtime:
            process = await runtime.start(["there"])
            outcome = await process.wait()
            assert (outcome.exit_code, (await process.read_output()).data) == (3, b"hello\n")
            with pytest.raises(SpawnFailedError) as refused:
                await runtime.start(["missing"])
            assert (refused.value.kind, refused.value.errno) == ("not_found", errno.ENOENT)
            failed = runtime.supervisor.get(refused.value.handle, runtime.loop)
            assert failed.outcome is not None
            assert failed.outcome.diagnostic == "spawn_failed:not_found:ENOENT"
            assert [job.handle for job in jobs.started] == [process.handle]


async def test_a_fault_of_the_play_is_logged_and_starts_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def play(job: ScriptedJob) -> None:
        raise KeyError("a fault of the test's")

    with nothing_left(), anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(launcher=ScriptedJobs(play)) as runtime:
            with pytest.raises(SpawnFailedError):
                await runtime.start(["there"], stdin="pipe")
    assert "a fault of the test's" in caplog.text


async def test_time_is_the_test_s() -> None:
    clock, jobs = ManualClock(), ScriptedJobs()
    with anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(launcher=jobs, clock=clock) as runtime:
            process = await runtime.start(["slow"], timeout=3600.0)
            job = await jobs.next_job()
            job.on_signal(Signals.SIGTERM, None)
            clock.advance(3599.0)
            await wait_all_tasks_blocked()
            assert list(job.signals) == []
            clock.advance(1.0)
            await wait_all_tasks_blocked()
            assert list(job.signals) == [Signals.SIGTERM, Signals.SIGCONT]
            clock.advance(4.5)
            await wait_all_tasks_blocked()
            assert job.running
            clock.advance(0.5)  # the grace is over
            outcome = await process.wait()
            assert (outcome.state, outcome.signal) == (ProcessState.TIMED_OUT, 9)
            assert outcome.started_at is not None
            assert (outcome.finished_at - outcome.started_at).total_seconds() == 3605.0


async def test_what_is_stuck_in_the_kernel_cannot_be_ended_until_it_dies() -> None:
    clock, jobs = ManualClock(), ScriptedJobs()
    with anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(launcher=jobs, clock=clock) as runtime:
            process = await runtime.start(["stuck"])
            job = await jobs.next_job()
            job.on_signal(Signals.SIGKILL, None)
            job.on_signal(Signals.SIGTERM, None)
            raised: list[TeardownFailedError] = []

            async def stop() -> None:
                try:
                    await process.stop(grace=1.0)
                except TeardownFailedError as error:
                    raised.append(error)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stop)
                while not raised:
                    await wait_all_tasks_blocked()
                    clock.advance(0.1)
            assert process.state is ProcessState.RUNNING
            job.die()
            assert (await process.wait()).signal == 9


async def test_it_does_nothing_any_more_once_it_has_ended() -> None:
    jobs = ScriptedJobs()
    with anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(launcher=jobs) as runtime:
            process = await runtime.start(["job"], stdin="pipe")
            job = await jobs.next_job()
            async with anyio.create_task_group() as tasks:

                async def read() -> None:
                    with pytest.raises(anyio.ClosedResourceError):
                        await job.read_input()

                tasks.start_soon(read)
                await wait_all_tasks_blocked()
                job.exit(0)
            acts: list[Callable[[], None]] = [lambda: job.write(b"more"), job.exit, job.die]
            for act in acts:
                with pytest.raises(RuntimeError, match="ended already"):
                    act()
            with pytest.raises(anyio.ClosedResourceError):
                await job.read_input()
            assert (await process.wait()).exit_code == 0


async def test_what_it_cannot_do_is_refused() -> None:
    jobs = ScriptedJobs()
    with anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(launcher=jobs) as runtime:
            with pytest.raises(SupervisorError) as refused:
                await runtime.start(["job"], pty=True)
            assert refused.value.code is ErrorCode.PTY_UNAVAILABLE
            assert jobs.started == []
            await runtime.start(["job"])
            job = await jobs.next_job()
            for code in (-1, 256):
                with pytest.raises(ValueError, match="0 to 255"):
                    job.exit(code)
            with pytest.raises(ValueError, match="SIGKILL"):
                job.on_signal(Signals.SIGKILL, job.exit)
            assert job.running


async def test_a_job_that_ended_is_there_at_the_next_opening(tmp_path: Path) -> None:
    jobs = ScriptedJobs(partial(end, b"built", 0))
    with nothing_left(), anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(tmp_path / "jobs", launcher=jobs) as runtime:
            handle = (await runtime.start(["make"])).handle
            await runtime.supervisor.get(handle, runtime.loop).wait()
        async with lastword.open_runtime(tmp_path / "jobs", launcher=ScriptedJobs()) as runtime:
            assert (await runtime.loop.receive()).notification.process_handle == handle
            assert (await runtime.supervisor.get(handle, runtime.loop).read_output()).data == b"built"


async def test_who_looks_into_its_folder_sees_what_it_has_written(tmp_path: Path) -> None:
    jobs = ScriptedJobs()
    with anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(tmp_path / "jobs", launcher=jobs) as runtime:
            await runtime.start(["make"])
            (await jobs.next_job()).write(b"so far")
            (view,) = view_directory(tmp_path / "jobs").processes
            assert (view.state, view.read_output().data) == (ProcessState.RUNNING, b"so far")


async def test_a_tool_executor_can_be_tested_with_it() -> None:
    jobs = ScriptedJobs(partial(end, b"2 failed\n", 1))
    with anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(launcher=jobs, limits=Limits(grace_seconds=1.0)) as runtime:
            tools = {spec.name: spec.handler for spec in tool_specs(runtime)}
            result = await tools["Bash"]({"command": "make test"})
    assert (result["status"], result["exit_code"], result["output"]) == ("exited", 1, "2 failed\n")
    assert [job.argv[-1] for job in jobs.started] == ["make test"]


async def test_a_launcher_that_is_none_is_refused() -> None:
    with pytest.raises(SupervisorError) as refused:
        lastword.open_runtime(launcher="scripted")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - the point
    assert refused.value.code is ErrorCode.INVALID_SETTINGS
