"""A terminal for a job: what it is to the program, what is typed, its size, Ctrl-C, and its end."""

from __future__ import annotations

import errno
import os
import selectors
import shutil
import signal
import sys
import tty
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
import supervising as support
from shim_ground import all_gone, pids_of, shim_of, stopped, zygote_of
from supervising import OWNER, output_of, supervising, told, until, wait_for_output

from lastword.notifier import ProcessState, SystemClock
from lastword.supervisor import (
    Containment,
    ErrorCode,
    InputBackpressureError,
    InvalidCommandError,
    Limits,
    Process,
    ResourceLimits,
    SpawnFailedError,
    StdinClosedError,
    StopMode,
    Supervisor,
    SupervisorError,
    TerminalSize,
)
from lastword.supervisor._reactor import Reactor
from lastword.supervisor._timers import Timers
from lastword.supervisor.launch import _job_spec, open_terminal
from lastword.supervisor.shim import _terminal
from lastword.supervisor.shim._ring import RingWriter

S = ProcessState

LINE = 4095
"""Bytes of a line in canonical mode."""

LEFT = "stty -icanon min 0 time 0; cat | od -c"
"""What has been typed and not read, without lines: nothing must be there of an end that was read."""


async def run(supervisor: Supervisor, command: str | list[str], code: int = 0) -> bytes:
    """What a command has written on a terminal, at its end."""
    process = await supervisor.start(command, owner=OWNER, pty=True)
    assert (await process.wait()).exit_code == code
    return await output_of(process)


# --- what it is to the program


async def test_it_is_the_controlling_terminal_and_all_three_streams(each_tier: Containment) -> None:
    """One terminal, of the size that was asked for before anything ran, in the foreground; and no other descriptor."""
    script = (
        "test -t 0 && test -t 1 && test -t 2 && echo three; stty size; echo devtty >/dev/tty; ls -1 /proc/$$/fd; "
        "tty; readlink /proc/$$/fd/1; readlink /proc/$$/fd/2; cut -d' ' -f1,5,6,8 /proc/$$/stat"
    )
    async with supervising() as supervisor:
        process = await supervisor.start(script, owner=OWNER, pty=TerminalSize(rows=40, cols=120))
        assert (await process.wait()).exit_code == 0
        *lines, numbers = (await output_of(process)).decode().split("\r\n")[:-1]
        assert lines[:6] == ["three", "40 120", "devtty", "0", "1", "2"]
        assert len(set(lines[6:])) == 1
        assert lines[6].startswith("/dev/pts/")
        pid, group, session, foreground = numbers.split()
        assert pid == group == session == foreground
        assert await run(supervisor, "stty size") == b"24 80\r\n"
        assert await run(supervisor, "test -t 0 || exit 3; exit 4", 4) == b""


async def test_without_it_there_is_none(each_tier: Containment) -> None:
    """A pipe is no terminal, and the host's own is not there."""
    async with supervising() as supervisor:
        process = await supervisor.start("test -t 0 || test -t 1 || : </dev/tty", owner=OWNER, stdin="pipe")
        assert (await process.wait()).exit_code != 0


async def test_it_is_a_job_like_any_other(tmp_path: Path, each_tier: Containment) -> None:
    """Environment, folder, umask and signals are what they are without."""
    (tmp_path / "here").mkdir()
    async with supervising() as supervisor:
        process = await supervisor.start(
            "pwd; umask; echo $MINE; grep -E 'Sig(Blk|Ign)' /proc/self/status | cut -f2; env | wc -l",
            owner=OWNER,
            pty=True,
            cwd=tmp_path / "here",
            env={"MINE": "1"},
            env_policy="none",
            resources=ResourceLimits(umask=0o027),
        )
        assert (await process.wait()).exit_code == 0
        lines = (await output_of(process)).decode().split("\r\n")
        assert lines[:3] == [str(tmp_path / "here"), "0027", "1"]
        # But for 32 and 33, which are the C library's own, and ignored in all that `make` runs.
        assert [int(line, 16) & ~(0b11 << 31) for line in lines[3:5]] == [0, 0]
        assert int(lines[5]) <= 4  # its own variable, and what the shell sets itself


async def test_starts_that_fail_are_told_apart(tmp_path: Path, each_tier: Containment) -> None:
    """As without a terminal: by the step, with its errno; and none is left (`supervising` counts descriptors)."""
    (tmp_path / "text").write_text("nothing to run")
    async with supervising() as supervisor:
        for command, options, kind in (
            (["/no/such/program"], {}, "not_found"),
            ([str(tmp_path / "text")], {}, "not_executable"),
            (["true"], {"cwd": tmp_path / "missing"}, "cwd"),
            (["true", "a" * 131_072], {}, "too_large"),
        ):
            with pytest.raises(SpawnFailedError) as caught:
                await supervisor.start(command, owner=OWNER, pty=True, **options)  # type: ignore[arg-type]
            assert caught.value.kind == kind
        told(supervisor.outbox)
        assert await run(supervisor, "echo fine") == b"fine\r\n"


async def test_no_interpreter_to_spawn_it_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no shim does it, one is needed; that is said, and the program is not blamed."""
    monkeypatch.setattr(support, "tier", Containment.PROCESS_GROUP)
    async with supervising() as supervisor:
        for other in ("/no/such/python", *filter(None, (shutil.which("true"), shutil.which("false")))):
            with monkeypatch.context() as patch:
                patch.setattr(sys, "executable", other)
                with pytest.raises(SpawnFailedError, match=r"sys\.executable") as caught:
                    await supervisor.start("true", owner=OWNER, pty=True)
            assert caught.value.kind == "other"
        assert await run(supervisor, "echo fine") == b"fine\r\n"


async def test_a_start_that_fails_where_a_zombie_may_not_be_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS: what failed is told, and not that."""
    monkeypatch.setattr(support, "tier", Containment.PROCESS_GROUP)
    asked: list[int] = []

    def killpg(group: int, _number: int) -> None:
        asked.append(group)
        os.waitid(os.P_PID, group, os.WEXITED | os.WNOWAIT)
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    async with supervising() as supervisor:
        with monkeypatch.context() as patch:
            patch.setattr(os, "killpg", killpg)
            with pytest.raises(SpawnFailedError) as caught:
                await supervisor.start(["/no/such/program"], owner=OWNER, pty=True)
        assert (caught.value.kind, len(asked)) == ("not_found", 1)


async def test_where_the_system_does_not_tell_the_umask(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without /proc, and on macOS: the job has the host's all the same, or its own."""
    monkeypatch.setattr(support, "tier", Containment.PROCESS_GROUP)
    monkeypatch.setattr(_job_spec, "umask_of_self", _untold)
    before = os.umask(0o026)
    try:
        async with supervising() as supervisor:
            assert await run(supervisor, "umask") == b"0026\r\n"
            own = await supervisor.start("umask", owner=OWNER, pty=True, resources=ResourceLimits(umask=0o007))
            assert await output_of(own) == b"0007\r\n"
    finally:
        os.umask(before)


def _untold() -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


async def test_bytes_and_a_terminal_are_one_too_many() -> None:
    """Which of them is to be read?  Refused by the field; a pipe is nothing else than what is typed."""
    async with supervising() as supervisor:
        with pytest.raises(InvalidCommandError, match="send_input") as caught:
            await supervisor.start("cat", owner=OWNER, stdin=b"", pty=True)
        assert caught.value.field == "stdin"
        assert supervisor.list(OWNER) == []
        process = await supervisor.start("read x; echo got $x", owner=OWNER, stdin="pipe", pty=True)
        await process.send_input(b"it\n")
        await process.wait()
        assert await output_of(process) == b"it\r\ngot it\r\n"


# --- its size


async def test_a_new_size_is_told_by_sigwinch(each_tier: Containment) -> None:
    """To the foreground processes."""
    script = "trap 'stty size' WINCH; echo up; while :; do sleep 0.01; done"
    async with supervising() as supervisor:
        process = await supervisor.start(script, owner=OWNER, pty=True)
        await wait_for_output(process, b"up\r\n")
        for rows, cols in ((50, 100), (1, 1), (65535, 65535)):
            await process.resize(rows, cols)
            await wait_for_output(process, b"%d %d\r\n" % (rows, cols))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await process.resize(9, 9)
        await process.resize(7, 7)
        await wait_for_output(process, b"7 7\r\n")
        assert b"9 9\r\n" not in await _so_far(process)


async def _so_far(process: Process) -> bytes:
    return (await process.read_output(0, 1 << 20)).data


async def test_a_size_that_cannot_be_is_refused() -> None:
    """By the argument; without a terminal, or after its end, by that."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER, pty=True)
        for rows, cols in ((0, 80), (24, 0), (-1, 80), (65536, 80), (24, 65536), (True, 80), ("24", 80), (2.5, 80)):
            with pytest.raises(SupervisorError) as caught:
                await process.resize(rows, cols)  # type: ignore[arg-type]  # what it is about
            assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
        await process.stop()
        piped = await supervisor.start("sleep 60", owner=OWNER, stdin="pipe")
        for each, word in ((process, "ended"), (piped, "without a terminal")):
            with pytest.raises(SupervisorError, match=word) as caught:
                await each.resize(24, 80)
            assert caught.value.code is ErrorCode.PTY_UNAVAILABLE


# --- what is typed


async def test_what_is_typed_is_echoed_and_read_line_by_line(each_tier: Containment) -> None:
    """Unless the program has said otherwise."""
    script = "read x; echo got $x; stty -echo; echo quiet; read x; echo got $x"
    async with supervising() as supervisor:
        process = await supervisor.start(script, owner=OWNER, pty=True)
        await process.send_input(b"sh")
        await process.send_input(b"own\n")
        await wait_for_output(process, b"quiet\r\n")
        await process.send_input(b"hidden\r")  # what the Enter key sends
        assert (await process.wait()).exit_code == 0
        assert await output_of(process) == b"shown\r\ngot shown\r\nquiet\r\ngot hidden\r\n"


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (b"", b""),
        (b"whole\n", b"whole\n"),
        (b"not whole", b"not whole"),
        (b"one\ntw", b"one\ntw"),
        (b"one\ntw\x15", b"one\n"),
    ],
    ids=["nothing", "a line", "the beginning of one", "both", "one that was taken back"],
)
@pytest.mark.parametrize("eof", ["^D", "^E"])
async def test_the_end_of_what_is_typed(typed: bytes, read: bytes, eof: str) -> None:
    """The program's own character for it, twice behind an unfinished line; asked for once, and nothing after it."""
    async with supervising() as supervisor:
        process = await supervisor.start(
            f"stty -echo eof '{eof}'; echo up; cat; {LEFT}; echo end", owner=OWNER, pty=True
        )
        await wait_for_output(process, b"up\r\n")
        await process.send_input(typed)
        await process.close_input()
        await process.close_input()
        with pytest.raises(StdinClosedError):
            await process.send_input(b"more")
        assert (await process.wait()).exit_code == 0
        assert await output_of(process) == b"up\r\n" + read.replace(b"\n", b"\r\n") + b"0000000\r\nend\r\n"


async def test_the_end_in_a_raw_mode_is_the_character_itself() -> None:
    """As if it were typed: a line editor takes it for the end, another program reads it.  Its terminal goes on."""
    async with supervising() as supervisor:
        script = "stty raw -echo; echo up; head -c 3 | od -c; stty min 0 time 0; cat | od -c; echo end; sleep 60"
        process = await supervisor.start(script, owner=OWNER, pty=True)
        await wait_for_output(process, b"up\n")
        await process.send_input(b"ab")
        await process.close_input()
        await wait_for_output(process, b"end\n")
        assert (await _so_far(process)).splitlines()[1:] == [
            b"0000000   a   b 004",
            b"0000003",
            b"0000000",
            b"end",
        ]
        await process.resize(30, 30)


async def test_the_end_after_a_raw_mode() -> None:
    """What was read without lines is no unfinished line."""
    script = f"stty raw -echo; echo up; head -c 2; stty -raw -echo; echo lines; cat; {LEFT}; echo end"
    async with supervising() as supervisor:
        process = await supervisor.start(script, owner=OWNER, pty=True)
        await wait_for_output(process, b"up\n")
        await process.send_input(b"ab")
        await wait_for_output(process, b"lines\r\n")
        await process.close_input()
        assert (await process.wait()).exit_code == 0
        assert (await output_of(process)).split() == [b"up", b"ablines", b"0000000", b"end"]


async def test_typing_where_nobody_has_it_open() -> None:
    """The system would say for ever that there is something to see; so it is closed for input, after a while."""
    reactor, timers = Reactor(), Timers(SystemClock())
    typed = open_terminal(reactor, timers, TerminalSize(), 1_000_000)
    for _ in range(100):
        typed.send(b"x" * 4000 + b"\n")
    assert not reactor._selector.get_map()  # pyright: ignore[reportPrivateUsage]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(timers.run)
        with anyio.fail_after(30), pytest.raises(StdinClosedError, match="nobody is left"):
            while True:
                typed.send(b"")
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert not reactor._selector.get_map()  # pyright: ignore[reportPrivateUsage]
    typed.resize(TerminalSize(rows=1, cols=1))
    typed.close()
    with pytest.raises(SupervisorError, match="ended"):
        typed.resize(TerminalSize(rows=1, cols=1))
    reactor.close()


async def test_who_closes_it_while_something_waits_and_opens_it_again() -> None:
    """The queue does not ask meanwhile: it would be told for ever that there is something to see."""
    reactor, timers = Reactor(), Timers(SystemClock())
    typed = open_terminal(reactor, timers, TerminalSize(), 1_000_000)
    watched = reactor._selector.get_map()  # pyright: ignore[reportPrivateUsage]
    job = os.open(typed.path, os.O_RDWR | os.O_NOCTTY)
    tty.setraw(job)
    typed.send(b"x" * 60_000)
    assert watched
    os.close(job)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(timers.run)
            tasks.start_soon(reactor.run)
            await until(lambda: not watched)
            job = os.open(typed.path, os.O_RDWR | os.O_NOCTTY)
            left = 60_000
            while left:
                await anyio.wait_readable(job)
                left -= len(os.read(job, 4096))
            tasks.cancel_scope.cancel()
    assert not watched
    os.close(job)
    typed.close()
    reactor.close()


async def test_typing_while_nobody_has_it_open_for_a_moment(tmp_path: Path, each_contained_tier: Containment) -> None:
    """A job has closed it, and its keeper has not opened it yet: what is typed is read later, all of it."""
    gate, closed, again = tmp_path / "gate", tmp_path / "closed", tmp_path / "again"
    os.mkfifo(gate)
    os.mkfifo(again)
    script = (
        f"stty raw -echo; echo $$; read x <{gate}; exec <&- >&- 2>&-; : >{closed}; read x <{again}; "
        f"exec </dev/tty >/dev/tty; head -c 60000 | wc -c"
    )
    async with supervising() as supervisor:
        process = await supervisor.start(script, owner=OWNER, pty=True)
        (leader,) = await pids_of(process)
        shim = shim_of(leader)
        with stopped(zygote_of(shim)), stopped(shim):
            os.close(os.open(gate, os.O_WRONLY))
            await until(closed.exists)
            await process.send_input(b"x" * 60_000)
            await process.resize(5, 5)
        os.close(os.open(again, os.O_WRONLY))
        await wait_for_output(process, b"60000")
        assert (await process.wait()).exit_code == 0


async def test_a_terminal_without_an_end_of_file_has_none() -> None:
    """A program may have turned it off: nothing is typed then."""
    async with supervising() as supervisor:
        process = await supervisor.start("stty -echo eof undef; echo up; cat", owner=OWNER, pty=True)
        await wait_for_output(process, b"up\r\n")
        await process.send_input(b"line\n")
        await process.close_input()
        await wait_for_output(process, b"line\r\n")
        outcome = await process.stop()
        assert outcome is not None
        assert await output_of(process) == b"up\r\nline\r\n"


async def test_a_line_that_would_be_cut_is_refused(each_tier: Containment) -> None:
    """Of the longest that fits every byte is read; one more, also in two pieces, and nothing of the call is taken."""
    script = "stty -echo; echo up; while read -r x; do echo ${#x}; done"
    async with supervising() as supervisor:
        process = await supervisor.start(script, owner=OWNER, pty=True)
        await wait_for_output(process, b"up\r\n")
        await process.send_input(b"a" * LINE + b"\n")
        await wait_for_output(process, b"4095\r\n")

        async def refused(data: bytes) -> None:
            with pytest.raises(SupervisorError, match="4095") as caught:
                await process.send_input(data)
            assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
            assert "stty raw" in str(caught.value)

        for data in (b"a" * 6000 + b"\n", b"a" * (LINE + 1), b"ok\n" + b"a" * (LINE + 1) + b"\nok\n"):
            await refused(data)
        await process.send_input(b"b" * 4000)
        await refused(b"b" * 96)
        await process.send_input(b"b" * 95)
        await refused(b"b")
        await process.send_input(b"\n" + b"c" * 10 + b"\r" + (b"d" * 4090 + b"\n") * 20)
        await process.close_input()
        assert (await process.wait()).exit_code == 0
        assert (await output_of(process)).split() == [b"up", b"4095", b"4095", b"10"] + [b"4090"] * 20


@pytest.mark.parametrize("key", [b"\x03", b"\x1c", b"\x1a"], ids=["^C", "^\\", "^Z"])
async def test_a_key_that_signals_does_away_with_the_line(key: bytes) -> None:
    """So what comes after it is a line of its own; not so where the program has said that nothing is to be lost."""
    script = "trap '' INT QUIT TSTP; stty -echo; echo up; read -r x; echo ${#x}; stty noflsh; echo again; read -r x"
    async with supervising() as supervisor:
        process = await supervisor.start(script, owner=OWNER, pty=True)
        await wait_for_output(process, b"up\r\n")
        await process.send_input(b"a" * LINE + key + b"b" * 200)
        await process.send_input(b"\n")
        await wait_for_output(process, b"again\r\n")
        with pytest.raises(SupervisorError, match="4095"):
            await process.send_input(b"a" * LINE + key + b"b" * 200)
        await process.send_input(b"a" * LINE + b"\n")
        await process.wait()
        assert (await output_of(process)).split() == [b"up", b"200", b"again"]


async def test_without_lines_any_length_is_read(each_tier: Containment) -> None:
    """A megabyte without the end of a line, in raw mode."""
    data = os.urandom(500_000).hex().encode()
    async with supervising() as supervisor:
        process = await supervisor.start("stty raw -echo; echo up; head -c 1000000", owner=OWNER, pty=True)
        await wait_for_output(process, b"up\n")
        await process.send_input(data)
        assert (await process.wait()).exit_code == 0
        assert await output_of(process) == b"up\n" + data


async def test_one_that_never_reads(each_tier: Containment) -> None:
    """What is typed waits, is refused beyond the limit, and does not keep it from being stopped."""
    async with supervising(limits=Limits(pending_input_bytes=100_000)) as supervisor:
        process = await supervisor.start("stty raw -echo; echo up; exec sleep 60", owner=OWNER, pty=True)
        await wait_for_output(process, b"up\n")
        with pytest.raises(InputBackpressureError):
            for _ in range(100):
                await process.send_input(b"x" * 50_000)
        outcome = await process.stop()
        assert outcome is not None
        assert outcome.state is S.TERMINATED
        with pytest.raises(StdinClosedError, match="ended"):
            await process.send_input(b"x")


# --- Ctrl-C


async def test_an_interrupt_reaches_the_foreground_group(each_tier: Containment) -> None:
    """Not the leader's own, where a shell has put its command into another; whatever the mode says of Ctrl-C."""
    script = (
        "set -m; stty -isig; trap 'echo the shell' INT; "
        "sh -c 'trap \"echo the command; exit 5\" INT; echo up; while :; do sleep 0.01; done'; echo $?; read x; exit 6"
    )
    async with supervising() as supervisor:
        process = await supervisor.start(["bash", "-c", script], owner=OWNER, pty=True)
        await wait_for_output(process, b"up\r\n")
        assert await process.stop(StopMode.INTERRUPT, grace=0) is None
        await wait_for_output(process, b"5\r\n")
        await process.send_input(b"\n")
        assert (await process.wait()).exit_code == 6
        assert (await output_of(process)).replace(b"\r\n", b" ").split(b" up ")[-1] in (
            b"up the command 5  ",
            b"the command 5  ",
        )


async def test_a_leader_that_ends_since_its_command_was_interrupted(each_tier: Containment) -> None:
    """It was not signalled itself, and yet it is the interrupt that it ends by."""
    async with supervising() as supervisor:
        process = await supervisor.start(
            ["bash", "-c", "set -m; stty -isig; echo $$; sleep 60; exit 7"], owner=OWNER, pty=True
        )
        (leader,) = await pids_of(process)
        await until(lambda: _foreground_of(leader) not in (leader, -1))
        outcome = await process.stop(StopMode.INTERRUPT)
        assert outcome is not None
        assert (outcome.state, outcome.exit_code) == (S.INTERRUPTED, 130)


LETS_GO = """
import fcntl, signal, termios, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
try:
    fcntl.ioctl(0, termios.TIOCNOTTY)
    print("up", flush=True)
    while True:
        time.sleep(0.01)  # a signal before the call is only noted by the interpreter, and ends no long sleep
except KeyboardInterrupt:
    raise SystemExit(7)
"""


@pytest.mark.parametrize("how", ["no such call", "no foreground"])
async def test_an_interrupt_where_the_terminal_does_not_help(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group is signalled by its number, where the system has no call for it; the leader's, where there is none."""
    monkeypatch.setattr(support, "tier", Containment.PROCESS_GROUP)
    if how == "no such call":
        monkeypatch.setattr(_terminal, "_TIOCSIG", 0x5FFF)
        command = ["bash", "-c", "set -m; stty -isig; echo $$; sleep 60; exit 7"]
    else:
        command = [sys.executable, "-IS", "-c", LETS_GO]
    async with supervising() as supervisor:
        process = await supervisor.start(command, owner=OWNER, pty=True)
        if how == "no such call":
            (leader,) = await pids_of(process)
            await until(lambda: _foreground_of(leader) not in (leader, -1))
        else:
            await wait_for_output(process, b"up\r\n")
        outcome = await process.stop(StopMode.INTERRUPT)
        assert outcome is not None
        assert outcome.state is S.INTERRUPTED
        assert outcome.exit_code == (130 if how == "no such call" else 7)


def _foreground_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[5])


# --- its end


async def test_output_is_kept_when_it_exits_at_once(each_tier: Containment) -> None:
    """All of it, also what the system has not handed on by then; and its end is the end."""
    async with supervising() as supervisor:
        for _ in range(5):
            process = await supervisor.start(
                [sys.executable, "-IS", "-c", "import os; os.write(1, b'x' * 4000); os._exit(3)"], owner=OWNER, pty=True
            )
            outcome = await process.wait()
            assert (outcome.exit_code, outcome.total_bytes, outcome.output_open) == (3, 4000, False)
        assert len(await run(supervisor, "head -c 60000 /dev/zero | tr '\\0' x")) == 60_000


def test_what_waits_is_taken_at_once_however_much_it_is(tmp_path: Path) -> None:
    """The system counts no more than 4,095 bytes as waiting."""
    master, slave = os.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)
    os.write(slave, b"x" * 10_000)
    ring = RingWriter(str(tmp_path / "ring"), 65_536, rotate=True)
    terminal = _terminal.Terminal(master, os.ttyname(slave))
    with selectors.DefaultSelector() as selector:
        descriptors = _Descriptors(selector)
        buffer = memoryview(bytearray(65_536))
        drain = _terminal.TerminalDrain(terminal, ring, descriptors, buffer, lambda: None)
        assert drain.take_waiting()
        assert (ring.total, drain.open) == (10_000, True)
        os.write(slave, b"y")
        os.close(slave)
        assert drain.take_waiting()
        assert (ring.total, drain.open, terminal.foreground, terminal.interrupt()) == (10_001, False, 0, False)
        assert not selector.get_map()
    ring.close()


class _Descriptors:
    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector

    def add(self, descriptor: int, callback: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, callback)

    def remove(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)


async def test_one_that_others_hold(each_tier: Containment) -> None:
    """Whoever is left holding it keeps neither the last word nor the output open for long, and is ended."""
    async with supervising() as supervisor:
        process = await supervisor.start("trap '' HUP; sleep 60 & echo $!; echo last; exit 3", owner=OWNER, pty=True)
        outcome = await process.wait()
        assert (outcome.state, outcome.exit_code) == (S.EXITED, 3)
        (pid, last) = (await output_of(process)).split()
        assert last == b"last"
        assert outcome.survivors >= 1
        await all_gone(int(pid))


async def test_a_session_of_its_own_is_reached_all_the_same(each_contained_tier: Containment) -> None:
    """Who leaves the terminal's session has not left the job."""
    async with supervising() as supervisor:
        process = await supervisor.start(
            "setsid sh -c 'trap \"\" HUP TERM INT; echo $$; sleep 60; :' & echo $!; wait; wait", owner=OWNER, pty=True
        )
        pids = await pids_of(process, 2)
        outcome = await process.stop(grace=0.1)
        assert outcome is not None
        assert outcome.proven
        await all_gone(*pids)


async def test_a_job_that_lets_go_of_it_and_comes_back(each_tier: Containment) -> None:
    """For the leader's life that is no end of output: what it writes to /dev/tty later is there, however much."""
    script = "exec <&- >&- 2>&-; sleep 0.1; head -c 200000 /dev/zero | tr '\\0' x >/dev/tty; exit 3"
    async with supervising() as supervisor:
        for command, code, total in ((script, 3, 200_000), ("exec <&- >&- 2>&-; sleep 0.05; exit 4", 4, 0)):
            process = await supervisor.start(command, owner=OWNER, pty=True)
            outcome = await process.wait()
            assert (outcome.exit_code, outcome.total_bytes, outcome.output_open) == (code, total, False)
            assert await output_of(process) == b"x" * total


async def test_kept_survivors_of_a_terminal(each_contained_tier: Containment) -> None:
    """They are there until they are stopped; the terminal is gone for them."""
    async with supervising() as supervisor:
        process = await supervisor.start(
            "trap '' HUP; sleep 60 & echo $!; exit 0", owner=OWNER, pty=True, survivors="keep"
        )
        outcome = await process.wait()
        (pid,) = await pids_of(process)
        assert outcome.survivors == 1
        os.kill(pid, 0)
        assert await process.stop() is outcome
        await all_gone(pid)


async def test_a_keeper_that_is_killed(each_contained_tier: Containment) -> None:
    """Told as lost; nothing of the job is left, nor of the terminal."""
    async with supervising() as supervisor:
        process = await supervisor.start("trap '' HUP; stty raw -echo; echo $$; exec sleep 60", owner=OWNER, pty=True)
        (leader,) = await pids_of(process)
        await process.send_input(b"x" * 100_000)
        os.kill(shim_of(leader), signal.SIGKILL)
        assert (await process.wait()).state is S.FAILED
        await all_gone(leader)
