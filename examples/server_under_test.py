"""A test that starts a server, waits until it is ready, talks to it, stops it, and sees that nothing is left of it.

    pytest examples/server_under_test.py

`job_runtime` is a fixture of lastword's plugin, on top of anyio's, which is there where anyio is: each test runs on
asyncio and on trio (if that is installed).  What a test forgets is stopped at its end; what its processes said is shown
with a test that fails.
"""

import sys

import anyio

import lastword

pytest_plugins = ["lastword.adapters.pytest"]  # in a project: in its conftest.py

SERVER = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    print("you said", line.strip(), flush=True)
"""


async def wait_for(process: lastword.Process, words: bytes, cursor: int = 0) -> int:
    """Return the cursor behind `words`, once they are in the output from `cursor` on."""
    seen = b""
    async for chunk in process.follow(cursor):
        seen += chunk.data
        if words in seen:
            return cursor + seen.index(words) + len(words)
    raise AssertionError(f"it ended and never said {words!r}: {process.outcome}")


async def test_it_answers_and_leaves_nothing_behind(job_runtime: lastword.Runtime) -> None:
    server = await job_runtime.start([sys.executable, "-c", SERVER], stdin="pipe")
    with anyio.fail_after(60):
        cursor = await wait_for(server, b"ready\n")
        await server.send_input(b"hello\n")
        await wait_for(server, b"you said hello\n", cursor)
        outcome = await server.stop()
    assert outcome is not None
    assert (outcome.state, outcome.signal) == (lastword.ProcessState.TERMINATED, 15)
    assert outcome.proven  # by the kernel: nothing that descends from it is alive


async def test_it_ends_with_its_input(job_runtime: lastword.Runtime) -> None:
    server = await job_runtime.start([sys.executable, "-c", SERVER], stdin="pipe")
    with anyio.fail_after(60):
        await server.close_input()
        outcome = await server.wait()
    assert outcome.exit_code == 0
