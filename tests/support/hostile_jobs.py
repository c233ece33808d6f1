"""Jobs that do what no job should: `python -IS hostile_jobs.py NAME stay|exit [ARGUMENT...]`.

Each builds its tree, says "ready" once every process of it is as hostile as it means to be, and then its leader stays
for ever, or exits with code 7.  Standard library only, and little of it: hundreds of these are started.

Rules
- Whoever holds the pipe `unready` is not ready: exec and exit close it.
- Nothing outlives `LONGEST_SECONDS`, should an oracle fall to a bug: forked processes count on their own.
"""

# ruff: noqa: PTH103, PTH118, PTH119, PTH123, PTH208, SIM105
# pathlib and contextlib would double what such a process costs.

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_SECONDS = 150
EXIT_CODE = 7

# A file that a host makes where it works, for a job that must not act before its start was told.
STARTED = "started"

_ends = time.monotonic() + LONGEST_SECONDS
_reading, _unready = os.pipe()


def main() -> None:
    name, mode, *arguments = sys.argv[1:]
    JOBS[name](*arguments)
    if mode == "exit":
        os._exit(EXIT_CODE)
    pause()


def fork(body: Callable[..., object], *arguments: object) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            body(*arguments)
        finally:
            os._exit(0)
    return pid


def pause() -> None:
    """For ever, or nearly."""
    while (left := _ends - time.monotonic()) > 0:
        time.sleep(left)
    os._exit(0)


def ready() -> None:
    """A descendant is ready."""
    os.close(_unready)


def say_ready() -> None:
    """The leader: all are."""
    os.close(_unready)
    while os.read(_reading, 1):
        pass
    os.write(1, b"ready\n")


def ignore() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


# --- out of the group, the session, the parent's sight


def alone() -> None:
    os.setsid()
    ready()
    pause()


def plain() -> None:
    """Nothing special: a child in the leader's own group."""

    def child() -> None:
        ready()
        pause()

    fork(child)
    say_ready()


def setsid() -> None:
    """A child leads a session of its own, and holds the output."""
    fork(alone)
    say_ready()


def daemon() -> None:
    """As the book has it: forked twice, a session, no descriptor, and not even an environment."""

    def first() -> None:
        os.setsid()
        fork(second)

    def second() -> None:
        os.chdir("/")
        for descriptor in os.listdir("/proc/self/fd"):
            if int(descriptor) != _unready:  # closed by the exec: then it is ready
                try:
                    os.close(int(descriptor))
                except OSError:
                    pass
        os.execve("/bin/sleep", ["sleep", str(LONGEST_SECONDS)], {})

    os.waitpid(fork(first), 0)
    say_ready()


def nohup() -> None:
    """The command of that name."""
    null = os.open("/dev/null", os.O_RDWR)

    def exec_it() -> None:
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.execvp("nohup", ["nohup", "sleep", str(LONGEST_SECONDS)])

    fork(exec_it)
    say_ready()


def comets(count: str) -> None:
    """`count` processes that fork, lead a session and exit, for ever: wherever one looks, it has just left."""

    def fly() -> None:
        ready()
        while time.monotonic() < _ends:
            os.setsid()
            if os.fork():
                os._exit(0)

    for _ in range(int(count)):
        fork(fly)
    say_ready()


def wide(count: str) -> None:
    """`count` orphans, each in a session of its own."""

    def middle() -> None:
        for _ in range(int(count)):
            fork(alone)

    os.waitpid(fork(middle), 0)
    say_ready()


def bomb(count: str) -> None:
    """Every process forks two and leaves; never more than `count` at once, which are as many tokens in a pipe."""
    tokens, back = os.pipe()
    os.set_blocking(tokens, False)
    os.write(back, b"." * int(count))

    def burn() -> None:
        os.setsid()
        ready()
        born = 0
        while born < 2 and time.monotonic() < _ends:
            try:
                os.read(tokens, 1)
            except BlockingIOError:
                time.sleep(0.005)
                continue
            try:
                child = os.fork()
            except OSError:
                os.write(back, b".")
                time.sleep(0.005)
                continue
            if child == 0:
                os.setsid()
                born = 0
            else:
                born += 1
        time.sleep(0.04)
        os.write(back, b".")
        os._exit(0)

    fork(burn)
    say_ready()


# --- deaf, stopped, half dead


def deaf() -> None:
    """The leader, its child and a grandchild in a session of its own hear no signal that can be ignored."""
    ignore()

    def child() -> None:
        fork(alone)
        ready()
        pause()

    fork(child)
    say_ready()


def stopped_leader() -> None:
    """The leader is stopped: it takes no signal but SIGKILL before it is continued.  Its child says so."""
    leader = os.getpid()

    def child() -> None:
        while state(leader) != "T":
            time.sleep(0.001)
        ready()
        os.write(1, b"ready\n")
        pause()

    fork(child)
    os.close(_unready)
    os.kill(leader, signal.SIGSTOP)


def stopped_child() -> None:
    """A child in a session of its own is stopped."""

    def child() -> None:
        os.setsid()
        ready()
        os.kill(os.getpid(), signal.SIGSTOP)
        pause()

    os.waitpid(fork(child), os.WUNTRACED)
    say_ready()


def headless() -> None:
    """A child whose first thread has ended while another goes on: it looks like a zombie, and is none."""
    import ctypes
    import platform
    import threading

    number = {"x86_64": 60, "aarch64": 93}[platform.machine()]

    def child() -> None:
        os.setsid()
        threading.Thread(target=pause, daemon=True).start()
        ready()
        ctypes.CDLL(None).syscall(number, 0)

    pid = fork(child)
    while state(pid) != "Z":
        time.sleep(0.001)
    say_ready()


def reaper() -> None:
    """A child adopts orphans itself, so that they never come to the top while it lives; all of them are deaf."""
    import ctypes

    ignore()

    def child() -> None:
        os.setsid()
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        os.waitpid(fork(lambda: fork(alone)), 0)
        ready()
        pause()

    fork(child)
    say_ready()


def migrant(pen: str, *freeze: str) -> None:
    """A child moves itself to another control group of the same pen, if it may, and where wanted freezes there."""

    def child() -> None:
        os.setsid()
        refuge = os.path.join(pen, f"refuge-{os.getpid()}")
        if join(refuge) and freeze:
            with open(os.path.join(refuge, "cgroup.freeze"), "w") as file:
                os.close(_unready)  # the write may not return
                file.write("1")
        else:
            ready()
        pause()

    fork(child)
    say_ready()


def nested(pen: str) -> None:
    """Children are in control groups below the job's own, each below the other, where it may make them."""
    with open("/proc/self/cgroup") as file:
        (own,) = [line[3:].rstrip() for line in file if line.startswith("0::")] or ["/"]
    name = os.path.basename(pen)
    group = pen + own.partition(name)[2] if name in own else "/nonexistent"
    for number in range(3):
        group = os.path.join(group, f"nest-{os.getpid()}-{number}")
        join(group, only_make=True)

        def child(inside: str = group) -> None:
            join(inside)
            alone()

        fork(child)
    say_ready()


def join(group: str, *, only_make: bool = False) -> bool:
    """Move to a control group, which is made; whether that was allowed."""
    try:
        os.makedirs(group, exist_ok=True)
        if not only_make:
            with open(os.path.join(group, "cgroup.procs"), "w") as file:
                file.write("0")
    except OSError:
        return False
    return True


def promoted(setpriv: str) -> None:
    """A child becomes root by a program that everybody may execute as root, as `sudo` does."""
    import select

    null = os.open("/dev/null", os.O_RDWR)

    def child() -> None:
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.execv(setpriv, [setpriv, "--ruid", "0", "--clear-groups", "sleep", str(LONGEST_SECONDS)])

    pid = fork(child)
    while True:
        with open(f"/proc/{pid}/status") as file:
            (uids,) = [line for line in file if line.startswith("Uid:")]
        if set(uids.split()[1:]) == {"0"}:
            break
        select.poll().poll(1)
    say_ready()


# --- its output


def closed() -> None:
    """Nobody has a standard descriptor left, so the output is over at once."""

    def child() -> None:
        os.setsid()
        os.closerange(0, 3)
        ready()
        pause()

    fork(child)
    say_ready()
    os.closerange(0, 3)


def chatty() -> None:
    """A child in a session of its own never stops writing."""

    def child() -> None:
        os.setsid()
        ready()
        try:
            while time.monotonic() < _ends:
                os.write(1, b"tick\n" * 100)
                time.sleep(0.001)
        except BrokenPipeError:
            pause()

    fork(child)
    say_ready()


# --- against whoever keeps it


def suicide() -> None:
    """SIGKILL to its own group, leader included; a daemon is left."""
    fork(alone)
    say_ready()
    os.kill(0, signal.SIGKILL)


def attack(whom: str, *numbers: str) -> None:
    """Signals to its parent or grandparent, as the leader and as a daemon of its tree would; none where nothing is
    given: then every one that can be caught."""
    target = os.getppid() if whom == "parent" else parent(os.getppid())
    chosen = [int(number) for number in numbers] or sorted(
        set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT}
    )
    fork(alone)
    if chosen == [signal.SIGKILL]:  # a keeper that dies before it has told the start has refused it
        while not os.path.exists(STARTED) and time.monotonic() < _ends:  # noqa: PTH110 -- no pathlib here
            time.sleep(0.005)
    for number in chosen:
        os.kill(target, number)
    say_ready()


def trace() -> None:
    """It attaches to its parent as a debugger does, which stops the parent."""
    import ctypes

    fork(alone)
    ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)  # PTRACE_ATTACH; refused on some systems, and then harmless
    say_ready()


# --- for whom numbers matter


def family(leader: str, *children: str) -> None:
    """Tells its numbers, leader's first, and each child that it has reaped; a member is deaf or mortal, and children
    are in the leader's group, or (deaf-apart, mortal-apart) in sessions of their own."""

    def member(kind: str) -> None:
        if kind.startswith("deaf"):
            ignore()
        if kind.endswith("-apart"):
            os.setsid()
        ready()
        pause()

    pids = [os.getpid(), *(fork(member, kind) for kind in children)]
    if leader == "deaf":
        ignore()
    os.write(1, " ".join(["pids", *map(str, pids)]).encode() + b"\n")
    say_ready()
    if sys.argv[2] == "stay":
        for _ in children:
            os.write(1, b"reaped %d\n" % os.wait()[0])


def state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(") ")[2][0]


def parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(") ")[2].split()[1])


JOBS: dict[str, Callable[..., None]] = {
    body.__name__: body
    for body in (
        *(plain, setsid, daemon, nohup, comets, wide, bomb),
        *(deaf, stopped_leader, stopped_child, headless, reaper, migrant, nested, promoted),
        *(closed, chatty, suicide, attack, trace, family),
    )
}

if __name__ == "__main__":
    main()
