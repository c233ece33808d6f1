"""What is shown to users runs as it is shown."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lastword

ROOT = Path(lastword.__file__).resolve().parent
EXAMPLES = Path(__file__).parent.parent / "examples"


def run_python(*arguments: str, cwd: Path) -> str:
    """Run a fresh interpreter with warnings as errors and return what it printed; it must end well and say no more."""
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_embed(tmp_path: Path) -> None:
    assert run_python(str(EXAMPLES / "embed.py"), cwd=tmp_path) == "exited with code 3\nbuilding\n"


def test_agent_loop_works_on_and_is_told(tmp_path: Path) -> None:
    lines = run_python(str(EXAMPLES / "agent_loop.py"), str(tmp_path / "state"), cwd=tmp_path).splitlines()
    assert re.fullmatch(r"-- job [\w-]{6} is running in the background", lines[0])
    assert [line for line in lines if line.startswith("turn")] == [
        f"turn {number}: thinking about something else" for number in range(1, 6)
    ]
    told = [number for number, line in enumerate(lines) if line.endswith("has ended: exited 0")]
    assert len(told) == 1
    assert told[0] > 0  # how many turns the job takes is the machine's matter
    assert lines[-1] == "-- its output: all tests passed"


def test_a_server_is_tested(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "server_under_test.py", tmp_path)  # away from this repository's settings
    printed = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", "server_under_test.py", cwd=tmp_path)
    assert re.search(r"^4 passed in", printed, re.MULTILINE), printed


def test_an_mcp_client_is_told_over_a_killed_server(tmp_path: Path) -> None:
    lines = run_python(str(EXAMPLES / "mcp_client.py"), cwd=tmp_path).splitlines()
    assert [line for line in lines if "told" in line] == [
        "   told: exited, exit code 0",
        "   told: exited, exit code 3",
        "   told: lost_on_restore, exit code None",
    ]
    assert "   hello from a job" in lines
    assert lines[-1] == "-- nothing is owed any more: True"


def test_an_agent_with_tools_is_told_once_and_its_transcript_says_so(tmp_path: Path) -> None:
    printed = run_python(str(EXAMPLES / "agent_tools.py"), str(tmp_path / "state"), cwd=tmp_path).splitlines()
    assert printed[0] == "tool (running)"
    assert set(printed[1:-2]) <= {"tool read some code"}  # how often, is the machine's matter
    assert re.fullmatch(r"notice Process [\w-]{22} has ended: exited 3\.", printed[-2])
    assert printed[-1] == "tool 2 errors"
    assert run_python(str(EXAMPLES / "agent_tools.py"), str(tmp_path / "state"), cwd=tmp_path) == ""


@pytest.mark.checkout
def test_the_readme_example_runs_as_it_is_and_is_about_ten_lines(tmp_path: Path) -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 12
    (tmp_path / "snippet.py").write_text(snippet)
    printed = run_python("snippet.py", cwd=tmp_path)
    assert re.fullmatch(r"[\w-]{22} EXITED\n", printed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs", "snippet.py"]
