"""What ends a pipe for input: the process closes it, or has ended; and what waited then."""

from __future__ import annotations

from pathlib import Path

import pytest
from input_ground import closed, closed_at_last, fill, opened
from supervising import OWNER, output_of, supervising, until, wait_for_output

from lastword.notifier import ProcessState
from lastword.supervisor import (
    Containment,
    ErrorCode,
    StdinClosedError,
    SupervisorError,
)

S = ProcessState


async def test_a_process_that_closes_its_input_first(each_tier: Containment) -> None:
    """It is told as closed, and the process is not the worse for it."""
    async with supervising() as supervisor:
        process = await supervisor.start("exec <&-; echo closed; exec sleep 60", owner=OWNER, stdin="pipe")
        await wait_for_output(process, b"closed\n")
        assert "closed its input itself" in await closed_at_last(process)
        with pytest.raises(StdinClosedError, match="closed its input itself"):
            await process.send_input(b"x" * 1000)
        await process.close_input()
        assert "closed its input itself" in await closed(process)
        assert process.state is S.RUNNING


async def test_a_process_that_closes_its_input_while_some_of_it_waits(gate: Path) -> None:
    """That is dropped, and nothing goes on asking for room."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"cat <{gate}; exec <&-; echo closed; sleep 60", owner=OWNER, stdin="pipe")
        await fill(process, b"x" * 200_000)
        opened(gate)
        await wait_for_output(process, b"closed\n")
        await closed_at_last(process)
        watched = supervisor._works.reactor._selector.get_map()  # pyright: ignore[reportPrivateUsage]
        assert len(watched) == 3  # the zygote's socket and its pidfd, and the shim's socket


async def test_a_process_that_has_ended(gate: Path, each_tier: Containment) -> None:
    """By itself, by a stop, while something waits: closed, and the outcome is its own."""
    async with supervising() as supervisor:
        process = await supervisor.start("exit 3", owner=OWNER, stdin="pipe")
        assert (await process.wait()).exit_code == 3
        assert "ended" in await closed(process)
        process = await supervisor.start(f"cat <{gate}; echo over; exit 4", owner=OWNER, stdin="pipe")
        await process.send_input(b"x" * 500_000)
        opened(gate)
        outcome = await process.wait()
        assert (outcome.state, outcome.exit_code) == (S.EXITED, 4)
        assert "ended" in await closed(process)
        assert await output_of(process) == b"over\n"


async def test_one_that_was_restored_takes_no_input(tmp_path: Path) -> None:
    """It has ended."""
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start("cat", owner=OWNER, stdin="pipe")
        handle = process.handle
    async with supervising(tmp_path) as supervisor:
        process = supervisor.get(handle, OWNER)
        assert "it has ended" in await closed(process)
        await process.close_input()
        with pytest.raises(SupervisorError, match="it has ended") as caught:
            await process.resize(24, 80)
        assert caught.value.code is ErrorCode.PTY_UNAVAILABLE


async def test_a_kept_survivor_reads_the_end_once_the_last_word_is_said(
    tmp_path: Path, gate: Path, each_contained_tier: Containment
) -> None:
    """Nobody can send to it any more, so it must not wait."""
    async with supervising() as supervisor:
        process = await supervisor.start(
            f"exec 3<&0; (cat <&3 >{tmp_path}/read; : >{tmp_path}/done; exec sleep 60) & cat <{gate}",
            owner=OWNER,
            stdin="pipe",
            survivors="keep",
        )
        await process.send_input(b"for the survivor")
        opened(gate)
        outcome = await process.wait()
        assert outcome.exit_code == 0
        assert outcome.survivors >= 1
        await until((tmp_path / "done").exists)
        assert (tmp_path / "read").read_bytes() == b"for the survivor"
        await closed(process)


async def test_closing_the_supervisor_drops_what_waits(each_tier: Containment) -> None:
    """It is stopped like any other, and nothing is left: `supervising` counts."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER, stdin="pipe")
        await fill(process, b"x" * 300_000)
    assert process.outcome is not None
