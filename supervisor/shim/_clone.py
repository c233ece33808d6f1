"""A fork whose child is born in a control group (clone3, Linux 5.7).

To move a process into a group the kernel waits until no fork is under way anywhere, which it can only be sure of some
10 ms later where nobody has moved lately; a child that is born there waits for nothing.

Rules
- The child knows nothing of it having been forked (no at-fork handler has run, and the C library takes it for its
  parent): it may only do its few steps and execute.  So this is for a process of one thread.
- Whatever the reason for a refusal: the caller's own fork and move are tried, and tell what is wrong.
"""

from __future__ import annotations

import ctypes
import signal
import struct

# The same on every architecture but Alpha, where it is another call's, which takes no such arguments and fails.
_CLONE3 = 435

_CLONE_INTO_CGROUP = 0x200000000

# struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size,
# cgroup.
_ARGUMENTS = struct.Struct("11Q")

# Not CDLL, which would let go of the interpreter's lock: the child must hold it.
_syscall = ctypes.PyDLL(None).syscall
_syscall.restype = ctypes.c_long


def fork_into(group: int) -> int | None:
    """As `os.fork`, with the child in the group whose directory `group` is; None where that was refused."""
    arguments = ctypes.create_string_buffer(
        _ARGUMENTS.pack(_CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, group), _ARGUMENTS.size
    )
    pid: int = _syscall(ctypes.c_long(_CLONE3), arguments, ctypes.c_size_t(_ARGUMENTS.size))
    return None if pid < 0 else pid
