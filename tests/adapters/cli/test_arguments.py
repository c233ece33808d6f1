"""Whatever is on the line: an exit code, at most one line on stderr, and never a traceback."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_ground import HANG_SECONDS, Ground
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lastword.adapters.cli._durations import parse_duration, parse_moment
from lastword.adapters.cli._foreground import mode_of
from lastword.adapters.cli._format import age, size
from lastword.adapters.cli._order import order_of
from lastword.adapters.cli._progress import progress_line
from lastword.adapters.cli._state import state_directory
from lastword.adapters.cli._watch import aligned

# Those that run, keep or serve something are given nothing that they could run: their own options, badly.
LOOKING = ("ps", "logs", "events", "pending", "replay", "verify", "wait", "stop", "send", "ack", "nope", "")
OTHERS = ("run", "serve", "demo", "mcp")
_OPTIONS = """
    -- - --json -a --all -f --tail --cursor --raw --since --after --any -t --timeout -m --mode --eof --key -n -h --help
    --version --force --idle -x --tail=-1 --timeout=-0 --since= --mode=kill --cursor=99999999999999999999
"""
OPTIONS = st.sampled_from(_OPTIONS.split())
# What a system can give to a program: any bytes but NUL, as Python shows them.
WORDS = (
    OPTIONS
    | st.binary(max_size=12).map(lambda raw: os.fsdecode(raw.replace(b"\0", b"")))
    | st.sampled_from(["é", "漢\u202e", "\x1b[31m"])
)


def check(ground: Ground, arguments: list[str]) -> None:
    code, _, notes = ground.here(*arguments)
    assert 0 <= code <= 125
    assert b"Traceback" not in notes
    assert b"a fault of lastword" not in notes, notes
    assert notes.count(b"\n") <= 1, notes
    assert (code == 0) or notes, arguments


@settings(max_examples=150)
@given(command=st.sampled_from(LOOKING), words=st.lists(WORDS, max_size=5))
@example(command="logs", words=["\udcff"])
@example(command="events", words=["--since", "999999999999d"])
@example(command="verify", words=["/dev/null"])
@example(command="verify", words=["a" * 300])
def test_any_line_of_a_command_that_looks(command: str, words: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(Ground(Path(folder, "state")), [command, *words])
        assert not Path(folder, "state").exists()


@settings(max_examples=50)
@given(command=st.sampled_from(OTHERS), words=st.lists(WORDS, max_size=4))
def test_any_line_with_an_option_that_is_none(command: str, words: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(Ground(Path(folder, "state")), [command, "--no-such-option", *words])


# Options of `run` with values that it takes, or may refuse in a line.
TAKEN = st.lists(
    st.sampled_from(
        (
            ("-q",),
            ("--quiet",),
            ("--json",),
            ("--survivors", "keep"),
            ("--survivors=stop",),
            ("--timeout", "5m"),
            ("--timeout=30",),
            ("--cwd", "/"),
            ("-e", "A=1"),
            ("-eB=c=d",),
            ("--env", "EMPTY="),
            ("--state", "elsewhere"),
        )
    )
    | WORDS.map(lambda word: ("--name", word))
    | WORDS.map(lambda word: (f"--env=V={word}",)),
    max_size=5,
).map(lambda groups: [word for group in groups for word in group])

# What is run, and which code that is, where it runs at all.
PROGRAMS = st.sampled_from(
    (
        (["true"], 0),
        (["--", "true", "-x", "--json", "--", "-d"], 0),
        (["sh", "-c", "exit 7", "--", "--state=x"], 7),
        (["--", "sh", "-c", "kill -9 $$"], 137),
        (["no-such-program", "--tty"], 127),
        (["--", "/etc/passwd"], 126),
    )
)


@settings(max_examples=20)
@given(options=TAKEN, program=PROGRAMS, detach=st.booleans())
@example(options=["--name", "-"], program=(["true"], 0), detach=True)
@example(options=["--name", "\udcff"], program=(["true"], 0), detach=False)
def test_any_valid_line_of_run(
    options: list[str], program: tuple[list[str], int], detach: bool, running_server: Ground
) -> None:
    """The job's code, or one line that says why there is none; in the foreground and in the background."""
    words, code = program
    state = str(running_server.state)
    options = [state if word == "elsewhere" else word for word in options]
    found, out, notes = running_server.here("run", *options, *(["-d"] if detach else []), *words)
    assert b"Traceback" not in notes
    assert b"a fault of lastword" not in notes, notes
    assert notes.count(b"\n") <= 1, notes
    if found in {2, 125}:
        assert notes, (options, words)  # a name or a value that it does not take
    else:
        assert found == (0 if detach and code not in {126, 127} else code), (options, words, notes)
        assert bool(out) == (detach and found == 0)


@pytest.fixture(scope="module")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A directory with a server, for whatever is run."""
    ground = Ground(tmp_path_factory.mktemp("fuzzed") / "state")
    ground.out("run", "-d", "--", "true")
    yield ground
    ground.out("serve", "--stop", "--force")


@settings(max_examples=15)
@given(
    words=st.lists(st.sampled_from((("--stop",), ("--force",), ("--idle", "0.01"))), max_size=3),
    idle=st.sampled_from(("0.01", "0.02", "0.01s")),
)
def test_any_valid_line_of_serve(words: list[tuple[str, ...]], idle: str) -> None:
    """It ends by itself, or says in a line why it did not begin."""
    line = ["serve", *(word for group in words for word in group), "--idle", idle]
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder, "state"))
        code, out, notes = ground.here(*line)
        begins = not any(word in line for word in ("--stop", "--force"))
        assert (code == 0) == begins, (line, notes)
        assert (out, notes.count(b"\n")) == (b"", 1), notes
        assert ground.out("ps", "-a") == ""
        assert ground.state.exists() == begins


@pytest.mark.parametrize(
    "line",
    [
        ("run", "--env", "novalue", "true"),
        ("run", "-e", "=x", "true"),
        ("run", "--timeout", "0", "true"),
        ("run", "--timeout", "soon", "true"),
        ("run", "--cwd", "/no/such/folder", "true"),
        ("run", "--survivors", "eat", "true"),
        ("run", "--input", "true"),
        ("run", "--"),
        ("serve", "--force"),
        ("ack",),
        ("ack", "--all", "x"),
        ("send", "x"),
        ("logs", "x", "--tail", "1", "--cursor", "1"),
        ("logs", "x", "--tail", "1", "--since", "1m"),
        ("logs", "x", "--since", "yesterday"),
        ("logs", "x", "--cursor", str(2**63)),
        ("events", "--after", str(2**63)),
        ("--state", "", "ps"),
    ],
)
def test_what_is_wrong_is_told_with_the_code_of_usage(ground: Ground, line: tuple[str, ...]) -> None:
    code, out, notes = ground.here(*line)
    assert (code, out, notes.count(b"\n")) == (2, b"", 1), notes
    assert b"see 'lastword" in notes
    assert not ground.state.exists()


def test_nothing_on_the_line_teaches(ground: Ground) -> None:
    code, out, notes = ground.here()
    assert (code, out) == (2, b"")
    assert b"  lastword run -d --name api -- ./api  in the background" in notes


@pytest.mark.parametrize("module", ["click", "lastword.adapters.cli._app", "lastword.adapters.cli._ps", "attrs"])
def test_ctrl_c_in_the_middle_of_an_import_is_no_traceback(ground: Ground, module: str) -> None:
    """Importing is most of what a short command does; a person who has mistyped it is fast."""
    program = """if True:
        import importlib.abc, os, signal, sys
        class Interrupting(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == sys.argv[1]:
                    os.kill(os.getpid(), signal.SIGINT)
                    for _ in range(1000): pass  # where Python hears of it
        from lastword.adapters.cli import main
        sys.meta_path.insert(0, Interrupting())
        main(["ps", "-a"])
    """
    done = subprocess.run(
        [sys.executable, "-c", program, module],
        env=ground.environment(),
        capture_output=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_a_signal_handler_of_the_callers_stays(ground: Ground) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert ground.out("ps") == ""
    assert signal.getsignal(signal.SIGINT) is before


def test_the_state_directory() -> None:
    for wanted, environ, found in (
        ("/a/b", {}, "/a/b"),
        (None, {"XDG_STATE_HOME": "/x", "HOME": "/home/me"}, "/x/lastword"),
        (None, {"XDG_STATE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.local/state/lastword"),
        (None, {"HOME": "/home/me"}, "/home/me/.local/state/lastword"),
        # No variable at all, or no path in it: the user's entry.
        (None, {}, f"{pwd.getpwuid(os.getuid()).pw_dir}/.local/state/lastword"),
        (None, {"HOME": "relative"}, f"{pwd.getpwuid(os.getuid()).pw_dir}/.local/state/lastword"),
    ):
        assert state_directory(wanted, environ) == Path(found)


def test_what_a_signal_does_the_first_time_and_then() -> None:
    assert [mode_of(2, times) for times in (1, 2, 3, 4)] == ["interrupt", "terminate", "kill", "kill"]
    assert [mode_of(15, times) for times in (1, 2)] == ["terminate", "kill"]


def test_values_for_people() -> None:
    assert [age(s) for s in (0, 59.9, 65, 3605, 93600)] == ["0s", "59s", "1m05s", "1h00m", "1d02h"]
    assert [size(n) for n in (0, 1023, 1536, 20 << 20, 3 << 40)] == ["0 B", "1023 B", "1.5 KiB", "20 MiB", "3072 GiB"]
    assert progress_line(65, 2048, "running", 80) == "lastword: 1m05s, 2.0 KiB of output, running"
    assert progress_line(65, 2048, "running", 12) == "lastword: 1"
    assert [parse_duration(text) for text in ("90", "1.5s", "5m", "2h", "1d", "", "-1", "1w")] == [
        90.0,
        1.5,
        300.0,
        7200.0,
        86400.0,
        None,
        None,
        None,
    ]


@settings(max_examples=50)
@given(text=st.text(max_size=20))
def test_any_text_is_a_moment_or_none(text: str) -> None:
    from datetime import UTC, datetime

    moment = parse_moment(text, datetime.now(UTC))
    assert moment is None or moment.tzinfo is not None


@given(st.lists(st.lists(st.text(max_size=8), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(1, 40))
def test_no_row_is_wider_than_the_terminal_and_none_holds_a_control(rows: list[list[str]], columns: int) -> None:
    from wcwidth import wcswidth

    for line in aligned(rows, columns):
        assert wcswidth(line) <= columns
        assert line.isprintable()


def test_nothing_of_a_command_is_shown_by_its_order() -> None:
    order = order_of(
        ("secret",),
        name="n",
        cwd=None,
        env=("K=hidden",),
        timeout=None,
        survivors="stop",
        tty=False,
        size=(1, 1),
        stdin="pipe",
    )
    assert order.env["K"] == "hidden"
    assert "secret" not in repr(order)
    assert "hidden" not in repr(order)
