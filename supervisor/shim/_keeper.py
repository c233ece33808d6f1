"""The keeper of one job: from its leader's start to the last of its processes, in a shim or, for want of one, in the
host.  It decides whether it was an exit or a stop, since only it knows what was signalled before the leader was reaped.

Theory of operation.  Events come from the loop (output, an ended child) and from timers.  The phases, and what leads
out of each:

    RUNNING   the leader lives.  Its end: to DRAINING, or to SWEEPING where a stop was ordered.
    DRAINING  it ended by itself: what is in the pipe, then until end of file, silence, or a bound.
    SWEEPING  others of its tree are left: SIGTERM, a while, SIGKILL, a while.
    KEPT      sealed and told; survivors are kept.  A stop order: SWEEPING them.  None left: CLOSED.
    GIVEN_UP  sealed although something lives that could not be killed.  Its end: CLOSED.
    CLOSED    nothing is held any more.

Rules
- Orders that are given after the leader has ended by itself signal nothing and are answered False: it was an exit.
- A signal counts where it was delivered to the live leader.  None counts where each would have ended it and it exited
  with a code of its own: it had begun to exit before they came.
- A tree whose emptiness can be proven is fought until it is: past the kill deadline that is told (`stuck`), once an
  order, and the fight goes on.  One that proves nothing is left at the deadline.
"""

from __future__ import annotations

import os
import signal
from enum import Enum

from ._deadline import LOOKS, Deadline
from ._facts import Facts

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._drain import Drain
    from ._ports import Listener, Timer, Timers, Tree
    from ._ring import RingWriter

INTERRUPT, TERMINATE, STOP_KILL = "interrupt", "terminate", "kill"
"""The modes of a stop; the values of `StopMode`."""

# After the leader's own end: output is over after so much silence, and in any case after so long.
SILENCE_SECONDS = 0.05
DRAIN_SECONDS = 0.5

# What survivors of a leader that ended by itself get between SIGTERM and SIGKILL; not the grace of a stop, since the
# last word waits for it.
SURVIVOR_GRACE_SECONDS = 0.5

# From SIGKILL on: the kernel needs milliseconds, unless something is stuck in a device.
KILL_SECONDS = 1.0


class _Phase(Enum):
    RUNNING = "running"
    DRAINING = "draining"
    SWEEPING = "sweeping"
    KEPT = "kept"
    GIVEN_UP = "given up"
    CLOSED = "closed"


class Keeper:
    """Keeps one job.  Call `on_tree` whenever its leader or, where that is told, another of its processes has ended."""

    def __init__(
        self,
        tree: Tree,
        ring: RingWriter,
        listener: Listener,
        drain: Callable[[Callable[[], None]], Drain],
        *,
        keep: bool,
        timers: Timers,
    ) -> None:
        """Own what `drain` makes, which calls back whenever there is output; and `ring`.

        `keep`: survivors of a leader that ends by itself are kept.
        """
        self._tree = tree
        self._ring = ring
        self._listener = listener
        self._keep = keep
        self._timers = timers
        self._phase = _Phase.RUNNING
        self._sealed = False
        self._order: str | None = None  # TERMINATE or STOP_KILL
        self._signalled: set[int] = set()
        self._refused: int | None = None  # what the system answered to the last signal that the leader did not take
        self._answerable = False  # one of the signals could have been answered by an exit with a code
        self._interrupt_until = float("-inf")
        self._ended_at = 0.0
        self._output_open = False
        self._survivors = 0
        self._heard_at = 0.0
        self._deadline = Deadline(timers.now)
        self._timer: Timer | None = None
        self._drain_end: Timer | None = None
        self._drain = drain(self._on_output)

    # --- what is asked ------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether it holds nothing any more; kept survivors are looked for, where nobody tells of their end."""
        self._look_for_kept()
        return self._phase is _Phase.CLOSED

    @property
    def keeps(self) -> bool:
        """Whether it was told and survivors are left."""
        self._look_for_kept()
        return self._sealed and self._phase in (_Phase.KEPT, _Phase.SWEEPING)

    def stop(self, mode: str, grace: float) -> bool:
        """Carry out a stop order, `grace` in seconds; False where the leader had ended by itself before it came.

        A stronger order takes over, a weaker one does nothing, and one that is past its deadline can be given again.
        """
        if self._sealed:
            self._stop_kept(mode, grace)
            return self._phase is not _Phase.CLOSED
        if self._phase is _Phase.RUNNING:
            self._tree.reap()
            if not self._tree.ended:
                self._stop_leader(mode, grace)
                return True
        if self._order is not None:
            if self._phase is _Phase.SWEEPING and mode != INTERRUPT:
                self._hurry(mode, grace)
            return True
        if mode == STOP_KILL and self._phase in (_Phase.DRAINING, _Phase.SWEEPING):
            self.end_now()  # it was an exit, and whoever is left of it need not be waited for
        return False

    def give_up(self) -> Facts:
        """Seal what cannot be ended: its output counts up to here.  It is kept on, and reaped should it ever end."""
        self._cancel_timers()
        self._phase = _Phase.GIVEN_UP
        self._ended_at = self._timers.now()
        return self._seal(keeps=True)

    def end_now(self) -> None:
        """SIGKILL to all that is left, in whatever phase; for the end of the host or of its interest."""
        if self._sealed or self._phase is _Phase.RUNNING:
            self.stop(STOP_KILL, 0.0)
            return
        self._cancel_timers()
        self._phase = _Phase.SWEEPING
        self._tree.forget_refusals()
        self._deadline.set(self._timers.now())
        self._sweep()

    def close(self) -> None:
        """Let go of everything."""
        self._cancel_timers()
        self._drain.close()
        self._ring.close()
        self._phase = _Phase.CLOSED

    def close_in_fork(self) -> None:
        """This process is a fork of the one that keeps: see `Drain.close_in_fork`."""
        self._drain.close_in_fork()

    # --- the leader lives ---------------------------------------------------------------------------------------------

    def _stop_leader(self, mode: str, grace: float) -> None:
        now = self._timers.now()
        if mode == INTERRUPT:
            self._interrupt_until = now + grace
            self._deliver(signal.SIGINT, self._tree.interrupt)
        elif mode == TERMINATE and self._order is None:
            self._order = TERMINATE
            self._tree.forget_refusals()
            self._deliver(signal.SIGTERM, lambda: self._tree.signal(signal.SIGTERM))
            self._signal(signal.SIGCONT)  # a stopped process would not see it before it is continued
            self._deadline.set(now + grace)
            self._arm(grace, self._kill_leader)
        elif mode == TERMINATE and self._deadline.allows(now + grace):
            self._deadline.set(now + grace)  # asked again, and with less patience
            self._arm(grace, self._kill_leader)
        elif mode == STOP_KILL and (self._order != STOP_KILL or self._deadline.late):
            self._kill_leader()

    def _kill_leader(self) -> None:
        self._order = STOP_KILL
        self._tree.forget_refusals()
        self._deliver(signal.SIGKILL, lambda: self._tree.signal(signal.SIGKILL))
        self._deadline.set(self._timers.now())
        self._look_at_leader()

    def _look_at_leader(self) -> None:
        if not self._deadline.look(KILL_SECONDS):
            self._arm(KILL_SECONDS / LOOKS, self._look_at_leader)
            return
        self._tree.reap()
        if self._tree.ended:
            self._on_leader_end()
            return
        self._order = None  # a later order may try again
        self._listener.stuck(self._refused)

    def _deliver(self, number: int, act: Callable[[], None]) -> None:
        answerable = self._tree.may_answer(number)
        try:
            act()
        except OSError as error:
            self._refused = error.errno
        else:
            self._refused = None
            self._signalled.add(number)
            self._answerable = self._answerable or answerable

    def on_tree(self) -> None:
        """Somebody has ended."""
        self._tree.reap()
        if self._phase is _Phase.SWEEPING:
            self._sweep()
        elif self._phase in (_Phase.KEPT, _Phase.GIVEN_UP):
            self._look_for_kept()
        elif self._phase is _Phase.RUNNING and self._tree.ended:
            self._on_leader_end()

    def _on_leader_end(self) -> None:
        self._ended_at = self._heard_at = self._timers.now()
        self._cancel_timers()
        self._take_waiting()
        if self._order is not None:
            self._phase = _Phase.SWEEPING
            self._sweep()
            return
        self._survivors = self._tree.left()
        self._phase = _Phase.DRAINING
        if not self._drain.open:
            self._on_drained()
            return
        self._drain_end = self._timers.call_after(DRAIN_SECONDS, self._on_drained)
        self._arm(SILENCE_SECONDS, self._on_silence)

    # --- the leader has ended -----------------------------------------------------------------------------------------

    def _on_silence(self) -> None:
        silent = self._timers.now() - self._heard_at
        if silent >= SILENCE_SECONDS:
            self._on_drained()
        else:
            self._arm(SILENCE_SECONDS - silent, self._on_silence)

    def _on_drained(self) -> None:
        self._cancel_timers()
        self._output_open = self._drain.open
        if self._keep or not self._tree.left():
            self._finish()
            return
        self._phase = _Phase.SWEEPING
        self._term_then_sweep(SURVIVOR_GRACE_SECONDS)

    def _term_then_sweep(self, grace: float) -> None:
        self._tree.forget_refusals()
        if grace > 0:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)
        self._deadline.set(self._timers.now() + grace)
        self._sweep()

    def _hurry(self, mode: str, grace: float) -> None:
        """Asked again while the rest is being ended."""
        kill_at = self._timers.now() + (0.0 if mode == STOP_KILL else grace)
        if self._deadline.late or self._deadline.allows(kill_at):
            self._order = mode if self._order is not None else None
            self._tree.forget_refusals()
            self._deadline.set(kill_at)
            self._sweep()

    def _sweep(self) -> None:
        """Until nobody is left; SIGKILL when its time has come."""
        if not self._tree.left():
            self._finish()
            return
        if self._deadline.due:
            self._signal(signal.SIGKILL)
            if self._deadline.look(KILL_SECONDS) and not self._deadline.late:
                self._deadline.late = True
                if not self._tree.proves:
                    self._finish()
                    return
                self._on_sweep_late()
        self._arm(self._tree.look_again_seconds, self._sweep)

    def _on_sweep_late(self) -> None:
        if self._order is None and not self._sealed:
            self._tell(keeps=True)  # the last word of a leader that ended by itself does not wait for ever
        else:
            self._listener.stuck(self._refused or self._tree.refused)

    def _finish(self) -> None:
        """What the leader's end leads to, once: seal, tell; and keep what is to be kept."""
        self._cancel_timers()
        left = self._tree.left()
        if self._sealed:  # kept survivors that were stopped
            self._close()
            return
        keeps = self._keep and self._order is None and left > 0
        if not keeps:
            if left or not self._tree.proves:
                self._signal(signal.SIGKILL)
            self._take_waiting()
        if self._order is not None:
            self._survivors = self._tree.left()
            self._output_open = self._drain.open
        if keeps:
            self._phase = _Phase.KEPT
            self._tell(keeps=True)
        else:
            facts = self._seal(keeps=False)
            self.close()
            self._listener.ended(facts)

    def _tell(self, *, keeps: bool) -> None:
        self._listener.ended(self._seal(keeps=keeps))

    def _seal(self, *, keeps: bool) -> Facts:
        proven = self._tree.proves and self._tree.ended and not self._tree.left()
        self._ring.seal(proven=proven)
        self._sealed = True
        return Facts(
            self._tree.status,
            self._counting(),
            self._ended_at <= self._interrupt_until,
            self._survivors,
            self._output_open,
            proven,
            keeps,
        )

    def _counting(self) -> tuple[int, ...]:
        """The signals that count; see the rules."""
        status = self._tree.status
        own_code = status is not None and os.WIFEXITED(status)
        return () if own_code and not self._answerable else tuple(sorted(map(int, self._signalled)))

    # --- kept survivors -----------------------------------------------------------------------------------------------

    def _stop_kept(self, mode: str, grace: float) -> None:
        if mode == INTERRUPT:
            self._signal(signal.SIGINT)
        elif self._phase is _Phase.SWEEPING:
            self._hurry(mode, grace)
        elif self._phase is _Phase.GIVEN_UP:
            self._tree.forget_refusals()
            self._signal(signal.SIGKILL)
        elif self._phase is _Phase.KEPT:
            self._cancel_timers()
            self._phase = _Phase.SWEEPING
            self._term_then_sweep(0.0 if mode == STOP_KILL else grace)

    def _look_for_kept(self) -> None:
        waits = self._phase is _Phase.KEPT or (self._phase is _Phase.GIVEN_UP and self._tree.ended)
        if waits and not self._tree.left():
            self._close()

    def _close(self) -> None:
        self.close()
        self._listener.emptied()

    # --- output -------------------------------------------------------------------------------------------------------

    def _on_output(self) -> None:
        if self._drain.take():
            self._note_output()
        if not self._drain.open:
            if self._phase is _Phase.DRAINING:
                self._on_drained()
            else:
                self._look_for_kept()

    def _take_waiting(self) -> None:
        if self._drain.take_waiting():
            self._note_output()

    def _note_output(self) -> None:
        if not self._sealed:
            self._heard_at = self._timers.now()
            self._listener.grew(self._ring.total)

    # --- small acts ---------------------------------------------------------------------------------------------------

    def _signal(self, number: int) -> None:
        """Signal who is left.  Where that fails, nobody is there, or the sweep's end tells."""
        try:
            self._tree.signal(number)
        except OSError as error:
            self._refused = error.errno

    def _arm(self, seconds: float, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timers.call_after(seconds, callback)

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self._drain_end):
            if timer is not None:
                timer.cancel()
        self._timer = self._drain_end = None
