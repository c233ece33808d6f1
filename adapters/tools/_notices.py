"""For loops that take turns: what has happened meanwhile, as short lines for the model.

    notices = Notices(runtime)
    specs = tool_specs(runtime, notices=notices)
    ...
    bulletin = await notices.collect()
    transcript += bulletin.lines
    save(transcript)
    await bulletin.ack()

Theory of operation
- Whatever the model is told becomes settled in the journal only by `ack`, after the transcript that has it is saved: a
  crash before that tells it again.  Until then every bulletin repeats it.
- A result of the tools that has a process's last word tells it, so no line repeats that; but only the next bulletin's
  `ack` settles it, since only then is the result saved for certain.  It may settle a notification that has not even
  come: the journal lets a consumption precede it.
- Each thing that is told has the number of the first bulletin that covers it.  A cursor names a bulletin of this
  object alone: one of an earlier life settles nothing.

Rules
- A line is metadata: who, how it ended, its exit code.  No output, ever: that would be an unasked-for prompt.
"""

from __future__ import annotations

from secrets import token_hex
from typing import final
from uuid import UUID

import anyio
import attrs

from ..._runtime import Runtime
from ...notifier import JournalUnavailableError, ProcessState
from ...session import Loop, Notice
from ...supervisor import ErrorCode, Process, ProcessNotFoundError, SupervisorError
from .._ending import Ending
from ._naming import Profile, name_of


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
        self._life = token_hex(4)
        self._number = 0
        self._held: dict[UUID, Notice] = {}
        self._told: set[UUID] = set()
        self._left: dict[UUID, Process] = {}
        self._covered: dict[_Fact, int] = {}

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
        (64), the rest follows.  Cancelled: nothing is lost.  Where the journal cannot be read now, what has been read
        is told; raises as `Loop.receive_nowait` does.
        """
        shown = self._number_of(since or "")
        await self._catch_up()
        while True:
            try:
                notice = self._loop.receive_nowait()
            except anyio.WouldBlock:
                break
            self._held[notice.notification.command_id] = notice
        self._number += 1
        running = self._running()
        for fact in [*((_ENDED, each) for each in (*self._held, *self._told)), *((_LEFT, each) for each in running)]:
            self._covered.setdefault(fact, self._number)
        lines = self._ended_lines(shown) + [
            f"A call gave no result and its command goes on: {name_of(self._profile, process.handle)} is running."
            for command_id, process in running.items()
            if self._covered[_LEFT, command_id] > shown
        ]
        return Bulletin(lines=lines, cursor=f"{self._life}-{self._number}", notices=self)

    async def ack(self, cursor: str) -> None:
        """Settle what the bulletin of that cursor covers, and what earlier ones did; durable on return.

        A cursor that this object did not give settles nothing, and one that was settled nothing more.  Cancelled, or
        where it raises (`JournalUnavailableError`, ...), some of it may be settled; call it again.
        """
        number = self._number_of(cursor)
        for fact in [each for each, first in self._covered.items() if first <= number]:
            kind, command_id = fact
            if kind == _LEFT:
                self._left.pop(command_id, None)
            elif command_id in self._held:
                await self._held[command_id].ack()
            elif command_id in self._told:
                await self._runtime.session.acknowledge(command_id)
            if kind == _ENDED:
                self._held.pop(command_id, None)
                self._told.discard(command_id)
            self._covered.pop(fact, None)

    def release(self) -> None:
        """Offer everything that is held to whoever receives next on the loop, as redelivered; sync.

        What results have told counts as told no longer, either: where a turn was thrown away with its results, the next
        bulletin has a line for each.
        """
        for notice in self._held.values():
            notice.release()
        for command_id in (*self._held, *self._told):
            self._covered.pop((_ENDED, command_id), None)
        self._held.clear()
        self._told.clear()

    # --- told by the tools (`Listener`)

    def told(self, process: Process) -> None:
        """A result has the last word of this process."""
        self._told.add(process.command_id)

    def left(self, process: Process) -> None:
        """The call that had started this process gave no result: the model does not know of it."""
        self._left[process.command_id] = process

    # --- inside

    async def _catch_up(self) -> None:
        """Let the journal's reader, which takes its turn in order, fill the loop's window first."""
        try:
            await self._runtime.session.loops()
        except JournalUnavailableError:
            return

    def _running(self) -> dict[UUID, Process]:
        """Those of calls without a result that run; who has ended is told by a notice, and who starts is not, yet."""
        self._left = {each: process for each, process in self._left.items() if process.outcome is None}
        return {each: process for each, process in self._left.items() if process.state is ProcessState.RUNNING}

    def _ended_lines(self, shown: int) -> list[str]:
        news = [
            notice
            for command_id, notice in self._held.items()
            if command_id not in self._told and self._covered[_ENDED, command_id] > shown
        ]
        return [self._ended(notice) for notice in sorted(news, key=lambda notice: notice.journal_seq)]

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

    def _number_of(self, cursor: str) -> int:
        life, _, number = cursor.partition("-")
        return int(number) if life == self._life and number.isdecimal() else 0


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


_Fact = tuple[str, UUID]
_ENDED = "ended"
_LEFT = "left"
