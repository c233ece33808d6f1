"""What was run is nobody's business, and one job is none of another's (secrets, isolation)."""

from __future__ import annotations

import logging
import os
import signal
import stat
from pathlib import Path

import pytest
from cases_ground import contained, every_tier, group_tier, own_room, pids_of, running_in, told_once, within
from supervising import OWNER, output_of, supervising, until

import lastword
from lastword.notifier import ProcessState
from lastword.session import LoopScope
from lastword.supervisor import Containment, InvalidCommandError, SpawnFailedError, StdinClosedError, StopMode
from lastword.supervisor.shim._header import HEADER_BYTES
from lastword.supervisor.shim._ring import RingWriter

S = ProcessState

ARGUMENT, OUTPUT, VARIABLE, INPUT, FOLDER = (f"SEKRET{number}" for number in range(1, 6))


@every_tier
async def test_c95_no_secret_in_anything_that_is_written_or_said(
    state: Path | None, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With debug logging on: no argument, output, variable, input or path anywhere, but output in its own file."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("HOST_API_TOKEN", VARIABLE)
    cwd = tmp_path / FOLDER
    cwd.mkdir()
    said: list[str] = []
    async with running_in(state) as runtime:
        everything = lastword.EventFilter(enduring=LoopScope.all())
        async with runtime.session.subscribe(everything) as deliveries:
            process = await runtime.start(
                f": {ARGUMENT}; cat; echo {OUTPUT}; exit 3", env={"K": VARIABLE}, stdin=INPUT.encode(), cwd=cwd
            )
            stopped = await runtime.start(f"trap '' TERM; : {ARGUMENT}; sleep 60", env_policy="inherit")
            wrong: list[tuple[object, dict[str, object]]] = [
                ([f"/{FOLDER}/program", ARGUMENT], {}),
                (["true", ARGUMENT * 40_000], {}),
                ("true", {"cwd": f"/{FOLDER}"}),
                ("true", {"env": {"K": VARIABLE * 40_000}}),
            ]
            for command, options in wrong:
                with pytest.raises(SpawnFailedError) as caught:
                    await runtime.start(command, **options)  # type: ignore[arg-type]  # each is a valid call
                said += [str(caught.value), repr(caught.value), repr(caught.value.__dict__)]
            with pytest.raises(InvalidCommandError) as refused:
                await runtime.start(["true", f"{ARGUMENT}\0"])
            said += [str(refused.value), repr(refused.value)]
            said += [await _refused_input(runtime, pty=False), await _refused_input(runtime, pty=True)]
            outcome = await process.wait()
            assert outcome.exit_code == 3
            said.append(repr(await stopped.stop(StopMode.KILL)))
            said += [repr(notice) for notice in (await told_once(runtime, 4 + len(wrong))).values()]
            said += [repr(await anext(deliveries)) for _ in range(11 + len(wrong))]
        said += [repr(process), repr(outcome), repr(runtime.supervisor.list(runtime.loop)), repr(runtime)]
        said += [repr(delivery) for delivery in await runtime.pending()]
        chunk = await process.read_output()
        assert chunk.data == f"{INPUT}{OUTPUT}\n".encode()
        said.append(repr(chunk))
        folder = runtime.supervisor._works.output_folder.parent  # pyright: ignore[reportPrivateUsage]
        for path in [folder, *folder.rglob("*")]:
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), path.name
            assert "SEKRET" not in str(path.relative_to(folder))
            if path.is_file() and b"SEKRET" in path.read_bytes():
                assert path.read_bytes()[HEADER_BYTES:] == f"{INPUT}{OUTPUT}\n".encode()
                assert b"SEKRET" not in path.read_bytes()[:HEADER_BYTES]
    said += [caplog.text, *(str(record.__dict__) for record in caplog.records)]
    assert [text for text in said if "SEKRET" in text] == []


async def _refused_input(runtime: lastword.Runtime, *, pty: bool) -> str:
    """All that is said of input which waits, is too much, too long, too late; the process is stopped meanwhile."""
    said: list[str] = []
    process = await runtime.start(
        "stty -echo; echo up; exec sleep 60" if pty else "echo up; exec sleep 60", stdin="pipe", pty=pty
    )
    await process.wait_output(0)
    for _ in range(3):
        try:
            await process.send_input(INPUT.encode() * (1000 if pty else 100_000))
        except lastword.LastwordError as error:
            said += [str(error), repr(error), repr(error.__dict__)]
    assert len(said) == (9 if pty else 6)  # each that is too long, or after the first
    said += [repr(process), repr(process._job.input), repr(await process.stop(StopMode.KILL))]  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(StdinClosedError) as closed:
        await process.send_input(INPUT.encode())
    return "\n".join([*said, str(closed.value), repr(closed.value)])


@contained
async def test_c95_a_keeper_that_fails_shows_no_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own fault, with a value of the job's in it: the log says where it was, and nothing of the job."""
    with (own_room(monkeypatch, tmp_path / "room") / "_ring.py").open("a") as file:
        file.write("\n\ndef _fails(self, data):\n    raise ValueError(bytes(data))\n\n\nRingWriter.append = _fails\n")
    async with supervising() as supervisor:
        process = await supervisor.start(f": {ARGUMENT}; echo {OUTPUT}; sleep 60", owner=OWNER)
        outcome = await process.wait()
        assert (outcome.state, outcome.exit_code) == (S.FAILED, None)
    said = [caplog.text, repr(outcome), repr(process), *(str(record.__dict__) for record in caplog.records)]
    assert "_fails" in caplog.text
    assert [text for text in said if "SEKRET" in text] == []


@group_tier
async def test_c95_a_pump_in_the_host_that_fails_shows_no_secret(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same where no shim keeps the job, of pipes and of a terminal."""

    def _fails(_self: RingWriter, data: memoryview, _stream: int) -> None:
        raise ValueError(bytes(data))

    monkeypatch.setattr(RingWriter, "_keep", _fails)
    said: list[str] = []
    async with supervising() as supervisor:
        for pty in (False, True):
            process = await supervisor.start(f": {ARGUMENT}; echo {OUTPUT}; exit 3", owner=OWNER, pty=pty)
            outcome = await process.wait()
            assert (outcome.state, outcome.exit_code) == (S.EXITED, 3)
            assert outcome.output_error is not None
            said += [repr(outcome), repr(process), repr(await process.read_output())]
    said += [caplog.text, *(str(record.__dict__) for record in caplog.records)]
    assert caplog.text.count("in _fails") == 2
    assert [text for text in said if "SEKRET" in text] == []


@every_tier
async def test_c96_the_hosts_keys_stay_with_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """An allow-list by default; what is given is there, and the other policies do what they say."""
    monkeypatch.setenv("PROVIDER_KEY", "SEKRET")
    monkeypatch.setenv("LC_SECRETS", "fine")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/SEKRET")
    monkeypatch.setenv("LANG", "C.UTF-8")
    async with supervising() as supervisor:
        process = await supervisor.start("env; cat /proc/$PPID/environ; true", owner=OWNER, env={"MINE": "1"})
        await process.wait()
        shown = (await output_of(process)).decode()
        own = shown.partition("\0")[0]
        assert all(f"\n{name}=" in f"\n{own}" for name in ("PATH", "HOME", "LANG", "LC_SECRETS", "MINE"))
        process = await supervisor.start("env", owner=OWNER, env={"MINE": "1"})
        assert "SEKRET" not in (await output_of(process)).decode()
        process = await supervisor.start(["/usr/bin/env"], owner=OWNER, env_policy="none", env={"MINE": "1"})
        assert await output_of(process) == b"MINE=1\n"
        process = await supervisor.start("env", owner=OWNER, env_policy="inherit")
        assert b"PROVIDER_KEY=SEKRET\n" in await output_of(process)


@every_tier
async def test_c97_commands_do_not_disturb_each_other() -> None:
    """One that is suspended does not hold up the next, and goes on when it is continued."""
    async with supervising() as supervisor:
        first = await supervisor.start("echo $$; read line; echo A", owner=OWNER, stdin="pipe")
        (pid,) = await pids_of(first)
        os.kill(pid, signal.SIGSTOP)
        await first.send_input(b"\n")  # what it waits for is there
        with within(0.5):
            second = await supervisor.start("echo B", owner=OWNER)
            assert (await second.wait()).exit_code == 0
            assert await output_of(second) == b"B\n"
        assert first.state is S.RUNNING
        os.kill(pid, signal.SIGCONT)
        assert (await first.wait()).exit_code == 0
        assert await output_of(first) == b"%d\nA\n" % pid


@every_tier
async def test_c97_one_that_signals_all_it_can_disturbs_nobody(tier: Containment) -> None:
    """Its group, its session, its parents where those are not the host; and it may stop itself for good."""
    hostile = [
        "kill -INT 0; sleep 60",
        "trap '' TERM; kill -TERM 0; kill -KILL 0",
        "kill -STOP $$",
        "sleep 60 & kill -STOP 0",
    ]
    if tier.proven:
        hostile += ["kill -STOP $PPID; sleep 0.2; kill -STOP $PPID", "kill -TERM $PPID; kill -INT $PPID; exit 0"]
    async with supervising() as supervisor:
        first = await supervisor.start("echo up; read line <&- ; sleep 60 & wait", owner=OWNER)
        for command in hostile:
            process = await supervisor.start(command, owner=OWNER)
            with within(1):
                second = await supervisor.start("echo B; exit 3", owner=OWNER)
                assert (await second.wait()).exit_code == 3
                assert await output_of(second) == b"B\n"
                await process.stop(StopMode.KILL)
            assert first.state is S.RUNNING
        outcome = await first.stop()
        assert outcome is not None
        assert outcome.state is S.TERMINATED


@contained
async def test_c97_a_job_has_nothing_of_the_hosts_session() -> None:
    """Neither its session, nor its group, nor a parent in it."""
    async with supervising() as supervisor:
        process = await supervisor.start("cat /proc/$$/stat; exec sleep 60", owner=OWNER)
        await process.wait_output(0)
        stat_line = (await process.read_output()).data.decode()
        pid, (_, parent, group, session) = int(stat_line.split()[0]), stat_line.rpartition(") ")[2].split()[:4]
        assert (int(group), int(session)) == (pid, pid)
        assert int(parent) != os.getpid()
        await until(lambda: os.getsid(pid) != os.getsid(0))
