"""A test that starts a server, waits until it is ready, talks to it, stops it, and sees that nothing is left of it.

    pytest examples/server_under_test.py

The fixture is one of anyio's pytest plugin, which is there where anyio is: it runs on asyncio and on trio (if that is
installed), and enters and leaves a fixture in one task, as a runtime must be.  pytest-asyncio does not.
"""

import sys
from collections.abc import AsyncIterator

import anyio
import pytest

import lastword

SERVER = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    print("you said", line.strip(), flush=True)
"""


@pytest.fixture
async def runtime() -> AsyncIterator[lastword.Runtime]:
    async with lastword.open_runtime() as runtime:  # whatever a test forgets is stopped at its end
        yield runtime


async def wait_for(process: lastword.Process, words: bytes, cursor: int = 0) -> int:
    """Return the cursor behind `words`, once they are in the output from `cursor` on."""
    seen = b""
    async for chunk in process.follow(cursor):
        seen += chunk.data
        if words in seen:
            return cursor + seen.index(words) + len(words)
    raise AssertionError(f"it ended and never said {words!r}: {process.outcome}")


@pytest.mark.anyio
async def test_it_answers_and_leaves_nothing_behind(runtime: lastword.Runtime) -> None:
    server = await runtime.start([sys.executable, "-c", SERVER], stdin="pipe")
    with anyio.fail_after(60):
        cursor = await wait_for(server, b"ready\n")
        await server.send_input(b"hello\n")
        await wait_for(server, b"you said hello\n", cursor)
        outcome = await server.stop()
    assert outcome is not None
    assert (outcome.state, outcome.signal) == (lastword.ProcessState.TERMINATED, 15)
    assert outcome.proven  # by the kernel: nothing that descends from it is alive


@pytest.mark.anyio
async def test_it_ends_with_its_input(runtime: lastword.Runtime) -> None:
    server = await runtime.start([sys.executable, "-c", SERVER], stdin="pipe")
    with anyio.fail_after(60):
        await server.close_input()
        outcome = await server.wait()
    assert outcome.exit_code == 0
