"""What one agent is to be told of its jobs and has not confirmed, and the cursor by which it does.

One desk is behind `Notices`, for loops that take turns, and behind the MCP server; only how they show it differs.

Theory of operation

    thing       is known by                            goes on when
    at hand     the journal (an end whose notice the   a bulletin is made: told
                loop has handed out), or this desk
                alone (an end that a result has told,
                a call that gave no result)
    told        the same, and it has its place         a cursor of its place, or of a later one, comes back: settling
    settling    the same; may be told again            its acknowledgement is durable: settled; or fails: told
    settled     the journal, as consumed               never

- A bulletin tells everything at hand, and its cursor names the newest thing that is told.  So whoever knows a cursor
  has got a bulletin with every thing up to that place that was not settled then: a cursor that comes back is the
  receipt for them, and nothing else is.  That a bulletin was written, or is asked for again, proves nothing.
- A cursor is NUMBER-LIFE-TAG.  The tag says which thing it is, and cannot be guessed: for an end that the journal has
  it is a part of the notification's random id, and so good in every life, for what is at hand was told in the journal's
  order by every life; for all else it is random, and good in this one.  The number is the thing's place.  One of an
  earlier life is the receipt for what the journal had up to there, and for nothing that only this life has told.
- A cursor that fits nothing (settled, of an earlier life, made up) settles nothing.  One of this life with a number
  that no bulletin had yet is a mistake of whoever gives it, and is refused.
- Where the host or the agent dies, or a call is cancelled: what was not settled is at hand again, and told again.  At
  least once, never lost.

To whoever edits: nobody else may receive from the desk's loop while it holds notices, or its order is not the
journal's.
"""

from __future__ import annotations

from secrets import token_hex
from typing import final
from uuid import UUID

import anyio
import attrs
from anyio.lowlevel import checkpoint

from .._runtime import Runtime
from ..notifier import InvalidArgumentError, LastwordError, ProcessState
from ..session import Loop, Notice
from ..supervisor import Process

ENDED = "ended"
LEFT = "left"

Thing = tuple[str, UUID]
"""That a process has ended, or that the call that had started it was left without a result."""


@final
class Desk:
    """Of one loop; sync, but for `acknowledge`."""

    def __init__(self, runtime: Runtime, loop: Loop) -> None:
        self._session = runtime.session
        self._loop = loop
        self._life = token_hex(2)
        self._notices: dict[UUID, Notice] = {}
        self._told: set[UUID] = set()
        self._left: dict[UUID, Process] = {}
        self._places: dict[Thing, _Place] = {}  # of what is told, in their order
        self._placed = 0
        self._given = 0

    # --- what comes

    def take(self, notice: Notice) -> None:
        """The loop has handed out a notice; it is held until it is settled or released."""
        self._notices[notice.notification.command_id] = notice

    def told(self, process: Process) -> None:
        """A result has told how this process ended; its notice may be still to come."""
        self._told.add(process.command_id)

    def left(self, process: Process) -> None:
        """The call that had started this process has given no result."""
        self._left[process.command_id] = process

    def release(self) -> None:
        """Give all notices back to the loop, and count what results have told as told no longer."""
        for notice in self._notices.values():
            notice.release()
        for command_id in (*self._notices, *self._told):
            self._forget((ENDED, command_id))
        self._notices.clear()
        self._told.clear()

    # --- what is told

    @property
    def held(self) -> list[Notice]:
        """The notices that are not settled, in the journal's order."""
        return sorted(self._notices.values(), key=lambda notice: notice.journal_seq)

    @property
    def going_on(self) -> list[Process]:
        """Those that run though their call gave no result, as long as that is not settled."""
        return [process for process in self._left.values() if process.state is ProcessState.RUNNING]

    def was_told(self, notice: Notice) -> bool:
        """Whether a result has told it already."""
        return notice.notification.command_id in self._told

    def tell(self) -> str:
        """Everything at hand is told in this step; the cursor for it, "" where there is nothing."""
        self._place_all()
        self._given = self._placed
        if not self._places:
            return ""
        newest = next(reversed(self._places.values()))
        return f"{newest.number}-{self._life}-{newest.tag}"

    def number_of(self, thing: Thing) -> int:
        """The place of something that is told, from 1."""
        return self._places[thing].number

    def number_at(self, cursor: str) -> int:
        """The place that a cursor names; 0 where it fits nothing.

        Raises `InvalidArgumentError` for a place of this life that no bulletin had yet.
        """
        number, _, rest = cursor.partition("-")
        life, _, tag = rest.partition("-")
        if life != self._life:
            return next((place.number for place in self._places.values() if place.tag == tag), 0)
        if not (number.isascii() and number.isdecimal()):
            return 0
        if len(number) > _MAX_DIGITS or int(number) > self._given:
            raise InvalidArgumentError("cursor", "is beyond the last bulletin; give the cursor of one that was made")
        return int(number) if _Place(int(number), tag) in self._places.values() else 0

    # --- what is confirmed

    async def acknowledge(self, cursor: str) -> None:
        """Settle what the cursor is the receipt for: durable on return.  A checkpoint; twice is harmless.

        Cancelled, or where it raises what `Notice.ack` does, some of it may be settled: the same cursor, or any later
        one, settles the rest.  Raises `InvalidArgumentError` as `number_at`, with nothing settled.
        """
        self._place_all()  # what an earlier life has told is at hand, and may have no place in this one yet
        things = self._covered(cursor)
        errors: list[LastwordError] = []

        async def settle(thing: Thing) -> None:
            try:
                await self._settle(thing)
            except LastwordError as error:
                errors.append(error)
            else:
                if thing != things[-1]:
                    self._drop(thing)

        await checkpoint()
        async with anyio.create_task_group() as tasks:  # together: one commit takes them all
            for thing in things:
                tasks.start_soon(settle, thing)
        if errors:
            raise errors[0]
        # By the one that it names the cursor is known, so that one is last.
        for thing in things[-1:]:
            self._drop(thing)

    def _covered(self, cursor: str) -> list[Thing]:
        """What the cursor is the receipt for, last what it names."""
        last = self.number_at(cursor)
        things = [thing for thing, place in self._places.items() if place.number <= last]
        if not things or cursor.split("-")[1] == self._life:
            return things
        # An earlier life has told what the journal had up to there, and nothing that was told or left in this one.
        named = self._notices.get(things[-1][1])
        return [
            (kind, command_id)
            for kind, command_id in things
            if kind == ENDED
            and named is not None
            and (notice := self._notices.get(command_id)) is not None
            and notice.journal_seq <= named.journal_seq
        ]

    async def _settle(self, thing: Thing) -> None:
        kind, command_id = thing
        if kind == LEFT:
            return
        notice = self._notices.get(command_id)
        if notice is not None:
            await notice.ack()
        elif command_id in self._told:
            await self._session.acknowledge(command_id)  # the journal lets a consumption precede its notification

    def _drop(self, thing: Thing) -> None:
        kind, command_id = thing
        if kind == LEFT:
            self._left.pop(command_id, None)
        else:
            self._notices.pop(command_id, None)
            self._told.discard(command_id)
        self._forget(thing)

    def _forget(self, thing: Thing) -> None:
        self._places.pop(thing, None)

    def _place_all(self) -> None:
        for notice in self.held:
            command_id = notice.notification.command_id
            self._place((ENDED, command_id), command_id.hex[20:30])
        for command_id in self._told:
            self._place((ENDED, command_id), token_hex(5))
        for command_id, process in list(self._left.items()):
            if process.state is ProcessState.RUNNING:
                self._place((LEFT, command_id), token_hex(5))
            elif process.outcome is not None and (LEFT, command_id) not in self._places:
                del self._left[command_id]  # its end is what there is to tell

    def _place(self, thing: Thing, tag: str) -> None:
        if thing not in self._places:
            self._placed += 1
            self._places[thing] = _Place(self._placed, tag)


@attrs.frozen
class _Place:
    """Of something that is told, among all that this desk has told."""

    number: int
    tag: str


# No desk tells more than that; and int() refuses what is very long.
_MAX_DIGITS = 18
