"""The demo, as a user runs it; and that it can fail."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from uuid import uuid4

import pytest

from lastword.adapters.demo._jobs import Job, exited, jobs
from lastword.adapters.demo._ledger import Row
from lastword.notifier import LifecycleKind, ProcessCompletionNotification, ProcessState, TerminalReason

DEMO = [sys.executable, "-W", "error", "-m", "lastword", "demo"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_every_fate_is_met_and_nothing_is_left_pending(backend: str) -> None:
    done = subprocess.run([*DEMO, "--backend", backend], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    expected = jobs("gate")
    assert done.stdout.count("told and acked") == len(expected)
    assert len(re.findall(r"completed\s", done.stdout)) == len(expected)
    assert "dies of a signal: exited by SIGKILL\n" in done.stdout
    assert "opened the same folder again: 0 pending" in done.stdout
    assert done.stdout.endswith(f"{len(expected)} jobs, {len(expected)} last words, all of them home.\n")


def test_a_terminal_gets_a_table() -> None:
    """On a real pseudo-terminal, as `make demo` runs there."""
    master, slave = os.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "140", "LINES": "40"}
    with subprocess.Popen(DEMO, stdin=slave, stdout=slave, stderr=slave, env=environment, close_fds=True) as demo:
        os.close(slave)
        shown = bytearray()
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline:
            if not select.select([master], [], [], 1.0)[0]:
                continue
            try:
                piece = os.read(master, 65536)
            except OSError:  # EIO: the last holder of the other side has gone
                break
            shown += piece
        assert demo.wait(timeout=60) == 0, shown[-4000:].decode(errors="replace")
    os.close(master)
    text = shown.decode()
    for heading in ("job", "stop asked", "last word", "told, acked", "ends together, 3/3"):
        assert heading in text
    assert "all of them home" in text


def test_without_the_extra_the_command_says_so_in_one_line() -> None:
    program = "import sys; sys.modules['click'] = None\nfrom lastword.adapters.cli import main\nmain()\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "lastword: the command needs an extra: pip install 'lastword[cli]'\n"


def test_help_loads_no_core() -> None:
    program = (
        "import sys\n"
        "from lastword.adapters.cli import main\n"
        "sys.argv = ['lastword', '--help']\n"
        "try: main()\n"
        "except SystemExit as end: code = end.code\n"
        "print(code, 'lastword.supervisor' in sys.modules, 'anyio' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "demo" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 False False"


class TestTheJudge:
    """Each way in which a row can be wrong is seen."""

    @staticmethod
    def row() -> Row:
        return Row(handle="h", job=Job(label="job", command="true", fate=exited(0)))

    def test_nothing_heard(self) -> None:
        assert self.row().faults == ["no last word", "its events are none", "0 notices", "not acknowledged"]

    def test_a_second_notice_is_a_fault(self) -> None:
        row = self.row()
        told = ProcessCompletionNotification(
            command_id=uuid4(),
            session_id=uuid4(),
            loop_id=uuid4(),
            process_handle="h",
            state=ProcessState.EXITED,
            reason=TerminalReason.EXITED,
        )
        row.notices = [told, told]
        row.acknowledged = True
        row.kinds = [LifecycleKind.STARTED, LifecycleKind.COMPLETED]
        assert row.faults == ["no last word", "2 notices"]

    def test_a_row_without_a_job_is_a_fault(self) -> None:
        assert Row(handle="h").faults == ["it belongs to no job"]
