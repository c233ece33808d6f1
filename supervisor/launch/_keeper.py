"""The keeper of one job in the process_group tier: what a shim does elsewhere, done in the host.

Theory of operation.  Events come from the reactor (output, the leader's end) and from timers; there is no task for a
job.  The phases, and what leads out of each:

    RUNNING   the leader lives.  Its end: to DRAINING, or to SWEEPING where a stop was ordered.
    DRAINING  it ended by itself: what is in the pipe, then until end of file, silence, or a bound.
    SWEEPING  members of its group are left: SIGTERM, a while, SIGKILL, a while.
    KEPT      sealed and told; survivors are kept.  A stop order: SWEEPING them.  None left: CLOSED.
    GIVEN_UP  sealed and told although the leader lives (it could not be killed).  Its end: CLOSED.
    CLOSED    nothing is held any more.

Rules
- Orders that are given after the leader has ended signal nothing and are answered False: it was an exit.
- Before the leader is reaped the whole group is sent SIGKILL once more (unless survivors are kept): one call that the
  kernel makes atomic against forks, where scans can miss a newcomer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import termios
from collections.abc import Callable
from enum import Enum
from signal import Signals
from typing import Final, final

from .._reactor import Reactor
from .._timers import Timer, Timers
from ..output import SpoolState
from ..shim._ring import RingWriter
from ._launcher import LaunchSpec, Listener, Report, StopMode
from ._leader import Exit, Leader

# After the leader's own end: output is over after so much silence, and in any case after so long.
SILENCE_SECONDS: Final = 0.05
DRAIN_SECONDS: Final = 0.5

# What survivors of a leader that ended by itself get between SIGTERM and SIGKILL; not the grace of a stop, since the
# last word waits for it.
SURVIVOR_GRACE_SECONDS: Final = 0.5

# From SIGKILL on: the kernel needs milliseconds, unless something is stuck in a device.
KILL_SECONDS: Final = 1.0

# A group tells nobody that its last member has gone (its members are no children of ours), so that, and only while
# something is being ended, is looked up.
SWEEP_SECONDS: Final = 0.01


class _Phase(Enum):
    RUNNING = "running"
    DRAINING = "draining"
    SWEEPING = "sweeping"
    KEPT = "kept"
    GIVEN_UP = "given up"
    CLOSED = "closed"


@final
class GroupKeeper:
    """A `Child` whose keeper lives in this process."""

    def __init__(
        self,
        leader: Leader,
        pipe: int,
        spec: LaunchSpec,
        listener: Listener,
        *,
        reactor: Reactor,
        timers: Timers,
        buffer: memoryview,
    ) -> None:
        """Watch `leader` and its `pipe`, and own both from here on; `buffer` may serve every keeper of one loop."""
        self._leader = leader
        self._pipe: int | None = pipe
        self._keep = spec.survivors == "keep"
        self._writer = RingWriter(str(spec.output_path), spec.output_limit, rotate=spec.rotate)
        self._listener = listener
        self._reactor = reactor
        self._timers = timers
        self._buffer = buffer
        self._phase = _Phase.RUNNING
        self._sealed = False
        self._order: StopMode | None = None
        self._signalled: set[Signals] = set()
        self._refused: int | None = None  # what the system answered to the last signal that it did not take
        self._answerable = False  # one of the signals could have been answered by an exit with a code
        self._output_open = False
        self._ended_at = 0.0
        self._survivors = 0
        self._heard_at = 0.0
        self._kill_at = 0.0
        self._end_at = 0.0
        self._timer: Timer | None = None
        self._drain_end: Timer | None = None
        reactor.add(pipe, self._on_output)
        if leader.descriptor is None:
            timers.call_after(0, self._on_exit)
            return
        try:
            reactor.add(leader.descriptor, self._on_exit)
        except BaseException:
            reactor.remove(pipe)
            raise

    # --- what is asked ------------------------------------------------------------------------------------------------

    @property
    def spool(self) -> SpoolState:
        """How much output there is by now."""
        return SpoolState.of(self._writer.header)

    @property
    def holds_survivors(self) -> bool:
        """Whether kept survivors are (or were, when last looked) there."""
        self._look_for_kept()
        return self._phase is _Phase.KEPT or (self._phase is _Phase.SWEEPING and self._sealed)

    @property
    def released(self) -> bool:
        """Whether it holds nothing any more; kept survivors are looked for, since nobody tells of their end."""
        self._look_for_kept()
        return self._phase is _Phase.CLOSED

    def stop(self, mode: StopMode, grace: float) -> bool:
        """Carry out a stop order; see `Child.stop`."""
        if self._phase is _Phase.KEPT or (self._phase is _Phase.SWEEPING and self._sealed):
            self._stop_kept(mode, grace)
            return True
        if self._phase is _Phase.SWEEPING and self._order is StopMode.TERMINATE and mode is StopMode.KILL:
            self._order = mode
            self._kill_at = self._timers.now()
            self._end_at = self._kill_at + KILL_SECONDS
        if self._phase is not _Phase.RUNNING or self._leader.peek() is not None:
            return self._order is not None
        if mode is StopMode.INTERRUPT:
            self._signal_leader(signal.SIGINT)
        elif mode is StopMode.TERMINATE and self._order is None:
            self._order = mode
            self._signal_leader(signal.SIGTERM)
            with contextlib.suppress(OSError):
                self._leader.signal_group(signal.SIGCONT)  # a stopped process would not see it before it is continued
            self._kill_at = self._timers.now() + grace
            self._end_at = self._kill_at + KILL_SECONDS
            self._arm(grace, self._on_grace_over)
        elif mode is StopMode.TERMINATE and self._timers.now() + grace < self._kill_at:
            self._kill_at = self._timers.now() + grace  # asked again, and with less patience
            self._end_at = self._kill_at + KILL_SECONDS
            self._arm(grace, self._on_grace_over)
        elif mode is StopMode.KILL and self._order is not StopMode.KILL:
            self._on_grace_over()
        return True

    def give_up(self) -> Report:
        """Seal and report although the leader lives; see `Child.give_up`."""
        self._cancel_timers()
        self._phase = _Phase.GIVEN_UP
        self._ended_at = self._timers.now()
        return self._seal(None, frozenset(self._signalled))

    def abandon(self) -> None:
        """Let go of everything, whatever still lives; see `Child.abandon`."""
        if self._phase is not _Phase.CLOSED:
            self._signal_rest(signal.SIGKILL)
            self._phase = _Phase.CLOSED
            self._release()

    # --- the leader lives ---------------------------------------------------------------------------------------------

    def _signal_leader(self, number: Signals) -> None:
        answerable = self._leader.may_answer(number)
        try:
            self._leader.signal_group(number)
        except OSError as error:
            self._refused = error.errno
        else:
            self._refused = None
            self._signalled.add(number)
            self._answerable = self._answerable or answerable

    def _on_grace_over(self) -> None:
        self._order = StopMode.KILL
        self._signal_leader(signal.SIGKILL)
        self._kill_at = self._timers.now()
        self._end_at = self._kill_at + KILL_SECONDS
        self._arm(KILL_SECONDS, self._on_kill_late)

    def _on_kill_late(self) -> None:
        self._order = None  # a later order may try again
        self._listener.stuck(self._refused)

    def _on_output(self) -> None:
        taken = self._take()
        if taken and self._phase is _Phase.DRAINING:
            self._heard_at = self._timers.now()
        elif taken == 0:
            if self._phase is _Phase.DRAINING:
                self._on_drained()
            else:
                self._look_for_kept()

    def _on_exit(self) -> None:
        if self._leader.peek() is None:
            return
        self._unwatch_leader()
        if self._phase is _Phase.GIVEN_UP:
            self._close()
            return
        self._ended_at = self._timers.now()
        self._take_waiting()
        if self._order is not None:
            self._phase = _Phase.SWEEPING
            self._sweep()
            return
        self._survivors = self._leader.members()
        self._phase = _Phase.DRAINING
        if self._pipe is None:
            self._on_drained()
            return
        self._heard_at = self._timers.now()
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
        self._output_open = self._pipe is not None
        if self._keep or not self._leader.members():
            self._finish()
            return
        self._phase = _Phase.SWEEPING
        self._term_then_sweep(SURVIVOR_GRACE_SECONDS)

    def _term_then_sweep(self, grace: float) -> None:
        self._signal_rest(signal.SIGTERM)
        self._signal_rest(signal.SIGCONT)
        self._kill_at = self._timers.now() + grace
        self._end_at = self._kill_at + KILL_SECONDS
        self._sweep()

    def _sweep(self) -> None:
        """Until nobody is left, or the end; SIGKILL when its time has come."""
        now = self._timers.now()
        if now >= self._end_at or not self._leader.members():
            self._finish()
            return
        if now >= self._kill_at:
            self._signal_rest(signal.SIGKILL)
        self._arm(SWEEP_SECONDS, self._sweep)

    def _finish(self) -> None:
        """What the leader's end leads to, once: seal, reap, tell; and keep what is to be kept."""
        self._cancel_timers()
        if self._sealed:  # kept survivors that were stopped
            self._close()
            return
        keep = self._keep and self._order is None and self._leader.members() > 0
        if not keep:
            self._signal_rest(signal.SIGKILL)
            self._take_waiting()
        if self._order is not None:
            self._survivors = self._leader.members()
            self._output_open = self._pipe is not None
        ended = self._leader.peek()
        assert ended is not None  # noqa: S101 -- every way here comes from the leader's end
        report = self._seal(ended, self._verdict(ended))
        if keep:
            self._phase = _Phase.KEPT
            if self._leader.exact:
                self._leader.reap()  # else its zombie is what keeps the group's number ours
        else:
            self._phase = _Phase.CLOSED
            self._release()
        self._listener.ended(report)

    def _verdict(self, ended: Exit) -> frozenset[Signals]:
        """The signals that count: none where each would have ended the leader, and yet it has exited with a code.

        It had begun to exit before they came: a process on its way out takes signals, and nothing comes of them.
        """
        own_code = ended.status is not None and ended.status.exit_code is not None
        return frozenset() if own_code and not self._answerable else frozenset(self._signalled)

    def _seal(self, ended: Exit | None, signalled: frozenset[Signals]) -> Report:
        self._writer.seal(proven=False)
        self._writer.close()
        self._sealed = True
        return Report(
            status=None if ended is None else ended.status,
            signalled=signalled,
            ended_at=self._ended_at,
            survivors=self._survivors,
            output_open=self._output_open,
            spool=self.spool,
            proven=False,
        )

    # --- kept survivors -----------------------------------------------------------------------------------------------

    def _stop_kept(self, mode: StopMode, grace: float) -> None:
        if mode is StopMode.INTERRUPT:
            self._signal_rest(signal.SIGINT)
        elif mode is StopMode.KILL or self._phase is _Phase.KEPT:
            self._cancel_timers()
            self._phase = _Phase.SWEEPING
            self._term_then_sweep(0.0 if mode is StopMode.KILL else grace)

    def _look_for_kept(self) -> None:
        if self._phase is _Phase.KEPT and not self._leader.members():
            self._close()

    def _close(self) -> None:
        self._phase = _Phase.CLOSED
        self._release()
        self._listener.emptied()

    # --- small acts ---------------------------------------------------------------------------------------------------

    def _signal_rest(self, number: Signals) -> None:
        """Signal what is left of the group.  Where that fails, nobody is there, or the sweep's end tells."""
        with contextlib.suppress(OSError):
            self._leader.signal_group(number)

    def _take(self) -> int:
        """Read once; the count, 0 at end of file, -1 where nothing is there now."""
        if self._pipe is None:
            return -1
        try:
            count = os.readv(self._pipe, [self._buffer])
        except (BlockingIOError, InterruptedError):
            return -1
        except OSError:
            count = 0
        if count == 0:
            self._close_pipe()
        elif not self._sealed:
            self._writer.append(self._buffer[:count])
            self._writer.publish()
            self._listener.grew(self._writer.total)
        return count

    def _take_waiting(self) -> None:
        """Take what is in the pipe now, which the leader may have written; a survivor may go on for ever."""
        if self._pipe is None:
            return
        waiting = struct.unpack("i", fcntl.ioctl(self._pipe, termios.FIONREAD, b"\0\0\0\0"))[0]
        while waiting > 0:
            count = self._take()
            if count <= 0:
                return
            waiting -= count
        self._take()  # most often this is the end of file, and nothing has to be waited for

    def _arm(self, seconds: float, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timers.call_after(seconds, callback)

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self._drain_end):
            if timer is not None:
                timer.cancel()
        self._timer = self._drain_end = None

    def _unwatch_leader(self) -> None:
        if self._leader.descriptor is not None:
            self._reactor.remove(self._leader.descriptor)

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            self._reactor.remove(self._pipe)
            os.close(self._pipe)
            self._pipe = None

    def _release(self) -> None:
        self._cancel_timers()
        self._close_pipe()
        self._writer.close()
        self._unwatch_leader()
        self._leader.reap()
        self._leader.close()
