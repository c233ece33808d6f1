"""The zygote: one warm process to fork shims from, and the one who sweeps after a shim that has died.

Who dies when
    the host       its shims end their jobs by themselves; the zygote leaves after the last, with a headless folder.
                   That is told by the host's pidfd: its end of the socket may live on in a child that it has forked,
                   and goes a moment before the host itself has.
    a shim         its orphans become the zygote's children (it is their next subreaper): SIGKILL to every child that is
                   no live shim, until one scan shows only live shims.  Only this process reaps them, so that scan is
                   the proof, and the host is told.  A scan that fails shows nothing.
    the zygote     shims and jobs go on; the host makes a new one for its next start.

It holds a shared lock for as long as it lives, and so do its shims: who gets the exclusive one knows that all are gone.

The spare (`_spare`): one child is forked ahead, after a START for the next one, so that a job does not wait for a fork.

    state    what happens                        what is done                                      next
    NONE     START                               the job's shim is forked; a fork ahead is tried   WAITING, or NONE
             (the fork ahead is refused: no process, descriptor or memory; the next START tries again)
    WAITING  START                               it is handed over: to the spare, a shim by now;   WAITING, or NONE
                                                 our copies are closed; the next one is forked
             START, and that cannot be sent, or  it is ended; as in NONE                           WAITING, or NONE
             a tracer holds it, or our limits,
             niceness, scheduling policy,
             processors or control groups are
             not what it has of us
             it has ended                        reaped, and forgotten                             NONE
             it was stopped                      it is continued, as every child is                WAITING
             the host has let go, or has died    it is ended; we leave when it is reaped           NONE
             our own death                       it sees the end of its socket, and ends; stopped  -
                                                 it is continued by that, as every shim is
    (shim)   it has ended, its START read or     as any shim: swept, and told as GONE; what it     -
             unread                              may have begun is never begun again

A job is as nice as its host is at its start: where that has changed since the last START, so do we, before the shim.
Whatever else a child inherits is what the host had when we were started, or what somebody has given us since.

A spare is no shim: no sweep kills it, and nobody waits for it but for its death.  It has no children.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import select
import signal
import socket

from . import _messages as messages
from . import _proc, _shim
from ._cgroup import JobCgroup, remove_tree
from ._deadline import Deadline
from ._loop import Loop, Timer
from ._spare import Spare

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Iterable

# How often orphans are looked for while there are any, beside every SIGCHLD.
_SWEEP_SECONDS = 0.005

# After the end of a socket on which nobody said LEAVE: a host that dies has died by then.
_DYING_SECONDS = 1.0

# How long a private folder waits for the end of a host whose dying takes longer; nothing else does.
_DYING_MILLISECONDS = 10_000

# How often shims that do not leave a dead host are looked after.
_LATE_SECONDS = 0.5

# When what the host had no room for is told again.
_UNTOLD_SECONDS = 0.02

# Who is there then was refused us, or is stuck in the kernel: told as unproven.
_SWEEP_BOUND_SECONDS = 3.0


def main(channel: int, host: int) -> None:
    """Serve until the host is gone and the last shim too; `channel` is the control socket, `host` the host's pidfd."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)  # no `kill` of a job's may take it away
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(0o077)
    os.set_inheritable(channel, False)
    os.set_inheritable(host, False)
    control = socket.socket(fileno=channel)
    control.setblocking(False)
    try:
        _shim.prepare(b"lastword-zygote")
        zygote = Zygote(control, host)
    except OSError as error:
        messages.send(control, messages.encode(messages.READY, error.errno))
        return
    gc.disable()  # nothing here makes cycles, and a collection would un-share every shim's memory
    gc.freeze()
    zygote.serve()


class Zygote:
    """Forks, reaps and sweeps."""

    def __init__(self, channel: socket.socket, host: int) -> None:
        self._channel = channel
        self._host = host
        self._loop = Loop()
        self._loop.on_child = self._on_child
        self._packet = memoryview(bytearray(messages.PACKET_BYTES))
        self._shims: dict[int, int] = {}  # pid to job
        self._groups: dict[int, str] = {}  # job to control group
        self._doomed: set[int] = set()  # shims that were sent SIGKILL
        self._gone: list[int] = []  # jobs whose shim has died, not swept yet
        self._killed: set[int] = set()
        self._again: Timer | None = None
        self._sweeping = Deadline(self._loop.now)
        self._folder: str | None = None
        self._cgroup: str | None = None
        self._spare: Spare | None = None
        self._spares: set[int] = set()  # the pids of that and of those that were, until they are reaped
        self._next_spare: Timer | None = None
        self._heard = True  # the host is still there to be told
        self._niceness = os.getpriority(os.PRIO_PROCESS, 0)  # the host's, as it was told last
        self._asked = True  # and may ask for shims
        self._dismissed = False
        self._untold: list[bytes] = []

    def serve(self) -> None:
        """Until there is nothing left to do."""
        self._loop.add(self._channel.fileno(), self._on_message)
        self._loop.add(self._host, self._on_host_death)
        self._loop.run()
        if self._cgroup is not None:
            remove_tree(self._cgroup)
        if self._folder is not None and _has_ended(self._host, 0 if self._dismissed else _DYING_MILLISECONDS):
            _remove(self._folder)

    def _on_message(self) -> None:
        try:
            packet, descriptors = messages.take_packet(self._channel, self._packet)
        except BlockingIOError:
            return
        except messages.TruncatedError as error:
            self._packet[:] = bytes(len(self._packet))  # as below; how long it was is not told
            if error.label[:1] == (messages.START,):
                self._tell(messages.REFUSED, error.label[1], error.errno)
            return
        except OSError:
            packet, descriptors = self._packet[:0], []
        try:
            match messages.head_of(packet):
                case None:
                    self._loop.remove(self._channel.fileno())
                    self._expect_nothing()
                    if self._dismissed:
                        self._let_go()
                    else:
                        self._loop.call_after(_DYING_SECONDS, self._let_go)
                case (messages.LEAVE,):
                    self._dismissed = True
                case (messages.CONFIGURE, lock, folder, cgroup):
                    self._configure(lock, folder, cgroup)
                case (messages.START, job, cgroup, _, niceness):
                    self._follow(niceness)
                    self._start(job, cgroup, packet, descriptors)
                case (messages.KILL, job):
                    self._kill(pid for pid, its in self._shims.items() if its == job)
                case _:
                    pass
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
            packet[:] = bytes(len(packet))  # no later shim finds a job's environment in its memory

    def _on_host_death(self) -> None:
        self._loop.remove(self._host)
        self._loop.remove(self._channel.fileno())
        self._expect_nothing()
        self._let_go()
        self._loop.call_after(_LATE_SECONDS, self._look_after_late)

    def _let_go(self) -> None:
        """Nobody is there to be told."""
        self._heard = False
        self._leave_if_done()

    def _look_after_late(self) -> None:
        """The host has died; a shim that a debugger holds (its job can be one) cannot do its part."""
        self._kill(pid for pid in self._shims if (found := _proc.stat_of(pid)) is not None and found.state == "t")
        self._loop.call_after(_LATE_SECONDS, self._look_after_late)

    def _kill(self, shims: Iterable[int]) -> None:
        """End shims, and sweep.  One that is traced is not told as ended before its tracer has: an orphan by then."""
        for pid in tuple(shims):
            os.kill(pid, signal.SIGKILL)
            self._doomed.add(pid)
        self._sweep()

    def _configure(self, lock: str, folder: str | None, cgroup: str | None) -> None:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            # Who holds it alone is taking over from a host that has died, and that is ours.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if cgroup is not None:  # for who comes after all of us were killed
                os.write(descriptor, os.fsencode(cgroup) + b"\0")
        except OSError as error:
            self._tell(messages.READY, error.errno)
            self._loop.stop()
            return
        self._folder, self._cgroup = folder, cgroup
        self._tell(messages.READY, 0)

    # --- shims --------------------------------------------------------------------------------------------------------

    def _follow(self, niceness: int) -> None:
        """Only what the host has changed: what somebody else has given us meanwhile stays."""
        if niceness != self._niceness:
            self._niceness = niceness
            with contextlib.suppress(OSError):  # to be less nice takes a right, and the host's may be its own
                os.setpriority(os.PRIO_PROCESS, 0, niceness)

    def _start(self, job: int, cgroup: str | None, packet: memoryview, descriptors: list[int]) -> None:
        try:
            pid = self._hand_over(packet, descriptors) or self._fork(packet, descriptors)
        except OSError as error:
            self._tell(messages.REFUSED, job, error.errno)
            return
        finally:
            if self._next_spare is None and self._spare is None:
                # When the job's descriptors are closed here, and while others start its program.
                self._next_spare = self._loop.call_after(0.0, self._make_spare)
        self._shims[pid] = job
        if cgroup is not None:
            self._groups[job] = cgroup

    def _hand_over(self, packet: memoryview, descriptors: list[int]) -> int | None:
        """Have the spare be the job's shim; its pid, None where there is none that could be told."""
        spare, self._spare = self._spare, None
        if spare is None:
            return None
        if not spare.hand_over(packet, descriptors):
            return None
        self._spares.discard(spare.pid)
        return spare.pid

    def _fork(self, packet: memoryview, descriptors: list[int]) -> int:
        """Fork the job's shim; raises OSError."""
        pid = os.fork()
        if pid == 0:
            try:
                self._close_in_child()
                _shim.run(packet, descriptors, self._host)
            except BaseException:
                os._exit(1)
            os._exit(0)
        return pid

    def _make_spare(self) -> None:
        """Where that fails there is none, and the next START's shim is forked when it comes."""
        self._next_spare = None
        if self._asked:
            self._spare = Spare.fork(self._host, self._close_in_child)
            if self._spare is not None:
                self._spares.add(self._spare.pid)

    def _close_in_child(self) -> None:
        for descriptor in (*self._loop.descriptors, self._channel.fileno()):
            os.close(descriptor)

    def _expect_nothing(self) -> None:
        """No START will come: no spare is needed any more."""
        self._asked = False
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.dismiss()

    def _on_child(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    break
                if os.WIFSTOPPED(status):
                    with contextlib.suppress(PermissionError):  # an orphan of somebody else's
                        os.kill(pid, signal.SIGCONT)  # by its job, most likely; who is swept dies all the same
                    continue
                self._killed.discard(pid)
                self._doomed.discard(pid)
                self._spares.discard(pid)
                if self._spare is not None and self._spare.pid == pid:  # it cannot be told any more
                    self._spare.close()
                    self._spare = None
                job = self._shims.pop(pid, None)
                if job is not None:
                    self._gone.append(job)
        self._sweep()
        self._leave_if_done()

    def _sweep(self) -> None:
        """Kill every child that is no live shim and no spare; tell once there is none, or in the end that there is."""
        if not self._gone and not self._doomed:
            return
        groups = {job: JobCgroup(self._groups[job]) for job in self._gone if job in self._groups}
        for group in groups.values():
            with contextlib.suppress(OSError):  # what it could not do is done one by one
                group.kill()
        clear = self._kill_orphans()
        left = not clear or any(group.populated() for group in groups.values())
        if (left or self._doomed) and not self._sweeping.look(_SWEEP_BOUND_SECONDS):
            if self._again is None:
                self._again = self._loop.call_after(_SWEEP_SECONDS, self._look_again)
            return
        self._sweeping.set(0.0)
        self._doomed.clear()
        gone, self._gone = self._gone, []
        for job in gone:
            empty = job not in groups or not groups[job].populated()
            if job in groups:
                groups[job].remove()
                del self._groups[job]
            self._tell(messages.GONE, job, clear and empty)

    def _kill_orphans(self) -> bool:
        """Send SIGKILL to every child that is no live shim and no spare; whether there certainly was none."""
        try:
            orphans = [pid for pid in _proc.own_children() if pid not in self._shims and pid not in self._spares]
        except OSError:
            return False
        for pid in orphans:
            if pid not in self._killed:
                self._killed.add(pid)
                with contextlib.suppress(OSError):  # refused: it stays, and the end tells
                    os.kill(pid, signal.SIGKILL)
        return not orphans

    def _look_again(self) -> None:
        self._again = None
        self._on_child()

    def _leave_if_done(self) -> None:
        if not self._heard and not self._shims and not self._gone and not self._spares:
            self._loop.stop()

    def _tell(self, *message: object) -> None:
        self._untold.append(messages.encode(*message))
        if len(self._untold) == 1:
            self._tell_rest()

    def _tell_rest(self) -> None:
        while self._heard and self._untold:
            try:
                messages.send(self._channel, self._untold[0])
            except BlockingIOError:  # the host does not read now
                self._loop.call_after(_UNTOLD_SECONDS, self._tell_rest)
                return
            except OSError:  # it is gone, which its end of the socket tells
                break
            del self._untold[0]
        self._untold.clear()


def _has_ended(process: int, milliseconds: int) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(milliseconds))


def _remove(folder: str) -> None:
    """Remove a private folder of ours and all in it, as far as that goes."""
    for place, folders, files in os.walk(folder, topdown=False):
        for name in files:
            with contextlib.suppress(OSError):
                os.unlink(f"{place}/{name}")  # noqa: PTH108 -- no pathlib here
        for name in folders:
            with contextlib.suppress(OSError):
                os.rmdir(f"{place}/{name}")  # noqa: PTH106 -- no pathlib here
    with contextlib.suppress(OSError):
        os.rmdir(folder)  # noqa: PTH106 -- no pathlib here
