"""What the demo runs, and what must become of each."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence

import attrs

from ...notifier import LifecycleKind, ProcessState, TerminalReason
from ...supervisor import StopMode

_ENDED = frozenset({LifecycleKind.STARTED, LifecycleKind.COMPLETED})
_STOPPED = _ENDED | {LifecycleKind.STOP_REQUESTED}


@attrs.frozen(kw_only=True)
class Fate:
    """What the last word must say."""

    state: ProcessState
    reason: TerminalReason
    exit_code: int | None = None
    kinds: frozenset[LifecycleKind] = _ENDED


def exited(code: int, *more: LifecycleKind) -> Fate:
    """The command ended by itself."""
    return Fate(state=ProcessState.EXITED, reason=TerminalReason.EXITED, exit_code=code, kinds=_ENDED.union(more))


@attrs.frozen(kw_only=True)
class Job:
    """One command: how it is started, what is done to it once it runs, and its fate."""

    label: str
    command: str | Sequence[str]
    fate: Fate
    timeout: float | None = None
    output_limit: int | None = None
    env: Mapping[str, str] | None = None
    stop: StopMode | None = None
    background: bool = False
    at_the_gate: bool = False


def jobs(gate: str) -> tuple[Job, ...]:
    """The jobs; those that end together wait for the end of the named pipe `gate`, and say when they do."""
    # Says so once it has opened the pipe: a reader that came after the last writer had gone would wait for ever.
    waiting = f"exec 3<{shlex.quote(gate)}; echo ready; exec cat <&3"
    return (
        Job(label="exits with 0", command="echo hello", fate=exited(0)),
        Job(label="exits with 3", command="echo oops >&2; exit 3", fate=exited(3)),
        Job(label="dies of a signal", command="kill -9 $$", fate=exited(137)),
        Job(
            label="runs out of time",
            command="sleep 60",
            timeout=1.0,
            fate=Fate(state=ProcessState.TIMED_OUT, reason=TerminalReason.TIMED_OUT, kinds=_STOPPED),
        ),
        Job(
            label="is asked to stop",
            command="sleep 60",
            stop=StopMode.TERMINATE,
            fate=Fate(state=ProcessState.TERMINATED, reason=TerminalReason.TERMINATED, kinds=_STOPPED),
        ),
        Job(
            label="is killed",
            command="trap '' TERM INT; while :; do sleep 0.1; done",
            stop=StopMode.KILL,
            fate=Fate(state=ProcessState.KILLED, reason=TerminalReason.KILLED, kinds=_STOPPED),
        ),
        Job(
            label="cannot start",
            command=["/no/such/program"],
            fate=Fate(
                state=ProcessState.FAILED,
                reason=TerminalReason.FAILED,
                kinds=frozenset({LifecycleKind.COMPLETED}),
            ),
        ),
        Job(
            label="writes 64 MiB",
            command=[sys.executable, "-c", "import os\nfor _ in range(1024): os.write(1, b'x' * 65536)"],
            output_limit=1024 * 1024,
            fate=exited(0),
        ),
        Job(label="child holds the pipe", command="sleep 60 & echo gone", fate=exited(0)),
        Job(
            label="is backgrounded",
            command=f"exec 3<{shlex.quote(gate)}; echo ready; cat <&3; sleep 1.5",
            background=True,
            at_the_gate=True,
            fate=exited(0, LifecycleKind.BACKGROUNDED),
        ),
        *(
            Job(label=f"ends together, {number}/3", command=waiting, at_the_gate=True, fate=exited(0))
            for number in (1, 2, 3)
        ),
    )
