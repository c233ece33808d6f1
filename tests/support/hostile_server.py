"""Forks hosts, one at a time, each into its pen and to its user: what they import is imported once.

A line on stdin is a life (`Life.to_json`); the answer is the host's exit code, negative for the signal that ended it.
It never opens an event loop and has one thread, so each fork begins as a fresh interpreter would.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import tempfile
import traceback
from importlib import import_module

from hostile_lives import Life
from hostile_pens import pen_of
from hostile_reach import open_to_everybody

# What a host would import once it runs.
for _name in ("anyio._backends._asyncio", "anyio._backends._trio", "hostile_odd_hosts", "hostile_identity"):
    import_module(_name)


def drop_to(uid: int) -> None:
    """Become an ordinary user with no privilege."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: as after an exec


def _host(line: str) -> None:
    """The child: what it prints goes to stderr, since stdout is the server's."""
    os.dup2(2, 1)
    code = 1
    try:
        life = Life.from_json(line)
        pen = pen_of(life.pen)
        pen.enter()
        if life.uid is not None:
            drop_to(life.uid)
        os.environ["TMPDIR"] = tempfile.tempdir = life.folder
        os.chdir(life.folder)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            # As in a terminal, whatever this suite was started by; Python ignores SIGPIPE, which is part of the play.
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.getsignal(number))
        module, _, function = life.program.partition(":")
        getattr(import_module(module), function)(life)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _watch(pid: int, seconds: float) -> int:
    """The exit code of the host, which is killed after `seconds` if it still lives."""
    watched = os.pidfd_open(pid)
    if not select.select([watched], [], [], seconds)[0]:
        print(f"the host did not end within {seconds} s", file=sys.stderr, flush=True)  # noqa: T201 -- for the failing test
        os.kill(pid, signal.SIGABRT)
    os.close(watched)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> None:
    """Say why there can be no ordinary users, or nothing; then serve until stdin ends."""
    lack = ""
    if os.geteuid() == 0:
        try:
            open_to_everybody()
        except OSError as error:
            lack = str(error)
    sys.stdout.write(f"{lack}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        life = Life.from_json(line)
        pid = os.fork()
        if pid == 0:
            _host(line)
        sys.stdout.write(f"{_watch(pid, life.seconds)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
