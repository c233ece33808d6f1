"""The other profiles: the same jobs, under the names and in the shapes that their models know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tool_ground import Agent, agent

import lastword
from lastword.adapters.tools import _claude as claude
from lastword.adapters.tools import _codex as codex
from lastword.adapters.tools._cursors import Cursors
from lastword.adapters.tools._naming import session_number


@pytest.fixture
def _short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codex, "LEAST_YIELD_MS", 1)
    monkeypatch.setattr(codex, "LEAST_POLL_MS", 1)


def after(step: Path, command: str) -> str:
    """A command that waits for `step` to be there."""
    return f"until [ -e {step} ]; do sleep 0.02; done; {command}"


async def later(one: Agent, command: str, step: Path) -> str:
    """Run a command in the background that writes nothing before Bash has returned, to its end."""
    task: str = (await one.call("Bash", command=after(step, command), run_in_background=True))["backgroundTaskId"]
    step.touch()
    await one.told_home(task)
    return task


@pytest.mark.parametrize(
    ("command", "code", "status"),
    [("echo hi; echo oops >&2", 0, "completed"), ("echo hi; echo oops >&2; exit 3", 3, "failed")],
)
async def test_claude_a_command_that_ends(command: str, code: int, status: str) -> None:
    async with agent(profile="claude") as one:
        assert await one.call("Bash", command=command, description="say\thi") == {
            "stdout": "hi\noops\n",
            "stderr": "",
            "status": status,
            "exit_code": code,
            "interrupted": False,
        }
        (process,) = one.runtime.supervisor.list(one.runtime.loop)
        assert process.name == "say hi"


@pytest.mark.parametrize("extra", [{"timeout": 1}, {"run_in_background": True}], ids=lambda extra: next(iter(extra)))
async def test_claude_goes_on_in_the_background_and_shows_what_is_new(extra: dict[str, Any], tmp_path: Path) -> None:
    async with agent(profile="claude") as one:
        step = tmp_path / "step"
        begun = await one.call("Bash", command=f"echo one; {after(step, 'echo two; exec sleep 60')}", **extra)
        assert begun["status"] == "running"
        task = begun["backgroundTaskId"]
        process = one.runtime.supervisor.get(task, one.runtime.loop)
        assert process.backgrounded
        await process.wait_output(3)
        seen = begun["stdout"] + (await one.call("BashOutput", bash_id=task))["stdout"]
        assert seen == "one\n"
        assert (await one.call("BashOutput", bash_id=task))["stdout"] == ""
        step.touch()
        await process.wait_output(7)
        assert (await one.call("BashOutput", bash_id=task))["stdout"] == "two\n"
        assert await one.call("TaskStop", task_id=task) == {
            "task_id": task,
            "task_type": "local_bash",
            "message": f"Stopped task {task}",
        }
        assert await one.call("KillShell", shell_id=task) == {"shell_id": task, "message": f"Stopped shell {task}"}
        ended = await one.call("BashOutput", bash_id=task)
        assert (ended["stdout"], ended["status"], ended["exit_code"], ended["signal"]) == (
            "",
            "killed",
            None,
            "SIGTERM",
        )
        await one.told_home(task)
        assert (await one.notices.collect()).lines == []


async def test_claude_a_filter_is_plain_text(tmp_path: Path) -> None:
    async with agent(profile="claude") as one:
        task = await later(one, "printf 'a.b\\nacb\\n'", tmp_path / "step")
        assert (await one.notices.collect()).lines == [f"Background task {task} has ended: exited 0."]
        assert (await one.call("BashOutput", bash_id=task, filter="a.b"))["stdout"] == "a.b\n"


async def test_a_result_that_was_not_given_moves_no_cursor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The call is cancelled when the output had been read already."""
    async with agent(profile="claude") as one:
        task = await later(one, "echo one", tmp_path / "step")
        read = lastword.Process.read_output

        async def read_and_hang(*arguments: Any, **options: Any) -> Any:
            await read(*arguments, **options)
            await anyio.sleep_forever()

        with monkeypatch.context() as patch:
            patch.setattr(lastword.Process, "read_output", read_and_hang)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: one.call("BashOutput", bash_id=task))
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
        assert (await one.call("BashOutput", bash_id=task))["stdout"] == "one\n"


@pytest.mark.parametrize(
    ("profile", "home", "tool", "argument"),
    [("claude", claude, "Bash", "command"), ("codex", codex, "exec_command", "cmd")],
)
async def test_how_far_an_evicted_process_was_read_is_forgotten(
    profile: str, home: Any, tool: str, argument: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Cursors] = []

    def make() -> Cursors:
        made.append(Cursors())
        return made[-1]

    monkeypatch.setattr(home, "Cursors", make)
    async with agent(profile=profile, limits=lastword.Limits(retained_completed=1)) as one:
        for _ in range(6):
            await one.call(tool, **{argument: "true"})
        (cursors,) = made
        assert 1 <= len(cursors._read) <= 3  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("profile", "tool", "arguments"),
    [
        ("native", "ProcessOutput", {"process_id": "A" * 22}),
        ("claude", "BashOutput", {"bash_id": "A" * 22}),
        ("codex", "write_stdin", {"session_id": 1}),
    ],
)
async def test_no_refusal_names_a_tool_that_is_not_there(profile: str, tool: str, arguments: dict[str, Any]) -> None:
    async with agent(profile=profile) as one:
        refused = await one.call(tool, **arguments)
        assert refused["error"] == "not_found"
        named = {"ProcessList", "ProcessOutput", "BashOutput", "write_stdin"}.intersection(refused["message"].split())
        assert named <= one.specs.keys()


async def test_codex_a_command_that_ends() -> None:
    async with agent(profile="codex") as one:
        result = await one.call("exec_command", cmd="echo hi; exit 3", shell="/bin/bash", login=True)
        assert result.pop("wall_time_seconds") >= 0
        assert result == {"output": "hi\n", "status": "exited", "exit_code": 3}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"cmd": "a\0b"}, "cmd"),
        ({"cmd": "\ud800", "login": True}, "cmd"),
        ({"cmd": "true", "shell": "a\0b"}, "shell"),
        ({"cmd": "true", "workdir": "a\0b"}, "workdir"),
    ],
)
async def test_codex_what_the_system_cannot_take_is_refused_by_the_name_of_the_field(
    given: dict[str, Any], field: str
) -> None:
    async with agent(profile="codex") as one:
        result = await one.call("exec_command", **given)
        assert (result["error"], result["field"]) == ("invalid_arguments", field)
        assert result["message"].startswith(f"{field}: ")


@pytest.mark.usefixtures("_short_polls")
async def test_codex_a_session_is_polled_and_interrupted_by_its_number(tmp_path: Path) -> None:
    async with agent(profile="codex") as one:
        step = tmp_path / "step"
        begun = await one.call(
            "exec_command", cmd=f"echo one; {after(step, 'echo two; exec sleep 60')}", yield_time_ms=0
        )
        session = begun["session_id"]
        assert begun["status"] == "running"
        assert "exit_code" not in begun
        (process,) = one.runtime.supervisor.list(one.runtime.loop)
        assert process.backgrounded
        assert type(session) is int
        assert session == session_number(process.handle)
        await process.wait_output(3)
        polled = await one.call("write_stdin", session_id=session)
        assert begun["output"] + polled["output"] == "one\n"
        step.touch()
        await process.wait_output(7)
        assert (await one.call("write_stdin", session_id=session))["output"] == "two\n"
        ended = await one.call("write_stdin", session_id=session, chars="\x03", yield_time_ms=30_000)
        assert (ended["status"], ended["output"], ended["signal"]) == ("interrupted", "", "SIGINT")
        assert "session_id" not in ended
        await one.told_home(process.handle)
        assert (await one.notices.collect()).lines == []
        assert (await one.call("write_stdin", session_id=session, chars="more"))["error"] == "stdin_closed"
        assert (await one.call("write_stdin", session_id=session + 1))["error"] == "not_found"


@pytest.mark.usefixtures("_short_polls")
async def test_codex_a_terminal_takes_what_is_typed() -> None:
    async with agent(profile="codex") as one:
        begun = await one.call("exec_command", cmd="stty -echo; read line; echo got $line", tty=True, yield_time_ms=0)
        (process,) = one.runtime.supervisor.list(one.runtime.loop)
        await one.call("write_stdin", session_id=begun["session_id"], chars="hi\n", yield_time_ms=0)
        await process.wait()
        output = (await process.read_output()).text.text
        assert output.endswith("got hi\n")


async def test_codex_much_output_is_cut_in_the_middle_and_its_size_told() -> None:
    async with agent(profile="codex") as one:
        result = await one.call("exec_command", cmd="seq 1 20000", max_output_tokens=500)
        assert len(result["output"].encode()) <= 2000
        assert result["output"].startswith("1\n")
        assert result["output"].endswith("\n20000\n")
        assert result["original_token_count"] == -(-108894 // 4)


def test_codex_times_are_brought_into_their_bounds() -> None:
    exec_times = [codex.clamp(ms, codex.LEAST_YIELD_MS, codex.MOST_YIELD_MS) for ms in (0, 250, 10_000, 30_000, 10**6)]
    assert exec_times == [0.25, 0.25, 10, 30, 30]
    poll_times = [codex.clamp(ms, codex.LEAST_POLL_MS, codex.MOST_POLL_MS) for ms in (0, 5_000, 10**6)]
    assert poll_times == [5, 5, 300]


async def test_codex_a_notice_names_the_session() -> None:
    async with agent(profile="codex") as one:
        process = await one.runtime.start("exit 3")
        await one.told_home(process.handle)
        line = f"Session {session_number(process.handle)} has ended: exited 3."
        assert (await one.notices.collect()).lines == [line]
