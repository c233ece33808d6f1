"""A job with a terminal, without a shim: spawned through an interpreter that becomes it.

A terminal is the controlling one of a session only if the session's leader opens it, between its birth and the
program; and nothing of ours may run in a fork of the host.  So a fresh interpreter is spawned, takes a job's first
steps (`shim._exec`, as a shim's fork does), and executes the program: some 20 ms more for a start.

Rules
- It is the leader already: its number is the job's.  What it is to become comes by its standard input, so its own
  command line shows nothing of it.
- It says that it has begun, so that what is no such interpreter is not taken for the program.
- A step that fails is told by its name and errno; the execution ends the pipe by which it is told.
"""

from __future__ import annotations

import marshal
import os
import subprocess
from typing import Final

import anyio

from ..shim._exec import BEGUN, Failure, Spec
from ._failure import keeper_failure, setup_failure
from ._interpreter import bootstrap, interpreter_command, interpreter_environment
from ._stdin import open_stdin

_BOOTSTRAP: Final = bootstrap("_exec", "become_told")


def spawn_interpreter(spec: Spec) -> tuple[int, int]:
    """Its pid, and where it tells what failed.  Raises OSError: nothing was spawned."""
    told, telling = os.pipe()
    try:
        stdin = open_stdin(marshal.dumps(spec.values()))
        try:
            popen = subprocess.Popen(  # noqa: S603 -- our own interpreter and our own code
                interpreter_command(_BOOTSTRAP, telling),
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=interpreter_environment(),
                pass_fds=[telling],
                start_new_session=True,
            )
        finally:
            os.close(stdin)
    except BaseException:
        os.close(told)
        raise
    finally:
        os.close(telling)
    # Popen is done: it must neither reap nor warn that it has not.
    popen.returncode = 0
    return popen.pid, told


async def wait_executed(told: int) -> None:
    """Until it has become the program.  Raises `LaunchFailedError`: it has not, and is ending.  Closes `told`."""
    try:
        data = b""
        os.set_blocking(told, False)
        while True:
            await anyio.wait_readable(told)
            piece = os.read(told, 4096)
            if not piece:
                break
            data += piece
    finally:
        anyio.notify_closing(told)
        os.close(told)
    if not data:
        raise keeper_failure(None)
    if data != BEGUN:
        failure = Failure(*marshal.loads(data[len(BEGUN) :]))  # noqa: S302 -- written by our own other half
        raise setup_failure(failure.step, failure.errno, found=failure.found)
