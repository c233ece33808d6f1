"""A host that is killed: it delivers, receives and acknowledges as fast as it can, and says what has returned.

Each line on stdout is one thing that is true from then on, whatever happens to this process:
`delivered <command>` or `acked <command>` (the call has returned), `told <command>` (it was received).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
from session_values import SESSION, Job

from lastword.session import Loop, Session, open_session
from lastword.session.journal import SqliteJournal


def say(*words: object) -> None:
    # One write, unbuffered: a line is out entirely or not at all.
    os.write(1, (" ".join(str(word) for word in words) + "\n").encode())


async def produce(session: Session) -> None:
    while True:
        job = Job()
        await session.deliver(job.start_unit())
        await session.deliver(job.end_unit())
        say("delivered", job.ids.command)


async def consume(loop: Loop) -> None:
    async for notice in loop:
        say("told", notice.notification.command_id)
        await notice.ack()
        say("acked", notice.notification.command_id)


async def main(path: Path) -> None:
    async with open_session(SqliteJournal(path), session_id=SESSION) as session, anyio.create_task_group() as tasks:
        loop = session.open_loop(capacity=8)
        for _ in range(4):
            tasks.start_soon(produce, session)
        for _ in range(3):
            tasks.start_soon(consume, loop)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), backend=sys.argv[2])
