"""Forks hosts, one at a time: what they import is imported once, so that a life costs what it does and no more.

It never opens an event loop and has one thread, so each fork begins as a fresh interpreter would.  A line on stdin is a
plan; the answer is the host's exit code (negative: the signal that ended it).  It is the host's parent, so the process
that it kills is the one that it has forked.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
from importlib import import_module

import crash_host

# What a host would import once it runs.
for _name in ("anyio._backends._asyncio", "anyio._backends._trio", "lastword._runtime"):
    import_module(_name)


def _host(line: str) -> None:
    """The child: what it prints goes to stderr, since stdout is the server's."""
    os.dup2(2, 1)
    code = 1
    try:
        crash_host.run(line)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _watch(pid: int, seconds: float | None) -> int:
    """The exit code of the host, which is killed after `seconds` if it still lives."""
    if seconds is not None:
        watched = os.pidfd_open(pid)
        if not select.select([watched], [], [], seconds)[0]:
            os.kill(pid, signal.SIGKILL)
        os.close(watched)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> None:
    """Serve until stdin ends."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _host(line)
        sys.stdout.write(f"{_watch(pid, json.loads(line)['kill_after'])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
