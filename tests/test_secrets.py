"""A canary in everything that a caller may think secret; then everything that we wrote is searched for it."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import anyio
import pytest

import lastword
from lastword.session import LoopScope
from lastword.supervisor import InvalidCommandError, SpawnFailedError
from lastword.supervisor.shim._header import HEADER_BYTES

ARGUMENT, OUTPUT, VARIABLE, INPUT, FOLDER = (f"SEKRET{number}" for number in range(1, 6))


async def test_nothing_that_we_write_or_say_shows_what_was_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("HOST_API_TOKEN", VARIABLE)
    state = tmp_path / "state"
    cwd = tmp_path / FOLDER
    cwd.mkdir()
    said: list[str] = []
    everything = lastword.EventFilter(enduring=LoopScope.all())
    async with lastword.open_runtime(state) as runtime:
        async with runtime.session.subscribe(everything) as deliveries:
            process = await runtime.start(
                f": {ARGUMENT}; cat; echo {OUTPUT}; exit 3",
                env={"K": VARIABLE},
                env_policy="inherit",
                stdin=INPUT.encode(),
                cwd=cwd,
            )
            for wrong in (
                {"command": [f"/{FOLDER}/program", ARGUMENT]},
                {"command": ["true", ARGUMENT * 40_000]},
            ):
                with pytest.raises(SpawnFailedError) as caught:
                    await runtime.start(wrong["command"])
                said += [str(caught.value), repr(caught.value)]
            with pytest.raises(SpawnFailedError) as caught:
                await runtime.start("true", cwd=f"/{FOLDER}")
            said += [str(caught.value), repr(caught.value)]
            with pytest.raises(InvalidCommandError) as refused:
                await runtime.start(["true", f"{ARGUMENT}\0"])
            said += [str(refused.value), repr(refused.value)]
            with anyio.fail_after(90):
                outcome = await process.wait()
                notices = [await runtime.loop.receive() for _ in range(4)]
                events = [await anext(deliveries) for _ in range(5)]
        assert outcome.exit_code == 3
        for notice in notices:
            said += [repr(notice), repr(notice.notification)]
        said += [repr(event) for event in events]
        said += [repr(process), repr(outcome), repr(runtime.supervisor.list(runtime.loop)), repr(runtime)]
        said += [repr(delivery) for delivery in await runtime.pending()]
        chunk = await process.read_output()
        assert chunk.data == f"{INPUT}{OUTPUT}\n".encode()
        said.append(repr(chunk))
    said.append(caplog.text)
    said += [str(record.__dict__) for record in caplog.records]
    assert [text for text in said if "SEKRET" in text] == []

    for path in [state, *state.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path.name
        assert "SEKRET" not in str(path.relative_to(state))
        if path.is_file() and "SEKRET" in path.read_bytes().decode("latin-1"):
            header, data = path.read_bytes()[:HEADER_BYTES], path.read_bytes()[HEADER_BYTES:]
            assert data == f"{INPUT}{OUTPUT}\n".encode(), f"{path.name} is not the output that was written"
            assert b"SEKRET" not in header
