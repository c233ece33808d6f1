"""A call of Bash that gives no result, cancelled at whatever moment: no process is lost from sight."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from supervising import until
from tool_ground import agent

import lastword


@pytest.mark.parametrize("extra", [{"background": True}, {"yield_time_ms": 0}, {}], ids=["background", "yield", "wait"])
async def test_whatever_runs_after_it_is_in_the_background_and_the_model_is_told(extra: dict[str, object]) -> None:
    async with agent() as one:
        for ticks in range(0, 60, 3):
            given: list[str] = []

            async def call(given: list[str] = given) -> None:
                given.append((await one.call("Bash", command="exec sleep 60", **extra))["process_id"])

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                for _ in range(ticks):
                    await checkpoint()
                tasks.cancel_scope.cancel()
            for process in one.runtime.supervisor.list(one.runtime.loop):
                await until(partial(_is_settled, process))
                if process.state is lastword.ProcessState.RUNNING:
                    told = given or (await one.notices.collect()).lines
                    assert process.handle in str(told), (ticks, told)
                    assert process.backgrounded
                    await process.stop(lastword.StopMode.KILL)
                outcome = await process.wait()
                assert outcome.diagnostic in {"", "start_cancelled"}
            await (await one.notices.collect()).ack()


def _is_settled(process: lastword.Process) -> bool:
    """Whether its start has come to something, or to nothing."""
    return process.state is not lastword.ProcessState.STARTING


async def test_a_call_that_is_cancelled_in_the_moment_of_the_hand_over_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process runs, and `start` raises for its caller was cancelled: nobody has got a handle."""
    async with agent() as one:
        start = lastword.Runtime.start

        async def start_and_hang(*arguments: Any, **options: Any) -> None:
            await start(*arguments, **options)
            await anyio.sleep_forever()

        with monkeypatch.context() as patch:
            patch.setattr(lastword.Runtime, "start", start_and_hang)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: one.call("Bash", command="exec sleep 60"))
                await until(lambda: any(each.started_at for each in one.runtime.supervisor.list(one.runtime.loop)))
                tasks.cancel_scope.cancel()
        (process,) = one.runtime.supervisor.list(one.runtime.loop)
        assert process.backgrounded
        assert (await one.notices.collect()).lines == [
            f"A call gave no result and its command goes on: process {process.handle} is running."
        ]


async def test_a_call_that_fails_after_the_start_leaves_it_in_the_background_and_the_model_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with agent() as one:

        async def refuse(*arguments: object) -> None:
            raise lastword.SupervisorError(lastword.ErrorCode.SPOOL_CORRUPT, "the kept output is damaged")

        with monkeypatch.context() as patch:
            patch.setattr(lastword.Process, "read_output", refuse)
            result = await one.call("Bash", command="exec sleep 60", yield_time_ms=0)
        assert result["error"] == "spool_corrupt"
        (process,) = one.runtime.supervisor.list(one.runtime.loop)
        assert process.backgrounded
        assert (await one.notices.collect()).lines == [
            f"A call gave no result and its command goes on: process {process.handle} is running."
        ]
