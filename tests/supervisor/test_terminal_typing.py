"""What is typed into a terminal: lines, their longest, their end; and who is there to read it."""

from __future__ import annotations

import os
import tracemalloc
import tty
from pathlib import Path

import anyio
import pytest
from shim_ground import pids_of, shim_of, stopped, zygote_of
from supervising import OWNER, output_of, supervising, until, wait_for_output
from terminal_ground import written_by

from lastword.notifier import ProcessState, SystemClock
from lastword.supervisor import (
    Containment,
    ErrorCode,
    InputBackpressureError,
    Limits,
    StdinClosedError,
    SupervisorError,
    TerminalSize,
)
from lastword.supervisor._reactor import Reactor
from lastword.supervisor._timers import Timers
from lastword.supervisor.launch import open_terminal

S = ProcessState

LINE = 4095
"""Bytes of a line in canonical mode."""

LEFT = "stty -icanon min 0 time 0; cat | od -c"
"""What has been typed and not read, without lines: nothing must be there of an end that was read."""


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
        (b"one\n\x16", b"one\n%s"),
        (b"tw\x16", b"tw%s"),
    ],
    ids=["nothing", "a line", "the beginning of one", "both", "one that was taken back", "a quote", "a quote in one"],
)
@pytest.mark.parametrize("eof", ["^D", "^E"])
async def test_the_end_of_what_is_typed(typed: bytes, read: bytes, eof: str) -> None:
    """The program's own character for it, twice behind an unfinished line; asked for once, and nothing after it.

    Behind Ctrl-V the first of them is a byte of the line.
    """
    quoted = bytes([ord(eof[1]) & 0x1F])
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
        shown = read.replace(b"%s", quoted).replace(b"\n", b"\r\n")
        assert await output_of(process) == b"up\r\n" + shown + b"0000000\r\nend\r\n"


async def test_the_end_in_a_raw_mode_is_the_character_itself() -> None:
    """As if it were typed: a line editor takes it for the end, another program reads it.  Its terminal goes on."""
    async with supervising() as supervisor:
        script = "stty raw -echo; echo up; head -c 3 | od -c; stty min 0 time 0; cat | od -c; echo end; sleep 60"
        process = await supervisor.start(script, owner=OWNER, pty=True)
        await wait_for_output(process, b"up\n")
        await process.send_input(b"ab")
        await process.close_input()
        await wait_for_output(process, b"end\n")
        assert (await written_by(process)).splitlines()[1:] == [
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


async def test_typing_while_nobody_has_it_open_for_a_moment(
    tmp_path: Path, each_contained_tier: Containment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job has closed it, and its keeper has not opened it yet: what is typed is read later, all of it."""
    monkeypatch.setattr("lastword.supervisor.launch._terminal._TRIES", 1_000_000)  # the moment is the machine's affair
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


async def test_a_newline_that_is_quoted_does_not_end_a_line() -> None:
    """Ctrl-V makes it a byte like any other, also from one call to the next: else the system would cut what follows."""
    async with supervising() as supervisor:
        process = await supervisor.start("stty -echo; echo up; wc -c", owner=OWNER, pty=True)
        await wait_for_output(process, b"up\r\n")
        for typed in (b"a" * 3000 + b"\x16\n" + b"b" * 3000 + b"\n", b"a" * LINE + b"\x16\x15b\n"):
            with pytest.raises(SupervisorError, match="4095"):
                await process.send_input(typed)
        await process.send_input(b"a" * 3000 + b"\x16")
        with pytest.raises(SupervisorError, match="4095"):
            await process.send_input(b"\n" + b"b" * 1095)
        await process.send_input(b"\n" + b"b" * 1094 + b"\n")
        await process.close_input()
        assert (await process.wait()).exit_code == 0
        assert await output_of(process) == b"up\r\n4096\r\n"


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


async def test_what_is_more_than_can_wait_is_not_looked_at() -> None:
    """However much it is, refusing it takes no memory and no time."""
    async with supervising(limits=Limits(pending_input_bytes=100_000)) as supervisor:
        process = await supervisor.start("exec sleep 60", owner=OWNER, pty=True)
        typed = b"\n" * (64 << 20)
        tracemalloc.start()
        with pytest.raises(InputBackpressureError, match="at most 100000"):
            await process.send_input(typed)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 1 << 20


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
