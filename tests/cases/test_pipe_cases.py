"""Who holds the output does not hold up the end; who does not read it blocks nobody (pipe-held, pipe-full)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from cases_ground import (
    PYTHON,
    end_marked,
    every_tier,
    gone,
    keepers_have,
    running,
    running_in,
    story_of,
    together,
    told_once,
    within,
    words,
)
from supervising import OWNER, alive, output_of, supervising, until

from lastword.notifier import ProcessState
from lastword.supervisor import Limits, Supervisor, Survivors

S = ProcessState

LIMITS = Limits(running_per_loop=32, spool_bytes=1 << 20)

# Until what was started last is executed, and has let go of what it shared with its shell.
_EXECUTED = "while [ /proc/$!/exe -ef /proc/$$/exe ]; do :; done; until set -- /proc/$!/fd/*; [ $# = 3 ]; do :; done"

# The case's three, and others of their kind: other shells, deeper, one stream each; whether output stays open.
HOLDERS = {
    "sleep {0} & echo hi": True,
    "sleep {0} </dev/null >/dev/null & echo hi": True,
    f"sleep {{0}} </dev/null >/dev/null 2>&1 & {_EXECUTED}; echo hi": False,
    "exec bash -c 'sleep {0} 2>/dev/null & disown; echo hi'": True,
    "(sh -c '(exec sleep {0}) & exit 0'); echo hi": True,
    "exec 7>&1; sleep {0} >/dev/null 2>&1 & exec 7>&-; echo hi": True,
}


@every_tier
async def test_c01_a_quiet_background_child_holds_the_pipe(mark: str) -> None:
    """Completed with its own code and output at once; the holder is counted, and open output is told."""

    async def hold(supervisor: Supervisor, own: str, command: str, held: bool, survivors: Survivors) -> None:
        with within(2):
            process = await supervisor.start(command.format(own), owner=OWNER, survivors=survivors)
            outcome = await process.wait()
        assert (outcome.state, outcome.exit_code, outcome.survivors) == (S.EXITED, 0, 1), command
        assert outcome.output_open is held, command
        assert await output_of(process) == b"hi\n"
        if survivors == "stop":
            assert running(own) == [], command
        else:
            await until(lambda: len(running(own)) == 1)  # it may just be about to execute
        await process.stop()  # by its handle, also after its end
        assert running(own) == []

    async with supervising(limits=LIMITS) as supervisor:
        policies: list[Survivors] = ["stop", "keep"]
        await together(
            partial(hold, supervisor, f"{mark}{number}{policy[0] == 'k':d}", command, held, policy)
            for number, (command, held) in enumerate(HOLDERS.items())
            for policy in policies
        )


@every_tier
async def test_c02_a_background_child_keeps_writing(tmp_path: Path) -> None:
    """The end is bounded by time, not by silence, and a sealed end stays the end, whoever still writes."""

    async def write(supervisor: Supervisor, ticks: Path, wait: str, survivors: Survivors) -> None:
        ticks.touch()
        with within(3):
            process = await supervisor.start(
                f"while :; do echo tick; echo >> {ticks}; {wait}; done & echo $!; sleep 0.3; echo done",
                owner=OWNER,
                survivors=survivors,
            )
            assert (await process.wait()).exit_code == 0
        data = await output_of(process)
        assert b"done\n" in data
        if survivors == "stop":
            (pid,) = [int(line) for line in data.split() if line.isdigit()]
            assert not alive(pid)
        else:
            written = ticks.stat().st_size
            await until(lambda: ticks.stat().st_size >= written + 2)
        chunk = await process.read_output(len(data))
        assert (chunk.data, chunk.ended, chunk.total) == (b"", True, len(data))
        await process.stop()

    async with supervising(limits=Limits(running_per_loop=32)) as supervisor:
        policies: list[Survivors] = ["stop", "keep"]
        await together(
            partial(write, supervisor, tmp_path / f"{number}-{policy}", wait, policy)
            for number, wait in enumerate(("sleep 0.05", ":"))
            for policy in policies
        )


@every_tier
async def test_c03_process_substitution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it had still to pass on is in the output, the code is the leader's, and no tee is left."""
    log = tmp_path / "x.log"
    # However long who passes it on is kept from running.
    keepers_have(monkeypatch, tmp_path / "room", SILENCE_SECONDS=60.0, DRAIN_SECONDS=60.0)
    async with supervising() as supervisor:
        for command in (
            "exec > >(tee -a {0}) 2>&1; echo hi; exit 3",
            "exec > >(cat | tee -a {0}) 2> >(tee -a {0} >&2); echo hi; exit 3",
        ):
            with within(2):
                process = await supervisor.start(["bash", "-c", command.format(log)], owner=OWNER)
                assert (await process.wait()).exit_code == 3
            assert await output_of(process) == b"hi\n"
            assert running(f"tee\0-a\0{log}") == []
    assert log.read_text() == "hi\nhi\n"


@every_tier
async def test_c07_wait_ends_with_the_process_on_every_backend(mark: str) -> None:
    """A background child that holds the pipe does not hold up wait(), by whatever shell it was left."""

    async def wait(supervisor: Supervisor, command: list[str]) -> None:
        with within(1):
            process = await supervisor.start(command, owner=OWNER)
            assert (await process.wait()).exit_code == 7

    async with supervising() as supervisor:
        commands = (
            ["sh", "-c", f"sleep {mark} & exit 7"],
            ["bash", "-c", f"coproc sleep {mark}; exit 7"],
            ["sh", "-c", f"(sleep {mark}; :) & (exit 7)"],
            [*PYTHON, "-c", f"import os; os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '{mark}'); os._exit(7)"],
        )
        await together(partial(wait, supervisor, command) for command in commands)


_SERVER = """
import os
reading, writing = os.pipe()
if os.fork() == 0:
    {daemonize}
    os.execlp("sleep", "sleep", "{mark}")
os.close(writing)
{lead}
"""

# Until the server is executed, and who has forked it in between has ended.
_SERVES = "os.read(reading, 1)"


@every_tier
async def test_c08_a_forked_server_does_not_hold_up_the_end(state: Path | None, mark: str) -> None:
    """Completed, the survivor counted, and the end told exactly once."""
    servers = (("pass", "pass"), ("os.fork() and os._exit(0)", _SERVES))
    async with running_in(state) as runtime:
        for daemonize, lead in servers:
            with within(2):
                code = _SERVER.format(daemonize=daemonize, lead=lead, mark=mark)
                process = await runtime.start([*PYTHON, "-c", code])
                outcome = await process.wait()
            assert (outcome.state, outcome.exit_code, outcome.survivors) == (S.EXITED, 0, 1)
            with within(1):
                await gone(mark)
        told = await told_once(runtime, 2)
        assert {notification.state for notification in told.values()} == {S.EXITED}
        story = await story_of(runtime)
        assert [words(events) for events in story.values()] == [["ProcessStarted", "ProcessCompleted"]] * 2


@every_tier
async def test_c08_a_server_that_has_left_its_group(mark: str) -> None:
    """Where the tree is held it is counted and ended like any other; else nothing is claimed."""
    async with supervising() as supervisor:
        with within(2):
            code = _SERVER.format(daemonize="os.setsid()", lead=_SERVES, mark=mark)
            process = await supervisor.start([*PYTHON, "-c", code], owner=OWNER)
            outcome = await process.wait()
        assert (outcome.state, outcome.exit_code, outcome.output_open) == (S.EXITED, 0, True)
        if outcome.containment.proven:
            assert (outcome.survivors, outcome.proven, running(mark)) == (1, True, [])
        else:
            assert (outcome.survivors, outcome.proven) == (0, False)
            await until(lambda: len(running(mark)) == 1)  # it has no name yet for an instant
            end_marked(mark)


@every_tier
async def test_c78_nobody_reads() -> None:
    """Full pipes block nobody, and everything is there afterwards; also when others are read, and for children."""
    commands = (
        "head -c 300000 /dev/zero",
        "head -c 150000 /dev/zero >&2; head -c 150000 /dev/zero",
        "head -c 300000 /dev/zero | cat & wait",
        *["head -c 300000 /dev/zero"] * 10,
    )
    async with supervising(limits=LIMITS) as supervisor:
        with within(4):
            read = await supervisor.start(commands[0], owner=OWNER)
            unread = [await supervisor.start(command, owner=OWNER) for command in commands]
            unread += [await supervisor.start(command, owner=OWNER, split_streams=True) for command in commands[:3]]
            assert await output_of(read) == bytes(300_000)
            assert {outcome.exit_code for outcome in await supervisor.wait_all(unread)} == {0}
        for process in unread:
            assert (await process.read_output(0, 400_000)).data == bytes(300_000)
