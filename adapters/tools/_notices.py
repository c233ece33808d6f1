"""For loops that take turns: what has happened meanwhile, as short lines for the model.

    notices = Notices(runtime)
    specs = tool_specs(runtime, notices=notices)
    ...
    bulletin = await notices.collect()
    transcript += bulletin.lines
    save(transcript)
    await bulletin.ack()

Theory of operation
- What is told, and settled by which cursor, is the desk's affair: see `_desk.py`, which the MCP server has, too.
- A bulletin's `ack` comes after the transcript that has it is saved: a crash before that tells it again.
- A result of the tools that has a process's last word tells it, so no line repeats that; but only the next bulletin's
  `ack` settles it, since only then is the result saved for certain.

Rules
- A line is metadata: who, how it ended, its exit code.  No output, ever: that would be an unasked-for prompt.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import final

import anyio
import attrs

from ..._runtime import Runtime
from ...notifier import JournalUnavailableError
from ...session import Loop, Notice
from ...supervisor import ErrorCode, Process, ProcessNotFoundError, SupervisorError
from .._desk import ENDED, LEFT, Desk
from .._ending import Ending
from ._naming import Profile, name_of

# What an earlier life has left is told by the first bulletin already, if the journal takes it in this time.
_CATCH_UP_SECONDS = 2.0


@final
@attrs.frozen(kw_only=True)
class Bulletin:
    """What the model has not been told for certain: `lines`, and what results have told since they were made.

    `cursor` names it towards `Notices.ack`.
    """

    lines: list[str]
    cursor: str
    _notices: Notices = attrs.field(alias="notices", repr=False, eq=False)

    async def ack(self) -> None:
        """As `Notices.ack` with its cursor."""
        await self._notices.ack(self.cursor)


@final
class Notices:
    """The notices of one loop (None: the main loop), received here and by nobody else while this holds them.

    Give it to `tool_specs` too, so that nothing is told both by a result and by a line.
    """

    def __init__(self, runtime: Runtime, loop: Loop | None = None, *, profile: Profile = "native") -> None:
        self._runtime = runtime
        self._loop = runtime.loop if loop is None else loop
        self._profile: Profile = profile
        self._desk = Desk(runtime, self._loop)
        self._caught_up = False

    def refuse_others(self, loop: Loop, profile: Profile) -> None:
        """Raise `SupervisorError` (invalid_settings) where these are not the notices of that loop and profile."""
        if loop.owner != self._loop.owner or profile != self._profile:
            raise SupervisorError(
                ErrorCode.INVALID_SETTINGS,
                "the notices are of another loop or profile; give both the same",
            )

    async def collect(self, *, since: str | None = None) -> Bulletin:
        """Everything that is not settled, in the order of the journal.  A checkpoint.

        Called again before an `ack` it tells the same again, and what has come since; with the cursor of an earlier
        bulletin as `since`, the latter alone (its `ack` settles both).  At most as many lines as the loop has places
        (64), the rest follows.  The first bulletin waits, for two seconds at most, for what an earlier life of the host
        has left and is on its way to the journal.

        Cancelled: nothing is lost.  Where the journal cannot be read now, what has been read is told; raises as
        `Loop.receive_nowait` does, and `InvalidArgumentError` as `ack`.
        """
        shown = self._desk.number_at(since or "")
        await self._catch_up()
        while True:
            try:
                self._desk.take(self._loop.receive_nowait())
            except anyio.WouldBlock:
                break
        cursor = self._desk.tell()
        ended = [
            self._ended(notice)
            for notice in self._desk.held
            if not self._desk.was_told(notice) and self._desk.number_of((ENDED, notice.notification.command_id)) > shown
        ]
        going_on = [
            f"A call gave no result and its command goes on: {name_of(self._profile, process.handle)} is running."
            for process in self._desk.going_on
            if self._desk.number_of((LEFT, process.command_id)) > shown
        ]
        return Bulletin(lines=ended + going_on, cursor=cursor, notices=self)

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[Bulletin]:
        """A turn that is saved or thrown away: `async with notices.turn() as bulletin`, and save it in the block.

        The bulletin is collected at its beginning, and acknowledged when the block is left.  Where the block raises, or
        is cancelled, everything is released: this bulletin, and what results have told in the turn, is told by the
        next one.  Raises as `collect` and `ack`; where the latter does, the turn is saved and may be told again.
        """
        bulletin = await self.collect()
        try:
            yield bulletin
        except BaseException:
            self.release()
            raise
        await bulletin.ack()

    async def ack(self, cursor: str) -> None:
        """Settle what the bulletin of that cursor covers, and what earlier ones did; durable on return.

        A cursor that fits nothing settles nothing: one that was settled, or is of an earlier life of the host, or was
        made up.  Cancelled, or where it raises (`JournalUnavailableError`, ...), some of it may be settled; call it
        again.  Raises `InvalidArgumentError`, with nothing settled, for one beyond the last bulletin of this object.
        """
        await self._desk.acknowledge(cursor)

    def release(self) -> None:
        """Offer everything that is held to whoever receives next on the loop, as redelivered; sync.

        What results have told counts as told no longer, either: where a turn was thrown away with its results, the next
        bulletin has a line for each.
        """
        self._desk.release()

    # --- told by the tools (`Listener`)

    def told(self, process: Process) -> None:
        """A result has the last word of this process."""
        self._desk.told(process)

    def left(self, process: Process) -> None:
        """The call that had started this process gave no result: the model does not know of it."""
        self._desk.left(process)

    # --- inside

    async def _catch_up(self) -> None:
        """Let the journal's reader, which takes its turn in order, fill the loop's window first."""
        if not self._caught_up:  # a host may live for one turn alone, and its next one may be far
            with anyio.move_on_after(_CATCH_UP_SECONDS):
                await self._runtime.supervisor.outbox.wait_empty()
            self._caught_up = True
        try:
            await self._runtime.session.loops()
        except JournalUnavailableError:
            return

    def _ended(self, notice: Notice) -> str:
        notification = notice.notification
        who = _capital(name_of(self._profile, notification.process_handle))
        try:
            process = self._runtime.supervisor.get(notification.process_handle, self._loop)
        except ProcessNotFoundError:  # evicted: the notification alone says how it ended
            name, ending = "", Ending.of_notification(notification)
        else:
            name = process.name and f' "{process.name}"'
            outcome = process.outcome
            ending = Ending.of_notification(notification) if outcome is None else Ending.of_outcome(outcome)
        again = " (You may have been told before.)" if notice.redelivered else ""
        return f"{who}{name} has ended: {ending.words}.{again}"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
