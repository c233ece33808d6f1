"""`run` on a terminal: what is typed reaches the job, `--tty` connects two terminals, and ours is as it was."""

from __future__ import annotations

import signal
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_ground import COMMAND, Ground, OnTerminal, gone

# A program that says its terminal's size at the start and at every change, and is interrupted by a key.  It never waits
# for long in one call: a signal that comes just before the call is only noted by Python, and would wake nobody.
SIZES = """
import os, select, signal, sys
def tell(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def say(*_): tell("size", *os.get_terminal_size(0))
signal.signal(signal.SIGWINCH, say)
say()
try:
    while True:
        if select.select([0], [], [], 0.02)[0]:
            line = os.read(0, 4096).decode()
            if not line: break
            tell("got", line.strip())
    tell("end")
except KeyboardInterrupt: tell("interrupted")
sys.exit(7)
"""


@pytest.fixture(params=["here", "served"])
def kept(request: pytest.FixtureRequest, ground: Ground) -> Iterator[Ground]:
    """A directory that nobody holds, or a server."""
    if request.param == "here":
        yield ground
        return
    ground.out("run", "-d", "--", "true")
    yield ground
    ground.out("serve", "--stop", "--force")


def is_raw(terminal: OnTerminal) -> bool:
    return not terminal.attributes()[3] & (termios.ICANON | termios.ECHO | termios.ISIG)


def test_two_terminals_are_connected_and_ours_is_restored(kept: Ground) -> None:
    with kept.on_terminal("run", "--tty", "--", "python3", "-u", "-c", SIZES) as terminal:
        terminal.expect(b"size 80 24\r\n")
        assert is_raw(terminal)
        terminal.press(b"hello\r")
        terminal.expect(b"got hello\r\n")
        terminal.resize(30, 100)
        terminal.expect(b"size 100 30\r\n")
        terminal.press(b"\x03")
        terminal.expect(b"interrupted")
        assert terminal.wait() == 7
        assert terminal.attributes() == terminal.before


def test_what_is_typed_before_the_job_runs_is_for_it(kept: Ground) -> None:
    with kept.on_terminal("run", "--tty", "--", "python3", "-u", "-c", SIZES) as terminal:
        terminal.press(b"hello\r")
        terminal.expect(b"got hello\r\n")
        terminal.press(b"\x03")
        assert terminal.wait() == 7


def test_the_end_of_typing_is_the_jobs_and_not_ours(ground: Ground) -> None:
    with ground.on_terminal("run", "--tty", "--", "python3", "-u", "-c", SIZES) as terminal:
        terminal.expect(b"size")
        terminal.press(b"\x04")
        terminal.expect(b"end")
        assert terminal.wait() == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_job_and_restores_the_terminal(ground: Ground, number: signal.Signals) -> None:
    with ground.on_terminal("run", "--tty", "--", "sh", "-c", "echo $$; exec sleep 600") as terminal:
        pid = int(terminal.expect(b"\r\n"))
        assert is_raw(terminal)
        terminal.process.send_signal(number)
        assert terminal.wait() == 128 + signal.SIGTERM
        assert terminal.attributes() == terminal.before
    gone(pid)


def test_a_job_that_cannot_be_started_leaves_the_terminal_as_it_was(ground: Ground) -> None:
    with ground.on_terminal("run", "--tty", "--", "no-such-program") as terminal:
        assert terminal.wait() == 127
        assert terminal.attributes() == terminal.before


def test_hanging_up_leaves_nothing(kept: Ground) -> None:
    with kept.on_terminal(
        "run", "--tty", "--name", "tty", "--", "sh", "-c", "trap '' HUP; echo $$; sleep 600"
    ) as terminal:
        pid = int(terminal.expect(b"\r\n"))
        terminal.hang_up()
        terminal.wait()
    gone(pid)
    assert kept.here("wait", "tty")[0] in {128 + signal.SIGTERM, 128 + signal.SIGKILL}


def test_without_a_terminal_there_is_none_to_connect(ground: Ground) -> None:
    done = ground.run("run", "--tty", "--", "true")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (125, b"", 1)


def test_what_is_typed_is_its_input_and_its_end(ground: Ground) -> None:
    with ground.on_terminal("run", "--", "cat") as terminal:
        terminal.press(b"a line\r")
        terminal.expect(b"a line\r\na line\r\n")  # the terminal's echo, and the job's
        terminal.press(b"\x04")
        assert terminal.wait() == 0


def test_in_a_shells_background_it_runs_on_and_does_not_read(ground: Ground, tmp_path: Path) -> None:
    """Who reads its terminal from there is stopped; and what was typed is the shell's."""
    gate = tmp_path / "gate"
    run = f"{' '.join(COMMAND)} run -- sh -c 'echo ready; sleep 0.5; echo over' &"
    shell = f"set -m; {run} while [ ! -e {gate} ]; do sleep 0.05; done; read x; echo shell $x; wait; echo done"
    with OnTerminal(("sh", "-c", shell), ground.environment(), command=()) as terminal:
        terminal.expect(b"ready")
        terminal.press(b"mine\r")  # there to be read, while nobody does
        terminal.expect(b"over")
        gate.touch()
        terminal.expect(b"shell mine")
        terminal.expect(b"done")
        assert terminal.wait() == 0
