"""A host whose disk fails: it notes each error, which must be one of ours, tries again, and ends when all is home.

- "outage FAULT": the host breaks its own disk in the middle of its work, sees everything refused, and repairs it.
  FAULT "limit": the system refuses every write (EFBIG, a limit of this very process; nothing needs a privilege).
  FAULT "full": its folder is a file system of its own, a small one in memory, that something else fills (ENOSPC).
- "endure": faults come from outside (injected into its system calls), and it works on.
"""

from __future__ import annotations

import fcntl
import os
import resource
import shlex
import shutil
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import anyio
from crash_host import HANG_SECONDS, Agent, Diary

import lastword
from lastword.notifier import JournalUnavailableError
from lastword.supervisor import QuotaExceededError, SpawnFailedError, SupervisorError

# What a user of the library is told to expect of a failing disk; anything else ends the host, and fails its test.
# A start that the store refused keeps its place until its last word is stored: so the quota may refuse the next.
TYPED = (JournalUnavailableError, SpawnFailedError, QuotaExceededError)


class Enduring(Agent):
    """An agent that tries again."""

    async def settle(self, notice: lastword.Notice) -> None:
        await self.insist(notice.ack)

    async def pending(self) -> int:
        try:
            return await super().pending()
        except JournalUnavailableError as error:
            self.note(error)
            return 1

    def note(self, error: Exception) -> None:
        """It was refused, in our words."""
        self.diary.say("refused", error=type(error).__name__, words=str(error))

    async def insist(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do it again until it is done; what it says is final then."""
        while True:
            try:
                await act()
            except TYPED as error:
                self.note(error)
                await anyio.sleep(0.005)
            else:
                return

    async def until_refused(self, act: Callable[[], Awaitable[object]]) -> None:
        """Do it again until it is refused."""
        while True:
            try:
                await act()
            except TYPED as error:
                self.note(error)
                return

    async def job(self, code: int) -> None:
        await self.insist(lambda: super(Enduring, self).job(code))


class CalmDiary(Diary):
    """A diary of a host that is not killed: it keeps its lines while the disk takes none."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._kept: list[tuple[str, dict[str, object]]] | None = None

    def say(self, word: str, **facts: object) -> None:
        if self._kept is None:
            super().say(word, **facts)
        else:
            self._kept.append((word, facts))

    @contextmanager
    def keeping(self) -> Generator[None]:
        """Until the end of the block nothing is written."""
        self._kept = []
        try:
            yield
        finally:
            kept, self._kept = self._kept, None
            for word, facts in kept:
                self.say(word, **facts)


@contextmanager
def no_write() -> Generator[None]:
    """No file of this process can grow, or be written at all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def no_space(folder: Path) -> Generator[None]:
    """The file system of `folder` is full, and whatever becomes free is taken at once."""
    ballast = folder / "ballast"
    over = threading.Event()

    def fill() -> None:
        with ballast.open("wb", buffering=0) as file:
            while not over.wait(0.0005):
                try:
                    while True:
                        os.write(file.fileno(), b"\0" * 4096)
                except OSError:
                    continue

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        ballast.unlink()


async def outage(fault: str, folder: Path, state: Path) -> None:
    """Break the disk under a running job and an unsettled notice, and repair it when all has been refused."""
    diary = CalmDiary(folder)
    go = folder / "go"
    with anyio.fail_after(HANG_SECONDS), go.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        async with lastword.open_runtime(state) as runtime, anyio.create_task_group() as tasks:
            diary.say("open")
            agent = Enduring(runtime, diary, folder)
            process = await runtime.start("exit 3")
            diary.say("started", handle=process.handle, command=str(process.command_id), code=3)
            waiting = await runtime.start(f"exec flock -s {shlex.quote(str(go))} true")
            diary.say("started", handle=waiting.handle, command=str(waiting.command_id), code=0)
            await process.wait()
            while any(record.status == "waiting" for record in await runtime.pending()):  # noqa: ASYNC110 -- see at_rest
                await anyio.sleep(0.001)
            with diary.keeping(), no_write() if fault == "limit" else no_space(state):
                await agent.until_refused(lambda: runtime.start("exit 3"))
                await agent.until_refused(lambda: runtime.session.acknowledge(uuid4()))
                tasks.start_soon(agent.consume)
                fcntl.flock(lock, fcntl.LOCK_UN)
                # What has ended is not told as ended, and says why: its last word is not durable.  On the full disk it
                # may have been quicker than whoever fills it.
                while not _unstored(runtime, waiting.handle):
                    if waiting.outcome is not None:
                        assert fault == "full"
                        break
                    await anyio.sleep(0.001)
            outcome = await waiting.wait()
            diary.say("ended", handle=waiting.handle, state=outcome.state.name, code=outcome.exit_code)
            await agent.job(4)
            await agent.at_rest()
            diary.say("done")
            tasks.cancel_scope.cancel()


def _unstored(runtime: lastword.Runtime, handle: str) -> bool:
    return any(record.process_handle == handle and record.last_error for record in runtime.supervisor.pending())


async def endure(folder: Path, state: Path) -> None:
    """Start, wait, be told and settle, whatever fails; a disk that fails at the opening is told by it."""
    diary = Diary(folder)
    with anyio.fail_after(HANG_SECONDS):
        try:
            async with lastword.open_runtime(state) as runtime, anyio.create_task_group() as tasks:
                diary.say("open")
                agent = Enduring(runtime, diary, folder)
                await _some_jobs(agent)  # nobody receives: what fails meanwhile, the courier alone must outlast
                tasks.start_soon(agent.consume)
                await _some_jobs(agent)
                await agent.at_rest()
                diary.say("done")
                tasks.cancel_scope.cancel()
        except (JournalUnavailableError, SupervisorError) as error:
            diary.say("refused", error=type(error).__name__, words=str(error))


async def _some_jobs(agent: Agent) -> None:
    async with anyio.create_task_group() as jobs:
        for code in (3, 3, 4):
            jobs.start_soon(agent.job, code)


async def main(part: str, folder: Path) -> None:
    """One life; a state on a file system of its own is copied out of it at the end."""
    state = folder / "state"
    if part == "endure":
        await endure(folder, state)
    elif part == "full":
        small = folder / "small"
        await outage(part, folder, small / "state")
        shutil.copytree(small / "state", state)
    else:
        await outage(part, folder, state)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], Path(sys.argv[2]), backend=sys.argv[3])
