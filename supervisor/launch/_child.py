"""A contained job, as the host sees it: what its shim tells, and orders to it.

The states, and what leads out of each:

    STARTING  STARTED: to RUNNING.  FAILED, REFUSED, the shim's end: to CLOSED, and `failure` says why.
    RUNNING   ENDED: to KEPT where survivors are kept, else to CLOSED.  The end of the socket: to LOST.
    KEPT      EMPTIED: to CLOSED.  The end of the socket: to LOST.
    LOST      the shim is dead.  Swept, or nobody there to sweep: told, to CLOSED.
    CLOSED    nothing is held any more.

Rules
- The zygote that was asked for the shim is the one that sweeps after it, and no other.  Where that one is dead, the
  shim's end of the socket is the only word of its end.
- A shim that does not answer is continued, and killed when that did not help: by its zygote, or from here.
"""

from __future__ import annotations

import logging
import socket
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, final

from .._latch import Latch
from ..output import SpoolState, to_fault
from ..shim import _messages as messages
from ..shim._exec import Failure
from ..shim._facts import Facts
from ..shim._keeper import KILL_SECONDS
from ._failure import lost_failure, setup_failure
from ._launcher import LaunchFailedError, LaunchSpec, Listener, Report, StopMode
from ._line import ShimLine
from ._patience import Patience
from ._reports import report_of, report_without, spool_without
from ._site import LaunchSite

if TYPE_CHECKING:
    from ._contained import ContainedLauncher
    from ._zygote import Zygote

logger = logging.getLogger(__name__)

# Beyond the deadline by which a shim answers a stop: then it is stopped or stuck itself.
_MUTE_SECONDS: Final = 1.5

# How long the zygote may take to sweep after a dead shim before nobody waits for its word.
_SWEEP_SECONDS: Final = 6.0

# How long a start may take whose zygote has died meanwhile: nobody is there to continue a shim that was stopped.
_FORSAKEN_SECONDS: Final = 10.0


class _State(Enum):
    STARTING = "starting"
    RUNNING = "running"
    KEPT = "kept"
    LOST = "lost"
    CLOSED = "closed"


@final
class ContainedChild:
    """A `Child` that a shim keeps."""

    __slots__ = (
        "_armed",
        "_cut",
        "_failure",
        "_launcher",
        "_line",
        "_listener",
        "_output",
        "_patience",
        "_spool",
        "_started",
        "_state",
        "_told",
        "_zygote",
        "job",
    )

    def __init__(
        self,
        job: int,
        channel: socket.socket,
        spec: LaunchSpec,
        listener: Listener,
        *,
        site: LaunchSite,
        launcher: ContainedLauncher,
    ) -> None:
        """Own `channel`, whose other end the shim of `job` will be given."""
        self.job: int = job
        self._line = ShimLine(site.reactor, channel, self._on_readable)
        self._listener = listener
        self._patience = Patience(site.timers, self._line)
        self._launcher = launcher
        self._output = spec.output_path
        self._cut = None if spec.rotate else spec.output_limit
        self._state = _State.STARTING
        self._started = Latch()
        self._failure: LaunchFailedError | None = None
        self._spool = SpoolState(cut=self._cut)
        self._armed: int | None = None
        self._told = False
        self._zygote: Zygote | None = None

    # --- what is asked ------------------------------------------------------------------------------------------------

    @property
    def failure(self) -> LaunchFailedError | None:
        """Why it was not spawned; None where it was."""
        return self._failure

    @property
    def zygote(self) -> Zygote | None:
        """Which zygote was asked for its shim; None before that, and once it is dead."""
        return self._zygote

    async def wait_started(self, zygote: Zygote) -> None:
        """Until the program has been executed, or could not be; `zygote` was asked for its shim."""
        self._zygote = zygote
        if not zygote.alive:
            self.on_zygote_death(None)
        await self._started.wait()

    @property
    def spool(self) -> SpoolState:
        """How much output there is by what was told; the ring's header may say more."""
        return self._spool

    @property
    def holds_survivors(self) -> bool:
        """Whether it was told and survivors are kept."""
        return self._told and self._state is not _State.CLOSED

    @property
    def released(self) -> bool:
        """Whether it holds nothing any more."""
        return self._state is _State.CLOSED

    def arm(self, total: int) -> None:
        """Have `grew` told once there are more than `total` bytes; see `Child.arm`."""
        if self._state is _State.RUNNING and (self._armed is None or total < self._armed):
            self._armed = total
            self._line.send(messages.ARM, total)

    def end_input(self) -> None:
        """See `Child.end_input`."""
        self._line.send(messages.END_INPUT)

    def stop(self, mode: StopMode, grace: float) -> bool:
        """Order a stop; see `Child.stop`.  Whether it came before the leader's end only the report tells."""
        self._read_all()  # its end may have been told by now
        if self._state in (_State.CLOSED, _State.LOST):
            return self._state is _State.LOST
        self._line.send(messages.STOP, mode.value, grace)
        if mode is not StopMode.INTERRUPT:
            self._await_answer((grace if mode is StopMode.TERMINATE else 0.0) + KILL_SECONDS + _MUTE_SECONDS)
        return True

    def give_up(self) -> Report:
        """Seal what cannot be ended; see `Child.give_up`."""
        self._patience.stop()
        self._told = True
        self._line.send(messages.SEAL)
        self._spool = spool_without(self._output, self._spool)
        return report_without(self._output, self._spool, proven=False, lost=False)

    def abandon(self) -> None:
        """Let go: the shim ends what is left as soon as the socket is closed."""
        self._close()

    # --- told by the zygote -------------------------------------------------------------------------------------------

    def on_refused(self, number: int) -> None:
        """No shim could be forked."""
        self._fail(setup_failure("resources", number))

    def on_swept(self, *, proven: bool) -> None:
        """Its shim has ended, and what that left was swept."""
        if self._state is _State.STARTING:
            self._read_all()  # it may have said why
            if self._state is _State.STARTING:
                self._fail(lost_failure())
        elif self._state in (_State.RUNNING, _State.KEPT):
            self._read_all()  # what it has told before counts
            if self._state in (_State.RUNNING, _State.KEPT):
                self._on_end()
        if self._state is _State.LOST:
            self._finish_lost(proven=proven)

    def on_zygote_death(self, failure: LaunchFailedError | None) -> None:
        """Nobody will sweep after its shim.  A start goes on, if there is a shim: its end of the socket tells.

        `failure`: there is none, and that is why.
        """
        self._zygote = None
        if failure is not None:
            self._fail(failure)
        elif self._state is _State.STARTING:
            if not self._patience.waits:
                self._patience.wait(_FORSAKEN_SECONDS, lambda: self._fail(lost_failure()))
            else:  # that end is gone
                self._fail(lost_failure())
        elif self._state is _State.LOST:
            self._finish_lost(proven=False)

    # --- told by the shim ---------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        try:
            message = self._line.take()
        except BlockingIOError:
            return
        if message is None:
            self._on_end()
        else:
            self._on_message(message)

    def _read_all(self) -> None:
        while self._state is not _State.CLOSED and self._state is not _State.LOST:
            try:
                message = self._line.take()
            except BlockingIOError:
                return
            if message is None:
                return
            self._on_message(message)

    def _on_message(self, message: tuple[Any, ...]) -> None:
        match message:
            case (messages.STARTED, shim):
                self._patience.shim = shim
                self._patience.stop()
                self._state = _State.RUNNING
                self._started.set()
            case (messages.FAILED, *values):
                failure = Failure(*values)
                self._fail(setup_failure(failure.step, failure.errno, found=failure.found))
            case (messages.GREW, total, fault):
                self._armed = None
                self._note_output(total, self._spool.base, fault)
                self._listener.grew(total)
            case (messages.ENDED, facts, total, base, fault):
                self._note_output(total, base, fault)
                self._on_ended(Facts(*facts))
            case (messages.STUCK, number):
                self._patience.stop()
                self._listener.stuck(number)
            case (messages.EMPTIED,):
                self._finish()
            case (messages.FAULT, trace):
                logger.error(
                    "a process's keeper has failed in a way that nobody foresaw; it ends what it held\n%s", trace
                )
            case _:
                pass

    def _note_output(self, total: int, base: int, fault: tuple[int, int] | None) -> None:
        self._spool = SpoolState(
            total=total, base=base, fault=None if fault is None else to_fault(*fault), cut=self._cut
        )

    def _on_ended(self, facts: Facts) -> None:
        self._patience.stop()
        if self._told:  # it was given up before that came, and cannot end twice
            if not facts.keeps:
                self._finish()
            return
        self._told = True
        report = report_of(facts, self._spool)
        if facts.keeps:
            self._state = _State.KEPT
        else:
            self._close()
        self._listener.ended(report)

    def _on_end(self) -> None:
        """The shim's end of the socket is gone, and it has not said that it was done."""
        self._line.unwatch()
        if self._zygote is not None:
            self._zygote.rouse()  # who has killed the one may have stopped the other
        if self._state is _State.STARTING:
            if self._zygote is not None:
                self._patience.wait(_SWEEP_SECONDS, lambda: self._fail(lost_failure()))
            else:
                self._fail(lost_failure())
            return
        self._state = _State.LOST
        if self._zygote is not None:
            self._patience.wait(_SWEEP_SECONDS, lambda: self._finish_lost(proven=False))
        else:
            self._launcher.kill_group(self.job)
            self._finish_lost(proven=False)

    def _finish_lost(self, *, proven: bool) -> None:
        if self._state is not _State.LOST:
            return
        if self._told:
            if not proven:
                self._listener.stuck(None)  # nobody can say that a stop has reached them all
            self._finish()
            return
        self._told = True
        self._spool = spool_without(self._output, self._spool)
        report = report_without(self._output, self._spool, proven=proven, lost=True)
        self._close()
        self._listener.ended(report)

    # --- small acts ---------------------------------------------------------------------------------------------------

    def _fail(self, failure: LaunchFailedError) -> None:
        if self._state is _State.STARTING:
            self._failure = failure
            self._close()
            self._started.set()

    def _finish(self) -> None:
        if self._state is not _State.CLOSED:
            self._close()
            self._listener.emptied()

    def _await_answer(self, seconds: float) -> None:
        self._patience.wait(seconds, self._on_silence)

    def _on_silence(self) -> None:
        self._read_all()
        if not self._patience.waits:
            return  # it had answered, and a host that was busy had not read that yet
        if self._zygote is not None:
            self._zygote.kill_shim(self.job)
        else:
            self._patience.rouse_or_kill(self._is_silent)
        if self._state in (_State.RUNNING, _State.KEPT):
            self._await_answer(_MUTE_SECONDS)  # whoever was asked may have been stopped, or hear nothing

    def _is_silent(self) -> bool:
        """Whether it still owes an answer, after all that it has said."""
        self._read_all()
        return self._state in (_State.RUNNING, _State.KEPT)

    def _close(self) -> None:
        self._state = _State.CLOSED
        self._patience.stop()
        self._line.close()
        self._launcher.forget(self)
