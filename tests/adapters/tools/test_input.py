"""ProcessInput: what a process reads, by a pipe or on a terminal, and what it answers."""

from __future__ import annotations

from typing import Any

import pytest
from tool_ground import Agent, agent

import lastword

WAIT = {"yield_time_ms": 60_000}


async def start(one: Agent, command: str, **options: Any) -> str:
    """Start a command in the background; its handle."""
    handle: str = (await one.call("Bash", command=command, background=True, **options))["process_id"]
    return handle


async def test_a_pipe_takes_lines_and_its_end() -> None:
    async with agent() as one:
        handle = await start(one, "while read line; do echo got $line; done; echo over", stdin=True)
        result = await one.call("ProcessInput", process_id=handle, data="one\n", **WAIT)
        assert (result["output"], result["status"], result["start_cursor"]) == ("got one\n", "running", 0)
        result = await one.call("ProcessInput", process_id=handle, data="two\n", **WAIT)
        assert (result["output"], result["start_cursor"]) == ("got two\n", 8)
        await one.call("ProcessInput", process_id=handle, data="é\n", eof=True)
        ended = await one.call("ProcessOutput", process_id=handle, cursor=16, wait="all", until="end")
        assert (ended["output"], ended["status"], ended["exit_code"]) == ("got é\nover\n", "exited", 0)
        assert (await one.call("ProcessInput", process_id=handle, eof=True))["status"] == "exited"
        refused = await one.call("ProcessInput", process_id=handle, data="more")
        assert refused["error"] == "stdin_closed"
        assert refused["message"].endswith("start one with an input, or a tty")  # in a model's words, not the library's


async def test_without_stdin_a_command_reads_end_of_file_and_takes_nothing() -> None:
    async with agent() as one:
        assert (await one.call("Bash", command="cat; echo over"))["output"] == "over\n"
        handle = await start(one, "exec sleep 60")
        assert (await one.call("ProcessInput", process_id=handle, data="x"))["error"] == "stdin_closed"
        assert (await one.call("ProcessInput", process_id=handle, rows=3, cols=4))["error"] == "pty_unavailable"


async def test_a_terminal_takes_what_is_typed_and_a_size() -> None:
    async with agent() as one:
        handle = await start(one, "stty -echo; stty size; read line; stty size; echo got $line", tty=True)
        first = await one.call("ProcessOutput", process_id=handle, wait="any")
        assert first["output"].startswith("24 80")
        await one.call("ProcessInput", process_id=handle, rows=10, cols=20, data="hi\n")
        ended = await one.call("ProcessOutput", process_id=handle, wait="all", until="end")
        assert ended["output"] == "24 80\n10 20\ngot hi\n"


async def test_ctrl_c_on_a_terminal_interrupts() -> None:
    async with agent() as one:
        handle = await start(one, "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done", tty=True)
        await one.call("ProcessOutput", process_id=handle, wait="any")
        await one.call("ProcessInput", process_id=handle, data="\x03")
        ended = await one.call("ProcessOutput", process_id=handle, wait="all", until="end")
        assert "caught\n" in ended["output"]
        assert ended["exit_code"] == 5


async def test_a_line_that_the_terminal_would_cut_and_what_is_no_text_are_refused_by_name() -> None:
    async with agent() as one:
        handle = await start(one, "exec cat", tty=True)
        for data in ("x" * 5000 + "\n", "\ud800"):
            result = await one.call("ProcessInput", process_id=handle, data=data)
            assert (result["error"], result["field"]) == ("invalid_arguments", "data")


async def test_who_does_not_read_is_told_as_such() -> None:
    async with agent(limits=lastword.Limits(pending_input_bytes=1000)) as one:
        handle = await start(one, "exec sleep 60", stdin=True)
        results = [await one.call("ProcessInput", process_id=handle, data="x" * 60_000) for _ in range(3)]
        assert results[-1]["error"] == "input_backpressure"


@pytest.mark.parametrize("cursor", [0, 4])
async def test_the_answer_can_begin_earlier(cursor: int) -> None:
    async with agent() as one:
        handle = await start(one, "echo one; exec cat", stdin=True)
        await one.call("ProcessOutput", process_id=handle, wait="any")
        result = await one.call("ProcessInput", process_id=handle, eof=True, cursor=cursor, **WAIT)
        assert result["output"] == "one\n"[cursor:]


async def test_a_call_that_is_refused_has_written_nothing() -> None:
    """Else the model would write it once more."""
    async with agent() as one:
        handle = await start(one, "exec cat", stdin=True)
        refused = await one.call("ProcessInput", process_id=handle, data="twice\n", eof=True, cursor=1)
        assert refused["error"] == "cursor_ahead"
        refused = await one.call("ProcessInput", process_id=handle, data="twice\n", rows=24, cols=80)
        assert refused["error"] == "pty_unavailable"
        await one.call("ProcessInput", process_id=handle, data="once\n", eof=True, cursor=0)
        ended = await one.call("ProcessOutput", process_id=handle, wait="all", until="end", timeout_ms=600_000)
        assert (ended["output"], ended["status"]) == ("once\n", "exited")
