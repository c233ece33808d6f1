"""Process numbers of one's own: a namespace in which a number can be had again on demand."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWPID = 0x00020000, 0x20000000
_MS_REC, _MS_PRIVATE = 1 << 14, 1 << 18

_LAST = Path("/proc/sys/kernel/ns_last_pid")

# Writes the number of every signal that it can catch, and lives on.
_STRANGER = """
import os, signal, sys, time
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, lambda number, frame: os.write(log, b"%d\\n" % number))
os.write(log, b"ready\\n")
while True:
    time.sleep(0.01)  # a signal between Python and a long wait would be noted, and no more
"""


def run_apart(first: Callable[[], None]) -> None:
    """Call `first` as process 1 of a new namespace, with its own /proc; raises where it raises, or is killed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWPID | _CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    code = run_forked(lambda: _first(libc, first))
    if code:
        raise RuntimeError(f"process 1 ended with {code}")


def _first(libc: ctypes.CDLL, first: Callable[[], None]) -> None:
    assert os.getpid() == 1
    if libc.mount(None, b"/", None, _MS_PRIVATE | _MS_REC, None) or libc.mount(b"proc", b"/proc", b"proc", 0, None):
        raise OSError(ctypes.get_errno(), "mount")
    first()


def run_forked(body: Callable[[], None]) -> int:
    """Call `body` in a fork, reap everybody until it has ended, and return its exit code, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            body()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def is_free(pid: int) -> bool:
    """Whether nobody has the number, no zombie either."""
    return not Path(f"/proc/{pid}").exists()


class Stranger:
    """A process of the host's own, with nothing to do with any job, that has the number `pid`."""

    def __init__(self, pid: int, log: Path) -> None:
        """Take the number, which must be free; raises where somebody else is always quicker."""
        self._log = log
        self._sent = ["ready"]
        for _ in range(50):
            log.unlink(missing_ok=True)
            _LAST.write_text(str(pid - 1))
            # It leads a group, so that it would be hit as one, too.
            self._process = subprocess.Popen(
                [sys.executable, "-ISc", _STRANGER, str(log)], start_new_session=True, close_fds=True
            )
            if self._process.pid == pid:
                self._wait_for(1)
                return
            self.end()
        raise AssertionError(f"the number {pid} cannot be had; the last one was {self._process.pid}")

    def check(self) -> None:
        """It lives, runs, and has received nothing; a signal that is sent now shows, so others would have."""
        assert self._process.poll() is None, f"the stranger was ended: {self._process.returncode}"
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        assert stat.rpartition(") ")[2][0] not in "TtZX", f"the stranger was stopped: {stat}"
        self._sent.append(str(int(signal.SIGUSR2)))
        self._process.send_signal(signal.SIGUSR2)
        self._wait_for(len(self._sent))
        heard = self._log.read_text().split()
        assert heard == self._sent, f"the stranger was signalled: {heard}"

    def end(self) -> None:
        """Let it go."""
        self._process.kill()
        self._process.wait()

    def _wait_for(self, words: int) -> None:
        end = time.monotonic() + 60
        while not self._log.exists() or len(self._log.read_text().split()) < words:
            assert self._process.poll() is None, f"the stranger was ended: {self._process.returncode}"
            assert time.monotonic() < end, "the stranger says nothing"
            time.sleep(0.001)
