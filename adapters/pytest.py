"""A pytest plugin for tests that drive real processes: `pytest_plugins = ["lastword.adapters.pytest"]`.

Rules
- No entry point: what is not asked for by name is not loaded into anybody's test run.
- The runtime has no folder. Nothing of a test is to outlive it, and commits to a disk would only make it slower; a test
  of what comes back opens a folder of its own, twice.
- What the jobs said is a section of the teardown's report, which pytest shows with a test that failed, and with no
  other.  Where a fixture failed it does not, and the end of the run does it.  No hook of ours touches a test's result,
  so none can hide or change it.
- First all are stopped, then they are read: what was in a pipe when the test failed is in its output by then.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator

import attrs
import pytest

from .._runtime import Runtime, open_runtime
from ..notifier import LastwordError, TerminalReason
from ..supervisor import Outcome, Process
from ._ending import Ending

# A traceback with its messages, and no scrolling back to the test's own.
TAIL_LINES = 30

# As much as one read takes elsewhere would be too much of a line that never ends.
TAIL_BYTES = 8 * 1024

# A test has as many jobs at once at most (`Limits.running_per_loop`); of more only their ends are told.
TAILS = 8

# What pytest calls the section of that name in that phase.
_SECTION = "Captured jobs teardown"

_NEEDS_ANYIO = (
    "job_runtime lives in the event loop of anyio's pytest plugin, and this test does not run there; "
    "write it as `async def`, without pytest.mark.asyncio, and where pytest-asyncio is used set asyncio_mode to strict"
)


@pytest.fixture
async def job_runtime(request: pytest.FixtureRequest, anyio_backend: object) -> AsyncGenerator[Runtime]:
    """A runtime without a folder for one test, in the test's own event loop: asyncio and trio in turn.

    At the end of the test every process is stopped, which takes at most `Limits.grace_seconds` and ten seconds.  How
    each of them ended, and the last lines that it wrote, are shown with a test that failed.
    """
    # `anyio_backend` is asked for so that pytest gives this to anyio's plugin, with or without a mark on the test.
    del anyio_backend
    if _runs_elsewhere(request):
        pytest.fail(_NEEDS_ANYIO, pytrace=False)
    async with open_runtime() as runtime:
        yield runtime
        await runtime.supervisor.aclose()
        if told := await _tell(runtime):
            request.node.add_report_section("teardown", "jobs", told)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what the jobs said of a test whose fixtures failed, such as one that waits for a server to be ready."""
    showcapture = str(terminalreporter.config.getoption("showcapture"))
    if showcapture != "all" and showcapture not in _SECTION:
        return
    unready = {
        report.nodeid
        for report in terminalreporter.getreports("error")
        if isinstance(report, pytest.TestReport) and report.when == "setup"
    }
    for report in terminalreporter.getreports(""):  # of a phase that went well
        if report.nodeid in unready and isinstance(report, pytest.TestReport) and report.when == "teardown":
            for title, told in report.sections:
                if title == _SECTION:
                    terminalreporter.section(f"jobs of {report.nodeid}")
                    terminalreporter.line(told)


def _runs_elsewhere(request: pytest.FixtureRequest) -> bool:
    """Whether the test asks for the runtime and is not run by anyio.

    A plain test may have it through an async fixture, which starts a server for it: that one lives on meanwhile.
    """
    if request.node.get_closest_marker("asyncio") is not None:
        return True
    test = request.function
    if inspect.iscoroutinefunction(test) or hasattr(test, "hypothesis"):
        return False
    return request.fixturename in inspect.signature(test).parameters


async def _tell(runtime: Runtime) -> str:
    """What became of every process of every loop, oldest first."""
    supervisor = runtime.supervisor
    processes = [process for owner in supervisor.owners() for process in supervisor.list(owner)]
    processes.sort(key=lambda process: process.created_at)
    silent = len(processes) - TAILS
    return "\n".join(
        [await _tell_one(process, tail=number >= silent) for number, process in enumerate(processes)],
    )


async def _tell_one(process: Process, *, tail: bool) -> str:
    outcome = process.outcome
    ending = "could not be stopped" if outcome is None else _words(outcome)
    head = f"{process.name or process.program} ({process.handle}): {ending}"
    if not tail:
        return head
    try:
        lines = await _last_lines(process, 0 if outcome is None else outcome.total_bytes)
    except LastwordError as error:
        lines = [f"its output cannot be read: {error}"]
    return "\n".join([head, *(f"    {line}" for line in lines)])


def _words(outcome: Outcome) -> str:
    ending = Ending.of_outcome(outcome)
    if outcome.reason is not TerminalReason.RUNNER_SHUTDOWN:
        return ending.words
    # For a host that is a test, "its host was closed" is the test's end.
    return f"{attrs.evolve(ending, reason='').words} (it ran until the end of the test)"


async def _last_lines(process: Process, total: int) -> list[str]:
    start = max(0, total - TAIL_BYTES)
    chunk = await process.read_output(start, TAIL_BYTES)
    lines = chunk.text.text.splitlines()
    return ["...", *lines[-TAIL_LINES:]] if chunk.start or len(lines) > TAIL_LINES else lines
