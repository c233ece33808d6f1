"""How a job has ended, in words and as a number: one table for every door."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lastword.adapters._ending import Ending, spawn_status
from lastword.notifier import ProcessState, TerminalReason
from lastword.supervisor import Containment, Outcome

ENDINGS = [
    (Ending(state="exited", exit_code=0, shell_code=0), "exited 0", 0, 0),
    (Ending(state="exited", exit_code=137, shell_code=137), "exited 137", 137, 137),
    (Ending(state="exited", signal=9, shell_code=137), "exited by SIGKILL", 137, 137),
    (Ending(state="exited", signal=40, shell_code=168), "exited by signal 40", 168, 168),
    (Ending(state="exited", shell_code=3), "exited 3", 3, 3),
    (Ending(state="exited", shell_code=128), "exited 128", 128, 128),
    (Ending(state="exited", shell_code=143), "exited 143 (SIGTERM, if by a signal)", 143, 143),
    (Ending(state="exited"), "exited", None, 125),
    (Ending(state="terminated", signal=15, shell_code=143), "terminated", None, 143),
    (Ending(state="terminated", exit_code=0, shell_code=0), "terminated, exit code 0", 0, 0),
    (
        Ending(state="killed", reason="runner_shutdown", signal=9, shell_code=137),
        "killed (its host was closed)",
        None,
        137,
    ),
    (
        Ending(state="terminated", reason="output_limit", signal=15, shell_code=143),
        "terminated (it wrote more than it was allowed to)",
        None,
        143,
    ),
    (Ending(state="interrupted", reason="interrupted", signal=2, shell_code=130), "interrupted", None, 130),
    (Ending(state="timed_out", signal=9, shell_code=137), "timed out", None, 124),
    (Ending(state="timed_out", exit_code=0, shell_code=0), "timed out, exit code 0", 0, 124),
    (Ending(state="lost_on_restore"), "lost with its host", None, 125),
    (Ending(state="lost_on_restore", diagnostic="host_died"), "lost with its host", None, 125),
    (
        Ending(state="lost_on_restore", diagnostic="tree_not_proven"),
        "lost with its host (tree_not_proven)",
        None,
        125,
    ),
    (
        Ending(state="failed", diagnostic="spawn_failed:not_found:ENOENT"),
        "failed (spawn_failed:not_found:ENOENT)",
        None,
        127,
    ),
    (Ending(state="failed", diagnostic="spawn_failed:interpreter_missing:ENOENT"), None, None, 126),
    (Ending(state="failed", diagnostic="spawn_failed:cwd:ENOENT"), None, None, 125),
    (Ending(state="failed", diagnostic="exit_unknown"), "failed (exit_unknown)", None, 125),
    (Ending(state="running"), "running", None, 125),
]


@pytest.mark.parametrize(("ending", "words", "shown", "status"), ENDINGS)
def test_how_it_ended(ending: Ending, words: str | None, shown: int | None, status: int) -> None:
    if words is not None:
        assert ending.words == words
    assert ending.shown_code == shown
    assert ending.status == status


def test_a_spawn_that_failed_for_another_reason_is_our_fault() -> None:
    assert (spawn_status("not_found"), spawn_status("resources"), spawn_status(None)) == (127, 125, 125)


def test_an_outcome_and_its_event_say_the_same_but_for_what_no_event_can_carry() -> None:
    outcome = Outcome(
        state=ProcessState.EXITED,
        reason=TerminalReason.EXITED,
        signal=9,
        finished_at=datetime(2026, 3, 14, tzinfo=UTC),
        containment=Containment.SUBREAPER,
    )
    assert Ending.of_outcome(outcome).words == "exited by SIGKILL"
    assert Ending.of_outcome(outcome).status == 137
