"""The hostile jobs, what each leaves behind, and what the outcome must be for each way to end it."""

from __future__ import annotations

import signal
from typing import Any, Final

import attrs
from hostile_jobs import EXIT_CODE

from lastword.supervisor import Containment

# How a job can end.  "timeout" comes at any moment of its beginning; "host" is SIGKILL of the host, and comes last.
EVERY_ENDING: Final = ("terminate", "kill", "timeout", "exit", "keep", "close", "keep close", "host")
NO_EXIT: Final = ("terminate", "kill", "timeout", "close", "host")
ONE_AT_A_TIME: Final = ("terminate", "kill", "timeout", "exit", "close", "host")
FEW: Final = ("exit", "host")
ONLY_EXIT: Final = ("exit", "keep", "keep close", "host")


@attrs.frozen(kw_only=True)
class Hostile:
    """A job of `hostile_jobs`.

    - `leaves`: how many survive its leader; None: that changes all the time.
    - `deaf`: its leader ends by SIGKILL alone.
    - `in_group`: a process group holds it all.
    - `dies_of`: its leader ends itself by this signal, and not by an exit.
    - `attacks`: it signals who keeps it, so that must not be the host.
    - `storm`: it can outlast the kill deadline on a busy machine; then that must be said, and it ends all the same.
    - `endings`: how it can end; `quick`: those of a short run, where not all.
    """

    words: tuple[str, ...]
    leaves: int | None = 1
    deaf: bool = False
    in_group: bool = False
    dies_of: int | None = None
    attacks: bool = False
    endings: tuple[str, ...] = EVERY_ENDING
    processes: int | None = None
    storm: bool = False
    quick: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return " ".join(self.words)

    def script(self, *endings: str) -> dict[str, Any]:
        """For `hostile_host.play`; no endings: all of them."""
        return {"job": self.words, "endings": endings or self.endings, "keep": "keep close" in self.endings}


def wide(count: int) -> Hostile:
    """`count` orphaned sessions."""
    return Hostile(words=("wide", str(count)), leaves=count, storm=True)


HOSTILE: Final = (
    Hostile(words=("plain",), in_group=True),
    Hostile(words=("setsid",)),
    Hostile(words=("daemon",)),
    Hostile(words=("nohup",), in_group=True),
    Hostile(words=("comets", "1"), leaves=None, storm=True),
    Hostile(words=("comets", "16"), leaves=None, quick=FEW, storm=True),
    # Fewer fit into its pen than it would have: its forks fail, and go on failing.
    Hostile(words=("bomb", "150"), leaves=None, processes=100, endings=ONE_AT_A_TIME, quick=FEW, storm=True),
    Hostile(words=("deaf",), leaves=2, deaf=True),
    Hostile(words=("stopped_leader",), in_group=True, endings=NO_EXIT),
    Hostile(words=("stopped_child",)),
    Hostile(words=("headless",)),
    Hostile(words=("reaper",), leaves=2, deaf=True),
    Hostile(words=("migrant", "PEN")),
    Hostile(words=("migrant", "PEN", "freeze")),
    Hostile(words=("nested", "PEN"), leaves=3),
    Hostile(words=("closed",)),
    Hostile(words=("chatty",)),
    Hostile(words=("suicide",), dies_of=signal.SIGKILL, endings=ONLY_EXIT),
    Hostile(words=("attack", "parent"), attacks=True),
    Hostile(words=("attack", "grandparent"), attacks=True),
)


def is_late(told: dict[str, Any]) -> bool:
    """Whether the outcome claims nothing: the tree was not seen to end in time."""
    unproven = told.get("proven") is False and (told["state"] == "EXITED" or "teardown_failed" in told["diagnostic"])
    return unproven or "teardown_failed" in told.get("error", "")


def check(hostile: Hostile, tier: Containment, told: dict[str, Any]) -> None:
    """Nobody was left, and the outcome says what happened and that it is proven; `told` is a host's word "ended"."""
    ending = told["ending"]
    assert told["left"] == [], f"{ending}: {len(told['left'])} left: {told['left'][:10]}; {told}"
    assert told["containment"] == tier.name
    how = (told["state"], told["reason"], told["exit_code"], told["signal"])
    assert how in _expected(hostile, ending), f"{ending}: {told}"
    by_itself = how[0] == "EXITED"
    if not by_itself:
        assert told["survivors"] == 0, told
    elif hostile.leaves is None:
        assert told["survivors"] >= 1, told
    else:
        assert told["survivors"] == hostile.leaves, told
    if ending == "keep":
        assert told["kept"] == hostile.leaves or hostile.leaves is None, told
    if not ending.startswith("keep"):
        assert told["proven"] is tier.proven, told


def _expected(hostile: Hostile, ending: str) -> set[tuple[str, str, int | None, int | None]]:
    """State, reason, exit code and signal, as they may be."""
    by_number = signal.SIGKILL if hostile.deaf else signal.SIGTERM
    state = "KILLED" if hostile.deaf else "TERMINATED"
    match ending:
        case "terminate":
            return {(state, state, None, by_number)}
        case "kill":
            return {("KILLED", "KILLED", None, signal.SIGKILL)}
        case "timeout":  # it may come before the leader has become deaf
            return {("TIMED_OUT", "TIMED_OUT", None, number) for number in (signal.SIGTERM, by_number)}
        case "close":
            return {(state, "RUNNER_SHUTDOWN", None, by_number)}
        case _:
            code = EXIT_CODE if hostile.dies_of is None else None
            return {("EXITED", "EXITED", code, hostile.dies_of)}
