"""ProcessOutput, ProcessStop and ProcessList: what a process has written, and what has become of it."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from tool_ground import OUTPUT_KEYS, STATE_KEYS, Agent, agent

import lastword

INLINE = 32 * 1024


async def start(one: Agent, command: str, **options: Any) -> str:
    """Start a command in the background; its handle."""
    handle: str = (await one.call("Bash", command=command, background=True, **options))["process_id"]
    return handle


async def ended(one: Agent, command: str, **options: Any) -> str:
    """Run a command to its end; its handle."""
    handle = await start(one, command, **options)
    await one.runtime.supervisor.get(handle, one.runtime.loop).wait()
    return handle


class Gate:
    """A named pipe: a command that reads it waits until it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    def open(self) -> None:
        self.path.write_text("go\n")


async def test_output_is_read_by_cursor_until_its_end() -> None:
    async with agent() as one:
        handle = await ended(one, "printf 'one\\ntwo\\nthree\\n'")
        seen: list[str] = []
        cursor = 0
        while cursor < 14:
            piece = await one.call("ProcessOutput", process_id=handle, cursor=cursor, limit_bytes=5)
            assert set(piece) - {"note"} == STATE_KEYS | OUTPUT_KEYS
            assert (piece["start_cursor"], piece["total_bytes"], piece["gap"]) == (cursor, 14, False)
            assert ("note" in piece) == (piece["next_cursor"] < 14)
            seen.append(piece["output"])
            cursor = piece["next_cursor"]
        assert seen == ["one\nt", "wo\nth", "ree\n"]


async def test_a_cursor_ahead_is_an_error_of_that_process_alone() -> None:
    async with agent() as one:
        handles = [await ended(one, command) for command in ("printf abc", "printf abcdef")]
        results = (await one.call("ProcessOutput", process_ids=handles, cursor=4))["results"]
        assert (results[0]["process_id"], results[0]["error"]) == (handles[0], "cursor_ahead")
        assert (results[1]["process_id"], results[1]["output"]) == (handles[1], "ef")


async def test_one_result_holds_no_more_than_one_result_can() -> None:
    """However much is asked for, of however many processes, and however long it gets as text."""
    async with agent() as one:
        handles = [await ended(one, "head -c 200000 /dev/zero") for _ in range(3)]
        for arguments in (
            {"process_id": handles[0], "limit_bytes": 10**9},
            {"process_ids": handles, "limit_bytes": 10**9},
            {"process_ids": handles, "encoding": "base64"},
        ):
            answer = await one.call("ProcessOutput", **arguments)
            results = answer.get("results", [answer])
            assert all(each["output"] for each in results)
            assert sum(len(each["output"].encode()) for each in results) <= INLINE
            assert all(each["next_cursor"] < each["total_bytes"] for each in results)
            assert all(f"cursor {each['next_cursor']}" in each["note"] for each in results)


async def test_bash_shows_the_beginning_and_the_end_of_much_output_and_says_what_is_between() -> None:
    async with agent() as one:
        result = await one.call("Bash", command="seq 1 20000")
        assert len(result["output"].encode()) <= INLINE
        assert result["output"].startswith("1\n2\n3\n")
        assert result["output"].endswith("\n19999\n20000\n")
        assert (result["start_cursor"], result["next_cursor"]) == (0, result["total_bytes"])
        assert not result["gap"]
        first, end = result["omitted"]
        assert f"[... {end - first} bytes are left out here ...]" in result["output"]
        assert f"ProcessOutput with cursor {first}" in result["note"]
        cursor, between = first, b""
        while cursor < end:
            piece = await one.call("ProcessOutput", process_id=result["process_id"], cursor=cursor, encoding="base64")
            between += base64.b64decode(piece["output"])
            cursor = piece["next_cursor"]
        head, tail = result["output"].split(f"\n[... {end - first} bytes are left out here ...]\n")
        whole = "".join(f"{number}\n" for number in range(1, 20001))
        assert head + between[: end - first].decode() + tail == whole


async def test_what_is_kept_no_more_is_a_gap() -> None:
    async with agent() as one:
        result = await one.call("Bash", command="seq 1 20000", max_output_bytes=2000)
        assert result["gap"]
        assert result["output"].endswith("\n20000\n")
        assert len(result["output"].encode()) <= 2000
        assert result["omitted"] == [0, result["start_cursor"]]
        assert "is kept no more" in result["note"]
        assert (result["status"], result["next_cursor"]) == ("exited", result["total_bytes"])
        again = await one.call("ProcessOutput", process_id=result["process_id"])
        assert again["gap"]
        assert again["omitted"] == [0, again["start_cursor"]]


async def test_bytes_that_are_no_text_are_told_and_can_be_had_exactly() -> None:
    async with agent() as one:
        handle = await ended(one, "printf '\\000\\377\\001'; printf '\\033[31mred'")
        text = await one.call("ProcessOutput", process_id=handle)
        assert (text["binary"], text["normalized"]) == (True, True)
        assert "\x1b" not in text["output"]
        raw = await one.call("ProcessOutput", process_id=handle, encoding="base64")
        assert base64.b64decode(raw["output"]) == b"\x00\xff\x01\x1b[31mred"


@pytest.mark.parametrize("until", ["output", "end"])
async def test_any_is_woken_by_whichever_comes_first_and_the_order_is_that_of_the_question(
    until: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read before there is something to read: nobody polls."""
    async with agent() as one:
        gate = Gate(tmp_path / "gate")
        quiet = await start(one, "exec sleep 60")
        waiting = await start(one, f"read line < {gate.path}; echo here" + "; exec sleep 60" * (until == "output"))
        results: list[dict[str, Any]] = []
        reads: list[object] = []
        read = lastword.Process.read_output

        async def counted(*arguments: Any) -> Any:
            reads.append(arguments)
            return await read(*arguments)

        monkeypatch.setattr(lastword.Process, "read_output", counted)
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                answer = await one.call(
                    "ProcessOutput", process_ids=[quiet, waiting], wait="any", until=until, timeout_ms=600_000
                )
                results.extend(answer["results"])

            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            assert results == []
            gate.open()
        assert len(reads) == 2
        assert [each["process_id"] for each in results] == [quiet, waiting]
        assert [each["output"] for each in results] == ["", "here\n"]
        assert results[1]["status"] == ("running" if until == "output" else "exited")


async def test_all_waits_for_each(tmp_path: Path) -> None:
    async with agent() as one:
        gates = [Gate(tmp_path / name) for name in "ab"]
        handles = [await start(one, f"read line < {gate.path}; echo here") for gate in gates]
        results: list[dict[str, Any]] = []
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                answer = await one.call(
                    "ProcessOutput", process_ids=handles[::-1], wait="all", until="end", timeout_ms=600_000
                )
                results.extend(answer["results"])

            tasks.start_soon(ask)
            gates[1].open()
            await one.runtime.supervisor.get(handles[1], one.runtime.loop).wait()
            await anyio.wait_all_tasks_blocked()
            assert results == []
            gates[0].open()
        assert [(each["process_id"], each["status"], each["output"]) for each in results] == [
            (handles[1], "exited", "here\n"),
            (handles[0], "exited", "here\n"),
        ]


async def test_a_wait_that_is_over_in_time_leaves_the_process_alone() -> None:
    async with agent() as one:
        handle = await start(one, "exec sleep 60")
        for wait in ("any", "all"):
            for until in ("output", "end"):
                result = await one.call("ProcessOutput", process_id=handle, wait=wait, until=until, timeout_ms=1)
                assert (result["status"], result["output"]) == ("running", "")


async def test_whoever_is_not_there_holds_up_no_wait_for_any() -> None:
    async with agent() as one:
        handle = await start(one, "exec sleep 60")
        answer = await one.call("ProcessOutput", process_ids=[handle, "A" * 22], wait="any", timeout_ms=600_000)
        assert [each.get("error") for each in answer["results"]] == [None, "not_found"]
        answer = await one.call("ProcessOutput", process_id="no handle\n", wait="all", timeout_ms=600_000)
        assert (answer["error"], answer["process_id"]) == ("not_found", None)


@pytest.mark.parametrize(
    ("mode", "status", "extra"),
    [
        ("interrupt", "interrupted", {"signal": "SIGINT"}),
        ("terminate", "terminated", {"signal": "SIGTERM"}),
        ("kill", "killed", {"signal": "SIGKILL"}),
    ],
)
async def test_a_stop_returns_how_it_ended_and_so_does_every_further_one(
    mode: str, status: str, extra: dict[str, Any]
) -> None:
    async with agent() as one:
        handle = await start(one, "exec sleep 60")
        result = await one.call("ProcessStop", process_id=handle, mode=mode)
        assert (result["process_id"], result["status"], result["reason"]) == (handle, status, status)
        assert (result["exit_code"], result["signal"]) == (None, extra["signal"])
        assert await one.call("ProcessStop", process_id=handle, mode="kill") == result


async def test_an_interrupt_that_is_ignored_leaves_it_running_and_terminate_kills_after_its_grace() -> None:
    async with agent() as one:
        handle = await start(one, "trap '' INT TERM; echo ready; while :; do sleep 60; done")
        await one.call("ProcessOutput", process_id=handle, wait="any")
        result = await one.call("ProcessStop", process_id=handle, mode="interrupt", grace_ms=0)
        assert (result["status"], result["finished_at"]) == ("running", None)
        result = await one.call("ProcessStop", process_id=handle, grace_ms=50)
        assert (result["status"], result["signal"]) == ("killed", "SIGKILL")


async def test_a_stop_that_exits_by_itself_has_its_code() -> None:
    async with agent() as one:
        handle = await start(one, "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done")
        await one.call("ProcessOutput", process_id=handle, wait="any")
        result = await one.call("ProcessStop", process_id=handle)
        assert (result["status"], result["exit_code"]) == ("terminated", 7)


async def test_the_list_has_what_runs_and_what_ended_last_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async with agent() as one:
        running = await start(one, "exec sleep 60")
        done = [await ended(one, "true") for _ in range(3)]
        answer = await one.call("ProcessList")
        assert [each["process_id"] for each in answer["processes"]] == [running, *done]
        assert set(answer["processes"][0]) == STATE_KEYS
        monkeypatch.setattr("lastword.adapters.tools._native.MAX_LISTED", 2)
        answer = await one.call("ProcessList")
        assert [each["process_id"] for each in answer["processes"]] == [running, done[2]]
        assert answer["omitted"] == 2


async def test_a_job_that_left_something_behind_is_told_with_it() -> None:
    async with agent() as one:
        result = await one.call("Bash", command="sleep 60 & echo begun")
        assert (result["status"], result["exit_code"], result["survivors"]) == ("exited", 0, 1)


async def test_a_host_that_closes_answers_with_its_code() -> None:
    async with agent() as one:
        handle = await start(one, "exec sleep 60")
        await one.runtime.supervisor.aclose()
        result = await one.call("Bash", command="true")
        assert result["error"] == "supervisor_shutting_down"
        shown = await one.call("ProcessOutput", process_id=handle)
        assert (shown["status"], shown["reason"]) == ("terminated", "runner_shutdown")


async def test_a_fault_of_ours_is_a_result_and_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with agent() as one:

        def broken(*arguments: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(lastword.supervisor.Supervisor, "get", broken)
        result = await one.specs["ProcessStop"].handler({"process_id": "SECRET"})
        assert result["error"] == "internal_error"
        assert "a bug" not in str(result)
        assert "a bug" in caplog.text
        assert "SECRET" not in caplog.text
