"""A job whose keeper lives in the host: what is asked of it, and what its keeper tells."""

from __future__ import annotations

import os

from ..output import SpoolState
from ..shim._facts import Facts
from ..shim._keeper import Keeper
from ._group_ring import GroupRing
from ._launcher import LaunchSpec, Listener, Report, StopMode
from ._reports import report_of


class HostedChild:
    """A `Child` but for `abandon`; who derives from it makes the keeper, and lets go of what is its own."""

    _keeper: Keeper

    def __init__(self, spec: LaunchSpec, listener: Listener) -> None:
        self._listener = listener
        self._ring = GroupRing(
            os.fspath(spec.output_path), spec.output_limit, rotate=spec.rotate, split=spec.split_streams
        )

    # --- what is asked ------------------------------------------------------------------------------------------------

    @property
    def spool(self) -> SpoolState:
        """How much output there is by now."""
        return SpoolState.of(self._ring.header)

    @property
    def holds_survivors(self) -> bool:
        """Whether kept survivors are (or were, when last looked) there."""
        return self._keeper.keeps

    @property
    def released(self) -> bool:
        """Whether it holds nothing any more; kept survivors are looked for, since nobody tells of their end."""
        return self._keeper.closed

    def arm(self, total: int) -> None:
        """Nothing: `grew` is told whenever it did."""

    def end_input(self) -> None:
        """Nothing: nobody else holds it."""

    def stop(self, mode: StopMode, grace: float) -> bool:
        """Carry out a stop order; see `Child.stop`."""
        return self._keeper.stop(mode.value, grace)

    def give_up(self) -> Report:
        """Seal and report although the leader lives; see `Child.give_up`."""
        return report_of(self._keeper.give_up(), self.spool)

    # --- told by the keeper -------------------------------------------------------------------------------------------

    def grew(self, total: int) -> None:
        """See `Listener.grew`."""
        self._listener.grew(total)

    def ended(self, facts: Facts) -> None:
        """See `Listener.ended`."""
        self._listener.ended(report_of(facts, self.spool))

    def stuck(self, errno: int | None) -> None:
        """See `Listener.stuck`."""
        self._listener.stuck(errno)

    def emptied(self) -> None:
        """See `Listener.emptied`."""
        self._listener.emptied()
