"""The contained tiers: a shim for each job, which adopts whatever descends from it; with a control group where we may.

Theory of operation
- The first job brings the zygote; each job a socket, whose other end its shim is born with.  All of them are waited for
  by the supervisor's one reactor: a job costs the host one descriptor, and no task.
- A shim whose socket ends before its job did is dead.  The zygote sweeps what it leaves and says so; only then the job
  is told as failed.  Where the zygote is dead too, nobody can say more: failed, unproven.
- The programs of a host that has died are ended by their shims.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
from pathlib import Path
from typing import Any, Final, final

from .._errors import ErrorCode, SupervisorError
from .._limits import Containment
from ..shim import _messages as messages
from ..shim._cgroup import remove_tree
from ..shim._exec import Spec
from ..shim._proc import umask_of_self
from ._child import ContainedChild
from ._failure import setup_failure
from ._launcher import Child, LaunchSpec, Listener, Wishes
from ._site import KEEPERS_LOCK, LaunchSite
from ._stdin import open_stdin
from ._zygote import Zygote

logger = logging.getLogger(__name__)

# What an idle zygote needs to leave is a millisecond; one whose shims fight on has had the supervisor's whole closing.
_LEAVING_SECONDS: Final = 2.0

# A start takes milliseconds; the first one, which brings the zygote, some tens of them.
_PATIENCE_SECONDS: Final = 1.0

_RESOURCES: Final = {
    "open_files": "RLIMIT_NOFILE",
    "cpu_seconds": "RLIMIT_CPU",
    "address_space": "RLIMIT_AS",
    "core": "RLIMIT_CORE",
}


@final
class ContainedLauncher:
    """Spawns jobs under shims; see the module."""

    def __init__(self, site: LaunchSite, *, cgroup: str | None = None) -> None:
        """`cgroup` is a directory of control groups that was delegated to us; None: the subreaper tier."""
        self._site = site
        self._cgroup = None if cgroup is None else f"{cgroup}/lastword-{secrets.token_hex(8)}"
        self._zygote: Zygote | None = None
        self._children: dict[int, ContainedChild] = {}
        self._orphans: set[int] = set()
        self._jobs = 0

    @property
    def containment(self) -> Containment:
        """`Containment.SUBREAPER` or `Containment.CGROUP`."""
        return Containment.SUBREAPER if self._cgroup is None else Containment.CGROUP

    def refuse(self, wishes: Wishes) -> None:
        """Refuse what comes with a later version: a terminal, a pipe for input, split streams."""
        if wishes.pty:
            raise SupervisorError(
                ErrorCode.PTY_UNAVAILABLE, "this launcher gives no terminal; leave pty out to run with pipes"
            )
        if wishes.input_pipe:
            raise SupervisorError(
                ErrorCode.INVALID_ARGUMENTS, "this launcher gives no pipe for input; pass all of it as stdin=bytes"
            )
        if wishes.split_streams:
            raise SupervisorError(
                ErrorCode.INVALID_ARGUMENTS,
                "this launcher keeps stdout and stderr in one stream, in exact order; leave split_streams out",
            )

    async def launch(self, spec: LaunchSpec, listener: Listener) -> Child:
        """Spawn; see `Launcher.launch`.  Cancelled, the job is ended by its shim."""
        try:
            child, theirs = self._new_child(spec, listener)
        except OSError as error:
            raise setup_failure("resources", error.errno or 0) from None
        try:
            try:
                await self._request(spec, child, theirs)
            except OSError as error:
                raise setup_failure("resources", error.errno or 0) from None
            finally:
                theirs.close()
            rousing = self._site.timers.call_after(_PATIENCE_SECONDS, self._rouse)
            try:
                await child.wait_started()
            finally:
                rousing.cancel()
        except BaseException:
            child.abandon()
            raise
        if child.failure is not None:
            child.abandon()
            raise child.failure
        return child

    async def aclose(self) -> None:
        """Let the zygote go.  Bounded; every job has ended, or was abandoned."""
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            await zygote.aclose(_LEAVING_SECONDS)
        for orphan in tuple(self._orphans):
            self._reap(orphan)
        if self._cgroup is not None:
            remove_tree(self._cgroup)

    def _new_child(self, spec: LaunchSpec, listener: Listener) -> tuple[ContainedChild, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._jobs += 1
        try:
            child = ContainedChild(self._jobs, ours, spec, listener, site=self._site, launcher=self)
        except BaseException:
            ours.close()
            theirs.close()
            raise
        self._children[child.job] = child
        return child, theirs

    async def _request(self, spec: LaunchSpec, child: ContainedChild, theirs: socket.socket) -> None:
        """Have the zygote fork a shim for `child`.  Raises OSError: none was."""
        with contextlib.ExitStack() as stack:
            cwd = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, cwd)
            stdin = open_stdin(spec.stdin)
            stack.callback(os.close, stdin)
            message = messages.encode(messages.START, child.job, self._job_spec(spec, child.job).values())
            for last in (False, True):
                try:
                    await self._living_zygote().request(message, (theirs.fileno(), cwd, stdin))
                except BrokenPipeError:
                    # It had died before it was asked, so nothing has come of it: the next one is.
                    if last:
                        raise
                else:
                    return

    def _living_zygote(self) -> Zygote:
        if self._zygote is None or not self._zygote.alive:
            if self._cgroup is not None:
                with contextlib.suppress(FileExistsError):
                    Path(self._cgroup).mkdir(mode=0o700)
            site = self._site
            folder = str(site.folder) if site.temporary else None
            self._zygote = Zygote(
                site.reactor,
                (str(site.folder / KEEPERS_LOCK), folder, self._cgroup),
                self._on_message,
                self._on_zygote_death,
            )
        return self._zygote

    def _rouse(self) -> None:
        """A start that takes so long may wait for a zygote that some job has stopped."""
        if self._zygote is not None:
            self._zygote.rouse()

    def _job_spec(self, spec: LaunchSpec, job: int) -> Spec:
        given = spec.resources
        umask = given.umask
        return Spec(
            argv=tuple(map(os.fsencode, spec.argv)),
            env=tuple((os.fsencode(name), os.fsencode(value)) for name, value in spec.env.items()),
            cwd=None if spec.cwd is None else os.fsencode(spec.cwd),
            umask=umask_of_self() if umask is None else umask,
            limits=tuple(
                (limit, value) for name, limit in _RESOURCES.items() if (value := getattr(given, name)) is not None
            ),
            nice=given.nice,
            keep=spec.survivors == "keep",
            output_path=str(spec.output_path),
            output_limit=spec.output_limit,
            rotate=spec.rotate,
            cgroup=None if self._cgroup is None else f"{self._cgroup}/{job}",
        )

    # --- told by the zygote and the children --------------------------------------------------------------------------

    def _on_message(self, message: tuple[Any, ...]) -> None:
        match message:
            case (messages.REFUSED, job, number):
                if (child := self._children.get(job)) is not None:
                    child.on_refused(number)
            case (messages.GONE, job, proven):
                if (child := self._children.get(job)) is not None:
                    child.on_swept(proven=proven)
            case _:
                logger.error("the zygote has told something that is not understood")

    def _on_zygote_death(self, zygote: Zygote) -> None:
        if self._zygote is not zygote:
            return  # closing: it has left as it was asked to
        logger.error("the zygote has died; running processes are kept on, and the next start brings a new one")
        for child in tuple(self._children.values()):
            child.on_zygote_death()

    def note_mute(self, child: ContainedChild) -> None:
        """`child`'s shim does not answer: have it killed, and what it holds swept."""
        if self._zygote is not None and self._zygote.alive:
            self._zygote.kill_shim(child.job)
        else:
            child.on_zygote_death()

    def forget(self, child: ContainedChild, orphan: int) -> None:
        """`child` holds nothing any more; `orphan` is its shim's pidfd where the host may have adopted that, or -1."""
        self._children.pop(child.job, None)
        if orphan >= 0:
            self._orphans.add(orphan)
            self._site.reactor.add(orphan, lambda: self._reap(orphan))

    def _reap(self, orphan: int) -> None:
        self._orphans.discard(orphan)
        self._site.reactor.remove(orphan)
        with contextlib.suppress(ChildProcessError):  # somebody else had adopted it
            os.waitid(os.P_PIDFD, orphan, os.WEXITED | os.WNOHANG)
        os.close(orphan)
