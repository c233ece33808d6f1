"""The border between deciding about a process and holding it: what a launcher is given, and what it must tell.

Theory of operation
- A launcher spawns one job and gives back a `Child`.  From then on the child's keeper (a shim, or code in this process
  where there is none) watches the leader, drains its output, carries out stop orders and ends what is left of the tree.
- The keeper decides whether it was an exit or a stop, since only it knows what it had signalled before it reaped.  It
  says so once, in a `Report`.  What that means for the record is decided elsewhere (`_outcome`).
- Everything is told through a `Listener`, synchronously, in the event loop; a listener returns at once.

Rules
- After `ended` nothing more is told except `emptied`, and output, total and cursor stay as they are (sealed).
- A child never signals anything that it cannot still identify as its own.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from signal import Signals
from typing import Literal, Protocol, final

import attrs

from .._errors import SpawnFailureKind
from .._limits import Containment, ResourceLimits, TerminalSize
from ..output import SpoolState
from ._input import Input
from ._terminal import TerminalInput

Survivors = Literal["stop", "keep"]


class StopMode(Enum):
    """How a process is asked to end."""

    INTERRUPT = "interrupt"
    """SIGINT, as by Ctrl-C.  It may well go on; there is no escalation."""

    TERMINATE = "terminate"
    """SIGTERM then SIGCONT to the whole tree, the grace, SIGKILL."""

    KILL = "kill"
    """SIGKILL to the whole tree at once."""


@final
@attrs.frozen(kw_only=True)
class LaunchSpec:
    """One job, ready to be spawned.  Nothing of it is shown by `repr`.

    It reads `stdin`, or from `input` where there is one; a terminal is its output, too.  Of its output the last
    `output_limit` bytes are kept, or the first where it does not `rotate`; `split_streams`: it is kept which of them
    are stdout's and which stderr's.
    """

    argv: tuple[str, ...] = attrs.field(repr=False)
    env: dict[str, str] = attrs.field(repr=False)
    cwd: str | None = attrs.field(repr=False)
    stdin: bytes | None = attrs.field(repr=False)
    resources: ResourceLimits
    survivors: Survivors
    output_path: Path = attrs.field(repr=False)
    output_limit: int
    rotate: bool = True
    split_streams: bool = False
    input: Input | None = attrs.field(default=None, repr=False)

    @property
    def terminal(self) -> str | None:
        """The path of the terminal that it is to have, if any."""
        return self.input.path if isinstance(self.input, TerminalInput) else None


@final
@attrs.frozen(kw_only=True)
class Wishes:
    """What `start` is asked for beyond running a program; a launcher refuses what it cannot give before anything is
    admitted.  `terminal` is the size of the one that it is to have."""

    terminal: TerminalSize | None
    input_pipe: bool
    split_streams: bool
    resources: ResourceLimits | None


@final
@attrs.frozen(kw_only=True)
class ExitStatus:
    """How the leader ended; exactly one of the two is set."""

    exit_code: int | None
    signal: int | None


@final
@attrs.frozen(kw_only=True)
class Report:
    """What a child's keeper saw, told once.

    - `status`: None where somebody else took it (an ignored SIGCHLD, a foreign waitpid): unknown, never guessed.
    - `signalled`: the signals that were delivered while the leader was seen alive; empty means that it ended by itself.
    - `in_time`: the leader ended within the grace of an interrupt.
    - `survivors`: live members of its tree when the leader's own end was seen; after a stop, those that outlived it.
    - `output_open`: somebody still held the output when draining was over.
    - `proven`: the kernel said that nothing of the tree is left.
    - `lost`: the keeper was killed before it could see the leader's end; the rest is what is known without it.
    """

    status: ExitStatus | None
    signalled: frozenset[Signals]
    in_time: bool
    survivors: int
    output_open: bool
    spool: SpoolState
    proven: bool
    lost: bool = False


class Listener(Protocol):
    """Who is told about a child."""

    def grew(self, total: int) -> None:
        """`total` bytes of output have been seen so far."""
        ...

    def ended(self, report: Report) -> None:
        """The leader is dead, the output sealed, and the tree ended as far as this tier can; told once."""
        ...

    def stuck(self, errno: int | None) -> None:
        """A stop order did not end the tree by the kill deadline; the child is watched on, and may be ordered anew."""
        ...

    def emptied(self) -> None:
        """After `ended`: the last kept survivor is gone, and the child holds nothing any more."""
        ...


class Child(Protocol):
    """A job that has been spawned."""

    @property
    def spool(self) -> SpoolState:
        """How much output there is by now."""
        ...

    @property
    def holds_survivors(self) -> bool:
        """Whether the leader has ended and left survivors that are kept."""
        ...

    @property
    def released(self) -> bool:
        """Whether it holds nothing any more: no process, no descriptor; looked up now, where nobody tells."""
        ...

    def arm(self, total: int) -> None:
        """Have `Listener.grew` told, once, when there are more than `total` bytes; the lowest that was asked counts."""
        ...

    def end_input(self) -> None:
        """The host has let go of the job's input: whoever else holds it open lets go, and the job reads end of file."""
        ...

    def stop(self, mode: StopMode, grace: float) -> bool:
        """Order a stop, `grace` in seconds; False where the leader has already ended by itself (nothing is signalled).

        Orders may be repeated: a stronger one takes over, a weaker one does nothing.  Kept survivors can be stopped so.
        """
        ...

    def give_up(self) -> Report:
        """Seal what cannot be ended: its output counts up to here.  It is watched on, and reaped should it ever end."""
        ...

    def abandon(self) -> None:
        """Kill what is left if it can be, and let go of every descriptor; for the very end of closing."""
        ...


class Launcher(Protocol):
    """Spawns jobs by one way of containing them."""

    @property
    def containment(self) -> Containment:
        """How strongly it holds a tree."""
        ...

    def refuse(self, wishes: Wishes) -> None:
        """Return if it can do all of `wishes`; else raise the `SupervisorError` that says what it cannot."""
        ...

    async def launch(self, spec: LaunchSpec, listener: Listener) -> Child:
        """Spawn; when this returns, the program has been executed.  Raises `LaunchFailedError`: nothing was left."""
        ...

    async def aclose(self) -> None:
        """Let go of what serves all jobs, each of which has ended or was abandoned by now.  Bounded."""
        ...


def to_exit_status(status: int | None) -> ExitStatus | None:
    """What a wait status means; None, which nobody knows, stays None."""
    if status is None:
        return None
    if os.WIFSIGNALED(status):
        return ExitStatus(exit_code=None, signal=os.WTERMSIG(status))
    return ExitStatus(exit_code=os.WEXITSTATUS(status), signal=None)


class LaunchFailedError(Exception):
    """The spawn failed; `message` names what was missing without showing it.  Internal: `start` turns it around."""

    def __init__(self, kind: SpawnFailureKind, errno: int | None, message: str) -> None:
        super().__init__(kind, errno)
        self.kind: SpawnFailureKind = kind
        self.errno = errno
        self.message = message
