"""Programs that take a whole screen, in real terminals: an editor, and a language's prompt."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_ground import COMMAND, HANG_SECONDS, Ground, gone
from cli_screen import Picture, Screen, Tmux, need_program

from lastword.supervisor import view_directory

# Says that it has begun, and does not end by itself; it is never in one call for long, where a signal would be noted.
ENDLESS = "print('go' + 'ing') or all(x for x in iter(lambda: 1, 0))"

# The prompt of every version, without colours.
PLAIN = ("-e", "PYTHON_BASIC_REPL=1")

# What is asked of a terminal beyond that, pyte does not know.
VT100 = {"TERM": "vt100"}


@pytest.fixture(params=["here", "served"])
def kept(request: pytest.FixtureRequest, ground: Ground) -> Iterator[Ground]:
    """A directory that nobody holds, or a server."""
    if request.param == "here":
        yield ground
        return
    ground.out("run", "-d", "--", "true")
    yield ground
    ground.out("serve", "--stop", "--force")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A file to be edited, in a folder without an editor's settings."""
    need_program("vi")
    (tmp_path / "home").mkdir()
    (tmp_path / "notes").write_text("one\ntwo\n")
    return tmp_path / "notes"


def is_edited(picture: Picture) -> bool:
    return list(picture[:2]) == ["one", "two"]


def last_line(picture: Picture) -> str:
    return next((line for line in reversed(picture) if line), "")


def test_a_file_is_edited(kept: Ground, notes: Path) -> None:
    home = {**VT100, "HOME": str(notes.parent / "home")}
    with kept.on_terminal("run", "--tty", "--", "vi", str(notes), env=home) as terminal:
        screen = Screen(terminal)
        screen.until(is_edited)
        terminal.press(b"Go")
        terminal.press(b"three\x1b")
        screen.until(lambda picture: picture[2] == "three")
        screen.resize(30, 100)
        # What is behind the file's end goes down to the line above the last one.
        screen.until(lambda picture: is_edited(picture) and picture[28].startswith("~"))
        terminal.press(b":wq\r")
        assert terminal.wait() == 0
        assert terminal.attributes() == terminal.before
    assert notes.read_text() == "one\ntwo\nthree\n"


def test_closing_an_editors_window_leaves_nothing(ground: Ground, notes: Path) -> None:
    script = 'echo $$; exec vi "$0"'
    home = {**VT100, "HOME": str(notes.parent / "home")}
    with ground.on_terminal(
        "run", "--tty", "--name", "edit", "--", "sh", "-c", script, str(notes), env=home
    ) as terminal:
        pid = int(terminal.expect(b"\r\n"))
        Screen(terminal).until(lambda picture: "one" in picture)
        terminal.hang_up()
        terminal.wait()
    gone(pid)
    assert notes.read_text() == "one\ntwo\n"
    assert ground.here("wait", "edit")[0] != 0


def test_a_prompt_answers_and_is_interrupted(ground: Ground) -> None:
    with ground.on_terminal("run", "--tty", *PLAIN, "--", sys.executable, "-i", env=VT100) as terminal:
        screen = Screen(terminal)
        screen.until(lambda picture: last_line(picture) == ">>>")
        terminal.press(b"6 * 7\r")
        screen.until(lambda picture: "42" in picture and last_line(picture) == ">>>")
        terminal.press(ENDLESS.encode() + b"\r")
        screen.until(lambda picture: "going" in picture)
        terminal.press(b"\x03")
        screen.until(lambda picture: "KeyboardInterrupt" in picture and last_line(picture) == ">>>")
        # At the prompt, too; there Python may be in the middle of waiting for a key.
        before = "\n".join(screen.picture()).count("KeyboardInterrupt")
        screen.press_until(b"\x03", lambda picture: "\n".join(picture).count("KeyboardInterrupt") > before)
        terminal.press(b"exit(5)\r")
        assert terminal.wait() == 5
        assert terminal.attributes() == terminal.before


def test_a_prompt_in_the_background_is_followed_and_sent_to(ground: Ground) -> None:
    ground.out("run", "-d", "--tty", *PLAIN, "--name", "repl", "--", sys.executable, "-i")
    with ground.on_terminal("logs", "-f", "repl") as terminal:
        ground.out("send", "repl", "6 * 7")
        terminal.expect(b"\n42\r\n")
        ground.out("send", "repl", ENDLESS)
        terminal.expect(b"\ngoing\r\n")
        ground.out("send", "repl", "--key", "C-c")
        terminal.expect(b"KeyboardInterrupt\r\n")
        ground.out("send", "repl", "exit(5)")
        assert terminal.wait() == 0
    assert ground.here("wait", "repl")[0] == 5
    ground.out("serve", "--stop", "--force")


class TestInTmux:
    """As a person has it."""

    def test_a_file_is_edited_and_the_shell_goes_on_as_before(self, ground: Ground, notes: Path) -> None:
        home = {"HOME": str(notes.parent / "home")}
        with Tmux(notes.parent, ground.environment(home)) as window:
            window.type("stty -g > before; clear", "Enter")
            window.until(lambda picture: picture[0] == "ready>")
            window.type(f"{' '.join(COMMAND)} run --tty -- vi notes", "Enter")
            window.until(is_edited)
            window.type("Go")
            window.type("three", "Escape")
            window.until(lambda picture: picture[2] == "three")
            window.resize(30, 100)
            window.until(lambda picture: is_edited(picture) and picture[28].startswith("~"))
            window.type(":wq", "Enter")
            window.until(lambda picture: last_line(picture) == "ready>")
            window.type("echo code $?; stty -g > after; stty size", "Enter")
            picture = window.until(lambda picture: last_line(picture) == "ready>" and "30 100" in picture)
            assert "code 0" in picture
        assert notes.read_text() == "one\ntwo\nthree\n"
        assert (notes.parent / "after").read_text() == (notes.parent / "before").read_text() != ""

    def test_ctrl_c_once_twice_and_the_windows_end(self, ground: Ground, tmp_path: Path) -> None:
        deaf = tmp_path / "deaf"
        deaf.write_text("trap 'echo int' INT; echo pid $$; while :; do sleep 0.05; done\n")
        run = f"clear; {' '.join(COMMAND)} run -- sh deaf; echo code $?"
        with Tmux(tmp_path, ground.environment()) as window:
            window.type(run, "Enter")
            first = window.until(lambda picture: picture[0].startswith("pid "))[0]
            window.type("", "C-c")
            window.until(lambda picture: "int" in picture[1])
            window.type("", "C-c")
            window.until(lambda picture: picture[2].endswith(f"code {128 + signal.SIGTERM}"))
            window.type(run, "Enter")
            picture = window.until(lambda picture: picture[0].startswith("pid ") and picture[0] != first)
            window.close()
            gone(int(picture[0].removeprefix("pid ")))
        deadline = time.monotonic() + HANG_SECONDS
        while (view := view_directory(ground.state)).held:  # the command is not this test's child
            assert time.monotonic() < deadline
        assert [process.state.name for process in view.processes] == ["TERMINATED", "TERMINATED"]
