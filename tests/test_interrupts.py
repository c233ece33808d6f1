"""Ctrl-C, for real: SIGINT to a host in the middle of its work leaves no orphan and loses no last word."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

import lastword
from lastword.notifier import ProcessEvent

HOST = """
import functools, importlib, signal, sys
import anyio
import lastword

signal.signal(signal.SIGINT, signal.default_int_handler)  # a host may have been started with it ignored
state, backend, module, name = sys.argv[1:]
home = importlib.import_module(module)
*path, last = name.split(".")
for part in path:
    home = getattr(home, part)
inner = getattr(home, last)
calls = 0

@functools.wraps(inner)
def struck(*args, **kwargs):
    global calls
    calls += 1
    result = inner(*args, **kwargs)
    if calls == 3:
        signal.raise_signal(signal.SIGINT)
    return result

setattr(home, last, struck)

async def main():
    limits = lastword.Limits(grace_seconds=0.5, running_per_loop=500, running_per_session=500, spool_bytes=4096)
    async with lastword.open_runtime(state, limits=limits) as runtime:
        while True:
            await runtime.start(["sleep", "600"])
            await (await runtime.start("true")).wait()

anyio.run(main, backend=backend)
"""

MOMENTS = {
    "a spawn is about to be asked for": ("lastword.supervisor.launch._contained", "ContainedLauncher._new_child"),
    "a shim has said something": ("lastword.supervisor.launch._child", "ContainedChild._on_message"),
    "its record is made": ("lastword.supervisor._teller", "started_unit"),
    "its last word is made": ("lastword.supervisor._teller", "last_word_unit"),
    "its end is noted": ("lastword.supervisor._job", "Job.settle"),
    "a unit was delivered": ("lastword.supervisor._outbox", "StoreOutbox.mark_delivered"),
}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_ctrl_c_in_the_middle_of_our_work_leaves_no_orphan_and_loses_no_last_word(
    moment: str, backend: str, tmp_path: Path
) -> None:
    """The signal comes exactly there: what was begun is finished, and then the host leaves as it was told to."""
    command = [sys.executable, "-c", HOST, str(tmp_path / "state"), backend, *MOMENTS[moment]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode != 0
    assert "KeyboardInterrupt" in done.stderr
    assert "lastword" not in done.stderr.rpartition("KeyboardInterrupt")[2]
    assert "deadline" not in done.stderr
    stories = _stories(tmp_path / "state", backend)
    assert stories
    assert {story[-1] for story in stories} == {"ProcessCompleted"}, stories


def _stories(state: Path, backend: str) -> list[list[str]]:

    async def main() -> dict[str, list[str]]:
        told: dict[str, list[str]] = {}
        async with lastword.open_runtime(state) as runtime:
            async for delivery in runtime.session.replay():
                assert isinstance(delivery.event, ProcessEvent)
                told.setdefault(delivery.event.process.process_handle, []).append(type(delivery.event).__name__)
        return told

    return list(anyio.run(main, backend=backend).values())
