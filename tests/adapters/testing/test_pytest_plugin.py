"""The pytest plugin, in test runs of its own: what a test gets, what is left of it, and what a failure shows."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from supervising import nothing_left

import lastword

pytest_plugins = ["pytester"]

HEAD = """
import sys
import anyio
import pytest
import lastword

pytest_plugins = ["lastword.adapters.pytest"]

# Says so and goes on until it is told to end, or has no input any more.
SERVER = [sys.executable, "-c", "import sys; print('listening', flush=True); sys.stdin.read()"]
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> Runner:
    return Runner(pytester)


class Runner:
    """Runs the tests that it is given in this process, and sees to it that they leave nothing."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester

    def __call__(self, source: str, arguments: tuple[str, ...] = ()) -> pytest.RunResult:
        self._pytester.makepyfile(HEAD + textwrap.dedent(source))
        with nothing_left():
            return self._pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "error", *arguments)


JOBS = re.compile(r"Captured jobs teardown|jobs of .*::test_server\[\w+\]")


def told(result: pytest.RunResult) -> str:
    """What was printed about jobs, section by section."""
    sections = re.split(r"^[-=]+ (.*?) [-=]+$", result.stdout.str(), flags=re.MULTILINE)
    return "\n".join(text for title, text in zip(sections[1::2], sections[2::2], strict=True) if JOBS.fullmatch(title))


def test_a_test_needs_no_mark_runs_on_both_backends_and_its_processes_end_with_it(run: Runner) -> None:
    result = run(
        """
        started = []

        async def test_server(job_runtime, anyio_backend_name):
            assert type(anyio.lowlevel.current_token().native_token).__module__.startswith("trio") == (
                anyio_backend_name == "trio")
            assert all(process.outcome is not None and process.outcome.proven for process in started)
            process = await job_runtime.start(SERVER, stdin="pipe")
            await process.wait_output(0)
            started.append(process)

        def test_after_them():
            backends = [process.outcome.reason for process in started]
            assert backends == [lastword.TerminalReason.RUNNER_SHUTDOWN] * 2
        """
    )
    result.assert_outcomes(passed=3)
    assert told(result) == ""


def test_each_test_has_a_runtime_of_its_own(run: Runner) -> None:
    result = run(
        """
        sessions = set()

        @pytest.mark.parametrize("number", [1, 2])
        async def test_one(job_runtime, number):
            sessions.add(job_runtime.session.session_id)
            assert job_runtime.supervisor.list(job_runtime.loop) == []
            await job_runtime.start(["true"])

        def test_after_them():
            assert len(sessions) == 4
        """
    )
    result.assert_outcomes(passed=5)


def test_a_failure_shows_how_its_jobs_ended_and_what_they_said_last(run: Runner) -> None:
    result = run(
        """
        async def test_server(job_runtime):
            broken = await job_runtime.start("echo cannot bind; exit 3", name="broken")
            server = await job_runtime.start(SERVER, stdin="pipe", name="api")
            await broken.wait()
            await server.wait_output(0)
            assert "the test's own" == "error"
        """
    )
    result.assert_outcomes(failed=2)
    assert result.stdout.str().count("E       assert \"the test's own\" == 'error'") == 2
    assert re.fullmatch(
        r"""(
broken \([\w-]{22}\): exited 3
    cannot bind
api \([\w-]{22}\): terminated \(it ran until the end of the test\)
    listening
.*?){2}""",
        told(result),
        re.DOTALL,
    ), result.stdout.str()


def test_what_was_written_at_the_moment_of_the_failure_is_shown(run: Runner) -> None:
    """It may still be in the pipe when the test fails: the process is stopped before it is read."""
    result = run(
        """
        TALKATIVE = '''
        import os, pathlib, signal, sys, time

        def end(*_):
            print("last", flush=True)
            os._exit(0)

        signal.signal(signal.SIGTERM, end)
        print("said", flush=True)
        pathlib.Path(sys.argv[1]).touch()
        while True:
            time.sleep(0.05)
        '''

        async def test_server(job_runtime, tmp_path):
            written = tmp_path / "written"
            await job_runtime.start([sys.executable, "-c", TALKATIVE, str(written)], name="api")
            with anyio.fail_after(60):
                while not written.exists():
                    await anyio.sleep(0.005)
            raise RuntimeError("now")
        """
    )
    result.assert_outcomes(failed=2)
    assert told(result).count(": terminated, exit code 0 (it ran until the end of the test)\n    said\n    last\n") == 2


def test_a_failure_while_fixtures_are_set_up_shows_them_too(run: Runner) -> None:
    result = run(
        """
        @pytest.fixture
        async def server(job_runtime):
            process = await job_runtime.start("echo no such config; exit 2")
            outcome = await process.wait()
            raise RuntimeError("the server did not start")

        async def test_server(server):
            pass
        """
    )
    result.assert_outcomes(errors=2)
    assert result.stdout.str().count("E       RuntimeError: the server did not start") == 2
    assert len(re.findall(r"^sh \([\w-]{22}\): exited 2\n    no such config$", told(result), re.MULTILINE)) == 2


def test_who_wants_no_captured_output_is_shown_none_of_it(run: Runner) -> None:
    result = run(
        """
        @pytest.fixture
        async def server(job_runtime):
            await (await job_runtime.start("echo no such config; exit 2")).wait()
            raise RuntimeError("the server did not start")

        async def test_unready(server):
            pass

        async def test_server(job_runtime):
            await (await job_runtime.start("echo hello")).wait()
            raise RuntimeError("now")
        """,
        arguments=("--show-capture=no",),
    )
    result.assert_outcomes(errors=2, failed=2)
    assert not re.search("exited|^    no such config$|^    hello$", result.stdout.str(), re.MULTILINE)


def test_of_much_output_the_last_lines_are_shown_and_of_many_jobs_the_last(run: Runner) -> None:
    result = run(
        """
        async def test_server(job_runtime):
            for number in range(9):
                process = await job_runtime.start(f"seq 1 40; seq {number} {number}", name=f"job-{number}")
                await process.wait()
            endless = await job_runtime.start("printf 'x%.0s' $(seq 10000)", name="endless")
            await endless.wait()
            raise RuntimeError("now")
        """,
        arguments=("-k", "trio"),
    )
    result.assert_outcomes(failed=1)
    jobs = re.split(r"^([\w-]+) \([\w-]{22}\): exited 0\n", told(result), flags=re.MULTILINE)[1:]
    shown = dict(zip(jobs[::2], jobs[1::2], strict=True))
    assert list(shown) == [*(f"job-{number}" for number in range(9)), "endless"]
    assert shown["job-0"] == shown["job-1"] == ""
    lines = ["...", *(str(number) for number in range(12, 41)), "2"]
    assert shown["job-2"] == "".join(f"    {line}\n" for line in lines)
    endless = shown["endless"].split("\n")
    assert endless[0] == "    ..."
    assert endless[1] == "    " + "x" * 8192


def test_jobs_of_every_loop_and_starts_that_failed_are_shown(run: Runner) -> None:
    result = run(
        """
        async def test_server(job_runtime):
            other = job_runtime.session.open_loop(lastword.notifier.new_uuid7())
            await (await job_runtime.start("exit 4", owner=other, name="others")).wait()
            await job_runtime.start(["no-such-program-anywhere"])
        """
    )
    result.assert_outcomes(failed=2)
    assert (
        len(re.findall(r"^E +.*SpawnFailedError: spawn_failed: no such program", result.stdout.str(), re.MULTILINE))
        == 2
    )
    assert len(re.findall(r"^others \([\w-]{22}\): exited 4$", told(result), re.MULTILINE)) == 2
    failed = r"^no-such-program-anywhere \([\w-]{22}\): failed \(spawn_failed:not_found:ENOENT\)$"
    assert len(re.findall(failed, told(result), re.MULTILINE)) == 2


def test_output_that_cannot_be_read_hides_nothing_else(run: Runner) -> None:
    result = run(
        """
        from lastword.supervisor import ErrorCode, Process, SupervisorError

        async def test_server(job_runtime, monkeypatch):
            await (await job_runtime.start("echo one; exit 1", name="one")).wait()

            async def unreadable(self, *args, **kwargs):
                raise SupervisorError(ErrorCode.SPOOL_CORRUPT, "its file is damaged")

            monkeypatch.setattr(Process, "read_output", unreadable)
            raise RuntimeError("the test's own error")

        @pytest.fixture
        def monkeypatch():  # its patches are taken back after the runtime has looked
            with pytest.MonkeyPatch.context() as patch:
                yield patch

        @pytest.fixture(autouse=True)
        def patched_for_longer(monkeypatch):
            pass
        """
    )
    result.assert_outcomes(failed=2)
    assert result.stdout.str().count("E       RuntimeError: the test's own error") == 2
    shown = re.findall(r"^one .*: exited 1\n    its output cannot be read: .*damaged", told(result), re.MULTILINE)
    assert len(shown) == 2, told(result)


def test_a_plain_test_is_refused_and_one_for_pytest_asyncio(run: Runner) -> None:
    """It would hang, or fail far from the cause: the fixture's event loop does not run meanwhile, or is another one."""
    result = run(
        """
        def test_plain(job_runtime):
            pass

        @pytest.mark.asyncio
        async def test_elsewhere(job_runtime):
            pass
        """,
        arguments=("-o", "markers=asyncio: as pytest-asyncio has it"),
    )
    result.assert_outcomes(errors=4)
    said = "job_runtime lives in the event loop of anyio's pytest plugin, and this test does not run there; write it as"
    assert result.stdout.str().count(f"\n{said} `async def`") == 4


def test_a_plain_test_may_talk_to_a_server_that_a_fixture_has_started(run: Runner) -> None:
    """The event loop stands still meanwhile; the process does not, and its output is kept."""
    result = run(
        """
        ANSWERING = '''
        import socket, sys
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        while True:
            caller, _ = listener.accept()
            print("called " + caller.recv(100).decode(), flush=True)
            caller.sendall(b"hello")
            caller.close()
        '''

        @pytest.fixture
        async def port(job_runtime):
            server = await job_runtime.start([sys.executable, "-c", ANSWERING], name="api")
            with anyio.fail_after(60):
                while b"\\n" not in (chunk := await server.read_output()).data:
                    await server.wait_output(chunk.total)
            return int(chunk.data)

        def test_plain(port):
            import socket
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(b"by a plain test")
                assert client.recv(100) == b"hello"
            raise RuntimeError("now")
        """
    )
    result.assert_outcomes(failed=2)
    assert len(re.findall(r"^    called by a plain test$", told(result), re.MULTILINE)) == 2


def test_it_does_the_same_in_a_process_of_its_own_and_over_xdist(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HEAD
        + """
async def test_server(job_runtime):
    await (await job_runtime.start("echo cannot bind; exit 3", name="broken")).wait()
    raise RuntimeError("the test's own error")
"""
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error", "-n", "1", timeout=120)
    result.assert_outcomes(failed=2)
    assert result.stdout.str().count("E       RuntimeError: the test's own error") == 2
    assert len(re.findall(r"^broken \([\w-]{22}\): exited 3\n    cannot bind$", told(result), re.MULTILINE)) == 2


@pytest.mark.checkout
def test_the_page_s_example_of_a_scripted_job_runs_as_it_is(pytester: pytest.Pytester) -> None:
    page = (Path(lastword.__file__).resolve().parent / "docs" / "testing.md").read_text()
    (example,) = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "import ScriptedJobs" in code]
    pytester.makepyfile(example)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "error", "-o", "anyio_mode=auto")
    result.assert_outcomes(passed=2)
