"""A job's first steps, in the process that becomes it: everything between the fork and the program.

A job that needs few steps is spawned at once (`_posix_spawn`), any other, and one that could not be, by a fork.  Each
step of that that fails is told by its name and errno through a pipe that the program's execution closes.  The order is
that of the steps: the control group before anything else can be started; the working directory before the limits; the
signals last, since a shim ignores what a job may send it, and what is ignored stays so over an execution.
"""

from __future__ import annotations

import errno
import fcntl
import marshal
import os
import resource
import signal
import sys
import termios

from ._loop import set_signal

TYPE_CHECKING = False  # `typing` would cost the zygote's start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    from ._cgroup import JobCgroup

CGROUP, SESSION, STREAMS, CWD, UMASK, LIMITS, NICE, SIGNALS, EXEC = (
    "cgroup",
    "session",
    "streams",
    "cwd",
    "umask",
    "limits",
    "nice",
    "signals",
    "exec",
)
"""The steps."""

BEGUN = b"+"
"""What `become_told` says first; a failed step may follow."""

# After the soft limit's SIGXCPU a program may tidy up for so many seconds of processor time before the hard one's kill.
_CPU_MERCY_SECONDS = 5

# What a job finds at its default: numbers all, as the system's own call takes them.
_DEFAULT = int(signal.SIG_DFL)
_SIGNALS = tuple(map(int, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))


class Spec:
    """What a job is to be; paths and words are bytes, as the system takes them."""

    __slots__ = (
        "argv",
        "cgroup",
        "cwd",
        "durable",
        "env",
        "keep",
        "limits",
        "nice",
        "output_limit",
        "output_path",
        "rotate",
        "split",
        "terminal",
        "umask",
    )

    def __init__(
        self,
        argv: tuple[bytes, ...],
        env: tuple[tuple[bytes, bytes], ...],
        cwd: bytes | None,
        umask: int | None,
        limits: tuple[tuple[str, int], ...],
        nice: int | None,
        keep: bool,
        output_path: str,
        output_limit: int,
        rotate: bool,
        cgroup: str | None,
        durable: bool = True,
        split: bool = False,
        terminal: str | None = None,
    ) -> None:
        """`durable`: the folder outlives the host.  `split`: stdout and stderr are kept apart.  `terminal`: the path of
        the one that it is to have.

        `cwd` is taken from the host's own; `umask` None is that of whoever takes the steps; `limits` are names of
        resources (such as "RLIMIT_CORE") and values.
        """
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.umask = umask
        self.limits = limits
        self.nice = nice
        self.keep = keep
        self.output_path = output_path
        self.output_limit = output_limit
        self.rotate = rotate
        self.cgroup = cgroup
        self.durable = durable
        self.split = split
        self.terminal = terminal

    def values(self) -> tuple[Any, ...]:
        """The arguments that make it again."""
        return (
            self.argv,
            self.env,
            self.cwd,
            self.umask,
            self.limits,
            self.nice,
            self.keep,
            self.output_path,
            self.output_limit,
            self.rotate,
            self.cgroup,
            self.durable,
            self.split,
            self.terminal,
        )


class Failure:
    """The step that failed, why, and (for the execution) whether there was a file of that name."""

    __slots__ = ("errno", "found", "step")

    def __init__(self, step: str, errno: int, found: bool) -> None:
        self.step = step
        self.errno = errno
        self.found = found

    def values(self) -> tuple[str, int, bool]:
        """The arguments that make it again."""
        return self.step, self.errno, self.found


class SpawnError(Exception):
    """The job was not spawned; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.step, failure.errno)
        self.failure = failure


def spawn(spec: Spec, cgroup: JobCgroup | None, cwd: int, stdin: int, outputs: tuple[int, int]) -> int:
    """Execute the program in a child; the pid of the job's leader, which runs its program by now.

    `outputs`: what its stdout and its stderr are.  Where it has a terminal its streams are that.

    Raises `SpawnError`; what was begun then has ended, and is reaped.  Raises OSError where not even that was begun.
    """
    if cgroup is None and not spec.limits and spec.nice is None and spec.terminal is None:
        from ._posix_spawn import spawn_at_once  # the host has no use for ctypes

        pid = spawn_at_once(spec, cwd, (stdin, *outputs))
        if pid is not None:
            return pid
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            born_there = None if cgroup is None else cgroup.fork()
            pid = os.fork() if born_there is None else born_there
            if pid == 0:
                _become(spec, cgroup if born_there is None else None, cwd, stdin, outputs, writing)
        finally:
            os.close(writing)
        told = b""
        while piece := os.read(reading, 4096):
            told += piece
    finally:
        os.close(reading)
    if told:
        os.waitpid(pid, 0)
        raise SpawnError(Failure(*marshal.loads(told)))  # noqa: S302 -- written by our own fork
    return pid


def become_told(telling: int) -> NoReturn:
    """Become the job that standard input describes, with a terminal; this process leads a session of its own already.

    For a host that may not fork, and has started a fresh interpreter in its own working directory.
    """
    os.set_inheritable(telling, False)
    told = b""
    while piece := os.read(0, 1 << 20):
        told += piece
    spec = Spec(*marshal.loads(told))  # noqa: S302 -- written by our own other half
    os.write(telling, BEGUN)
    _become(spec, None, None, -1, (-1, -1), telling)


def _become(
    spec: Spec, cgroup: JobCgroup | None, cwd: int | None, stdin: int, outputs: tuple[int, int], telling: int
) -> NoReturn:
    """`cwd`: where the job's own is counted from; None: from that of this process, which leads a session, too."""
    step, number, found = CGROUP, 0, False
    starved = marshal.dumps(Failure(LIMITS, errno.ENOMEM, False).values())  # now: later there may be no room for it
    try:
        if cgroup is not None:
            cgroup.join()
        step = SESSION
        if cwd is not None:
            os.setsid()
        step = STREAMS
        if spec.terminal is not None:
            stdin = _open_terminal(spec.terminal)
            outputs = stdin, stdin
        for target, source in enumerate((stdin, *outputs)):
            os.dup2(source, target)
        step = CWD
        if cwd is not None:
            os.fchdir(cwd)
        if spec.cwd is not None:
            os.chdir(spec.cwd)
        step = UMASK
        if spec.umask is not None:
            os.umask(spec.umask)
        step = LIMITS
        for name, value in spec.limits:
            _limit(getattr(resource, name), value)
        step = NICE
        if spec.nice is not None:
            os.nice(spec.nice)
        step = SIGNALS
        _reset_signals()
        step = EXEC
        env = dict(spec.env)
        # Running what the caller asks for is what this is for.
        _first_of(candidates(spec.argv[0], env), lambda program: os.execve(program, spec.argv, env))  # noqa: S606
    except _NotExecutedError as error:
        number, found = error.number, error.found
    except OSError as error:
        number = error.errno or 0
    except ValueError:  # all that is refused of a limit: it may not be raised
        number = errno.EPERM
    except BaseException:  # an address space too small to raise anything better
        number = errno.ENOMEM
    try:
        os.write(telling, marshal.dumps(Failure(step, number, found).values()))
    except BaseException:
        os.write(telling, starved)
    finally:
        os._exit(127)


def _open_terminal(path: str) -> int:
    """Open it, the controlling one from here on: of a session without one, which this process must lead."""
    terminal = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    if sys.platform != "linux":  # where having opened it is enough
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    return terminal


class _NotExecutedError(Exception):
    """No candidate could be executed, and why; `found`: there was a file."""

    def __init__(self, number: int, found: bool) -> None:
        super().__init__(number)
        self.number = number
        self.found = found


def _first_of(candidates: Iterator[bytes], execute: Callable[[bytes], int]) -> int:
    """What `execute` returns for the first of them that it can execute.  Raises `_NotExecutedError`."""
    number, found = errno.ENOENT, False
    for program in candidates:
        try:
            return execute(program)
        except OSError as error:
            found = found or os.path.isfile(program)  # noqa: PTH113 -- no pathlib here
            # As execvp: a folder without it, or one that may not be entered, leaves the others.
            if error.errno in (errno.ENOENT, errno.ENOTDIR) and number == errno.ENOENT:
                continue
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
                raise _NotExecutedError(error.errno or 0, found) from None
            number = errno.EACCES
    raise _NotExecutedError(number, found)


def candidates(program: bytes, env: dict[bytes, bytes]) -> Iterator[bytes]:
    """Where the program is looked for: as it is if it has a slash, else in the job's own PATH."""
    if b"/" in program:
        yield program
        return
    for folder in env.get(b"PATH", os.fsencode(os.defpath)).split(b":"):
        yield folder + b"/" + program if folder else program


def _limit(number: int, value: int) -> None:
    _, hard = resource.getrlimit(number)
    most = value
    if number == resource.RLIMIT_CPU:
        most = value + _CPU_MERCY_SECONDS if hard == resource.RLIM_INFINITY else min(hard, value + _CPU_MERCY_SECONDS)
    resource.setrlimit(number, (value, max(value, most)))


def _reset_signals() -> None:
    for number in _SIGNALS:
        set_signal(number, _DEFAULT)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
