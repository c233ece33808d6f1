"""Jobs in the background, and whatever else goes through the directory's server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import IO, Any

import anyio
import psutil
import pytest
from cli_ground import COMMAND, HANG_SECONDS, Ground, Running, gone

from lastword.adapters.cli import _holder, _logs_follow, _serve
from lastword.adapters.cli._errors import CommandFailedError
from lastword.adapters.cli._holder import wait_until_gone
from lastword.adapters.serve import _calls, connect
from lastword.adapters.serve._address import connect_socket
from lastword.supervisor import view_directory

READY = "echo ready $$; exec sleep 600"
LOOP = "while :; do sleep 0.05; done"


@pytest.fixture(autouse=True)
def no_server_left(ground: Ground) -> Generator[None]:
    """Whatever server the test has started is ended."""
    yield
    if (ground.state / "serve.sock").exists() and view_directory(ground.state).held:
        ground.out("serve", "--stop", "--force")


def lines(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def next_object(stream: IO[bytes] | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lines(stream).readline())
    return found


def test_a_job_in_the_background_is_followed_waited_for_told_and_acknowledged(ground: Ground, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = 'echo begun; while [ ! -e "$0" ]; do sleep 0.05; done; echo over; exit 4'
    handle = ground.out("run", "-d", "--name", "api", "--", "sh", "-c", script, str(gate)).strip()
    (job,) = ground.objects("ps")
    assert (job["handle"], job["name"], job["state"], job["backgrounded"]) == (handle, "api", "running", True)
    with (
        ground.start("logs", "-f", "api") as log,
        ground.start("ps", "--watch", "--json", "-a") as table,
        ground.start("events", "-f", "--json") as events,
        ground.start("wait", "api") as waiting,
    ):
        assert lines(log.stdout).readline() == b"begun\n"
        assert next_object(table.stdout)["state"] == "running"
        assert next_object(events.stdout)["event"]["type"] == "ProcessBackgrounded"
        gate.touch()
        assert waiting.wait(90) == 4
        assert lines(waiting.stdout).read().decode() == f"{handle}\tapi\texited 4\n"
        assert lines(log.stdout).read() == b"over\n"
        assert log.wait(90) == 0  # its end is the end
        assert next_object(table.stdout)["state"] == "exited"
        assert next_object(events.stdout)["event"]["type"] == "ProcessCompleted"
        for command in (table, events):
            command.send_signal(signal.SIGINT)
            assert command.wait(90) == -signal.SIGINT
            assert lines(command.stderr).read() in {b"", b"\n"}
    (waits,) = ground.objects("pending")
    assert (waits["name"], waits["status"]) == ("api", "unacknowledged")
    assert ground.out("ack", "api").strip() == handle
    assert ground.out("pending") == ""
    assert ground.here("ack", "--all") == (0, b"", b"lastword: there is nothing to acknowledge\n")


def test_jobs_are_stopped_together_and_what_outlives_an_interrupt_is_told(ground: Ground) -> None:
    deaf = "trap '' INT; echo ready; while :; do sleep 0.05; done"
    handles = [
        ground.out("run", "-d", "--name", name, "--", "sh", "-c", script).strip()
        for name, script in (("plain", READY), ("deaf", deaf))
    ]
    assert ground.here("wait", "--timeout", "0.1", "plain")[0] == 124
    with ground.start("logs", "-f", "deaf") as log:
        assert lines(log.stdout).readline() == b"ready\n"
        log.terminate()
    assert ground.here("stop", "-m", "interrupt", "-t", "3", "plain", "deaf") == (
        1,
        f"{handles[0]}\tplain\tinterrupted\n".encode(),
        b"lastword: 1 of them still runs\n",
    )
    assert ground.here("wait", "--any", "plain", "deaf")[0] == 128 + signal.SIGINT
    code, _, notes = ground.here("serve", "--stop")
    assert (code, notes.count(b"\n")) == (1, 1)
    assert ground.out("stop", "-m", "kill", "deaf") == f"{handles[1]}\tdeaf\tkilled\n"
    assert ground.out("serve", "--stop") == ""
    assert not view_directory(ground.state).held  # whoever comes next can have it


def test_the_end_of_a_server_is_waited_for_and_not_that_of_who_has_the_directory_next(ground: Ground) -> None:
    """It would keep it for as long as it likes."""
    ground.out("run", "-d", "--", "true")
    with Running(
        [sys.executable, "-c", _NEXT, str(ground.state)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert lines(other.stdout).readline() == b"waiting\n"
        done = ground.run("serve", "--stop", "--force")
        assert (done.returncode, done.stderr) == (0, b"")
        assert lines(other.stdout).readline() == b"held\n"
        began = time.monotonic()
        with pytest.raises(CommandFailedError, match="has not ended"):
            wait_until_gone(ground.state, other.pid, 0.1)
        wait_until_gone(ground.state, os.getpid(), HANG_SECONDS)  # held by another
        assert time.monotonic() - began < HANG_SECONDS
        other.communicate(b"", HANG_SECONDS)
    wait_until_gone(ground.state, other.pid, 0.0)


_NEXT = """
import contextlib, sys, time, uuid
from lastword.supervisor import DirectoryInUseError, hold_directory
print("waiting", flush=True)
while True:
    with contextlib.suppress(DirectoryInUseError), hold_directory(sys.argv[1], session_id=None, new_id=uuid.uuid4):
        print("held", flush=True)
        sys.stdin.read()
        break
"""


def test_a_foreground_run_goes_through_the_server_and_ends_with_its_command(ground: Ground) -> None:
    ground.out("run", "-d", "--", "sleep", "600")
    done = ground.run("run", "--", "sh", "-c", "echo out; exit 5")
    assert (done.returncode, done.stdout, done.stderr) == (5, b"out\n", b"")
    assert ground.run("run", "--", "no-such-program").returncode == 127
    assert ground.out("pending") == ""
    with ground.start("run", "--name", "left", "--", "sh", "-c", READY) as command:
        pid = int(lines(command.stdout).readline().split()[1])
        command.kill()
        command.wait()
        gone(pid)
    assert ground.here("wait", "left")[0] == 128 + signal.SIGTERM


def test_a_server_that_is_stopped_is_not_waited_for_and_one_that_is_killed_is_no_server(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ground.start("serve") as server, monkeypatch.context() as patience:
        assert b"ready" in lines(server.stderr).readline()
        ground.out("run", "-d", "--name", "long", "--", "sleep", "600")
        server.send_signal(signal.SIGSTOP)
        patience.setattr(_calls, "_PATIENCE_SECONDS", 0.1)
        patience.setattr(_serve, "_LOST_SECONDS", 0.1)
        patience.setattr(_holder, "END_SECONDS", 0.1)
        patience.setattr(_logs_follow, "END_SECONDS", 0.1)
        for line, code, told in (
            (("serve", "--stop"), 1, b"has not ended"),
            (("wait", "long"), 1, b"does not answer"),
            (("stop", "long"), 1, b"does not answer"),
            (("send", "long", "x"), 1, b"does not answer"),
            (("pending",), 1, b"does not answer"),
            (("run", "-d", "--", "true"), 125, b"does not answer"),
            (("run", "--", "true"), 125, b"does not answer"),
            (("logs", "-f", "long"), 1, b"does not answer"),
            (("events", "-f"), 1, b"does not answer"),
            (("ack", "--all"), 0, b"nothing to acknowledge"),  # and it is not asked
        ):
            found, _, notes = ground.here(*line)
            assert (found, told in notes, notes.count(b"\n")) == (code, True, 1), (line, notes)
        assert [job["state"] for job in ground.objects("ps")] == ["running"]
        server.kill()
        server.wait()
    assert [job["state"] for job in ground.objects("ps")] == ["unsettled"]
    for line, told in (
        (("serve", "--stop"), b"nothing to end"),
        (("wait", "long"), b"its host has died"),
        (("stop", "long"), b"its host has died"),
        (("send", "long", "x"), b"its host has died"),
    ):
        found, out, notes = ground.here(*line)
        assert (found, out, told in notes, notes.count(b"\n")) == (1, b"", True, 1), (line, notes)
    assert ground.out("logs", "-f", "long") == ""
    assert ground.here("ack", "long")[0] == 0
    ground.out("run", "-d", "--", "true")  # by a new server
    assert next(job["state"] for job in ground.objects("ps", "-a")) == "lost_on_restore"


def test_a_server_that_is_killed_with_a_call_unanswered_is_told(ground: Ground) -> None:
    with ground.start("serve") as server:
        assert b"ready" in lines(server.stderr).readline()
        ground.out("run", "-d", "--name", "long", "--", "sh", "-c", "echo begun; exec sleep 600")
        with (
            ground.start("wait", "long") as waiting,
            ground.start("logs", "-f", "long") as log,
            ground.start("run", "--", "sh", "-c", "echo here; exec sleep 600") as here,
        ):
            assert lines(log.stdout).readline() == b"begun\n"
            assert lines(here.stdout).readline() == b"here\n"
            # What waits is known to be asked once the server counts its clients.
            while anyio.run(_connections, ground.state) < 4:
                pass
            server.kill()
            server.wait()
            # What is kept is followed to its end, and there is nobody who could say more.
            for command, code in ((waiting, 1), (here, 125), (log, 0)):
                assert command.wait(HANG_SECONDS) == code
                assert lines(command.stderr).read().count(b"\n") == bool(code)


def test_who_waits_or_follows_is_told_how_a_job_has_ended_with_its_server(ground: Ground) -> None:
    with ground.start("serve") as server:
        assert b"ready" in lines(server.stderr).readline()
        script = f"trap 'echo over; exit 3' TERM; echo begun; {LOOP}"
        ground.out("run", "-d", "--name", "long", "--", "sh", "-c", script)
        with ground.start("wait", "long") as waiting, ground.start("logs", "-f", "long") as log:
            assert lines(log.stdout).readline() == b"begun\n"
            while anyio.run(_connections, ground.state) < 3:
                pass
            server.terminate()
            assert server.wait(HANG_SECONDS) == 0
            assert waiting.wait(HANG_SECONDS) == 3
            assert lines(waiting.stdout).read().endswith(b"\tlong\tterminated, exit code 3 (its host was closed)\n")
            assert log.wait(HANG_SECONDS) == 0
            assert lines(log.stdout).read().endswith(b"over\n")  # its shell may tell of the sleep, too
            assert lines(waiting.stderr).read() + lines(log.stderr).read() == b""


async def _connections(state: Path) -> int:
    async with connect(state) as client:
        return (await client.status()).connections


def test_survivors_are_kept_for_as_long_as_their_job_is(ground: Ground) -> None:
    leaves = ("--survivors", "keep", "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
    ground.out("run", "-d", "--name", "left", *leaves)
    assert ground.out("wait", "left").endswith("\texited 0\n")
    left = int(ground.out("logs", "left"))
    # In the foreground the job's end is no end of them, but that of the command is.
    done = ground.run("run", *leaves)
    assert done.returncode == 0
    gone(int(done.stdout))
    assert psutil.Process(left).status() != psutil.STATUS_ZOMBIE
    assert b"jobs are running" in ground.here("serve", "--stop")[2]
    ground.out("stop", "left")
    gone(left)
    ground.out("run", "-d", "--name", "none", "--", *leaves[3:])
    ground.out("wait", "none")
    gone(int(ground.out("logs", "none")))
    assert ground.out("serve", "--stop") == ""
    assert ground.out("stop", "left").endswith("\texited 0\n")  # with nobody to ask


def test_a_server_that_is_idle_ends_and_its_jobs_are_no_idleness(ground: Ground) -> None:
    with ground.start("serve", "--idle", "3") as server:
        assert b"ready" in lines(server.stderr).readline()
        with connect_socket(ground.state):  # a visit, until the job is there
            ground.out("run", "-d", "--", "sleep", "3.5")
        assert server.wait(HANG_SECONDS) == 0
        assert lines(server.stderr).read() == b""
    assert [(job["state"], job["exit_code"]) for job in ground.objects("ps", "-a")] == [("exited", 0)]
    assert not view_directory(ground.state).held


def test_a_table_on_a_terminal_is_drawn_over_itself_and_left_as_it_was_last(ground: Ground) -> None:
    for name in ("one", "two", "three"):
        ground.out("run", "-d", "--name", name, "--", "sleep", "600")
    with ground.on_terminal("ps", "--watch", "-a") as terminal:
        terminal.expect(b"\x1b[H\x1b[J")
        assert b"HANDLE" in terminal.expect(b"three")
        ground.out("stop", "two")
        drawn = terminal.expect(b"terminated")
        assert drawn.rpartition(b"\x1b[H")[1], "from its first line on"
        terminal.resize(4, 40)
        terminal.expect(b"... and 2 more")
        terminal.press(b"\x03")
        assert terminal.wait() == -signal.SIGINT
    assert b"\x1b[?" not in terminal.shown  # nothing of it has to be put back
    last = terminal.shown.rpartition(b"\x1b[H")[2]
    assert b"HANDLE" in last
    assert all(len(line.partition(b"\x1b")[0].rstrip()) <= 40 for line in last.splitlines())


def test_a_terminal_that_cannot_be_drawn_on_has_a_line_for_each_change(ground: Ground) -> None:
    ground.out("run", "-d", "--name", "one", "--", "sleep", "600")
    with ground.on_terminal("ps", "--watch", env={"TERM": "dumb"}) as terminal:
        terminal.expect(b"one\tsleep\trunning")
        terminal.press(b"\x03")
        assert terminal.wait() == -signal.SIGINT
    assert b"\x1b" not in terminal.shown


@pytest.mark.parametrize("line", [("ps", "-a", "--watch"), ("events", "-f"), ("logs", "-f", "talk")])
def test_a_follower_whose_reader_leaves_ends_as_a_broken_pipe_does(ground: Ground, line: tuple[str, ...]) -> None:
    ground.out("run", "-d", "--input", "--name", "talk", "--", "sh", "-c", "echo begun; exec cat")
    with ground.start(*line) as command:
        assert command.stdout is not None
        command.stdout.readline()
        command.stdout.close()
        ground.out("send", "talk", "more", "--eof")
        assert command.wait(90) == -signal.SIGPIPE
        assert command.stderr is not None
        assert command.stderr.read() == b""


def test_what_cannot_be_started_in_the_background_says_so_with_the_shells_code(ground: Ground) -> None:
    for program, code in (("no-such-program", 127), ("/etc/passwd", 126)):
        done = ground.here("run", "-d", "--", program)
        assert (done[0], done[1], done[2].count(b"\n")) == (code, b"", 1)
    # Who has read that needs no notice.
    assert ground.out("pending") == ""
    assert [job["state"] for job in ground.objects("ps", "-a")] == ["failed", "failed"]


def test_a_name_that_is_none_is_a_wrong_line_wherever_the_job_would_be_kept(ground: Ground) -> None:
    for line in (("run", "--name", "a\tb", "true"), ("run", "-d", "--name", "a\tb", "true")):
        for served in (False, True):
            if served:
                ground.out("run", "-d", "true")
            code, out, notes = ground.here(*line)
            assert (code, out, notes.count(b"\n"), b"printable" in notes) == (2, b"", 1, True), (line, notes)


def test_a_server_on_a_terminal_ends_with_ctrl_c_and_its_jobs_with_it(ground: Ground) -> None:
    with ground.on_terminal("serve") as terminal:
        terminal.expect(b"ready")
        handle = ground.out("run", "-d", "--", "sh", "-c", READY).strip()
        assert b"in use" in ground.here("serve")[2]
        terminal.press(b"\x03")
        assert terminal.wait() == 0
    (job,) = ground.objects("ps", "-a")
    assert (job["handle"], job["state"], job["reason"]) == (handle, "terminated", "runner_shutdown")
    # With nobody there its notice is acknowledged all the same: by an opening of one's own.
    assert ground.out("ack", "--all").strip() == handle
    assert ground.out("pending") == ""


def test_a_server_that_was_started_to_ignore_the_end_of_its_terminal_goes_on(ground: Ground) -> None:
    """As nohup starts it."""
    deaf = ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", *COMMAND, "serve"]
    with Running(deaf, stderr=subprocess.PIPE, env=ground.environment()) as server:
        assert b"ready" in lines(server.stderr).readline()
        ground.out("run", "-d", "--name", "long", "--", "sleep", "600")
        server.send_signal(signal.SIGHUP)
        assert ground.out("stop", "long").endswith("terminated\n")
        assert [job["reason"] for job in ground.objects("ps", "-a")] == ["terminated"]
        server.terminate()
        assert server.wait(HANG_SECONDS) == 0


def test_input_is_sent_to_a_pipe_and_to_a_terminal(ground: Ground) -> None:
    ground.out("run", "-d", "--input", "--name", "sorter", "--", "sort")
    ground.out("send", "sorter", "b")
    ground.out("send", "sorter", "-n", "a\n")
    ground.out("send", "sorter", "--eof")
    assert ground.out("wait", "sorter").endswith("exited 0\n")
    assert ground.out("logs", "sorter") == "a\nb\n"
    ground.out(
        "run", "-d", "--tty", "--name", "shell", "--", "sh", "-c", "stty size; read line; echo got $line; sleep 600"
    )
    ground.out("send", "shell", "some words")
    with ground.start("logs", "-f", "shell") as log:
        shown = [lines(log.stdout).readline().rstrip() for _ in range(3)]
        assert sorted(shown) == [b"24 80", b"got some words", b"some words"]  # when it is echoed, nobody knows
        ground.out("send", "shell", "--key", "C-c")
        assert log.wait(90) == 0
    assert ground.here("wait", "shell")[0] == 128 + signal.SIGINT
    ground.out("run", "-d", "--name", "deaf", "--", "sleep", "600")
    for line in (("send", "deaf", "x"), ("send", "shell", "x"), ("send", "deaf", "--key", "Nope")):
        code, _, notes = ground.here(*line)
        assert (code, notes.count(b"\n")) == (1, 1), notes


def test_without_a_server_there_is_nobody_to_ask(ground: Ground) -> None:
    assert ground.run("run", "--name", "done", "true").returncode == 0
    for command in ("stop", "wait"):
        assert ground.out(command, "done").endswith("\tdone\texited 0\n")
    for line in (("serve", "--stop"), ("stop", "other"), ("wait", "other"), ("send", "done", "text")):
        code, out, notes = ground.here(*line)
        assert (code, out, notes.count(b"\n")) == (1, b"", 1), notes


def test_beside_a_foreground_run_its_output_and_events_are_followed_by_looking(ground: Ground, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = 'echo begun; while [ ! -e "$0" ]; do sleep 0.05; done; echo over'
    with ground.start("run", "--name", "here", "--", "sh", "-c", script, str(gate), stdout=subprocess.PIPE) as command:
        assert lines(command.stdout).readline() == b"begun\n"
        with (
            ground.start("logs", "-f", "here") as log,
            ground.start("events", "-f") as events,
            ground.start("ps", "--watch") as table,
        ):
            assert lines(log.stdout).readline() == b"begun\n"
            assert lines(events.stdout).readline().endswith(b"  here  started\n")
            assert b"\trunning\t" in lines(table.stdout).readline()
            gate.touch()
            assert lines(log.stdout).read() == b"over\n"
            assert b"completed: exited 0" in lines(events.stdout).read()  # and ends, for nobody is left
            assert (log.wait(90), events.wait(90), command.wait(90)) == (0, 0, 0)
            table.send_signal(signal.SIGINT)
            assert table.wait(90) == -signal.SIGINT
