"""Bash: a command to its end, or into the background when the call's budget is over."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from supervising import until
from tool_ground import OUTPUT_KEYS, STATE_KEYS, agent


async def test_a_command_that_ends_is_told_with_all_that_it_wrote() -> None:
    async with agent() as one:
        result = await one.call("Bash", command="echo hello; echo oops >&2; exit 3")
        process = one.process(result)
        assert process.outcome is not None
        assert process.started_at is not None
        assert result == {
            "process_id": process.handle,
            "status": "exited",
            "exit_code": 3,
            "reason": "exited",
            "started_at": process.started_at.isoformat(),
            "finished_at": process.outcome.finished_at.isoformat(),
            "backgrounded": False,
            "output": "hello\noops\n",
            "start_cursor": 0,
            "next_cursor": 11,
            "total_bytes": 11,
            "gap": False,
            "normalized": False,
            "binary": False,
        }


async def test_a_command_that_takes_longer_than_the_budget_goes_on_in_the_background() -> None:
    async with agent() as one:
        result = await one.call("Bash", command="echo begun; exec sleep 60", yield_time_ms=100)
        assert set(result) == STATE_KEYS | OUTPUT_KEYS | {"note"}
        assert (result["status"], result["backgrounded"], result["exit_code"]) == ("running", True, None)
        process = one.process(result)
        assert process.outcome is None
        seen = await one.call("ProcessOutput", process_id=process.handle, wait="any")
        assert seen["output"] == "begun\n"
        await one.call("ProcessStop", process_id=process.handle, mode="kill")
        await one.told_home(process.handle)
        assert await one.events(process.handle) == [
            "ProcessStarted",
            "ProcessBackgrounded",
            "ProcessStopRequested",
            "ProcessCompleted",
        ]


async def test_in_the_background_it_returns_at_once_and_is_told_as_backgrounded_from_the_start() -> None:
    async with agent() as one:
        result = await one.call("Bash", command="exec sleep 60", background=True, timeout=0)
        assert (result["status"], result["backgrounded"], result["next_cursor"]) == ("running", True, 0)
        await one.call("ProcessStop", process_id=result["process_id"], mode="kill")
        await one.told_home(result["process_id"])
        assert (await one.events(result["process_id"]))[0] == "ProcessBackgrounded"


async def test_the_timeout_ends_the_command_and_not_only_the_wait() -> None:
    async with agent() as one:
        result = await one.call("Bash", command="exec sleep 60", timeout=1)
        assert (result["status"], result["reason"], result["exit_code"]) == ("timed_out", "timed_out", None)
        assert result["signal"] == "SIGTERM"


async def test_a_command_runs_where_it_is_told_to(tmp_path: Path) -> None:
    async with agent() as one:
        result = await one.call("Bash", command="pwd -P", workdir=str(tmp_path))
        assert result["output"] == f"{tmp_path.resolve()}\n"


async def test_a_command_that_cannot_start_is_told_with_the_handle_of_its_record(tmp_path: Path) -> None:
    """And without the path."""
    async with agent() as one:
        result = await one.call("Bash", command="true", workdir=str(tmp_path / "missing"))
        assert (result["error"], result["kind"]) == ("spawn_failed", "cwd")
        assert one.process(result).state.name == "FAILED"
        assert str(tmp_path) not in str(result)


@pytest.mark.parametrize("extra", [{}, {"yield_time_ms": 60_000}], ids=["default budget", "its own budget"])
async def test_a_cancelled_call_leaves_the_process_in_the_background_under_its_handle(
    extra: dict[str, int], tmp_path: Path
) -> None:
    async with agent() as one:
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                await one.call("Bash", command=f"echo > {tmp_path}/begun; exec sleep 60", **extra)

            tasks.start_soon(call)
            await until((tmp_path / "begun").exists)
            await until(lambda: bool(one.runtime.supervisor.list(one.runtime.loop)[0].started_at))
            tasks.cancel_scope.cancel()
        (listed,) = (await one.call("ProcessList"))["processes"]
        assert (listed["status"], listed["backgrounded"]) == ("running", True)
        await one.call("ProcessStop", process_id=listed["process_id"], mode="kill")
        notice = await one.runtime.loop.receive()
        assert notice.notification.process_handle == listed["process_id"]
