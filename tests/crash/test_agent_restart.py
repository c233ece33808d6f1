"""The example that embedders copy: an agent that survives kill -9, as it is shown and at any moment."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from crash_sizes import AGENT_KILLS, FULL_AGENT_KILLS, report

EXAMPLE = Path(__file__).parents[2] / "examples" / "agent_restart.py"
STEPS = ["build", "test", "package"]


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "-u", str(EXAMPLE), *arguments]


def test_the_demo_kills_the_agent_which_goes_on() -> None:
    """It remembers what was done, is told of the job that was lost, and does that again."""
    done = subprocess.run(_command(), capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "-- awake, with 0 lines of memory",
        "-> build",
        "   build: exited built",
        "-> test",
        "** killed",
        "-- awake, with 3 lines of memory",
        "   test: lost_on_restore",
        "-> test",
        "   test: exited 12 passed",
        "-> package",
        "   package: exited packed",
        "-- all done",
    ]


def _check_transcript(folder: Path) -> None:
    """Each step was done exactly once, in order, and no notice is in the transcript twice."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in (folder / "transcript.jsonl").read_bytes().splitlines()]
    assert [line["step"] for line in lines if line.get("state") == "EXITED"] == STEPS
    ended = [line["ended"] for line in lines if "ended" in line]
    assert len(set(ended)) == len(ended)
    assert {line["started"] for line in lines if "started" in line} <= set(ended)


def _survive(folder: Path, kills: int, seed: int) -> None:
    """Kill it so many times, at moments of the seed's choice, and let it finish; then it has nothing left to do."""
    rng = random.Random(seed)
    for _ in range(kills):
        with subprocess.Popen(_command(str(folder)), stdout=subprocess.DEVNULL) as agent:
            time.sleep(rng.uniform(0.2, 1.5))  # the moment is what is varied
            agent.kill()
    for last in (False, True):
        done = subprocess.run(_command(str(folder)), capture_output=True, text=True, timeout=200, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        lines = done.stdout.splitlines()
        assert lines[-1] == "-- all done"
        assert len(lines) == 2 or not last
        _check_transcript(folder)
    report(f"the agent of the example outlived {kills} kills, seed {seed}")


def test_the_agent_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    _survive(tmp_path, AGENT_KILLS, seed=random.randrange(1_000_000))


@pytest.mark.prove
@pytest.mark.parametrize("folder", range(FULL_AGENT_KILLS // 5))
def test_the_agent_survives_kills_at_many_moments(folder: int, tmp_path: Path) -> None:
    _survive(tmp_path, 5, seed=folder)
