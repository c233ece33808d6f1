"""The cases from the field as a model meets them: each command through each profile, all of them at once (C97)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import attrs
import pytest
from tool_ground import Result, agent

import lastword
from lastword.adapters.tools import _codex as codex

# Each profile's tool that runs a command, its argument, where a result has the output, and how long it may wait.
RUN: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "native": ("Bash", "command", "output", {"yield_time_ms": 600_000}),
    "claude": ("Bash", "command", "stdout", {"timeout": 600_000}),
    "codex": ("exec_command", "cmd", "output", {"yield_time_ms": 600_000}),
}


@attrs.frozen
class Case:
    """A command, and what every profile says of its end.

    `more`: what is there only when it is so, at least; empty: nothing is; None: nobody knows.
    """

    command: str
    code: int
    shows: str | Callable[[str], bool]
    more: dict[str, Any] | None = attrs.field(factory=dict[str, Any])


LEFT = {"survivors": 1}
HELD = {"survivors": 1, "output_open": True}

CASES = {
    "c01 both are held": Case("sleep 600 & echo hi", 0, "hi\n", HELD),
    "c01 stderr is held": Case("sleep 600 </dev/null >/dev/null & echo hi", 0, "hi\n", HELD),
    "c01 nothing is held": Case("sleep 600 </dev/null >/dev/null 2>&1 & echo hi", 0, "hi\n", LEFT),
    "c02": Case(
        "while :; do echo tick; sleep 0.05; done & sleep 0.2; echo done", 0, lambda text: "done\n" in text, None
    ),
    "c03": Case("bash -c 'exec > >(tee -a /dev/null) 2>&1; echo hi; exit 3'", 3, "hi\n", None),
    "c11": Case("nohup sleep 600 >/dev/null 2>&1 & echo started; exit 4", 4, "started\n", LEFT),
    "c36": Case("head -c 100000 /dev/urandom", 0, lambda text: "\ufffd" in text),
    "c38": Case("head -c 1000000 /dev/zero | tr '\\0' x", 0, lambda text: "bytes are left out here ...]" in text),
    "c47": Case("printf 'EXITCODESTART0EXITCODEEND'; exit 3", 3, "EXITCODESTART0EXITCODEEND"),
    "c49": Case("printf 'first\\rsecond\\nthird\\n'; printf 'a\\r\\nb\\r\\n'", 0, "second\nthird\na\nb\n"),
    "c52": Case("cat", 0, ""),
    "c53": Case("(exec </dev/tty) && echo got", 2, lambda text: "got" not in text),
    "c62 a signal": Case("kill -9 $$", 137, "", {"signal": "SIGKILL"}),
    "c62 an exit": Case("sh -c 'kill -9 $$' 2>&1; exit $?", 137, lambda _: True),
    "c66 not there": Case("exec 2>/dev/null; /no/such/program", 127, ""),
    "c66 not executable": Case("exec 2>/dev/null; /etc/passwd", 126, ""),
    "c78": Case("head -c 300000 /dev/zero", 0, lambda text: "bytes are left out here ...]" in text),
    "c96": Case("env", 0, lambda text: "PATH=" in text and "SEKRET" not in text),
}

SELDOM = {"signal", "survivors", "output_open", "output_error", "diagnostic"}


@pytest.mark.parametrize("profile", RUN)
async def test_every_profile_tells_how_it_ended_and_what_it_wrote(
    profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVIDER_KEY", "SEKRET")
    monkeypatch.setattr(codex, "MOST_YIELD_MS", 600_000)  # a machine that is busy is no reason to go on in background
    tool, argument, output, patience = RUN[profile]
    told: dict[str, Result] = {}
    limits = lastword.Limits(running_per_loop=len(CASES) + 1)
    async with agent(profile=profile, limits=limits) as one:

        async def run(name: str, case: Case) -> None:
            told[name] = await one.call(tool, **{argument: case.command}, **patience)

        async with anyio.create_task_group() as tasks:
            for name, case in CASES.items():
                tasks.start_soon(run, name, case)
        for name, case in CASES.items():
            result = told[name]
            shown = result[output]
            assert result["exit_code"] == case.code, (name, result)
            assert shown == case.shows if isinstance(case.shows, str) else case.shows(shown), (name, shown)
            seldom = {key: result[key] for key in SELDOM & result.keys()}
            assert case.more is None or bool(case.more) == bool(seldom), (name, result)
            assert (case.more or {}).items() <= seldom.items(), (name, result)
        # C63: refused by the system at once, and for ever; what comes next works.
        refused = await one.call(tool, **{argument: "true " + "a" * 131_072})
        assert (refused["error"], "Trying again will not help" in refused["message"]) == ("spawn_failed", True)
        assert (await one.call(tool, **{argument: "echo next"}))[output] == "next\n"


@pytest.mark.parametrize("profile", ["native", "codex"])
async def test_c58_a_line_that_its_terminal_would_cut_is_refused_by_name(profile: str) -> None:
    async with agent(profile=profile) as one:
        if profile == "native":
            begun = await one.call("Bash", command="exec cat", tty=True, background=True)
            given = {"process_id": begun["process_id"], "data": "a" * 6000 + "\n"}
            refused = await one.call("ProcessInput", **given)
        else:
            begun = await one.call("exec_command", cmd="exec cat", tty=True, yield_time_ms=250)
            refused = await one.call("write_stdin", session_id=begun["session_id"], chars="a" * 6000 + "\n")
        assert (refused["error"], refused["field"]) == ("invalid_arguments", "data" if profile == "native" else "chars")
        assert "4095" in refused["message"] or "4,095" in refused["message"]


@pytest.mark.parametrize(
    ("command", "code", "signal"),
    [("exec sleep 600", None, "SIGTERM"), ("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done", 0, None)],
)
async def test_c99_a_stop_is_neither_a_success_nor_a_failure(
    command: str, code: int | None, signal: str | None
) -> None:
    async with agent(profile="claude") as one:
        begun = await one.call("Bash", command=command, run_in_background=True)
        task = begun["backgroundTaskId"]
        if code is not None:
            await one.runtime.supervisor.get(task, one.runtime.loop).wait_output(0)
        await one.call("TaskStop", task_id=task)
        ended = await one.call("BashOutput", bash_id=task)
        assert (ended["status"], ended["exit_code"], ended.get("signal")) == ("killed", code, signal)
