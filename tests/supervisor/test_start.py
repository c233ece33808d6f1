"""Starting: what a job is given, what is refused before anything is recorded, and what cannot be spawned."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import pytest
from anyio.lowlevel import checkpoint
from supervising import LOOP, OTHER, OWNER, SESSION, failing_saves, names, output_of, supervising, told

from lastword.notifier import ProcessCompleted, ProcessNotification, ProcessState, TerminalReason
from lastword.supervisor import (
    Containment,
    ErrorCode,
    InvalidCommandError,
    Limits,
    Process,
    QuotaExceededError,
    ResourceLimits,
    SpawnFailedError,
    Supervisor,
    SupervisorError,
    open_supervisor,
)
from lastword.supervisor._record import ProcessRecord
from lastword.supervisor._store import Store
from lastword.supervisor.launch import launcher_of

pytestmark = pytest.mark.usefixtures("each_tier")

PYTHON = sys.executable


async def test_a_string_runs_under_the_shell() -> None:
    """Pipes and expansions work, and the exit code is the shell's."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo a b | tr ' ' '-'; exit 3", owner=OWNER)
        outcome = await process.wait()
        assert (outcome.state, outcome.reason, outcome.exit_code) == (ProcessState.EXITED, TerminalReason.EXITED, 3)
        assert await output_of(process) == b"a-b\n"


async def test_a_sequence_is_executed_as_given() -> None:
    """No shell comes between: nothing is expanded."""
    async with supervising() as supervisor:
        process = await supervisor.start(["printf", "%s|", "$HOME", "a b", ""], owner=OWNER)
        assert await output_of(process) == b"$HOME|a b||"


async def test_it_runs_in_its_own_session_and_directory(tmp_path: Path) -> None:
    """It leads a session and group of its own, in the directory that was asked for, with three descriptors."""
    code = (
        "import os, json; print(json.dumps([os.getpid() == os.getsid(0) == os.getpgid(0), os.getcwd(), "
        "sorted(int(n) for n in os.listdir('/proc/self/fd'))]))"
    )
    with (tmp_path / "inherited").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        async with supervising() as supervisor:
            process = await supervisor.start([PYTHON, "-IS", "-c", code], owner=OWNER, cwd=tmp_path)
            own_session, cwd, descriptors = json.loads(await output_of(process))
    assert own_session
    assert cwd == str(tmp_path)
    assert descriptors == [0, 1, 2, 3]  # the last is the listing itself


BYTES = """
import sys
import anyio, lastword
from lastword.supervisor import InvalidCommandError

async def main():
    async with lastword.open_runtime() as runtime:
        for data in (b"pipe", bytearray(b"pipe"), memoryview(b"pipe")):
            process = await runtime.start("cat", stdin=data)
            await process.wait()
            print((await process.read_output()).data.decode(), flush=True)
        for wrong in ({"stdin": b"x", "pty": True}, {"env_policy": b"minimal"}):
            try:
                await runtime.start("cat", **wrong)
            except InvalidCommandError as error:
                print(error.field, flush=True)

anyio.run(main, backend=sys.argv[1])
"""


def test_bytes_are_not_compared_with_text(anyio_backend_name: str) -> None:
    """An interpreter that makes such a comparison an error starts a process all the same, or tells what is wrong."""
    done = subprocess.run(
        [PYTHON, "-bb", "-c", BYTES, anyio_backend_name], capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["pipe"] * 3 + ["stdin", "env_policy"], "")


async def test_the_handle_and_ids_are_there_at_once() -> None:
    """A started process has its handle, owner, name and times before it has ended."""
    async with supervising() as supervisor:
        origin = UUID("0192f0c1-2345-7abc-8def-0000000000ff")
        process = await supervisor.start("sleep 60", owner=OWNER, name="nap", origin_execution_id=origin)
        assert process.state is ProcessState.RUNNING
        assert len(process.handle) == 22
        assert (process.owner, process.name, process.backgrounded) == (OWNER, "nap", False)
        assert process.started_at is not None
        assert process.outcome is None
        assert supervisor.get(process.handle, OWNER) is process
        (started,) = told(supervisor.outbox)
        assert not isinstance(started, ProcessNotification)
        assert type(started).__name__ == "ProcessStarted"
        assert getattr(started, "process").origin_execution_id == origin  # noqa: B009 -- a union of events


# --- environment ------------------------------------------------------------------------------------------------------


async def test_minimal_environment_is_an_allow_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default passes what a program needs, and none of the host's keys."""
    monkeypatch.setenv("PROVIDER_KEY", "SEKRET")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("TZ", "UTC")
    async with supervising() as supervisor:
        process = await supervisor.start(["env"], owner=OWNER, env={"MINE": "1"})
        shown = dict(line.split("=", 1) for line in (await output_of(process)).decode().splitlines())
    allowed = {"PATH", "HOME", "USER", "LANG", "TERM", "TMPDIR", "TZ"}
    expected = {name for name in os.environ if name in allowed or name.startswith("LC_")} | {"MINE"}
    assert set(shown) == expected
    assert shown["LC_TIME"] == "C"


@pytest.mark.parametrize(("policy", "expected"), [("inherit", True), ("none", False)])
async def test_other_environment_policies(policy: Any, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`inherit` passes everything, `none` nothing; `env` is on top of either, and overrides."""
    monkeypatch.setenv("A_HOST_VARIABLE", "host")
    monkeypatch.setenv("BOTH", "host")
    async with supervising() as supervisor:
        process = await supervisor.start(["/usr/bin/env"], owner=OWNER, env={"BOTH": "mine"}, env_policy=policy)
        lines = (await output_of(process)).decode().splitlines()
    assert ("A_HOST_VARIABLE=host" in lines) == expected
    assert "BOTH=mine" in lines
    assert expected or lines == ["BOTH=mine"]


async def test_programs_are_looked_up_in_the_jobs_own_path(tmp_path: Path) -> None:
    """The PATH that counts is the one the job gets."""
    tool = tmp_path / "only-here"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    async with supervising() as supervisor:
        process = await supervisor.start(["only-here"], owner=OWNER, env={"PATH": str(tmp_path)})
        assert await output_of(process) == b"found\n"
        with pytest.raises(SpawnFailedError) as caught:
            await supervisor.start(["only-here"], owner=OWNER)
        assert caught.value.kind == "not_found"


# --- stdin ------------------------------------------------------------------------------------------------------------


async def test_stdin_is_empty_by_default() -> None:
    """Who reads gets end of file at once."""
    async with supervising() as supervisor:
        process = await supervisor.start(["cat"], owner=OWNER)
        assert (await process.wait()).exit_code == 0
        assert await output_of(process) == b""


async def test_stdin_bytes_are_sealed() -> None:
    """The bytes arrive whole, then end of file; the job cannot change them."""
    code = (
        "import os, sys; d = sys.stdin.buffer.read(); print(len(d))\n"
        "try: os.write(0, b'x')\n"
        "except OSError: print('no')"
    )
    async with supervising() as supervisor:
        process = await supervisor.start([PYTHON, "-IS", "-c", code], owner=OWNER, stdin=b"\0" * 100_000)
        assert await output_of(process) == b"100000\nno\n"


async def test_umask_is_set_before_the_program_runs(tmp_path: Path) -> None:
    """The one resource limit that this tier can set rightly."""
    async with supervising() as supervisor:
        process = await supervisor.start("umask", owner=OWNER, resources=ResourceLimits(umask=0o027))
        assert await output_of(process) == b"0027\n"


# --- refused, with nothing recorded -----------------------------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"command": ""}, "command"),
        ({"command": []}, "command"),
        ({"command": b"true"}, "command"),
        ({"command": 7}, "command"),
        ({"command": "echo a\0b"}, "command"),
        ({"command": ["echo", "a\0b"]}, "argv[1]"),
        ({"command": ["echo", 7]}, "argv[1]"),
        ({"command": ["echo", "\ud800"]}, "argv[1]"),
        ({"command": ["", "x"]}, "argv[0]"),
        ({"cwd": "/t\0mp"}, "cwd"),
        ({"cwd": ""}, "cwd"),
        ({"cwd": 7}, "cwd"),
        ({"env": {"A": "x\0y"}}, "env[A]"),
        ({"env": {"A": 7}}, "env[A]"),
        ({"env": {"A=B": "x"}}, "env[A]"),
        ({"env": {"A\0B": "x"}}, "env[A]"),
        ({"env": {"": "x"}}, "env[]"),
        ({"env": {7: "x"}}, "env"),
        ({"env": ["A=B"]}, "env"),
        ({"env_policy": "some"}, "env_policy"),
        ({"stdin": "text"}, "stdin"),
        ({"stdin": 7}, "stdin"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1.0}, "timeout"),
        ({"timeout": NAN}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": 10**400}, "timeout"),
        ({"timeout": "1"}, "timeout"),
        ({"background": 1}, "background"),
        ({"survivors": "drop"}, "survivors"),
        ({"name": "two\nlines"}, "name"),
        ({"name": "x" * 129}, "name"),
        ({"name": "\udcff"}, "name"),
        ({"output_limit": 0}, "output_limit"),
        ({"output_limit": -1}, "output_limit"),
        ({"output_limit": True}, "output_limit"),
        ({"output_limit": 1 << 60}, "output_limit"),
        ({"output_limit": 10**400}, "output_limit"),
        ({"on_output_limit": "kill"}, "on_output_limit"),
        ({"pty": 1}, "pty"),
        ({"split_streams": 1}, "split_streams"),
        ({"split_streams": True, "pty": True}, "split_streams"),
        ({"resources": {"umask": 0}}, "resources"),
        ({"origin_execution_id": "x"}, "origin_execution_id"),
        ({"origin_execution_id": UUID(int=0)}, "origin_execution_id"),
    ],
)
async def test_wrong_arguments_name_their_field_and_leave_no_record(arguments: dict[str, Any], field: str) -> None:
    """Nothing is admitted, recorded or told, the value is not shown, and the next start works."""
    defaults: dict[str, Any] = {"command": "true", "owner": OWNER}
    async with supervising(limits=Limits(running_per_loop=1)) as supervisor:
        with pytest.raises(InvalidCommandError) as caught:
            await supervisor.start(**(defaults | arguments))
        assert (caught.value.field, caught.value.code) == (field, ErrorCode.INVALID_ARGUMENTS)
        assert supervisor.list(OWNER) == []
        assert supervisor.pending() == []
        assert (await (await supervisor.start("true", owner=OWNER)).wait()).exit_code == 0


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"resources": ResourceLimits(open_files=10)}, ErrorCode.PROCESS_SETUP_FAILED),
        ({"resources": ResourceLimits(nice=5, umask=0)}, ErrorCode.PROCESS_SETUP_FAILED),
    ],
)
async def test_what_the_tier_cannot_do_is_refused_and_never_ignored(
    wish: dict[str, Any], code: ErrorCode, each_tier: Containment
) -> None:
    """A typed error before anything is recorded."""
    if "resources" in wish and each_tier is not Containment.PROCESS_GROUP:
        async with supervising() as supervisor:
            assert (await (await supervisor.start("true", owner=OWNER, **wish)).wait()).exit_code == 0
        return
    async with supervising() as supervisor:
        with pytest.raises(SupervisorError) as caught:
            await supervisor.start("true", owner=OWNER, **wish)
        assert caught.value.code is code
        assert supervisor.list(OWNER) == []
        assert supervisor.pending() == []


async def test_owners_of_another_session_are_refused() -> None:
    """A supervisor serves one session; anything with an owner will do, anything else will not."""
    stranger = type(OWNER)(session_id=UUID(int=5), loop_id=OWNER.loop_id)

    class Loop:
        owner = OWNER

    async with supervising() as supervisor:
        words = "0192f0c1-2345-7abc-8def-0123456789ab"
        ids: list[Any] = [(UUID(int=0), LOOP), (SESSION, UUID(int=0)), (words, LOOP), (SESSION, words), (SESSION, None)]
        no_owners: list[Any] = [None, "loop", *(type(OWNER)(session_id=one, loop_id=other) for one, other in ids)]
        for wrong in no_owners:
            with pytest.raises(InvalidCommandError, match="owner"):
                supervisor.list(wrong)
            with pytest.raises(InvalidCommandError, match="owner"):
                supervisor.get("a" * 22, wrong)
        for wrong in (stranger, *no_owners):
            with pytest.raises(SupervisorError) as caught:
                await supervisor.start("true", owner=wrong)
            assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
            assert supervisor.list(OWNER) == []
        process = await supervisor.start("true", owner=Loop())
        assert process.owner == OWNER


async def test_a_stronger_tier_than_there_is_is_refused_at_opening(each_tier: Containment) -> None:
    """`require` compares with what the launcher can do, before anything is spawned."""
    for stronger in Containment:
        if stronger > each_tier:
            with pytest.raises(SupervisorError) as caught:
                async with open_supervisor(None, session_id=SESSION, require=stronger, launcher=launcher_of(each_tier)):
                    raise AssertionError("opened")
            assert caught.value.code is ErrorCode.LIFETIME_ENFORCEMENT_UNAVAILABLE
        else:
            async with supervising(require=stronger) as supervisor:
                assert supervisor.containment is each_tier
                assert supervisor.containment.proven == (each_tier is not Containment.PROCESS_GROUP)


async def test_quotas_are_reserved_before_spawn_and_released_at_the_end() -> None:
    """Per loop and per session; a refused start leaves no record."""
    async with supervising(limits=Limits(running_per_loop=2, running_per_session=3)) as supervisor:
        first = await supervisor.start("sleep 60", owner=OWNER)
        await supervisor.start("sleep 60", owner=OWNER)
        with pytest.raises(QuotaExceededError) as caught:
            await supervisor.start("true", owner=OWNER)
        assert caught.value.code is ErrorCode.PROCESS_QUOTA_EXCEEDED
        await supervisor.start("sleep 60", owner=OTHER)
        with pytest.raises(QuotaExceededError):
            await supervisor.start("true", owner=OTHER)
        assert len(supervisor.list(OWNER)) == 2
        await first.stop()
        await supervisor.start("sleep 60", owner=OWNER)


async def test_failed_starts_give_their_place_back() -> None:
    """A hundred failures do not use up a quota of one."""
    async with supervising(limits=Limits(running_per_loop=1)) as supervisor:
        for _ in range(100):
            with pytest.raises(SpawnFailedError):
                await supervisor.start(["/no/such/program"], owner=OWNER)
        assert (await (await supervisor.start("true", owner=OWNER)).wait()).exit_code == 0


# --- recorded, and failed ---------------------------------------------------------------------------------------------


def _script(path: Path, text: str, mode: int) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


async def test_spawn_failures_are_told_apart(tmp_path: Path) -> None:
    """A missing directory, program and interpreter share an errno, and are different to who has to fix it."""
    plain = _script(tmp_path / "nx", "#!/bin/sh\n", 0o644)
    orphan = _script(tmp_path / "bi", "#!/no/such/interpreter\n", 0o755)
    neither = _script(tmp_path / "garbage", "\x7fnothing", 0o755)
    cases: list[tuple[Any, dict[str, Any], str, int]] = [
        (["true"], {"cwd": "/no/such/directory"}, "cwd", errno.ENOENT),
        (["true"], {"cwd": plain}, "cwd", errno.ENOTDIR),
        ("true", {"cwd": "/no/such/directory"}, "cwd", errno.ENOENT),
        (["no-such-program"], {}, "not_found", errno.ENOENT),
        (["/no/such/program"], {}, "not_found", errno.ENOENT),
        (["./no-such-program"], {"cwd": tmp_path}, "not_found", errno.ENOENT),
        ([plain], {}, "not_executable", errno.EACCES),
        (["./nx"], {"cwd": tmp_path}, "not_executable", errno.EACCES),
        (["nx"], {"env": {"PATH": str(tmp_path)}}, "not_executable", errno.EACCES),
        ([neither], {}, "not_executable", errno.ENOEXEC),
        ([orphan], {}, "interpreter_missing", errno.ENOENT),
        (["./bi"], {"cwd": tmp_path}, "interpreter_missing", errno.ENOENT),
        (["bi"], {"env": {"PATH": str(tmp_path)}}, "interpreter_missing", errno.ENOENT),
        (["true", "a" * 131_072], {}, "too_large", errno.E2BIG),
    ]
    async with supervising() as supervisor:
        for command, options, kind, number in cases:
            with pytest.raises(SpawnFailedError) as caught:
                await supervisor.start(command, owner=OWNER, **options)
            error = caught.value
            assert (error.kind, error.errno, error.code) == (kind, number, ErrorCode.SPAWN_FAILED), command
            assert str(tmp_path) not in str(error)
            process = supervisor.get(error.handle, OWNER)
            outcome = await process.wait()
            assert (outcome.state, outcome.reason) == (ProcessState.FAILED, TerminalReason.FAILED)
            assert outcome.diagnostic == f"spawn_failed:{kind}:{errno.errorcode[number]}"
            assert (outcome.started_at, outcome.exit_code, outcome.signal) == (None, None, None)
            completed, notification = told(supervisor.outbox)
            assert isinstance(completed, ProcessCompleted)
            assert completed.process.process_started_at is None
            assert completed.process.diagnostic == outcome.diagnostic
            assert isinstance(notification, ProcessNotification)
            assert notification.notification.command_id == process.command_id


async def test_no_descriptor_left_is_a_failure_of_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever in the spawn it happens, nothing is left, and the next start works."""
    calls = {"pipe": (os, "pipe"), "pidfd_open": (os, "pidfd_open"), "open": (os, "open")}

    async with supervising() as supervisor:
        for name, (module, attribute) in calls.items():
            with monkeypatch.context() as patch:

                def no_room(*_: object, **__: object) -> int:
                    raise OSError(errno.EMFILE, "Too many open files")

                patch.setattr(module, attribute, no_room)
                with pytest.raises(SpawnFailedError) as caught:
                    await supervisor.start("sleep 60", owner=OWNER)
            assert (caught.value.kind, caught.value.errno) == ("resources", errno.EMFILE), name
        assert (await (await supervisor.start("true", owner=OWNER)).wait()).exit_code == 0


async def test_the_store_fails_before_the_spawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is spawned, and the process still gets its last word once the store is back."""
    async with supervising() as supervisor:
        with (
            failing_saves(monkeypatch, lambda record: record.state is ProcessState.STARTING),
            pytest.raises(SpawnFailedError) as caught,
        ):
            await supervisor.start("echo ran", owner=OWNER)
        process = supervisor.get(caught.value.handle, OWNER)
        outcome = await process.wait()
        assert (outcome.diagnostic, outcome.started_at, outcome.total_bytes) == ("store_unavailable", None, 0)
        assert names(told(supervisor.outbox)) == ["ProcessCompleted", "ProcessNotification"]


@pytest.mark.parametrize("committed", [False, True])
async def test_the_store_fails_after_the_spawn(committed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree is killed, start raises, and the record ends failed; whether it ran is read back, not guessed."""
    async with supervising() as supervisor:
        with (
            failing_saves(
                monkeypatch, lambda record: record.state is ProcessState.RUNNING, committed=committed
            ) as failed,
            pytest.raises(SpawnFailedError) as caught,
        ):
            await supervisor.start("sleep 60 & sleep 60", owner=OWNER)
        process = supervisor.get(caught.value.handle, OWNER)
        outcome = await process.wait()
        assert (outcome.state, outcome.diagnostic) == (ProcessState.FAILED, "store_unavailable")
        assert outcome.signal == 9
        assert (outcome.started_at is not None) == committed
        expected = ["ProcessStarted"] if committed else []
        assert names(told(supervisor.outbox)) == [*expected, "ProcessCompleted", "ProcessNotification"]
        assert len(failed) == 1


# --- cancelled --------------------------------------------------------------------------------------------------------


async def _start_cancelled(supervisor: Supervisor, at: ProcessState, monkeypatch: pytest.MonkeyPatch) -> Process:
    """Start a process whose caller is cancelled while the state `at` is being stored."""
    save = Store.save
    with anyio.CancelScope() as scope, monkeypatch.context() as patch:

        async def cancelling(self: Store, record: ProcessRecord, units: Any = ()) -> None:
            if record.state is at:
                scope.cancel()
            await save(self, record, units)
            await checkpoint()

        patch.setattr(Store, "save", cancelling)
        await supervisor.start("echo ran; sleep 60", owner=OWNER)
    (process,) = supervisor.list(OWNER)
    return process


async def test_cancelled_before_the_spawn_leaves_no_process_and_a_failed_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record may be durable already, so it gets its last word: start_cancelled."""
    async with supervising(tmp_path) as supervisor:
        process = await _start_cancelled(supervisor, ProcessState.STARTING, monkeypatch)
        outcome = await process.wait()
        assert (outcome.state, outcome.diagnostic) == (ProcessState.FAILED, "start_cancelled")
        assert (outcome.total_bytes, outcome.started_at) == (0, None)
        assert names(told(supervisor.outbox)) == ["ProcessCompleted", "ProcessNotification"]


async def test_cancelled_after_the_spawn_it_is_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it was spawned the caller's scope has no power over it: it is recorded as running, and listed."""
    async with supervising(tmp_path) as supervisor:
        process = await _start_cancelled(supervisor, ProcessState.RUNNING, monkeypatch)
        assert process.state is ProcessState.RUNNING
        await process.stop()
        assert names(told(supervisor.outbox)) == [
            "ProcessStarted",
            "ProcessStopRequested",
            "ProcessCompleted",
            "ProcessNotification",
        ]


async def test_start_is_a_checkpoint() -> None:
    """A start in a cancelled scope starts nothing and records nothing."""
    async with supervising() as supervisor:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await supervisor.start("true", owner=OWNER)
        assert supervisor.list(OWNER) == []


async def test_a_closing_supervisor_starts_nothing() -> None:
    """After the block, too."""
    async with supervising() as supervisor:
        await supervisor.aclose()
        with pytest.raises(SupervisorError) as caught:
            await supervisor.start("true", owner=OWNER)
        assert caught.value.code is ErrorCode.SUPERVISOR_SHUTTING_DOWN
