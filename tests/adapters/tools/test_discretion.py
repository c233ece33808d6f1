"""What a model gives the tools stays between it and the command: no journal, store, log or repr has it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tool_ground import agent


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
