"""`ps --watch` beside a server is woken by what happens, and by nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from lastword.adapters.cli import _watch
from lastword.adapters.serve import connect, serve


@pytest.mark.parametrize("everything", [True, False])
async def test_a_change_is_shown_when_it_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, everything: bool
) -> None:
    """It looks at the clock once in a million seconds here; what is not told is not shown.  Who watches what runs is
    shown its end, too.
    """
    monkeypatch.setattr(_watch, "REFRESH_SECONDS", 1e6)
    send, shown = anyio.create_memory_object_stream[str](100)

    def show(job: dict[str, Any]) -> None:
        send.send_nowait(job["state"])

    monkeypatch.setattr(_watch, "print_json", show)
    ready = anyio.Event()

    async def watch() -> None:
        await _watch.watch(tmp_path / "state", everything=everything, as_json=True)

    async def keep() -> None:
        await serve(tmp_path / "state", ready=ready.set)

    with send, shown, anyio.fail_after(90):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep)
            await ready.wait()
            async with connect(tmp_path / "state") as client:
                await client.start(["sleep", "600"], name="one")
                tasks.start_soon(watch)
                assert await shown.receive() == "running"
                await client.stop("one")
                assert await shown.receive() == "terminated"
                if everything:
                    await client.start(["true"])
                    while await shown.receive() != "exited":
                        pass
            tasks.cancel_scope.cancel()
