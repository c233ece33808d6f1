"""A shim: the process that owns one job, forked by the zygote.

Rules
- Its job's subreaper, in a session of its own, with one thread.  It outlives its job, always: no parent-death signal
  ends it (one continues it), it ignores every signal that a job may send it, and whatever goes wrong in it ends in
  killing the tree.
- It spawns nothing for a host that has died, and ends everything when the host dies (its pidfd; a forked child of the
  host may hold the sockets) or lets go of the socket.
- It tells the host by messages (`_messages`), and never fails for not being heard.
- Output goes to the ring file here; none of it passes through the host.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket

from . import _clone, _posix_spawn  # noqa: F401  # pyright: ignore[reportUnusedImport] - once, for all shims
from . import _messages as messages
from ._cgroup import JobCgroup
from ._drain import close_all, open_pipes
from ._exec import Failure, SpawnError, Spec, spawn
from ._facts import Facts
from ._keeper import Keeper
from ._loop import Loop
from ._ring import BEST_BYTES, RingWriter
from ._terminal import Terminal, drain_of
from ._tree import SubreaperTree

# include/uapi/linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

# For `ps`, and for a host that inherits it.
_NAME = b"lastword-shim"

# How long one that has let go may take to die; one that lives on is not waited for.
_DYING_MILLISECONDS = 100

# The same where the zygote, which would see to the rest, is dead.
_FORSAKEN_MILLISECONDS = 5_000

# Both are made by the zygote, once: a shim shares them as long as its job writes nothing.
_BUFFER = memoryview(bytearray(BEST_BYTES))
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def prepare(name: bytes) -> None:
    """Make this process a subreaper of that name (15 bytes at most, for `ps`).  Raises OSError.

    No other process of the user can trace it then, nor read its memory: it holds every job's environment for a moment.
    """
    if _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    _prctl(_PR_SET_NAME, name, 0, 0, 0)
    _prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def get_ready(name: bytes) -> Loop:
    """In a fork of the zygote, whose descriptors are closed: become what can `run` a job.  Raises OSError."""
    prepare(name)  # every signal is ignored already: the zygote ignores them
    _prctl(_PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)  # who would continue it, should it be stopped, is the zygote
    os.setsid()  # after that: who has the zygote's name and a group of its own is a zygote
    return Loop()


def run(packet: memoryview, descriptors: list[int], host: int, loop: Loop | None = None) -> None:
    """Own the job of that START until nothing of it is left; `host` is the host's pidfd, `loop` that of a spare.

    What comes behind stdin keeps its input open until it is ended, should the host die before.
    """
    channel = socket.socket(fileno=descriptors[0])
    try:
        spec = Spec(*messages.values_of(packet, descriptors))
        packet[:] = bytes(len(packet))
        if loop is None:
            loop = get_ready(_NAME)
        else:
            _prctl(_PR_SET_NAME, _NAME, 0, 0, 0)
        _, cwd, stdin, *held = descriptors
        shim = Shim(spec, channel, host, held, loop)
    except OSError as error:
        messages.send(
            channel, messages.encode(messages.FAILED, *Failure("resources", error.errno or 0, False).values())
        )
        return
    try:
        if shim.start(cwd, stdin):
            shim.serve()
    except BaseException:
        shim.tell_fault()
        shim.destroy()
        raise


class Shim:
    """One job's keeper, its descriptors, and its line to the host; the keeper's `Listener`."""

    def __init__(self, spec: Spec, channel: socket.socket, host: int, held: list[int], loop: Loop) -> None:
        self._spec = spec
        self._held = held
        self._channel = channel
        self._host = host
        self._zygote = os.getppid()
        self._cgroup = None if spec.cgroup is None else JobCgroup(spec.cgroup)
        self._ring = RingWriter(spec.output_path, spec.output_limit, rotate=spec.rotate, split=spec.split)
        self._loop = loop
        loop.on_child = self._on_child
        self._tree: SubreaperTree | None = None
        self._keeper: Keeper | None = None
        self._armed: int | None = None
        self._forced = False  # its end, should it come now, is not of its own accord
        self._let_go = False  # nobody is there who would ask for the job again
        self._unnoted = False  # the leader has ended, and nothing of that is in the ring's file
        self._unsent: list[bytes] = []

    # --- its life -----------------------------------------------------------------------------------------------------

    def start(self, cwd: int, stdin: int) -> bool:
        """Spawn, and tell; False where there is nothing to serve.  Closes both descriptors."""
        channel = self._channel
        channel.setblocking(False)
        if not self._is_wanted():
            return False
        terminal: Terminal | None = None
        try:
            if self._spec.terminal is None:
                reading, writing = open_pipes(split=self._spec.split)
            else:
                reading, writing = (os.dup(stdin),), (-1, -1)
                os.set_blocking(reading[0], False)
                terminal = Terminal(reading[0], self._spec.terminal)
            try:
                if self._cgroup is not None:
                    self._cgroup.create()
                leader = spawn(self._spec, self._cgroup, cwd, stdin, writing)
            finally:
                if terminal is None:
                    close_all(writing)  # the job's alone from here on: its last holder's end is the end of output
                os.close(cwd)
                os.close(stdin)
        except SpawnError as error:
            self._refuse(error.failure)
            return False
        except OSError as error:
            self._refuse(Failure("resources", error.errno or 0, False))
            return False
        self._tree = SubreaperTree(leader, self._cgroup, self._on_leader_end, terminal)
        self._keeper = Keeper(
            self._tree,
            self._ring,
            self,
            drain_of(reading, terminal, self._ring, self._loop, _BUFFER),
            keep=self._spec.keep,
            timers=self._loop,
        )
        self._spec.argv, self._spec.env = (), ()  # not needed any more, and not ours to keep
        self._tell(messages.STARTED, os.getpid())
        return True

    def serve(self) -> None:
        """Until nothing of the job is left, and the host knows it or is gone."""
        self._loop.add(self._channel.fileno(), self._on_message)
        self._loop.add(self._host, self._on_host_gone)
        self._on_child()  # what ended before SIGCHLD was listened for
        self._loop.run()
        self._remove_cgroup()
        self._remove_supervisors_cgroup()

    def tell_fault(self) -> None:
        """Tell the host where this program went wrong: lines of its own code, no value of anybody's."""
        with contextlib.suppress(Exception):
            import sys
            import traceback

            kind, _, trace = sys.exc_info()
            # Not the error's own text: that may hold a path, an argument or output.
            self._tell(messages.FAULT, "".join(traceback.format_tb(trace)) + (kind.__name__ if kind else ""))

    def destroy(self) -> None:
        """Something unforeseen: no process is left behind, whatever it was."""
        self._forced = True
        while True:
            with contextlib.suppress(Exception):
                if self._cgroup is not None:
                    self._cgroup.kill()
            with contextlib.suppress(Exception):
                if self._tree is not None:
                    self._tree.forget_refusals()
                    self._tree.signal(signal.SIGKILL)
                    if not self._tree.left():
                        break
            if self._tree is None:
                break
            with contextlib.suppress(Exception):
                select.poll().poll(5)
        self._remove_cgroup()

    # --- what happens -------------------------------------------------------------------------------------------------

    def _on_child(self) -> None:
        if self._keeper is not None:
            self._keeper.on_tree()
            if self._unnoted and self._tree is not None:
                # The host outlives its folder, and most often it has been told everything by now.  Here it waits for
                # the end of output or of the tree: should this shim not see that, the leader's own end is known.
                self._unnoted = False
                self._ring.note_exit(self._tree.status, by_host_death=self._forced)

    def _on_leader_end(self, status: int) -> None:
        self._ring.note_exit(status, by_host_death=self._forced, create=self._spec.durable)
        self._unnoted = not self._spec.durable

    def _on_message(self) -> None:
        try:
            message = messages.take(self._channel)
        except BlockingIOError:
            return
        assert self._keeper is not None  # noqa: S101 -- served only once there is one
        match message:
            case None:
                self._loop.remove(self._channel.fileno())
                self._on_host_gone()
            case (messages.STOP, mode, grace):
                self._forced = self._forced or mode != "interrupt"
                self._keeper.stop(mode, grace)
            case (messages.ARM, total):
                self._armed = total
                self._answer()
            case (messages.END_INPUT,):
                self._end_input()
            case (messages.SEAL,):
                self._keeper.give_up()
                self._end_input()
            case _:
                pass  # of a newer host; there is none
        self._flush()

    def _on_host_gone(self) -> None:
        """The host has died, or it has let go: nobody will ever ask for this job again."""
        self._loop.remove(self._host)
        self._forced = self._let_go = True
        assert self._keeper is not None  # noqa: S101 -- served only once there is one
        self._keeper.end_now()

    def _remove_supervisors_cgroup(self) -> None:
        """Where the host has died, and perhaps the zygote too: the last shim that leaves finds it empty."""
        poll = select.poll()
        poll.register(self._host, select.POLLIN)
        # A host that dies closes its sockets a moment before it has ended.
        dying = _DYING_MILLISECONDS if os.getppid() == self._zygote else _FORSAKEN_MILLISECONDS
        if self._spec.cgroup is not None and poll.poll(dying if self._let_go else 0):
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(self._spec.cgroup))  # noqa: PTH106, PTH120 -- no pathlib here

    def _is_wanted(self) -> bool:
        """Whether the host lives and still wants the job."""
        poll = select.poll()
        poll.register(self._host, select.POLLIN)
        poll.register(self._channel, 0)
        return not poll.poll(0)

    # --- told by the keeper (`Listener`) ------------------------------------------------------------------------------

    def grew(self, _total: int) -> None:
        """See `Listener.grew`."""
        self._answer()

    def ended(self, facts: Facts) -> None:
        """See `Listener.ended`."""
        self._unnoted = False
        self._end_input()
        if not facts.keeps:
            self._remove_cgroup()
        self._tell(messages.ENDED, facts.values(), self._ring.total, self._ring.base, self._ring.fault)
        if not facts.keeps:
            self._loop.stop()

    def stuck(self, errno: int | None) -> None:
        """See `Listener.stuck`."""
        self._tell(messages.STUCK, errno)

    def emptied(self) -> None:
        """See `Listener.emptied`."""
        self._tell(messages.EMPTIED)
        self._loop.stop()

    # --- small acts ---------------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        if self._armed is not None and self._ring.total > self._armed:
            self._armed = None
            self._tell(messages.GREW, self._ring.total, self._ring.fault)

    def _end_input(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def _refuse(self, failure: Failure) -> None:
        self._remove_cgroup()
        self._tell(messages.FAILED, *failure.values())

    def _remove_cgroup(self) -> None:
        if self._cgroup is not None:
            self._cgroup.remove()

    def _tell(self, *message: object) -> None:
        self._unsent.append(messages.encode(*message))
        self._flush()

    def _flush(self) -> None:
        """Send what can be sent.  A host that does not read has room for all that is ever told but for its own asking;
        one that is gone is heard of elsewhere."""
        while self._unsent:
            try:
                messages.send(self._channel, self._unsent[0])
            except BlockingIOError:
                return
            except OSError:
                self._unsent.clear()
                return
            del self._unsent[0]
