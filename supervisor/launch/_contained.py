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
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final, final

import anyio

from .._limits import Containment
from ..shim import _exec
from ..shim import _messages as messages
from ..shim._cgroup import JobCgroup, remove_tree
from ._child import ContainedChild
from ._failure import keeper_failure, setup_failure
from ._job_spec import job_spec
from ._launcher import Child, LaunchSpec, Listener, Wishes
from ._site import GROUP_PREFIX, KEEPERS_LOCK, LaunchSite
from ._stdin import stdin_of
from ._zygote import Zygote

logger = logging.getLogger(__name__)

# What an idle zygote needs to leave is a millisecond, if others leave it the processor; one whose shims fight on has
# had the supervisor's whole closing.
_LEAVING_SECONDS: Final = 5.0

_LOOK_SECONDS: Final = 0.005

# A start takes milliseconds; the first one, which brings the zygote, some tens of them.
_PATIENCE_SECONDS: Final = 1.0

# What has not become a zygote by then will not.  It is counted in turns of patience, of which there is one while a
# machine stands still.
_BIRTH_SECONDS: Final = 10.0


@final
class ContainedLauncher:
    """Spawns jobs under shims; see the module."""

    def __init__(self, site: LaunchSite, *, cgroup: str | None = None) -> None:
        """`cgroup` is a directory of control groups that was delegated to us; None: the subreaper tier."""
        self._site = site
        self._cgroup = None if cgroup is None else f"{cgroup}/{GROUP_PREFIX}{secrets.token_hex(8)}"
        self._zygote: Zygote | None = None
        self._children: dict[int, ContainedChild] = {}
        self._orphans: set[int] = set()
        self._jobs = 0

    @property
    def containment(self) -> Containment:
        """`Containment.SUBREAPER` or `Containment.CGROUP`."""
        return Containment.SUBREAPER if self._cgroup is None else Containment.CGROUP

    def refuse(self, wishes: Wishes) -> None:
        """Nothing is refused: whatever a job can be given, a shim can give it."""

    async def launch(self, spec: LaunchSpec, listener: Listener) -> Child:
        """Spawn; see `Launcher.launch`.  Cancelled, the job is ended by its shim."""
        try:
            child, theirs = self._new_child(spec, listener)
        except OSError as error:
            raise setup_failure("resources", error.errno or 0) from None
        try:
            with self._impatient():
                try:
                    zygote = await self._request(spec, child, theirs)
                except OSError as error:
                    raise setup_failure("resources", error.errno or 0) from None
                finally:
                    theirs.close()
                await child.wait_started(zygote)
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
        with anyio.move_on_after(_LEAVING_SECONDS):
            # Not so only after a zygote was killed; and of a control group nobody tells.
            while self._orphans or not (self._cgroup is None or remove_tree(self._cgroup)):  # noqa: ASYNC110
                await anyio.sleep(_LOOK_SECONDS)
        for orphan in tuple(self._orphans):
            self._reap(orphan)

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

    async def _request(self, spec: LaunchSpec, child: ContainedChild, theirs: socket.socket) -> Zygote:
        """Have a zygote fork a shim for `child`.  Raises OSError and `LaunchFailedError`: none was."""
        with contextlib.ExitStack() as stack:
            cwd = _base_folder(spec)
            stack.callback(os.close, cwd)
            stdin = stdin_of(spec)
            stack.callback(os.close, stdin)
            cgroup = None if self._cgroup is None else f"{self._cgroup}/{child.job}"
            values = job_spec(spec, cgroup, durable=not self._site.temporary).values()
            # This thread's, as a child would inherit it that is spawned here.
            niceness = os.getpriority(os.PRIO_PROCESS, 0)
            message = messages.encode_start(child.job, cgroup, niceness, values)
            descriptors = [theirs.fileno(), cwd, stdin]
            if spec.input is not None and (held := spec.input.hold()) is not None:
                stack.callback(os.close, held)
                descriptors.append(held)
            while True:
                zygote = self._living_zygote()
                try:
                    await zygote.request(child.job, message, descriptors)
                except BrokenPipeError:
                    # It had died before it was asked, so nothing has come of it: the next one is.
                    if not zygote.ready:
                        raise keeper_failure(zygote.refused) from None
                else:
                    return zygote

    def _living_zygote(self) -> Zygote:
        if self._zygote is None or not self._zygote.alive:
            if self._cgroup is not None:
                with contextlib.suppress(FileExistsError):
                    Path(self._cgroup).mkdir(mode=0o700)
            site = self._site
            folder = str(site.folder) if site.temporary else None
            try:
                self._zygote = Zygote(
                    site.reactor,
                    (str(site.folder / KEEPERS_LOCK), folder, self._cgroup),
                    self._on_message,
                    self._on_zygote_death,
                    self._on_orphan,
                )
            except OSError as error:
                raise keeper_failure(error.errno) from None
        return self._zygote

    @contextlib.contextmanager
    def _impatient(self) -> Generator[None]:
        """What takes so long may wait for a zygote that some job has stopped, or for one that is none."""
        timers = self._site.timers
        turns = round(_BIRTH_SECONDS / _PATIENCE_SECONDS)

        def hurry() -> None:
            nonlocal turns
            turns -= 1
            waiting.append(timers.call_after(_PATIENCE_SECONDS, hurry))
            if self._zygote is not None:
                self._zygote.rouse()
                if turns <= 0 and not self._zygote.ready:
                    self._zygote.give_up()

        waiting = [timers.call_after(_PATIENCE_SECONDS, hurry)]
        try:
            yield
        finally:
            waiting[-1].cancel()

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
        if zygote.ready:
            logger.error("the zygote has died; running processes are kept on, and the next start brings a new one")
        for child in tuple(self._children.values()):
            if child.zygote is zygote:
                child.on_zygote_death(None if zygote.ready else keeper_failure(zygote.refused))

    def kill_group(self, job: int) -> None:
        """Nobody is left to sweep after a shim: what is in its control group, if it has one, is killed."""
        if self._cgroup is not None:
            with contextlib.suppress(OSError):
                JobCgroup(f"{self._cgroup}/{job}").kill()

    def forget(self, child: ContainedChild) -> None:
        """`child` holds nothing any more."""
        self._children.pop(child.job, None)

    def _on_orphan(self, pidfd: int) -> None:
        """A shim whose zygote has died is a child of this process now."""
        self._orphans.add(pidfd)
        self._site.reactor.add(pidfd, lambda: self._reap(pidfd))

    def _reap(self, orphan: int) -> None:
        self._orphans.discard(orphan)
        self._site.reactor.remove(orphan)
        with contextlib.suppress(ChildProcessError):  # somebody else had adopted it
            os.waitid(os.P_PIDFD, orphan, os.WEXITED | os.WNOHANG)
        os.close(orphan)


def _base_folder(spec: LaunchSpec) -> int:
    """Where the job's working directory is counted from: the host's own.  Raises OSError, `LaunchFailedError`."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        return os.open(".", flags)
    except PermissionError as error:
        if spec.cwd is not None and os.path.isabs(spec.cwd):  # noqa: PTH117 -- a word, not a place to be looked at
            return os.open("/", flags)
        raise setup_failure(_exec.CWD, error.errno or 0) from None
