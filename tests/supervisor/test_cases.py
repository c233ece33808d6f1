"""Public bug reports about running commands, boiled down: the ones that the process_group tier can truly satisfy.

Each test is named after its case and asserts every clause that applies to this tier; times are deadlines against
hanging (the holders live far longer), their figures belong to the benchmarks.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from supervising import OWNER, alive, names, output_of, supervising, told, until, wait_for_output

from lastword.notifier import ProcessCompleted, ProcessNotification, ProcessStarted, ProcessState
from lastword.supervisor import InvalidCommandError, Limits, SpawnFailedError
from lastword.supervisor.shim._ring import HEADER_BYTES, segment_of

pytestmark = pytest.mark.usefixtures("each_tier")

S = ProcessState

# A word that no other run on this machine has on its command lines.
MARK = os.getpid()
PYTHON = [sys.executable, "-IS"]


def running(marker: str) -> list[int]:
    """The live processes whose command line has `marker`."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if any(marker in word for word in process.cmdline()) and alive(process.pid):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize("survivors", ["stop", "keep"])
async def test_c02_background_child_that_keeps_writing(survivors: Any, tmp_path: Path) -> None:
    """C02: the end is bounded by time, not by silence, and a sealed end stays the end, whoever still writes."""
    ticks = tmp_path / "ticks"
    async with supervising() as supervisor:
        process = await supervisor.start(
            f"while :; do echo tick; echo >> {ticks}; sleep 0.02; done & echo $!; sleep 0.3; echo done",
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


async def test_c07_wait_ends_with_the_process_on_every_backend() -> None:
    """C07: a background child that holds the pipe does not hold up wait()."""
    async with supervising() as supervisor:
        with anyio.fail_after(10):
            process = await supervisor.start("sleep 60 & exit 7", owner=OWNER)
            assert (await process.wait()).exit_code == 7


async def test_c08_a_forked_server_does_not_hold_up_the_end() -> None:
    """C08: completed, the survivor reported, and told exactly once."""
    async with supervising() as supervisor:
        with anyio.fail_after(10):
            code = "import os,time\nif os.fork()==0: time.sleep(60)"
            process = await supervisor.start([*PYTHON, "-c", code], owner=OWNER)
            outcome = await process.wait()
        assert (outcome.exit_code, outcome.survivors) == (0, 1)
        assert names(told(supervisor.outbox)) == ["ProcessStarted", "ProcessCompleted", "ProcessNotification"]


async def test_c12_completion_leaves_no_children() -> None:
    """C12: twenty leaders that leave a child each: none is alive, and every exit code is the leader's."""
    async with supervising(limits=Limits(running_per_loop=20)) as supervisor:
        jobs = [await supervisor.start(f"sleep 301.{MARK}12 & exit 0", owner=OWNER) for _ in range(20)]
        outcomes = await supervisor.wait_all(jobs)
        assert {(outcome.exit_code, outcome.signal, outcome.state) for outcome in outcomes} == {(0, None, S.EXITED)}
        assert running(f"301.{MARK}12") == []


async def test_c15_the_whole_tree_is_killed() -> None:
    """C15: children of children end with it."""
    async with supervising() as supervisor:
        process = await supervisor.start(f"sh -c 'sh -c \"echo up; sleep 301.{MARK}15; :\"; :'", owner=OWNER)
        await wait_for_output(process, b"up")
        outcome = await process.stop()
        assert outcome is not None
        assert (outcome.state, outcome.signal) == (S.TERMINATED, signal.SIGTERM)
        assert running(f"301.{MARK}15") == []


async def test_c22_wait_is_cancel_safe() -> None:
    """C22: after a cancelled wait, a stop and two waits give one outcome."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER)
        with anyio.move_on_after(0.1) as scope:
            await process.wait()
        assert scope.cancelled_caught
        assert process.state is S.RUNNING
        await process.stop()
        assert await process.wait() is await process.wait()


async def test_c26_a_job_outlives_the_turn() -> None:
    """C26: its life is bound to the supervisor, not to the task that started it."""
    async with supervising() as supervisor:
        jobs: list[Any] = []
        async with anyio.create_task_group() as turn:

            async def act() -> None:
                jobs.append(await supervisor.start("sleep 0.3; echo ok", owner=OWNER, background=True))
                turn.cancel_scope.cancel()
                await anyio.sleep_forever()

            turn.start_soon(act)
        assert (await jobs[0].wait()).exit_code == 0
        assert await output_of(jobs[0]) == b"ok\n"


async def test_c36_binary_output() -> None:
    """C36: random bytes are kept exactly, and their text view fits JSON."""
    async with supervising() as supervisor:
        process = await supervisor.start("head -c 100000 /dev/urandom", owner=OWNER)
        assert (await process.wait()).exit_code == 0
        chunk = await process.read_output(0, 200_000)
        assert len(chunk.data) == 100_000
        assert json.loads(json.dumps(chunk.text.text)) == chunk.text.text


async def test_c38_one_long_line() -> None:
    """C38: a line is nothing special: every byte is there, in bounded pieces."""
    async with supervising() as supervisor:
        process = await supervisor.start([*PYTHON, "-c", "print('x'*1000000)"], owner=OWNER)
        assert (await process.wait()).exit_code == 0
        chunks = [chunk async for chunk in process.follow()]
        assert b"".join(chunk.data for chunk in chunks) == b"x" * 1_000_000 + b"\n"
        assert max(len(chunk.data) for chunk in chunks) <= 32 * 1024


async def test_c40_output_does_not_fill_the_disk(tmp_path: Path) -> None:
    """C40: never more than the limit and one segment on disk, the job goes on being drained, and no writer outlives the
    block."""
    async with supervising(tmp_path) as supervisor:
        process = await supervisor.start("yes", owner=OWNER, output_limit=1 << 20, timeout=0.5)
        outcome = await process.wait()
        assert outcome.state is S.TIMED_OUT
        assert outcome.total_bytes > 1 << 20
        most = HEADER_BYTES + (1 << 20) + segment_of(1 << 20)
        assert sum(file.stat().st_size for file in (tmp_path / "output").iterdir()) <= most
        assert len(await output_of(process)) == 1 << 20


async def test_c47_the_exit_code_is_no_text() -> None:
    """C47: it comes from the wait status; the text passes through untouched."""
    async with supervising() as supervisor:
        process = await supervisor.start("printf 'EXITCODESTART0EXITCODEEND'; exit 3", owner=OWNER)
        assert (await process.wait()).exit_code == 3
        assert await output_of(process) == b"EXITCODESTART0EXITCODEEND"


async def test_c49_carriage_returns() -> None:
    """C49: the raw bytes are exact, the view shows what a terminal would."""
    async with supervising() as supervisor:
        for command, raw, shown in (
            (r"printf 'first\rsecond\nthird\n'", b"first\rsecond\nthird\n", "second\nthird\n"),
            (r"printf 'a\r\nb\r\n'", b"a\r\nb\r\n", "a\nb\n"),
        ):
            process = await supervisor.start(command, owner=OWNER)
            await process.wait()
            chunk = await process.read_output()
            assert (chunk.data, chunk.text.text) == (raw, shown)


async def test_c52_nothing_to_read() -> None:
    """C52: stdin is at its end by default, whatever the host's own is."""
    reading, writing = os.pipe()
    saved = os.dup(0)
    os.dup2(reading, 0)
    try:
        os.write(writing, b"host's own")
        async with supervising() as supervisor:
            process = await supervisor.start("cat", owner=OWNER)
            outcome = await process.wait()
            assert (outcome.exit_code, outcome.total_bytes) == (0, 0)
        assert os.read(0, 100) == b"host's own"
    finally:
        os.dup2(saved, 0)
        for descriptor in (saved, reading, writing):
            os.close(descriptor)


async def test_c53_no_terminal_of_the_host() -> None:
    """C53: /dev/tty is nobody's: it fails fast."""
    async with supervising() as supervisor:
        process = await supervisor.start("read x </dev/tty && echo got", owner=OWNER)
        assert (await process.wait()).exit_code not in (0, None)
        assert b"got" not in (await output_of(process)).split()


async def test_c55_a_script_by_stdin() -> None:
    """C55: no quoting between the caller and the program."""
    script = b'print("$x `y` \\\\")\n'
    async with supervising() as supervisor:
        process = await supervisor.start([*PYTHON, "-"], owner=OWNER, stdin=script)
        assert (await process.wait()).exit_code == 0
        assert await output_of(process) == b"$x `y` \\\n"


async def test_c56_large_stdin() -> None:
    """C56: four megabytes come back identical, and the loop is free meanwhile."""
    data = os.urandom(4 << 20)
    async with supervising() as supervisor:
        echo = await supervisor.start(["cat"], owner=OWNER, stdin=data)
        count = await supervisor.start(["wc", "-c"], owner=OWNER, stdin=b"x" * (1 << 20))
        assert await output_of(echo) == data
        assert (await output_of(count)).strip() == b"1048576"


async def test_c57_input_that_nobody_reads_is_no_error() -> None:
    """C57, the part with initial stdin: a program that does not read it exits 0."""
    async with supervising() as supervisor:
        process = await supervisor.start(["true"], owner=OWNER, stdin=b"x" * (1 << 20))
        assert (await process.wait()).exit_code == 0


async def test_c62_signal_deaths_are_no_success() -> None:
    """C62: killed is told as a signal; a shell that passes 137 on has exited with it."""
    async with supervising() as supervisor:
        killed = await (await supervisor.start("kill -9 $$", owner=OWNER)).wait()
        assert (killed.exit_code, killed.signal, killed.shell_code, killed.state) == (None, 9, 137, S.EXITED)
        passed = await (await supervisor.start('sh -c "kill -9 \\$\\$"; exit $?', owner=OWNER)).wait()
        assert (passed.exit_code, passed.signal) == (137, None)
        codes = [item.process.exit_code for item in told(supervisor.outbox) if isinstance(item, ProcessCompleted)]
        assert codes == [137, 137]


async def test_c63_one_argument_of_128_kib() -> None:
    """C63: the largest that fits runs; one byte more is E2BIG at once, says the limit, and starts nothing."""
    async with supervising() as supervisor:
        process = await supervisor.start(["true", "a" * 131_071], owner=OWNER)
        assert (await process.wait()).exit_code == 0
        told(supervisor.outbox)
        with pytest.raises(SpawnFailedError, match="131072") as caught:
            await supervisor.start(["true", "a" * 131_072], owner=OWNER)
        assert (caught.value.kind, caught.value.errno) == ("too_large", errno.E2BIG)
        assert not [item for item in told(supervisor.outbox) if isinstance(item, ProcessStarted)]


async def test_c65_nul_in_a_command() -> None:
    """C65: the field is named, the next start works, and NUL in stdin is fine."""
    async with supervising() as supervisor:
        wrong: list[tuple[Any, dict[str, Any], str]] = [
            (["echo", "a\0b"], {}, "argv[1]"),
            ("true", {"env": {"A": "x\0y"}}, "env[A]"),
            ("true", {"cwd": "/t\0mp"}, "cwd"),
        ]
        for command, options, field in wrong:
            with pytest.raises(InvalidCommandError) as caught:
                await supervisor.start(command, owner=OWNER, **options)
            assert caught.value.field == field
            assert (await (await supervisor.start("true", owner=OWNER)).wait()).exit_code == 0
        process = await supervisor.start(["cat"], owner=OWNER, stdin=b"a\0b")
        assert await output_of(process) == b"a\0b"


async def test_c66_the_shell_tells_its_own_failures() -> None:
    """C66, the part under a shell: 127 missing, 126 not executable, as an ordinary exit."""
    async with supervising() as supervisor:
        for command, code in (("no-such-program-at-all", 127), ("/etc/passwd", 126)):
            outcome = await (await supervisor.start(command, owner=OWNER)).wait()
            assert (outcome.state, outcome.exit_code) == (S.EXITED, code)


async def test_c68_many_spawns_leak_nothing() -> None:
    """C68: a few hundred of each kind; `supervising` counts descriptors, threads and children at the end."""
    async with supervising(limits=Limits(retained_completed=5)) as supervisor:
        await (await supervisor.start(["true"], owner=OWNER)).wait()  # the first one brings what serves them all
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- a count of descriptors
        children = psutil.Process().children()
        for _ in range(200):
            with pytest.raises(SpawnFailedError):
                await supervisor.start(["/no/such/program"], owner=OWNER)
            await (await supervisor.start(["true"], owner=OWNER)).wait()
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 -- as above
        assert psutil.Process().children() == children


async def test_c70_cancelled_during_spawn() -> None:
    """C70: wherever the cancellation falls, nothing runs without a handle, and every Started has its last word."""
    async with supervising(
        limits=Limits(running_per_loop=100, running_per_session=100, spool_bytes=4096)
    ) as supervisor:
        for step in range(50):
            with anyio.move_on_after(step * 0.0001):
                await supervisor.start(["sleep", f"301.{MARK}70"], owner=OWNER)
        known = [process for process in supervisor.list(OWNER) if process.state is S.RUNNING]
        await until(lambda: len(running(f"301.{MARK}70")) == len([p for p in known if p.outcome is None]))
    assert running(f"301.{MARK}70") == []
    items = told(supervisor.outbox)
    started = {item.process.process_handle for item in items if isinstance(item, ProcessStarted)}
    completed = [item.process.process_handle for item in items if isinstance(item, ProcessCompleted)]
    assert started <= set(completed)
    assert len(completed) == len(set(completed))


async def test_c78_nobody_reads() -> None:
    """C78: a full pipe blocks nobody, and everything is there afterwards."""
    async with supervising() as supervisor:
        process = await supervisor.start("head -c 300000 /dev/zero", owner=OWNER)
        assert (await process.wait()).exit_code == 0
        assert len((await process.read_output(0, 400_000)).data) == 300_000


async def test_c79_simultaneous_completions(tmp_path: Path) -> None:
    """C79: a hundred that end together are a hundred notifications, each after its own start."""
    fifo = tmp_path / "barrier"
    os.mkfifo(fifo)
    limits = Limits(running_per_loop=100, running_per_session=100, aggregate_spool_bytes=100 * (64 << 20))
    async with supervising(limits=limits) as supervisor:
        jobs = [await supervisor.start(f"read x < {fifo}", owner=OWNER) for _ in range(100)]
        writing = os.open(fifo, os.O_RDWR)
        os.write(writing, b"go\n" * 100)
        await supervisor.wait_all(jobs)
        os.close(writing)
        items = told(supervisor.outbox)
        ids = [item.notification.command_id for item in items if isinstance(item, ProcessNotification)]
        assert sorted(ids) == sorted(process.command_id for process in jobs)
        for process in jobs:
            order = [
                type(item).__name__
                for item in items
                if not isinstance(item, ProcessNotification) and process.handle in repr(item)
            ]
            assert order == ["ProcessStarted", "ProcessCompleted"]


async def test_c96_the_hosts_keys_stay_with_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """C96: an allow-list by default."""
    monkeypatch.setenv("PROVIDER_KEY", "SEKRET")
    monkeypatch.setenv("LANG", "C.UTF-8")
    async with supervising() as supervisor:
        process = await supervisor.start("env", owner=OWNER)
        shown = (await output_of(process)).decode()
        assert "SEKRET" not in shown
        assert all(f"\n{name}=" in f"\n{shown}" for name in ("PATH", "HOME", "LANG"))


async def test_c97_commands_do_not_disturb_each_other() -> None:
    """C97: one that is suspended does not hold up the next, and goes on when it is continued."""
    async with supervising() as supervisor:
        first = await supervisor.start("echo $$; sleep 0.2; echo A", owner=OWNER)
        await wait_for_output(first, b"\n")
        pid = int((await first.read_output()).data)
        os.kill(pid, signal.SIGSTOP)
        second = await supervisor.start("echo B", owner=OWNER)
        assert (await second.wait()).exit_code == 0
        assert first.state is S.RUNNING
        os.kill(pid, signal.SIGCONT)
        assert (await first.wait()).exit_code == 0
        assert await output_of(first) == b"%d\nA\n" % pid


async def test_c99_a_clean_stop_is_no_crash() -> None:
    """C99: neither success nor failure is claimed of what was stopped."""
    async with supervising() as supervisor:
        sleeping = await supervisor.start("exec sleep 60", owner=OWNER)
        first = await sleeping.stop()
        trapping = await supervisor.start('trap "exit 0" TERM; echo up; while :; do sleep .1; done', owner=OWNER)
        await wait_for_output(trapping, b"up")
        second = await trapping.stop()
        assert first is not None
        assert second is not None
        assert (first.state, first.signal, first.exit_code) == (S.TERMINATED, 15, None)
        assert (second.state, second.signal, second.exit_code) == (S.TERMINATED, None, 0)


async def test_c100_a_stop_that_races_the_exit_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    """C100: an exit with 0 or a stop by SIGTERM, and nothing said."""
    async with supervising(limits=Limits(retained_completed=5)) as supervisor:
        for round_ in range(150):
            process = await supervisor.start(["sleep", "0.01"], owner=OWNER)
            await anyio.sleep(0.00015 * round_ % 0.014)
            outcome = await process.stop()
            assert outcome is not None
            assert (outcome.state, outcome.exit_code, outcome.signal) in (
                (S.EXITED, 0, None),
                (S.TERMINATED, None, 15),
            )
        told(supervisor.outbox)
    assert [record for record in caplog.records if record.levelname != "DEBUG"] == []
