"""What a supervisor holds of a scripted job: the real keeper over a leader that is none, and a real ring of output."""

from __future__ import annotations

from collections.abc import Callable
from signal import SIGINT, SIGKILL
from typing import final

from ...supervisor.launch import LaunchSite, LaunchSpec, Listener
from ...supervisor.launch._hosted_child import HostedChild
from ...supervisor.shim._drain import Drain
from ...supervisor.shim._keeper import Keeper
from ...supervisor.shim._ring import RingWriter
from ._leader import ScriptedLeader


@final
class ScriptedTree:
    """The leader alone, as `shim._ports.Tree`: it has no descendants, and that nothing is left of it is certain."""

    def __init__(self, leader: ScriptedLeader) -> None:
        self._leader = leader
        self.proves = True
        self.look_again_seconds = 0.01
        self.refused: int | None = None

    @property
    def ended(self) -> bool:
        """Whether the leader has ended."""
        return not self._leader.running

    @property
    def status(self) -> int | None:
        """The leader's wait status."""
        return self._leader.status

    def reap(self) -> None:
        """Nothing: what has ended is known."""

    def left(self) -> int:
        """Nobody."""
        return 0

    def may_answer(self, number: int) -> bool:
        """Whether the leader could live through `number`."""
        return number != SIGKILL and number in self._leader.handlers

    def interrupt(self) -> None:
        """SIGINT."""
        self._leader.take_signal(SIGINT)

    def signal(self, number: int) -> None:
        """`number` to the leader."""
        self._leader.take_signal(number)

    def forget_refusals(self) -> None:
        """Nothing: none are kept."""


@final
class ScriptedDrain(Drain):
    """Output that comes from no descriptor."""

    def __init__(self, ring: RingWriter, site: LaunchSite, on_output: Callable[[], None]) -> None:
        super().__init__((), ring, site.reactor, memoryview(bytearray()), on_output)
        self._on_output = on_output
        self._new = False

    def put(self, data: bytes, stream: int) -> None:
        """`data` comes."""
        self._ring.append(memoryview(data), stream)
        self._ring.publish()
        self._new = self._new or bool(data)
        self._on_output()

    def take(self) -> bool:
        """See `Drain.take`."""
        new, self._new = self._new, False
        return new


@final
class ScriptedChild(HostedChild):
    """A `Child`; what a launcher of processes in this host makes of one, with `leader` in the place of the process."""

    def __init__(self, leader: ScriptedLeader, spec: LaunchSpec, listener: Listener, site: LaunchSite) -> None:
        super().__init__(spec, listener)
        self._leader = leader
        self._timers = site.timers
        ring = self._ring
        drains: list[ScriptedDrain] = []

        def open_drain(on_output: Callable[[], None]) -> Drain:
            drains.append(ScriptedDrain(ring, site, on_output))
            return drains[0]

        self._keeper = Keeper(
            ScriptedTree(leader), ring, self, open_drain, keep=spec.survivors == "keep", timers=site.timers
        )
        leader.on_end = self._on_end
        leader.put = drains[0].put

    def abandon(self) -> None:
        """See `Child.abandon`."""
        self._keeper.close()
        self._leader.let_go()

    def _on_end(self) -> None:
        # Not now: who has it end may be the keeper itself, in the middle of a stop.
        self._timers.call_after(0, self._keeper.on_tree)
