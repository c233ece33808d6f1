"""What this process can do here and what it is held to: facts, looked up without changing anything.

A fact that cannot be looked up (no /proc, a call that a sandbox refuses) is None: unknown, never guessed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import resource
import shutil
import signal
import sys
from pathlib import Path
from typing import Final, final

import attrs

# include/uapi/linux/prctl.h; Python has no name for it.
_PR_GET_CHILD_SUBREAPER: Final = 37


@final
@attrs.frozen(kw_only=True)
class MachineFacts:
    """What the tiers depend on; None is unknown.

    - `system`: its name and release.
    - `interpreter`: whether this Python can be started again, for the processes that keep jobs.
    - `proc`: whether /proc is mounted and shows this process.
    - `pidfd`: whether processes can be named and waited for by descriptors (Linux 5.4).
    - `subreaper`: whether a process can be made to adopt its orphaned descendants.
    - `child_lists`: whether the kernel lists the children of a process; else all processes are looked through.
    - `adopts_orphans`: whether this process does so already: it is the init of its container, or a subreaper.
    - `ignores_sigchld`: whether this process ignores SIGCHLD, so that the kernel keeps no exit status for it.
    - `terminals`: whether a terminal can be had (`pty=`); to find out, one is opened and closed at once.
    - `open_files`, `processes`: the limits that new descriptors and processes meet; None is no limit.
    """

    system: str
    interpreter: bool
    proc: bool
    pidfd: bool
    subreaper: bool
    child_lists: bool | None
    adopts_orphans: bool | None
    ignores_sigchld: bool | None
    terminals: bool
    open_files: int | None
    processes: int | None


def look_up() -> MachineFacts:
    """The facts as they are now.  Raises nothing."""
    flag = _subreaper_flag()
    proc = _shows_us()
    return MachineFacts(
        system=f"{platform.system()} {platform.release()}",
        interpreter=_can_run_python(),
        proc=proc,
        pidfd=_has_pidfd(),
        subreaper=flag is not None,
        child_lists=_has_child_lists() if proc else None,
        adopts_orphans=True if os.getpid() == 1 else flag,
        ignores_sigchld=_ignores_sigchld(),
        terminals=_has_terminals(),
        open_files=limit_of(resource.RLIMIT_NOFILE),
        processes=limit_of(resource.RLIMIT_NPROC),
    )


def _can_run_python() -> bool:
    # In a frozen program the executable is the program itself: started again, it would begin anew.
    if not sys.executable or getattr(sys, "frozen", False):
        return False
    return shutil.which(sys.executable) is not None


def _shows_us() -> bool:
    # A /proc of another pid namespace shows other processes under our numbers.
    try:
        return str(Path("/proc/self").readlink()) == str(os.getpid())
    except OSError:
        return False


def _has_child_lists() -> bool | None:
    try:
        return Path(f"/proc/self/task/{os.getpid()}/children").exists()
    except OSError:
        return None


def _has_pidfd() -> bool:
    if sys.platform != "linux":
        return False
    try:
        descriptor = os.pidfd_open(os.getpid())
    except OSError:
        return False
    try:
        # We are no child of ours, which is what the kernel answers if it knows the question (Linux 5.4).
        os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError as error:
        return error.errno == errno.ECHILD
    else:
        return True
    finally:
        os.close(descriptor)


def _subreaper_flag() -> bool | None:
    """Whether this process is a subreaper; None where that cannot be asked, so not be set either."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes  # here: it costs milliseconds, and some builds of Python have none

        flag = ctypes.c_int()
        zero = ctypes.c_ulong()
        if ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(flag), zero, zero, zero) != 0:
            return None
    except (ImportError, OSError, AttributeError):
        return None
    return flag.value != 0


def _ignores_sigchld() -> bool | None:
    # The kernel's word first: what was ignored before Python began, or by a library, Python may not know of.
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_bytes().split(b"\n"):
            if line.startswith(b"SigIgn:"):
                return bool(int(line[7:], 16) >> (signal.SIGCHLD - 1) & 1)
    handler = signal.getsignal(signal.SIGCHLD)
    return None if handler is None else handler is signal.SIG_IGN


def _has_terminals() -> bool:
    try:
        master, slave = os.openpty()
    except OSError:
        return False
    try:
        os.ttyname(slave)  # by that name a job opens it
    except OSError:
        return False
    finally:
        os.close(slave)
        os.close(master)
    return True


def limit_of(which: int) -> int | None:
    """The soft limit of a resource; None is no limit."""
    soft, _ = resource.getrlimit(which)
    return None if soft == resource.RLIM_INFINITY else soft
