"""What a model gives the tools stays between it and the command: no journal, store, log or repr has it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tool_ground import Agent, Result, agent


async def test_secrets_are_in_no_file_but_the_output_and_in_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    state = tmp_path / "state"
    async with agent(state) as one:
        said = [
            await one.call("Bash", command="true SEKRET1; echo SEKRET2"),
            await one.call("Bash", command="exec cat", stdin=True, yield_time_ms=0),
            await one.call("Bash", command="true", workdir=str(tmp_path / "SEKRET4")),
            await one.call("Bash", command="true", SEKRET5="x", workdir="SEKRET6"),
        ]
        reading = said[1]["process_id"]
        await one.call("ProcessInput", process_id=reading, data="SEKRET3\n", eof=True)
        await one.process(said[1]).wait()
        said.append(await one.call("ProcessList"))
        said.append({"lines": (await one.notices.collect()).lines})
        seen = [str(each) for each in (*one.specs.values(), one.notices, await one.notices.collect())]
    found = {
        path.relative_to(state).parts[0]
        for path in state.rglob("*")
        if path.is_file() and b"SEKRET" in path.read_bytes()
    }
    assert found == {"output"}
    assert "SEKRET" not in caplog.text
    assert "SEKRET" not in str(seen)
    assert "SEKRET2" in said[0]["output"]
    assert "SEKRET5" in said[3]["field"]  # the name of an argument that there is not: it is said back to the model
    assert "SEKRET" not in str([{**said[0], "output": ""}, *said[1:3], *said[4:]])
    assert str(tmp_path) not in str(said)


@pytest.mark.parametrize("profile", ["claude", "codex"])
async def test_the_other_profiles_keep_it_as_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, profile: str
) -> None:
    caplog.set_level(logging.DEBUG)
    state = tmp_path / "state"
    async with agent(state, profile=profile) as one:
        said = await (_claude if profile == "claude" else _codex)(one, tmp_path / "SEKRET")
        seen = [str(each) for each in (*one.specs.values(), one.notices, await one.notices.collect())]
        lines = str((await one.notices.collect()).lines)
    found = {
        path.relative_to(state).parts[0]
        for path in state.rglob("*")
        if path.is_file() and b"SEKRET" in path.read_bytes()
    }
    assert found == {"output"}
    assert "SEKRET" not in f"{caplog.text}{seen}{lines}"
    assert "SEKRET" in str(said[0])  # what it has written
    assert "SEKRET" not in str(said[1:])
    assert str(tmp_path) not in f"{said}{lines}"


async def _claude(one: Agent, absent: Path) -> list[Result]:
    begun = await one.call("Bash", command="cd SEKRET1 2>/dev/null; exec sleep 60", run_in_background=True)
    said = [
        await one.call("Bash", command="true SEKRET2; echo SEKRET3"),
        begun,
        await one.call("Bash", command=f"cd '{absent}' 2>/dev/null"),
        await one.call("Bash", command="SEKRET4\0"),
        await one.call("BashOutput", bash_id="SEKRET5"),
        await one.call("BashOutput", bash_id=begun["backgroundTaskId"], filter="SEKRET6"),
        await one.call("KillShell", shell_id=begun["backgroundTaskId"]),
    ]
    await one.told_home(begun["backgroundTaskId"])
    return said


async def _codex(one: Agent, absent: Path) -> list[Result]:
    begun = await one.call(
        "exec_command", cmd="read SEKRET1; stty -echo; read x; exec sleep 60", tty=True, yield_time_ms=1
    )
    said = [
        await one.call("exec_command", cmd="true SEKRET2; echo SEKRET3"),
        begun,
        await one.call("exec_command", cmd="true", workdir=str(absent)),
        await one.call("exec_command", cmd="true", shell=str(absent / "sh")),
        await one.call("exec_command", cmd="SEKRET4\0"),
        await one.call("write_stdin", session_id=begun["session_id"] + 1, chars="SEKRET5"),
    ]
    (process,) = [each for each in one.runtime.supervisor.list(one.runtime.loop) if each.outcome is None]
    await process.send_input(b"SEKRET6\n")
    await process.stop()
    await one.told_home(process.handle)
    return said


@pytest.mark.parametrize(
    ("profile", "tool", "argument"),
    [
        ("native", "Bash", "command"),
        ("claude", "Bash", "command"),
        ("codex", "exec_command", "cmd"),
    ],
)
async def test_c96_a_command_does_not_have_the_hosts_keys(
    profile: str, tool: str, argument: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a model's own command prints would be in the transcript."""
    monkeypatch.setenv("PROVIDER_KEY", "SEKRET")
    async with agent(profile=profile) as one:
        result = await one.call(tool, **{argument: "env; echo PATH is $PATH"})
        assert "SEKRET" not in str(result)
        assert "PATH is /" in str(result)


async def test_c97_a_command_that_stands_still_holds_up_no_other() -> None:
    async with agent() as one:
        still = await one.call("Bash", command="kill -STOP $$; echo A", background=True)
        assert (await one.call("Bash", command="echo B"))["output"] == "B\n"
        stopped = await one.call("ProcessStop", process_id=still["process_id"], mode="kill")
        assert (stopped["status"], stopped["signal"]) == ("killed", "SIGKILL")
