"""All scripted jobs of a runtime: `open_runtime(launcher=jobs)`."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import final

import anyio
from anyio.lowlevel import checkpoint

from ...supervisor import Containment, ErrorCode, LaunchSite, SupervisorError
from ...supervisor.launch import Child, Launcher, LaunchFailedError, LaunchSpec, Listener, Wishes
from ...supervisor.launch._stdin import stdin_of
from ._child import ScriptedChild
from ._job import ScriptedJob, ScriptedSpawnError
from ._leader import ScriptedLeader


@final
class ScriptedJobs:
    """Gives each job that a runtime starts to the test, in place of a process::

        jobs = ScriptedJobs()
        async with lastword.open_runtime(launcher=jobs) as runtime:
            process = await runtime.start("make test")  # in the code under test
            job = await jobs.next_job()
            job.write(b"2 failed")
            job.exit(1)
            assert (await process.wait()).exit_code == 1

    `play` is called with each job as soon as it is spawned, before `start` returns: for a life that needs no test to
    watch it.  Without one a job runs until the test has it end, or it is stopped.

    It takes what a process would, but no terminal, and looks for no program, folder or resource: those are never
    missing, unless `play` raises `ScriptedSpawnError`.
    """

    def __init__(self, play: Callable[[ScriptedJob], None] | None = None) -> None:
        self.started: list[ScriptedJob] = []
        """All jobs so far, in order."""
        self._play = play
        self._fresh: deque[ScriptedJob] = deque()
        self._came = anyio.Event()

    def __call__(self, site: LaunchSite) -> Launcher:
        """The launcher of one supervisor: a `LauncherFactory`."""
        return _ScriptedLauncher(site, self._open)

    async def next_job(self) -> ScriptedJob:
        """Return the next job that was started and was not returned yet, once there is one.  A checkpoint.

        Cancelled: nothing was taken.
        """
        await checkpoint()
        while not self._fresh:
            await self._came.wait()
        return self._fresh.popleft()

    def _open(self, job: ScriptedJob) -> None:
        if self._play is not None:
            self._play(job)
        self.started.append(job)
        self._fresh.append(job)
        came, self._came = self._came, anyio.Event()
        came.set()


@final
class _ScriptedLauncher:
    def __init__(self, site: LaunchSite, open_job: Callable[[ScriptedJob], None]) -> None:
        self._site = site
        self._open_job = open_job

    @property
    def containment(self) -> Containment:
        """What a Linux machine gives without any privilege."""
        return Containment.SUBREAPER

    def refuse(self, wishes: Wishes) -> None:
        """See `Launcher.refuse`."""
        if wishes.terminal is not None:
            raise SupervisorError(ErrorCode.PTY_UNAVAILABLE, "a scripted job has no terminal; test with a process")

    async def launch(self, spec: LaunchSpec, listener: Listener) -> Child:
        """See `Launcher.launch`."""
        await checkpoint()
        try:
            stdin = stdin_of(spec)
        except OSError as error:
            raise LaunchFailedError("resources", error.errno, os.strerror(error.errno or 0)) from None
        leader = ScriptedLeader(stdin)
        child = ScriptedChild(leader, spec, listener, self._site)
        try:
            self._open_job(ScriptedJob(spec, leader))
        except BaseException as error:
            child.abandon()
            if isinstance(error, ScriptedSpawnError):
                raise LaunchFailedError(error.kind, error.errno, "the test has scripted that") from None
            raise
        return child

    async def aclose(self) -> None:
        """See `Launcher.aclose`."""
        await checkpoint()
