"""What is written to a job: the host's end of its input, and what waits for room in it.

Theory of operation
- The host writes in every tier, and the supervisor's reactor tells when there is room: no task for it, and no copy of
  the input in a shim.  A stop never waits behind it.
- A shim holds the writing end, too, and writes nothing: else the death of the host would look like the end of input for
  the moment until the shim kills the job, which might take half a list of orders for all of it.
- Its end comes with the job's last word: a survivor that is kept reads end of file then.
- Input is accepted whole or not at all, in the order of the calls.  What the system does not take at once waits here,
  at most `limit` bytes of it.  What waits when the job ends, or closes its end, is dropped.
- An end that was asked for comes after what waits.

The states:

    OPEN     input is taken.  `end`: to ENDING, or at once to SHUT.
    ENDING   an end was asked for, and something waits.  Delivered, or refused by the system: to SHUT.
    SHUT     nothing is taken; the reason is what a sender is told.

Rules
- No SIGPIPE in the host, whatever it has made of that signal.
- A forked child of the host's would keep the job from ever reading end of file: see `_forks`.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Final

from ...notifier._interrupts import uninterrupted
from .._errors import InputBackpressureError, StdinClosedError
from .._reactor import Reactor
from ._forks import close_in_forks

ENDED: Final = "its input was closed; start another process to send more"
"""What a sender is told after the end."""

_OVER: Final = "it has ended, and reads nothing any more"
LEFT: Final = "it has closed its input itself, or nobody is left who reads it"
_NO_ROOM: Final = (
    "the system has no room to wait for it (too many watched files): what was sent before may have been lost in part, "
    "and no end of input will be told for it; stop the process, and start it again when others have ended"
)
_FAULT: Final = (
    "it could not be written, for a reason that nobody foresaw and that was logged: what was sent before may have been "
    "lost in part, and no end of input will be told for it; stop the process, and start it again"
)

_TURN_BYTES: Final = 256 * 1024
"""Written before others get their turn: a fast reader makes room for as long as there is something to write."""


class Input:
    """A pipe to one job; both of its ends are owned."""

    __slots__ = (
        "__weakref__",
        "_ending",
        "_limit",
        "_pending",
        "_reactor",
        "_shut",
        "_watched",
        "_writing",
        "given",
        "on_end",
    )

    def __init__(self, reactor: Reactor, writing: int, given: int, limit: int) -> None:
        """Own `writing` (non-blocking) and `given`; at most `limit` bytes wait."""
        self._reactor = reactor
        self._writing: int | None = writing
        self.given: int | None = given
        """The descriptor that the job is to have, None once it has it: for a launcher to copy."""
        self.on_end: Callable[[], None] | None = None
        """Called when the host has let go of the writing end, so that whoever else holds it lets go, too."""
        self._limit = limit
        self._pending = bytearray()  # all in one: of many small pieces each would cost more than it holds
        self._watched = False
        self._ending = False
        self._shut: str | None = None
        close_in_forks(self)

    @uninterrupted
    def send(self, data: bytes) -> None:
        """Take `data`; see `Process.send_input`."""
        self._refuse_shut()
        if len(data) <= self._limit:  # else it is not even looked at
            self._check(data)
        self._flush()  # there may be more room than was known
        if self._shut is None and len(self._pending) + len(data) > self._limit:
            raise InputBackpressureError(
                f"{len(self._pending)} bytes of input are waiting for the process to read them, and at most "
                f"{self._limit} may (Limits.pending_input_bytes); nothing was taken: send less, or later"
            )
        if data and self._shut is None:
            self._accept(data)
            self._flush()
        self._refuse_shut()

    @uninterrupted
    def end(self) -> None:
        """Nothing more will be sent: the job reads end of file once it has read what waits.  Idempotent."""
        if not self._ending and self._shut is None:
            self._ending = True
            self._flush()

    def hold(self) -> int | None:
        """A copy of the writing end, the caller's; None where there is nothing to hold open.  Raises OSError."""
        return None if self._writing is None else os.dup(self._writing)

    def release(self) -> None:
        """The job has its descriptor, or never will.  Idempotent."""
        given, self.given = self.given, None
        if given is not None:
            os.close(given)

    def close(self) -> None:
        """The job has ended: let go of everything, and of what waits.  Idempotent."""
        self.release()
        self._close(_OVER)
        self._shut = _OVER  # whatever had shut it
        self._let_go()

    def close_in_fork(self) -> None:
        """See `Holder`."""
        for descriptor in (self._writing, self.given):
            if descriptor is not None:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        self._writing = self.given = None
        self._shut = _OVER

    # --- what a terminal does otherwise -------------------------------------------------------------------------------

    def _check(self, data: bytes) -> None:
        """Raise where `data` can never be delivered as it is."""

    def _accept(self, data: bytes) -> None:
        self._pending += data

    def _finish(self) -> None:
        """All that was accepted is delivered, and an end was asked for."""
        self._close(ENDED)
        self._let_go()
        if self.on_end is not None:
            self.on_end()

    def _is_left(self) -> bool:
        """Whether nobody will ever read what cannot be written now."""
        return False

    def _on_refused(self) -> None:
        """Nobody reads it."""
        self._close(LEFT)
        self._let_go()

    # --- small acts ---------------------------------------------------------------------------------------------------

    def _refuse_shut(self) -> None:
        if self._shut is not None or self._ending:
            raise StdinClosedError(self._shut or ENDED)

    @uninterrupted
    def _flush(self) -> None:
        """Write what can be written now, within reason."""
        written = 0
        while self._pending and self._writing is not None:
            if written >= _TURN_BYTES:
                self._watch()
                return
            try:
                with memoryview(self._pending) as pending, pending[: _TURN_BYTES - written] as piece:
                    count = write_quietly(self._writing, piece)
            except BlockingIOError:
                if self._is_left():
                    self._on_refused()
                else:
                    self._watch()
                return
            except OSError:  # EPIPE most of all
                self._on_refused()
                return
            del self._pending[:count]
            written += count
        self._unwatch()
        if self._ending and self._shut is None:
            self._finish()

    def _on_room(self) -> None:
        try:
            self._flush()
        except BaseException:
            # The reactor asks no more, so nothing that waits would ever be written: senders are told, and no end is.
            self._close(_FAULT)
            raise

    def _watch(self) -> None:
        if not self._watched and self._writing is not None:
            try:
                self._reactor.add(self._writing, self._on_room, writable=True)
            except OSError:
                self._close(_NO_ROOM)  # and not let go of: the job would take half of it for all
            else:
                self._watched = True

    def _unwatch(self) -> None:
        if self._watched and self._writing is not None:
            self._reactor.remove(self._writing)
        self._watched = False

    def _close(self, why: str) -> None:
        """Take nothing more, drop what waits; the first reason counts."""
        self._unwatch()
        self._pending.clear()
        self._shut = self._shut or why

    def _let_go(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            os.close(writing)


def open_pipe(reactor: Reactor, limit: int) -> Input:
    """An input that is a pipe.  Raises OSError."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    return Input(reactor, writing, reading, limit)


def write_quietly(descriptor: int, data: bytes | bytearray | memoryview) -> int:
    """`os.write` without SIGPIPE: that is held back, and taken away where this write has caused it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGPIPE,))
    try:
        pending = signal.SIGPIPE in signal.sigpending()
        try:
            return os.write(descriptor, data)
        except BrokenPipeError:
            if not pending and signal.SIGPIPE in signal.sigpending():
                signal.sigwait((signal.SIGPIPE,))
            raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
