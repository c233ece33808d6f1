"""What the tests of terminals share: what a command, or a process so far, has written on one."""

from __future__ import annotations

from supervising import OWNER, output_of

from lastword.supervisor import Process, Supervisor


async def run_on_terminal(supervisor: Supervisor, command: str | list[str], code: int = 0) -> bytes:
    """What a command has written on a terminal, at its end."""
    process = await supervisor.start(command, owner=OWNER, pty=True)
    assert (await process.wait()).exit_code == code
    return await output_of(process)


async def written_by(process: Process) -> bytes:
    """All that it has written by now."""
    return (await process.read_output(0, 1 << 20)).data
