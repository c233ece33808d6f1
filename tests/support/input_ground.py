"""What the tests of input share: filling a pipe that nobody reads, and what a sender is told at its end."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from lastword.supervisor import ErrorCode, InputBackpressureError, Process, StdinClosedError

PIPE_BYTES = 64 * 1024
"""What the system has room for."""


def opened(gate: Path) -> None:
    """Let go on who waits for the gate."""
    os.close(os.open(gate, os.O_WRONLY))


async def fill(process: Process, piece: bytes) -> int:
    """Send pieces until no more is taken; the bytes that were."""
    taken = 0
    with pytest.raises(InputBackpressureError) as refused:
        while True:
            await process.send_input(piece)
            taken += len(piece)
    assert refused.value.code is ErrorCode.INPUT_BACKPRESSURE
    return taken


async def closed_at_last(process: Process) -> str:
    """The process itself has closed its input: as `closed`, once whoever has handed it over has let go of it, too."""
    while True:
        try:
            await process.send_input(b"x")
        except StdinClosedError as error:
            return str(error)
        await anyio.sleep(0.005)


async def closed(process: Process) -> str:
    """It takes no input any more; what a sender is told."""
    with pytest.raises(StdinClosedError) as caught:
        await process.send_input(b"x")
    assert caught.value.code is ErrorCode.STDIN_CLOSED
    return str(caught.value)
