"""The commands that only look: what they show, and that a directory is as it was."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from cli_ground import HANG_SECONDS, Ground

import lastword
from lastword.adapters.cli import _look_journal
from lastword.adapters.cli._app import app
from lastword.adapters.cli._look_journal import journal_of
from lastword.adapters.serve import SERVE_LIMITS
from lastword.supervisor.shim._spans import SPANS_AT, SPANS_BYTES

DOCS = Path(lastword.__file__).resolve().parent / "docs" / "cli.md"


async def _live(state: Path) -> None:
    async with lastword.open_runtime(state) as runtime:
        talk = await runtime.start("seq 1 1000; printf 'no newline'", name="talk")
        odd = await runtime.start("printf 'caf\\303\\251\\033[31m red\\033[0m\\rCAF'; exit 3", name="odd")
        for process in (talk, odd):
            await process.wait()
            notice = await runtime.loop.receive()
            if notice.notification.process_handle == talk.handle:
                await notice.ack()


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    """A directory in which two jobs have ended: talk, whose notice is acknowledged, and odd, whose is not."""
    state = tmp_path_factory.mktemp("lived") / "state"
    anyio.run(_live, state)
    return Ground(state)


def test_jobs_and_what_is_pending(lived: Ground) -> None:
    talk, odd = lived.objects("ps", "-a")
    assert (talk["name"], talk["program"], talk["state"], talk["exit_code"]) == ("talk", "sh", "exited", 0)
    assert (odd["name"], odd["exit_code"], odd["total_bytes"]) == ("odd", 3, 22)
    assert lived.out("ps") == ""
    assert re.fullmatch(
        rf"{talk['handle'][:8]}\ttalk\tsh\texited 0\t\S+ ago\t\S+\t3.8 KiB", lived.out("ps", "-a").splitlines()[0]
    )
    (waiting,) = lived.objects("pending")
    assert (waiting["process_handle"], waiting["name"], waiting["status"]) == (odd["handle"], "odd", "unacknowledged")


def test_logs_as_text_as_bytes_in_pieces_and_from_the_end(lived: Ground) -> None:
    everything = "".join(f"{i}\n" for i in range(1, 1001)) + "no newline\n"
    assert lived.out("logs", "talk") == everything
    assert lived.out("logs", "talk", "--tail", "2") == "1000\nno newline\n"
    assert lived.out("logs", "talk", "--tail", "0") == ""
    assert lived.out("logs", "talk", "--tail", "5000") == everything
    assert lived.out("logs", "talk", "--cursor", "3893") == "no newline\n"
    assert lived.out("logs", "odd") == "CAFé red\n"
    assert lived.here("logs", "odd", "--raw")[1] == b"caf\xc3\xa9\x1b[31m red\x1b[0m\rCAF"
    (chunk,) = lived.objects("logs", "odd")
    assert (chunk["start"], chunk["next_cursor"], chunk["ended"], chunk["text"]) == (0, 22, True, "CAFé red")
    code, _, notes = lived.here("logs", "talk", "--cursor", "9999")
    assert (code, notes.count(b"\n")) == (1, 1)


def test_logs_since_a_moment(ground: Ground, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = 'printf "first\\nearly, "; until [ -e "$0" ]; do sleep 0.05; done; echo late'
    with ground.start("run", "--name", "talk", "--", "sh", "-c", script, str(gate)) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == b"first\n"
        assert command.stdout.read(7) == b"early, "
        # When something came is known to a second.
        between = datetime.now(UTC) + timedelta(seconds=1.1)
        while datetime.now(UTC) < between:
            time.sleep(0.05)
        gate.touch()
        assert command.wait(HANG_SECONDS) == 0
    since = ("talk", "--since", between.isoformat())
    assert ground.out("logs", *since) == "early, late\n"
    assert ground.out("logs", "--raw", *since) == "late\n"
    assert [chunk["start"] for chunk in ground.objects("logs", *since)] == [13]
    assert ground.out("logs", "talk", "--since", "1d") == "first\nearly, late\n"
    assert ground.out("logs", "talk", "--since", "2999-01-01") == ""
    (ring,) = (ground.state / "output").iterdir()
    with ring.open("r+b") as file:  # as a version that wrote no times has left it
        for at in SPANS_AT:
            file.seek(at)
            file.write(bytes(SPANS_BYTES))
    code, out, notes = ground.here("logs", *since)
    assert (code, out, notes.count(b"\n"), b"older version" in notes) == (1, b"", 1, True)
    assert ground.out("logs", "talk", "--tail", "1") == "early, late\n"


def test_nothing_that_came_since_is_nothing_of_an_unfinished_line_either(lived: Ground) -> None:
    assert lived.out("logs", "talk", "--since", "2999-01-01") == ""
    assert lived.out("logs", "talk", "--since", "1d").endswith("\n1000\nno newline\n")


def test_logs_since_a_moment_within_an_endless_line(ground: Ground, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = 'head -c 70000 /dev/zero | tr "\\0" x; until [ -e "$0" ]; do sleep 0.05; done; echo late'
    with ground.start("run", "--name", "long", "--", "sh", "-c", script, str(gate)) as command:
        assert command.stdout is not None
        assert len(command.stdout.read(70000)) == 70000
        between = datetime.now(UTC) + timedelta(seconds=1.1)
        while datetime.now(UTC) < between:
            time.sleep(0.05)
        gate.touch()
        assert command.wait(HANG_SECONDS) == 0
    assert ground.out("logs", "long", "--since", between.isoformat()) == "late\n"
    assert ground.out("logs", "long", "--since", "1d") == "x" * 70000 + "late\n"


def test_events_and_the_timeline(lived: Ground) -> None:
    kinds = [event["event"]["type"] for event in lived.objects("events")]
    assert sorted(kinds) == ["ProcessCompleted", "ProcessCompleted", "ProcessStarted", "ProcessStarted"]
    last = lived.objects("events")[-1]["seq"]
    assert lived.out("events", "--after", str(last)) == ""
    assert lived.out("events", "--since", "2999-01-01") == ""
    assert lived.out("events", "--since", "1d") == lived.out("events")
    assert "odd  completed: exited 3, after " in lived.out("events")
    told = lived.out("replay")
    assert "the session is opened, for the 1st time" in told
    assert told.splitlines()[-1] == "--- 2 jobs, 2 last words, 2 notices, 1 of them not acknowledged"
    assert {moment["record"] for moment in lived.objects("replay")} == {"fence", "event", "command", "consumption"}


def test_a_journal_is_not_open_while_what_it_says_is_shown(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever shows it may be `less`; who writes it could not take its log back meanwhile.  And it has an end."""
    assert ground.run("run", "true").returncode == 0
    whole = [record.seq for record in journal_of(ground.state)]
    monkeypatch.setattr(_look_journal, "_PAGE", 3)
    assert [record.seq for record in journal_of(ground.state)] == whole
    with closing(sqlite3.connect(ground.state / "journal.db", isolation_level=None)) as writer:
        writer.execute("SELECT COUNT(*) FROM record").fetchone()
        shown: list[int] = []
        for record in journal_of(ground.state):
            shown.append(record.seq)
            writer.execute("UPDATE record SET waiting = waiting")
            assert writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, "nobody reads it"
            if len(shown) == 1:
                assert ground.run("run", "true").returncode == 0
    assert shown == whole
    assert len(list(journal_of(ground.state))) > len(whole)


async def _live_often(state: Path) -> None:
    async with lastword.open_runtime(state, limits=SERVE_LIMITS) as runtime:
        for _ in range(101):  # one more than `open_runtime` keeps by itself
            await (await runtime.start(["true"])).wait()


def test_whoever_opens_a_directory_keeps_what_its_server_has_kept(ground: Ground) -> None:
    anyio.run(_live_often, ground.state)
    assert ground.here("ack", "--all")[0] == 0
    assert len(ground.objects("ps", "-a")) == 101
    assert ground.run("run", "true").returncode == 0
    assert len(ground.objects("ps", "-a")) == 102


def test_a_sound_journal_and_one_that_is_not(lived: Ground, tmp_path: Path) -> None:
    (found,) = lived.objects("verify")
    assert (found["sound"], found["pending"], found["unfinished"], found["epoch"]) == (True, 1, 0, 1)
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(lived.state / "journal.db")) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        target.execute("UPDATE record SET waiting = NULL")
        target.commit()
    code, out, _ = lived.here("verify", str(copy))
    assert (code, out.startswith(b"sequence "), b"NOT SOUND" in out) == (1, True, True)
    assert b"2 jobs" in lived.here("replay", str(copy))[1]


def test_where_nothing_has_run_there_is_nothing_and_nothing_is_made(ground: Ground) -> None:
    for command in ("ps", "events", "pending"):
        assert ground.out(command) == ""
    for line in (("logs", "x"), ("replay",), ("verify",), ("wait", "x"), ("serve", "--stop")):
        code, out, notes = ground.here(*line)
        assert (code, out, notes.count(b"\n")) == (1, b"", 1), line
    assert not ground.state.exists()
    ground.state.mkdir()
    (ground.state / "lock").touch()  # somebody is making it in this moment
    assert ground.out("ps") == ""
    (ground.state.parent / "other").write_text("a file of somebody's")
    code, _, notes = Ground(ground.state.parent).here("ps")
    assert (code, b"no state directory" in notes) == (1, True)


def test_a_folder_that_cannot_be_looked_into_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for line in ("ps", "events", "pending", "logs x", "wait x", "ack --all"):
        code, out, notes = Ground(tmp_path / "file").here(*line.split())
        assert (code, out, notes.count(b"\n")) == (1, b"", 1), line
        assert b"cannot be looked into (Not a directory)" in notes, (line, notes)


def test_a_table_on_a_terminal_and_no_colour_in_it(lived: Ground) -> None:
    with lived.on_terminal("ps", "-a", env={"NO_COLOR": "1"}) as terminal:
        assert terminal.wait() == 0
    assert b"HANDLE" in terminal.shown
    assert b"talk" in terminal.shown
    assert not re.search(rb"\x1b\[[0-9;]*(3|4|9|10)[0-7]", terminal.shown)


@pytest.mark.parametrize("line", [("logs", "--raw", "talk"), ("replay", "--json"), ("--help",)])
def test_a_reader_that_leaves_is_no_error(lived: Ground, line: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    with lived.start(*line, stdout=write) as command:
        os.close(write)
        _, notes = command.communicate(timeout=90)
    assert (command.returncode, notes) == (-signal.SIGPIPE, b"")


def test_a_full_disk_is_told(lived: Ground) -> None:
    with Path("/dev/full").open("wb") as full, lived.start("events", stdout=full) as command:
        _, notes = command.communicate(timeout=90)
    assert (command.returncode, notes.count(b"\n")) == (1, 1)


class TestHelp:
    """It teaches, and the docs say the same."""

    @pytest.mark.checkout
    @pytest.mark.parametrize("name", app.list_commands(app.make_context("lastword", [], resilient_parsing=True)))
    def test_each_command_shows_how_it_is_used(self, ground: Ground, name: str) -> None:
        text = ground.out(name, "--help")
        if name != "demo":
            assert f"lastword {name}" in text.partition("Options:")[0].partition("\n")[2], "an example"
        assert f"lastword {name}" in DOCS.read_text()

    @pytest.mark.checkout
    def test_the_objects_are_those_of_the_docs(self, lived: Ground) -> None:
        objects = {
            "ps": lived.objects("ps", "-a")[0],
            "logs": lived.objects("logs", "odd")[0],
            "events": lived.objects("events")[0],
            "pending": lived.objects("pending")[0],
            "replay": lived.objects("replay")[0],
            "verify": lived.objects("verify")[0],
            "doctor": lived.objects("doctor")[0],
        }
        documented = dict(re.findall(r"^\| `(\w+)`[^|]* \| ([^|]+) \|$", DOCS.read_text(), re.MULTILINE))
        for name, found in objects.items():
            assert re.findall(r"`(\w+)`", documented[name]) == list(found), name

    def test_a_shell_can_complete_commands_and_jobs(self, lived: Ground) -> None:
        def offered(words: str, number: int) -> list[str]:
            line = {"_LASTWORD_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
            code, out, notes = lived.here(env=line)
            assert (code, notes) == (0, b"")
            return [each.partition(",")[2] for each in out.decode().split()]

        assert offered("lastword ev", 1) == ["events"]
        assert offered("lastword logs od", 2) == ["odd"]
        assert offered("lastword logs zzz", 2) == []
        assert offered("lastword logs ", 2)[:3:2] == ["odd", "talk"]
        for shell in ("bash", "zsh", "fish"):
            code, out, _ = lived.here(env={"_LASTWORD_COMPLETE": f"{shell}_source"})
            assert (code, b"_LASTWORD_COMPLETE" in out) == (0, True)


def test_a_journal_that_is_no_json_is_never_shown_as_one(lived: Ground) -> None:
    for command in ("ps -a", "events", "pending", "replay", "verify", "doctor", "logs odd"):
        for line in lived.out(*command.split(), "--json").splitlines():
            assert isinstance(json.loads(line), dict)
