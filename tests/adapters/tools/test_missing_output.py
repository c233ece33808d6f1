"""What of a command's output is not there, and that somebody still holds it, is told by every profile."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from tool_ground import Agent, Result, agent

import lastword
from lastword.supervisor.shim._header import HEADER_BYTES

# Each profile's tool that runs a command, its argument, and where a result has the output.
RUN = {
    "native": ("Bash", "command", "output"),
    "claude": ("Bash", "command", "stdout"),
    "codex": ("exec_command", "cmd", "output"),
}

ALL = "".join(f"{number}\n" for number in range(1, 50001))


async def run(one: Agent, profile: str, command: str, **options: Any) -> tuple[str, Result]:
    """What it has written, as it is shown, and the rest of the result."""
    tool, argument, output = RUN[profile]
    result = await one.call(tool, **{argument: command}, **options)
    return result.pop(output), result


@contextmanager
def files_end_at(size: int) -> Generator[None]:
    """While the block lasts, whoever keeps output for this process can write no file further."""
    before: list[tuple[psutil.Process, tuple[int, int]]] = []
    for keeper in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # that of a command that has ended ends in this moment
            limits = keeper.rlimit(psutil.RLIMIT_FSIZE)
            keeper.rlimit(psutil.RLIMIT_FSIZE, (size, limits[1]))
            before.append((keeper, limits))
    try:
        yield
    finally:
        for keeper, limits in before:
            with suppress(psutil.NoSuchProcess):
                keeper.rlimit(psutil.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("profile", RUN)
async def test_c37_a_disk_that_failed_is_no_clean_end(profile: str) -> None:
    """Neither at the end of the output, nor in a piece of its beginning; and what is said can be read is there."""
    kept = 100_000
    async with agent(profile=profile) as one:
        await (await one.runtime.start("true")).wait()
        with files_end_at(HEADER_BYTES + kept):
            shown, result = await run(one, profile, "seq 1 50000")
        assert result["output_error"] == {"offset": kept, "code": "EFBIG"}
        assert shown
        assert ALL.startswith(shown)
        failed = f"the disk has failed, and what was written from byte {kept} on is not kept"
        if profile == "codex":
            assert result["original_token_count"] == -(-len(ALL) // 4)
            return
        assert result["note"].startswith(f"{kept - len(shown)} more bytes are there: ")
        assert result["note"].endswith(failed)
        cursor, text = len(shown), shown
        handle = one.runtime.supervisor.list(one.runtime.loop)[-1].handle
        while "more bytes are there" in result.get("note", ""):
            if profile == "native":
                result = await one.call("ProcessOutput", process_id=handle, cursor=cursor)
                text += result["output"]
                cursor = result["next_cursor"]
            else:
                result = await one.call("BashOutput", bash_id=handle)
                text += result["stdout"]
            assert result["output_error"] == {"offset": kept, "code": "EFBIG"}
        assert text == ALL[:kept]


@pytest.mark.parametrize("profile", RUN)
async def test_c01_output_that_somebody_still_holds_is_told(profile: str) -> None:
    """Kept survivors hold it; the leader's own end is told in time."""
    async with agent(profile=profile) as one:
        process = await one.runtime.start("sleep 600 & echo hi", survivors="keep")
        await process.wait()
        match profile:
            case "native":
                result = await one.call("ProcessOutput", process_id=process.handle)
            case "claude":
                result = await one.call("BashOutput", bash_id=process.handle)
            case _:
                from lastword.adapters.tools._naming import session_number

                result = await one.call("write_stdin", session_id=session_number(process.handle))
        assert (result["output_open"], result["survivors"], result["exit_code"]) == (True, 1, 0)
        await process.stop()


async def test_claude_says_what_is_kept_no_more_and_that_there_is_more(tmp_path: Path) -> None:
    limits = lastword.Limits(spool_bytes=64 * 1024)
    async with agent(profile="claude", limits=limits) as one:
        shown, result = await run(one, "claude", "seq 1 50000")
        assert ALL.endswith(shown)
        assert result["note"] == f"output from byte 0 to {len(ALL) - len(shown)} is kept no more"
        step = tmp_path / "step"
        command = f"until [ -e {step} ]; do sleep 0.02; done; seq 1 50000; exec sleep 600"
        begun = await one.call("Bash", command=command, run_in_background=True)
        process = one.runtime.supervisor.get(begun["backgroundTaskId"], one.runtime.loop)
        step.touch()
        await process.wait_output(len(ALL) - 1)
        first = await one.call("BashOutput", bash_id=process.handle)
        kept, note = first["stdout"], first["note"]
        while "more bytes are there: the next BashOutput goes on with them" in note:
            piece = await one.call("BashOutput", bash_id=process.handle)
            kept, note = kept + piece["stdout"], piece.get("note", "")
        assert note == ""
        assert ALL.endswith(kept)
        missing = len(ALL) - len(kept)
        assert first["note"].startswith(f"output from byte 0 to {missing} is kept no more; ")
