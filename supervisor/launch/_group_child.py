"""A job of the process_group tier: its keeper lives in the host, since there is no shim.

The group tells nobody of its members' ends (they are no children of ours), so who is left is looked up, and only while
something is being ended or asked for.
"""

from __future__ import annotations

import contextlib
import signal
from typing import Final, final

from .._reactor import Reactor
from .._timers import Timers
from ..shim._facts import Facts
from ..shim._keeper import Keeper
from ..shim._terminal import Terminal, drain_of
from ._forks import close_in_forks
from ._hosted_child import HostedChild
from ._launcher import LaunchSpec, Listener
from ._leader import Leader

_SWEEP_SECONDS: Final = 0.01


@final
class GroupTree:
    """A leader and its process group, as `shim._keeper.Tree`.  It proves nothing: who left the group is not seen."""

    proves = False
    look_again_seconds = _SWEEP_SECONDS
    refused: int | None = None

    def __init__(self, leader: Leader, terminal: Terminal | None = None) -> None:
        self._leader = leader
        self._terminal = terminal

    @property
    def ended(self) -> bool:
        """Whether the leader has ended."""
        return self._leader.peek() is not None

    @property
    def status(self) -> int | None:
        """The leader's wait status; None where somebody else took it."""
        exited = self._leader.peek()
        return None if exited is None else exited.status

    def reap(self) -> None:
        """Nothing: the leader's zombie keeps the group's number ours for as long as it may be signalled."""

    def left(self) -> int:
        """How many other live members the group has."""
        return self._leader.members()

    def may_answer(self, number: int) -> bool:
        """Whether the leader could live through `number`."""
        if number == signal.SIGINT and self._terminal is not None and self._terminal.serves_others(self._leader.pid):
            return True
        return self._leader.may_answer(number)

    def interrupt(self) -> None:
        """SIGINT to the terminal's foreground group, or to the leader's."""
        if self._terminal is None or not self._terminal.interrupt():
            self._leader.signal_group(signal.SIGINT)

    def signal(self, number: int) -> None:
        """`number` to the group."""
        self._leader.signal_group(number)

    def forget_refusals(self) -> None:
        """Nothing: none are kept."""


@final
class GroupChild(HostedChild):
    """A `Child` that this process keeps."""

    def __init__(
        self,
        leader: Leader,
        pipes: tuple[int, ...],
        spec: LaunchSpec,
        listener: Listener,
        *,
        reactor: Reactor,
        timers: Timers,
        buffer: memoryview,
    ) -> None:
        """Watch `leader` and its `pipes` (or its terminal's host side), and own all from here on.

        `buffer` may serve every job of one loop.
        """
        super().__init__(spec, listener)
        self._leader = leader
        self._reactor = reactor
        terminal = None if spec.terminal is None else Terminal(pipes[0], spec.terminal)
        self._tree = GroupTree(leader, terminal)
        self._keeper = Keeper(
            self._tree,
            self._ring,
            self,
            drain_of(pipes, terminal, self._ring, reactor, buffer),
            keep=spec.survivors == "keep",
            timers=timers,
        )
        close_in_forks(self)
        if leader.descriptor is None:
            timers.call_after(0, self._on_exit)
            return
        try:
            reactor.add(leader.descriptor, self._on_exit)
        except BaseException:
            for pipe in pipes:
                reactor.remove(pipe)
            raise

    def abandon(self) -> None:
        """Let go of everything, whatever still lives; see `Child.abandon`."""
        if not self._keeper.closed:
            with contextlib.suppress(OSError):
                self._tree.signal(signal.SIGKILL)
            self._keeper.close()
            self._release()

    def close_in_fork(self) -> None:
        """See `Holder`."""
        self._keeper.close_in_fork()

    # --- told by the keeper -------------------------------------------------------------------------------------------

    def ended(self, facts: Facts) -> None:
        """See `Listener.ended`."""
        if not facts.keeps:
            self._release()
        elif self._leader.exact:
            self._leader.reap()  # else its zombie is what keeps the group's number ours
        super().ended(facts)

    def emptied(self) -> None:
        """See `Listener.emptied`."""
        self._release()
        super().emptied()

    # --- small acts ---------------------------------------------------------------------------------------------------

    def _on_exit(self) -> None:
        if self._leader.peek() is not None:
            self._unwatch()
            self._keeper.on_tree()

    def _unwatch(self) -> None:
        if self._leader.descriptor is not None:
            self._reactor.remove(self._leader.descriptor)

    def _release(self) -> None:
        self._unwatch()
        self._leader.reap()
        self._leader.close()
