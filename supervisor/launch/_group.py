"""The process_group tier: a session of its own, signalled as one, kept by this very process.

For macOS, and where nothing stronger can be had.  It proves nothing: a descendant that leaves the group (setsid, job
control, a daemon) is out of its reach, and what it leaves behind is not even seen.  Reports say `proven=False`.

Rules
- Spawned by `subprocess.Popen` without preexec_fn: vfork or posix_spawn, never a fork of the host.
- A job has descriptors 0, 1 and 2 and no other of the host's.  It inherits the host's ignored signals: nothing between
  the host and its exec could reset them here.
"""

from __future__ import annotations

import os
import subprocess
from typing import Final, final

from .._errors import ErrorCode, SupervisorError
from .._limits import Containment, ResourceLimits
from ..shim._drain import close_all, open_pipes
from ..shim._ring import BEST_BYTES
from ._burials import Burials
from ._failure import keeper_failure, launch_failure
from ._group_child import GroupChild
from ._group_terminal import spawn_interpreter, wait_executed
from ._job_spec import job_spec
from ._launcher import Child, LaunchFailedError, LaunchSpec, Listener, Wishes
from ._leader import Leader
from ._site import LaunchSite
from ._stdin import stdin_of

# What is killed dies at once, but for what is stuck in the kernel.
_DYING_SECONDS: Final = 2.0


@final
class GroupLauncher:
    """Spawns jobs as leaders of their own session; see the module."""

    def __init__(self, site: LaunchSite) -> None:
        self._reactor = site.reactor
        self._timers = site.timers
        # Every keeper reads into it, since each has kept what it read before its callback returns.
        self._buffer = memoryview(bytearray(BEST_BYTES))
        self._burials = Burials(site.reactor)

    @property
    def containment(self) -> Containment:
        """`Containment.PROCESS_GROUP`."""
        return Containment.PROCESS_GROUP

    def refuse(self, wishes: Wishes) -> None:
        """Refuse what this tier cannot do: resource limits."""
        given = wishes.resources
        # The umask is set between vfork and exec.  Limits would need code there, or would come after the program has
        # begun: neither is right, so they are refused rather than nearly done.
        if given is not None and given != ResourceLimits(umask=given.umask):
            raise SupervisorError(
                ErrorCode.PROCESS_SETUP_FAILED,
                "this launcher can set the umask only; use `ulimit` or `nice` in the command for other limits",
            )

    async def launch(self, spec: LaunchSpec, listener: Listener) -> Child:
        """Spawn; see `Launcher.launch`.  Without a terminal nothing is waited for: it takes under a millisecond."""
        try:
            stdin = stdin_of(spec)
            try:
                if spec.terminal is not None:
                    return await self._spawn_on_terminal(spec, stdin, listener)
                return self._spawn(spec, stdin, listener)
            finally:
                os.close(stdin)
        except OSError as error:
            raise launch_failure(error, spec) from None  # the original shows the program's path
        except (subprocess.SubprocessError, ValueError) as error:
            raise LaunchFailedError("other", None, f"the system refused to start it ({type(error).__name__})") from None

    async def aclose(self) -> None:
        """Reap whose start came to nothing and who has not died until now.  Bounded."""
        await self._burials.aclose(_DYING_SECONDS)

    def _spawn(self, spec: LaunchSpec, stdin: int, listener: Listener) -> Child:
        reading, writing = open_pipes(split=spec.split_streams)
        try:
            try:
                leader = self._lead(_spawn_session(spec, stdin, writing))
            finally:
                close_all(writing)  # the job's alone from here on: its last holder's end is the end of output
            return self._keep(leader, reading, spec, listener)
        except BaseException:
            close_all(reading)
            raise

    async def _spawn_on_terminal(self, spec: LaunchSpec, master: int, listener: Listener) -> Child:
        reading = os.dup(master)
        try:
            try:
                pid, told = spawn_interpreter(job_spec(spec, None, durable=True, inherits=True))
            except OSError as error:
                raise keeper_failure(error.errno) from None
            try:
                leader = self._lead(pid)
            except BaseException:
                os.close(told)
                raise
            try:
                await wait_executed(told)
            except BaseException:
                self._burials.destroy(leader)
                raise
            return self._keep(leader, (reading,), spec, listener)
        except BaseException:
            os.close(reading)
            raise

    def _keep(self, leader: Leader, reading: tuple[int, ...], spec: LaunchSpec, listener: Listener) -> Child:
        try:
            return GroupChild(
                leader,
                reading,
                spec,
                listener,
                reactor=self._reactor,
                timers=self._timers,
                buffer=self._buffer,
            )
        except BaseException:
            self._burials.destroy(leader)
            raise

    def _lead(self, pid: int) -> Leader:
        try:
            return Leader(pid)
        except BaseException:  # no descriptor is left to watch it with
            self._burials.destroy_unwatched(pid)
            raise


def _spawn_session(spec: LaunchSpec, stdin: int, outputs: tuple[int, int]) -> int:
    popen = subprocess.Popen(  # noqa: S603 -- running what the caller asks for is what this library is for
        spec.argv,
        stdin=stdin,
        stdout=outputs[0],
        stderr=outputs[1],
        cwd=spec.cwd,
        env=spec.env,
        umask=-1 if spec.resources.umask is None else spec.resources.umask,
        close_fds=True,
        start_new_session=True,
    )
    # Popen is done: it must neither reap nor warn that it has not.
    popen.returncode = 0
    return popen.pid
