"""The first process of a job: when it ends, how it ended, and its group, without ever meaning a stranger.

Theory of operation
- The leader is made the leader of a session and group of its own, so its pid is also the group's id.  A dead leader
  that nobody has reaped is a zombie, and keeps that number ours: so its end is seen without reaping (WNOWAIT), the
  group is signalled, and only then it is reaped.
- Linux 6.9 can signal a process group through the leader's pidfd (PIDFD_SIGNAL_PROCESS_GROUP).  That names the group
  itself and not a number, so it is exact even after the leader was reaped, by us or by a stranger.  Without it, a group
  whose leader is reaped is never signalled again.
- A host that ignores SIGCHLD, or that waits for any child, takes the exit status from us.  Then it is unknown; it is
  never guessed.

Warning: `subprocess.Popen.wait` answers 0 for a status that somebody else took; nothing here may use it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from signal import Signals
from typing import Final

import attrs
import psutil

from ..shim._proc import handles

# include/uapi/linux/pidfd.h; Python has no name for it yet.
_PIDFD_SIGNAL_PROCESS_GROUP: Final = 1 << 2


@attrs.frozen
class Exit:
    """The leader has ended; `status` is as from waitpid, None where somebody else took it."""

    status: int | None


class Leader:
    """A child of this process that leads a session.  `descriptor` becomes readable when it ends."""

    def __init__(self, pid: int) -> None:
        """Watch `pid`; raises OSError where there is no descriptor left for it (then nothing was done to it)."""
        self._pid = pid
        self._exit: Exit | None = None
        self._reaped = False
        self._watch: _Watch | None = None
        try:
            self._watch = _Watch(pid)
        except ProcessLookupError:
            self._note_gone()  # it has ended already
        self._exact = self._watch is not None and self._watch.can_signal_group()

    @property
    def pid(self) -> int:
        """Its number, and its group's."""
        return self._pid

    @property
    def descriptor(self) -> int | None:
        """What to wait for; None where it has ended already."""
        return None if self._watch is None else self._watch.fileno()

    @property
    def exact(self) -> bool:
        """Whether the group can be signalled for as long as this object is open, the leader reaped or not."""
        return self._exact

    def peek(self) -> Exit | None:
        """Whether and how the leader has ended, without reaping it; None while it lives."""
        if self._exit is None and self._watch is not None:
            try:
                status = self._watch.peek()
            except ChildProcessError:
                self._note_stolen()
            else:
                self._exit = None if status is None else Exit(status)
        return self._exit

    def signal_group(self, number: int) -> None:
        """Signal every process of the group.  Raises OSError as the system does: ESRCH where nothing is there, or
        where the group cannot be told from a stranger's any more; EPERM."""
        if self._exact and self._watch is not None:
            self._watch.signal_group(number)
        elif self._reaped:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        else:
            os.killpg(self._pid, number)

    def may_answer(self, number: int) -> bool:
        """Whether the leader, as it is now, could live through `number` and exit with a code of its own.

        False where the signal's default action ends it: then an exit code says that it had begun to exit before.
        """
        return self._watch is None or self._watch.may_answer(number)

    def members(self) -> int:
        """How many other live processes the group has.  A scan: good for waiting and for people, not a proof.

        At least one where the system gives no scan now (no descriptor is left): whoever waits looks again.
        """
        if self._reaped:
            if not self._exact or self._watch is None:
                return 0  # the number may be a stranger's by now
            try:
                self._watch.signal_group(0)
            except ProcessLookupError:
                return 0
            except PermissionError:
                pass  # somebody is there, whom we may not signal
        try:
            pids = psutil.pids()
        except OSError:
            return 1
        return sum(1 for pid in pids if pid != self._pid and _is_live_member(pid, self._pid))

    def reap(self) -> None:
        """Take the zombie away.  From here on only an exact group can be signalled."""
        if not self._reaped:
            self._reaped = True
            if self._watch is not None:
                with contextlib.suppress(ChildProcessError):  # taken by somebody else in the meantime
                    self._watch.reap()

    def kill(self) -> bool:
        """SIGKILL the group of a leader that nobody could begin to keep; whether it was sent, or nobody was left."""
        if self._reaped:
            return True
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except ProcessLookupError:
            return True
        except PermissionError:
            return self.peek() is not None  # macOS's word for a group that has only a zombie
        return True

    def close(self) -> None:
        """Let go of the descriptor; the group cannot be signalled any more."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _note_stolen(self) -> None:
        self._reaped = True
        self._exit = Exit(None)

    def _note_gone(self) -> None:
        """It had ended before it could be watched: reaped by somebody else, or (kqueue) a zombie still."""
        self._note_stolen()
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid == self._pid:
                self._exit = Exit(status)


def _is_live_member(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.Error):
        return False


if sys.platform == "linux":

    class _Watch:
        """A pidfd: it names the process itself, whatever becomes of the number."""

        def __init__(self, pid: int) -> None:
            self._pid = pid
            self._pidfd = os.pidfd_open(pid)

        def fileno(self) -> int:
            return self._pidfd

        def peek(self) -> int | None:
            """Its wait status, None while it lives; ChildProcessError where somebody else has reaped it."""
            result = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if result is None:
                return None
            return result.si_status << 8 if result.si_code == os.CLD_EXITED else result.si_status

        def reap(self) -> None:
            os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG)

        def can_signal_group(self) -> bool:
            try:
                self.signal_group(0)
            except OSError as error:
                return error.errno not in (errno.EINVAL, errno.ENOSYS)
            return True

        def signal_group(self, number: int) -> None:
            signal.pidfd_send_signal(self._pidfd, number, None, _PIDFD_SIGNAL_PROCESS_GROUP)

        def may_answer(self, number: int) -> bool:
            return number != Signals.SIGKILL and handles(self._pid, number)  # not reaped: the pid is still its own

        def close(self) -> None:
            os.close(self._pidfd)

elif sys.platform != "win32":
    import select

    # sys/event.h: the event's data is the wait status; Python has no name for it.
    _NOTE_EXITSTATUS: Final = 0x04000000

    class _Watch:
        """A kqueue with one event, the end of one process.  Its status comes with the event, so nothing is reaped."""

        def __init__(self, pid: int) -> None:
            self._pid = pid
            self._status: int | None = None
            self._queue = select.kqueue()
            event = select.kevent(
                pid,
                filter=select.KQ_FILTER_PROC,
                flags=select.KQ_EV_ADD,
                fflags=select.KQ_NOTE_EXIT | _NOTE_EXITSTATUS,
            )
            try:
                self._queue.control([event], 0)
            except BaseException:
                self._queue.close()  # ESRCH: it is a zombie already
                raise

        def fileno(self) -> int:
            return self._queue.fileno()

        def peek(self) -> int | None:
            if self._status is None:
                for event in self._queue.control(None, 1, 0):
                    self._status = event.data
            return self._status

        def reap(self) -> None:
            os.waitpid(self._pid, os.WNOHANG)

        def can_signal_group(self) -> bool:
            return False

        def signal_group(self, number: int) -> None:
            os.killpg(self._pid, number)

        def may_answer(self, number: int) -> bool:
            return number != Signals.SIGKILL

        def close(self) -> None:
            self._queue.close()
