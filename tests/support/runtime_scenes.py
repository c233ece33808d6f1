"""What tests of a whole runtime share: a host that can be killed, a journal that fails, a clock in a hurry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import lastword
from lastword.notifier import AppendResult, JournalUnavailableError, NewRecord, SystemClock
from lastword.session.journal import MemoryJournal

HOST = """
import sys
import anyio
import lastword

async def main():
    async with lastword.open_runtime(sys.argv[1]) as runtime:
        process = await runtime.start("echo $$; exec sleep 60", background=True)
        await process.wait_output(0)
        print(process.handle, process.command_id, int((await process.read_output()).data), flush=True)
        await anyio.sleep_forever()

anyio.run(main, backend=sys.argv[2])
"""
"""Starts one job in the directory argv[1] on the backend argv[2], prints its handle, command id and pid, and waits."""


def gone(pid: int) -> bool:
    """Whether no process has that id, or only its unreaped remains."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second where it ends between the opening and the reading
        return True


async def pid_of(process: lastword.Process) -> int:
    """The id that a job `echo $$` has printed first."""
    await process.wait_output(0)
    return int((await process.read_output()).data.split()[0])


class BrittleJournal(MemoryJournal):
    """A journal that cannot be written while `broken`, or for the next `failures` tries."""

    broken = False
    failures = 0

    def append_many(self, units: Sequence[Sequence[NewRecord]]) -> list[list[AppendResult]]:
        if self.failures:
            self.failures -= 1
            raise JournalUnavailableError("the disk failed to sync")
        if self.broken:
            raise JournalUnavailableError("the disk is full; free some space")
        return super().append_many(units)


class HastyClock(SystemClock):
    """A clock whose sleeps are a hundred times shorter."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 100)
