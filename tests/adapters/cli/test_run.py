"""`run` in the foreground passes everything through, and leaves nothing."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cli_ground import COMMAND, HANG_SECONDS, Ground, Running, gone

from lastword.supervisor import view_directory
from lastword.supervisor.launch._site import KEEPERS_LOCK

READY = "echo ready $$; exec sleep 600"


@pytest.mark.parametrize(
    ("arguments", "code", "shell_code"),
    [
        (("--", "sh", "-c", "exit 3"), 3, 3),
        (("sh", "-c", "kill -9 $$"), 128 + 9, 128 + 9),
        (("--timeout", "0.2", "--", "sleep", "600"), 124, 128 + 15),
        (("--", "no-such-program"), 127, None),
        (("--", "/etc/passwd"), 126, None),
    ],
)
def test_the_exit_code_is_the_jobs(
    ground: Ground, arguments: tuple[str, ...], code: int, shell_code: int | None
) -> None:
    done = ground.run("run", *arguments)
    assert (done.returncode, done.stdout) == (code, b"")
    assert done.stderr.count(b"\n") == (code in {126, 127})
    # Who has seen it end needs no notice.
    assert ground.out("pending") == ""
    assert [job["shell_code"] for job in ground.objects("ps", "-a")] == [shell_code]


def test_input_and_output_are_passed_through_as_bytes_to_a_job_that_is_late_too(ground: Ground) -> None:
    """More than waits for a job that does not read: the rest waits here."""
    data = bytes(range(256)) * 12 * 1024
    done = ground.run("run", "--", "sh", "-c", "sleep 0.3; exec cat", stdin=data)
    assert (done.returncode, done.stdout == data, done.stderr) == (0, True, b"")


def test_its_two_streams_are_ours_and_where_both_are_one_their_order_is_exact(ground: Ground) -> None:
    script = "for i in 1 2 3 4 5 6 7 8; do echo out $i; echo err $i >&2; done"
    done = ground.run("run", "--", "sh", "-c", script)
    assert done.stdout.decode().splitlines() == [f"out {i}" for i in range(1, 9)]
    assert done.stderr.decode().splitlines() == [f"err {i}" for i in range(1, 9)]
    with ground.start("run", "--", "sh", "-c", script, stderr=subprocess.STDOUT) as command:
        out, _ = command.communicate()
    assert out.decode().splitlines() == [f"{which} {i}" for i in range(1, 9) for which in ("out", "err")]


def test_it_has_our_environment_folder_and_name(ground: Ground, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    show = 'pwd; echo "$OURS $MORE"'
    done = ground.run(
        "run",
        "--name",
        "shown",
        "--cwd",
        str(tmp_path / "there"),
        "-e",
        "MORE=b=c",
        "sh",
        "-c",
        show,
        env={"OURS": "a"},
    )
    assert done.stdout.decode().splitlines() == [str(tmp_path / "there"), "a b=c"]
    assert [job["name"] for job in ground.objects("ps", "-a")] == ["shown"]


def test_a_reader_that_leaves_ends_job_and_command_as_a_broken_pipe_does(ground: Ground) -> None:
    # Quietly: how much of it was not taken in time is told, and that is nothing that this test can know.
    with ground.start("run", "--quiet", "--", "sh", "-c", "echo $$; exec yes") as command:
        assert command.stdout is not None
        pid = int(command.stdout.readline())
        command.stdout.close()
        assert command.wait(90) == -signal.SIGPIPE
        assert command.stderr is not None
        assert command.stderr.read() == b""
    gone(pid)


def test_a_full_disk_ends_the_job_and_is_told(ground: Ground) -> None:
    with Path("/dev/full").open("wb") as full, ground.start("run", "--", "sh", "-c", READY, stdout=full) as command:
        _, notes = command.communicate(timeout=HANG_SECONDS)
    assert (command.returncode, notes.count(b"\n")) == (125, 1)
    assert [job["state"] for job in ground.objects("ps", "-a")] == ["terminated"]


def test_a_disk_that_keeps_no_more_output_is_told_once_and_the_exit_code_is_the_jobs(ground: Ground) -> None:
    """Also where it goes on for long, a little at a time (case C37)."""
    script = "seq 1 300000; for i in 1 2 3 4 5 6 7 8; do sleep 0.02; echo more; done; exit 3"
    limited = ["/bin/sh", "-c", 'ulimit -f 2048; exec "$@"', "sh", *COMMAND]  # files of 1 MiB
    done = subprocess.run(
        [*limited, "run", "--name", "cut", "--", "sh", "-c", script],
        env=ground.environment(),
        capture_output=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    whole = "".join(f"{number}\n" for number in range(1, 300_001)) + "more\n" * 8
    kept = done.stdout.decode()
    assert (done.returncode, whole.startswith(kept), bool(kept)) == (3, True, True)
    note = f"lastword: the disk has failed: what was written from byte {len(kept)} on is not kept\n"
    assert done.stderr.decode() == note
    code, out, notes = ground.here("logs", "--raw", "cut")
    assert (code, out.decode(), notes.decode()) == (0, kept, note)
    (job,) = ground.objects("ps", "-a")
    assert (job["exit_code"], job["output_error"], job["output_open"]) == (3, True, False)
    code, out, notes = ground.here("logs", "cut", "--tail", "2")
    assert (code, out.decode(), notes.decode()) == (0, "".join(kept.splitlines(keepends=True)[-2:]) + "\n", note)
    last, missing = ground.objects("logs", "cut", "--tail", "1")
    assert (last["output_error"], last["next_cursor"], missing["omitted"]) == (True, len(kept), [len(kept), len(whole)])


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_what_was_closed_is_nowhere_and_never_a_file_of_ours(ground: Ground, closed: str) -> None:
    line = f"{' '.join(COMMAND)} run -- sh -c 'cat; echo out; echo err >&2; exit 4' {closed}; echo $?"
    done = subprocess.run(["/bin/sh", "-c", line], env=ground.environment(), capture_output=True, timeout=HANG_SECONDS)
    assert done.stdout.decode().split() == ["out"] * (">&-" not in closed or closed == "2>&-") + ["4"]
    assert done.stderr.decode().split() == ["err"] * ("2>&-" not in closed)
    assert ground.here("verify")[0] == 0


def test_a_second_run_in_a_held_directory_is_refused_in_one_line(ground: Ground) -> None:
    with ground.start("run", "--", "sh", "-c", READY) as first:
        assert first.stdout is not None
        first.stdout.readline()
        second = ground.run("run", "--", "true")
        assert second.returncode == 125
        assert second.stderr.count(b"\n") == 1
        assert b"in use" in second.stderr
        ((handle, state),) = [(job["handle"], job["state"]) for job in ground.objects("ps")]
        assert state == "running"
        # Told in a moment, though the note of that is only written with what comes next.
        deadline = time.monotonic() + HANG_SECONDS
        while ground.out("pending"):
            assert time.monotonic() < deadline
        for line in (
            ("stop", "--", handle),
            ("wait", "--", handle),
            ("send", "--", handle, "x"),
            ("run", "-d", "true"),
        ):
            code, _, notes = ground.here(*line)
            assert (code, b"in use" in notes, notes.count(b"\n")) == (125 if line[0] == "run" else 1, True, 1), line
        first.terminate()
        assert first.wait(90) == 128 + signal.SIGTERM
    assert [job["state"] for job in ground.objects("ps", "-a")] == ["terminated"]


def test_what_runs_while_its_command_is_killed_is_unsettled_until_the_next_opening(ground: Ground) -> None:
    with ground.start("run", "--name", "lost", "--", "sh", "-c", READY) as command:
        assert command.stdout is not None
        pid = int(command.stdout.readline().split()[1])
        command.kill()
        command.wait()
    gone(pid)
    assert [job["state"] for job in ground.objects("ps")] == ["unsettled"]
    assert ground.out("logs", "lost") == f"ready {pid}\n"
    assert ground.run("run", "true").returncode == 0
    assert [(job["name"], job["state"]) for job in ground.objects("ps", "-a")] == [
        ("lost", "lost_on_restore"),
        ("", "exited"),
    ]
    assert [each["name"] for each in ground.objects("pending")] == ["lost"]


class TestOnATerminal:
    """As a person has it."""

    def test_ctrl_c_interrupts_the_job_and_long_work_shows_that_it_goes_on(self, ground: Ground) -> None:
        with ground.on_terminal("run", "--", "sh", "-c", READY) as terminal:
            pid = int(terminal.expect(b"\r\n").split()[-1])
            terminal.expect(b"of output, running")
            terminal.press(b"\x03")
            assert terminal.wait() == 128 + signal.SIGINT
            assert terminal.attributes() == terminal.before
            assert terminal.shown.endswith(b"\r\x1b[K")  # the line is gone
        gone(pid)
        assert [job["state"] for job in ground.objects("ps", "-a")] == ["interrupted"]

    def test_a_second_ctrl_c_stops_it_and_a_third_one_kills_it(self, ground: Ground) -> None:
        deaf = "trap 'echo int' INT; trap 'echo term' TERM; echo ready; while :; do sleep 0.05; done"
        with ground.on_terminal("run", "--", "sh", "-c", deaf) as terminal:
            for answer in (b"ready", b"int", b"term"):
                terminal.expect(answer)
                terminal.press(b"\x03")
            assert terminal.wait() == 128 + signal.SIGKILL
        assert [job["state"] for job in ground.objects("ps", "-a")] == ["killed"]

    def test_closing_the_terminal_leaves_nothing(self, ground: Ground) -> None:
        with ground.on_terminal("run", "--", "sh", "-c", f"sleep 600 & echo child $!; {READY}") as terminal:
            child = int(terminal.expect(b"\r\n").split()[-1])
            pid = int(terminal.expect(b"\r\n").split()[-1])
            terminal.hang_up()
            terminal.wait()
        gone(pid)
        gone(child)
        assert [job["state"] for job in ground.objects("ps", "-a")] == ["terminated"]
        assert ground.out("pending") == ""


def test_started_to_ignore_the_end_of_its_terminal_it_goes_on(ground: Ground, tmp_path: Path) -> None:
    """As nohup starts it."""
    gate = tmp_path / "gate"
    script = 'echo ready; until [ -e "$0" ]; do sleep 0.05; done; exit 4'
    deaf = ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", *COMMAND, "run", "--", "sh", "-c", script, str(gate)]
    with Running(deaf, stdout=subprocess.PIPE, env=ground.environment()) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == b"ready\n"
        command.send_signal(signal.SIGHUP)
        gate.touch()
        assert command.wait(HANG_SECONDS) == 4


def test_ctrl_c_before_the_job_runs_gives_up(ground: Ground) -> None:
    """The directory's opening waits for the keepers of a dead host: here, for a lock that this test holds."""
    assert ground.run("run", "true").returncode == 0
    with (ground.state / KEEPERS_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        with ground.start("run", "true", stdin=subprocess.DEVNULL) as command:
            while not view_directory(ground.state).held:
                assert command.poll() is None
            command.send_signal(signal.SIGINT)
            assert command.wait(90) == 128 + signal.SIGINT
    assert [job["state"] for job in ground.objects("ps", "-a")] == ["exited"]
