"""The processes of one job, as their subreaper sees them: how the leader ended, who is left, and signals to them.

Theory of operation
- This process is their subreaper: whoever's parent dies becomes its child, whatever it did to its session, group or
  environment.  So `waitpid(-1)` saying ECHILD is the kernel's word that nobody is left; no scan is ever taken for that.
- A child of ours that we have not reaped keeps its number, so it is signalled by number.  The group of the leader too,
  until the leader is reaped: one call, that the kernel makes atomic against forks.
- Deeper ones are reached by a descriptor (pidfd).  A number that is read from /proc may be a stranger's an instant
  later, so the parent is read again after the descriptor was opened, and the parent must still be its own.
- Whose parent dies of the signal meanwhile has moved, and is not found below it: so it is looked again until nobody
  new was found, and nobody was seen to have died since the look before.  Each is sent it once.  Whom we could reap is
  looked at once: where many come and go there are more of them at each look.
- SIGKILL needs no depth: whom the dead leave behind become our children, and are next.  Each is sent it once: a process
  that took it and lives on is stuck in the kernel, and one that it was refused for will not be had by insisting.
- Where the job has a control group, its kill is atomic against forks, and `populated 0` is a second proof.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal

from . import _proc

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._cgroup import JobCgroup
    from ._terminal import Terminal

# Each generation costs a descriptor while the ones below it are signalled; whoever is deeper is left to SIGKILL.
_DEPTH = 100

# How often who is new is looked for, for one signal; a tree that grows so fast is ended by SIGKILL.
_LOOKS = 10


class _Seen:
    """What the looks for one signal have come to."""

    __slots__ = ("dead", "ours", "sent")

    def __init__(self) -> None:
        self.sent: set[int] = set()
        self.dead: set[int] = set()
        """Who has died before or meanwhile."""
        self.ours: set[int] = set()
        """Those of the dead that are children of ours: nobody reaps them meanwhile, so the numbers are theirs."""

    def counts(self) -> tuple[int, int]:
        """What grows where somebody may have been missed."""
        return len(self.sent), len(self.dead)


class SubreaperTree:
    """A job's leader and everything that descends from it.  This process must have no other children."""

    proves = True
    """`left() == 0` is a proof."""

    look_again_seconds = 0.02
    """How often who is left is looked for although no child has ended: a process may leave a dead parent unseen."""

    def __init__(
        self,
        leader: int,
        cgroup: JobCgroup | None,
        on_leader_end: Callable[[int], None],
        terminal: Terminal | None = None,
    ) -> None:
        """Hold `leader`, a child; `on_leader_end` is called with its wait status, once, as soon as it is reaped."""
        self._terminal = terminal
        self._leader = leader
        self._cgroup = cgroup
        self._on_leader_end = on_leader_end
        self._status: int | None = None
        self._killed: set[int] = set()
        self._empty = False
        self.refused: int | None = None
        """The errno of the last signal that was refused for somebody; None where none was."""

    @property
    def ended(self) -> bool:
        """Whether the leader was reaped."""
        return self._status is not None

    @property
    def status(self) -> int | None:
        """The leader's wait status; None while it lives."""
        return self._status

    def reap(self) -> None:
        """Take away whoever has ended."""
        while not self._empty:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._empty = True
                return
            if pid == 0:
                return
            self._killed.discard(pid)  # the number is free, and may be given to one of theirs
            if pid == self._leader:
                self._status = status
                self._on_leader_end(status)

    def left(self) -> int:
        """How many live processes there are beside the leader; at least 1 where the kernel does not say that none is.

        With the leader reaped, 0 is the kernel's word.
        """
        self.reap()
        if self._empty and not (self._cgroup is not None and self._cgroup.populated()):
            return 0
        count = self._count()
        return max(1, count) if self.ended else count

    def may_answer(self, number: int) -> bool:
        """Whether the leader, as it is now, could live through `number` and exit with a code of its own."""
        if number == signal.SIGINT and self._terminal is not None and self._terminal.serves_others(self._leader):
            return True
        return number != signal.SIGKILL and _proc.handles(self._leader, number)

    def interrupt(self) -> None:
        """SIGINT as by Ctrl-C: to the terminal's foreground group, or to the leader's.  Raises OSError."""
        if self._terminal is None or not self._terminal.interrupt():
            self._signal_group(signal.SIGINT)

    def signal(self, number: int) -> None:
        """Send `number` to everybody.  Raises OSError where the leader lives and may not be signalled.

        For the others a refusal is kept in `refused`.
        """
        if number == signal.SIGKILL:
            self._kill()
            return
        error: OSError | None = None
        if not self.ended:
            try:
                self._signal_group(number)
            except OSError as refused:
                error = refused
        seen = _Seen()
        for look in range(_LOOKS):
            before = seen.counts()
            self._signal_below(os.getpid(), number, _proc.children_finder(), None, 0, seen)
            if look > 0 and seen.counts() == before:
                break
        if error is not None:
            raise error

    def forget_refusals(self) -> None:
        """A new order: everybody is sent SIGKILL once more."""
        self._killed.clear()
        self.refused = None

    def _signal_group(self, number: int) -> None:
        os.killpg(self._leader, number)

    def _kill(self) -> None:
        error: OSError | None = None
        if self._cgroup is not None:
            with contextlib.suppress(OSError):  # what it could not do is done one by one
                self._cgroup.kill()
        if not self.ended and self._leader not in self._killed:
            try:
                self._signal_group(signal.SIGKILL)
            except OSError as refused:
                error = refused
        for pid in _proc.children_finder()(os.getpid()):
            if pid not in self._killed:
                self._killed.add(pid)
                try:
                    os.kill(pid, signal.SIGKILL)
                except PermissionError as refused:
                    self.refused = refused.errno
                except ProcessLookupError:
                    pass
        if error is not None:
            raise error

    def _signal_below(
        self,
        parent: int,
        number: int,
        children_of: Callable[[int], list[int]],
        held: int | None,
        depth: int,
        seen: _Seen,
    ) -> None:
        """Send `number` to the children of `parent` and below; `held` is its descriptor, None for ourselves.

        Not to those who were sent it, which the others join.
        """
        for pid in children_of(parent):
            if held is None and pid in seen.ours:
                continue
            try:
                descriptor = os.pidfd_open(pid)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self.refused = error.errno
                else:
                    seen.dead.add(pid)
                continue
            try:
                found = _proc.stat_of(pid)
                if found is None or not found.live:
                    seen.dead.add(pid)
                    if held is None:
                        seen.ours.add(pid)
                    continue
                if found.parent != parent or not (held is None or _lives(held)):
                    seen.dead.add(parent)
                    continue
                # The leader's group has had it already.
                if (found.group != self._leader or self.ended) and pid not in seen.sent:
                    seen.sent.add(pid)
                    self._signal_one(descriptor, number)
                if depth < _DEPTH:
                    self._signal_below(pid, number, children_of, descriptor, depth + 1, seen)
                if (after := _proc.stat_of(pid)) is None or not after.live:
                    seen.dead.add(pid)  # whom it has left behind may have been looked for too early
            finally:
                os.close(descriptor)

    def _signal_one(self, descriptor: int, number: int) -> None:
        try:
            signal.pidfd_send_signal(descriptor, number)
        except PermissionError as refused:
            self.refused = refused.errno
        except ProcessLookupError:
            pass

    def _count(self) -> int:
        children_of = _proc.children_finder()
        count, below = 0, children_of(os.getpid())
        while below:
            pid = below.pop()
            found = _proc.stat_of(pid)
            if found is not None:
                if found.live and pid != self._leader:
                    count += 1
                below += children_of(pid)
        return count


def _lives(descriptor: int) -> bool:
    try:
        signal.pidfd_send_signal(descriptor, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True
