"""Ctrl-C in a terminal, and a terminal's end."""

from __future__ import annotations

import os
import selectors
import signal
import sys
import tty
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
import supervising as support
from shim_ground import all_gone, pids_of, shim_of
from supervising import OWNER, output_of, supervising, until, wait_for_output
from terminal_ground import run_on_terminal

from lastword.notifier import ProcessState
from lastword.supervisor import (
    Containment,
    StopMode,
)
from lastword.supervisor.output import read_ring
from lastword.supervisor.shim import _drain, _terminal
from lastword.supervisor.shim._ring import RingWriter

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

S = ProcessState


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
        await until(lambda: _runs_in_front_of(leader, "sleep"))
        outcome = await process.stop(StopMode.INTERRUPT, grace=60.0)
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
            await until(lambda: _runs_in_front_of(leader, "sleep"))
        else:
            await wait_for_output(process, b"up\r\n")
        outcome = await process.stop(StopMode.INTERRUPT, grace=60.0)
        assert outcome is not None
        assert outcome.state is S.INTERRUPTED
        assert outcome.exit_code == (130 if how == "no such call" else 7)


def _runs_in_front_of(leader: int, name: str) -> bool:
    """Whether the foreground group is a command's of that name: before it is executed a shell would hear a signal."""
    foreground = int(Path(f"/proc/{leader}/stat").read_text().rpartition(")")[2].split()[5])
    if foreground in (leader, -1):
        return False
    try:
        return Path(f"/proc/{foreground}/comm").read_text() == f"{name}\n"
    except OSError:  # it is not there any more
        return False


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
        assert len(await run_on_terminal(supervisor, "head -c 60000 /dev/zero | tr '\\0' x")) == 60_000


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
        assert read_ring(tmp_path / "ring", None, 0, 1, terminal=False).total == 10_000
        os.write(slave, b"y")
        os.close(slave)
        assert drain.take_waiting()
        assert (ring.total, drain.open, terminal.foreground, terminal.interrupt()) == (10_001, False, 0, False)
        assert not selector.get_map()
    ring.close()


def test_whoever_goes_on_writing_does_not_hold_what_waits(tmp_path: Path) -> None:
    """As much is taken as can have waited, and little more."""

    class Endless(FileIO):
        """Each read finds as much as there is room for."""

        def readinto(self, buffer: WriteableBuffer, /) -> int | None:
            assert ring.total < 1 << 20
            with memoryview(buffer) as room:
                return len(room)

    master, slave = os.openpty()
    ring = RingWriter(str(tmp_path / "ring"), 65_536)
    terminal = _terminal.Terminal(master, os.ttyname(slave))
    with selectors.DefaultSelector() as selector, patch.object(_drain, "FileIO", Endless):
        buffer = memoryview(bytearray(65_536))
        drain = _terminal.TerminalDrain(terminal, ring, _Descriptors(selector), buffer, lambda: None)
        assert drain.take_waiting()
        assert 20_000 < ring.total < 300_000
        assert drain.open
        drain.close()
    os.close(slave)
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
