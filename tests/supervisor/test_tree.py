"""A signal to a whole tree, which moves while it is looked through."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import lastword

# The leader and its child hear no SIGTERM; each is ended between the list that it was in and its own, so that the one
# in a session of its own moves up just behind who looks for it.
MOVING = """
import ctypes, os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from shim import _proc, _tree

signal.alarm(60)
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
reading, writing = os.pipe()

def forked(body):
    pid = os.fork()
    if pid == 0:
        body()
        os.write(writing, b"%d\\n" % os.getpid())
        while True:
            time.sleep(0.1)
            if os.getppid() == 1:
                os._exit(1)
    return pid

def leads():
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    forked(inner)

def apart():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()

def inner():
    forked(apart)

leader = forked(leads)
said = b""
while said.count(b"\\n") < 3:
    said += os.read(reading, 100)
below = [pid for pid in map(int, said.split()) if pid != leader]
(middle,) = [pid for pid in below if _proc.stat_of(pid).parent == leader]
(last,) = set(below) - {middle}
listed = _proc.children_finder()
ends = [leader, middle]

def finder():
    def children(pid):
        if ends and pid == ends[0]:
            os.kill(ends.pop(0), signal.SIGKILL)
            while _proc.stat_of(pid).live:
                pass
        return listed(pid)
    return children

_proc.children_finder = finder
_tree.SubreaperTree(leader, None, lambda _status: None).signal(signal.SIGTERM)
assert not ends
print(os.waitstatus_to_exitcode(os.waitpid(last, 0)[1]))
"""


def test_a_signal_reaches_who_moves_up_twice_while_it_is_looked_for() -> None:
    """Two looks that find nobody new are no end, where somebody has died meanwhile."""
    room = str(Path(lastword.__file__).resolve().parent / "supervisor")
    done = subprocess.run(
        [sys.executable, "-IS", "-c", MOVING, room], capture_output=True, text=True, check=False, timeout=200
    )
    assert (done.stdout, done.returncode) == (f"{-signal.SIGTERM}\n", 0), done.stderr


# At each look there are more who have ended, and nobody reaps them.
COMING_AND_GOING = """
import ctypes, os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from shim import _proc, _tree

signal.alarm(60)
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as the leader does from its fork on
parent, leader = os.getpid(), os.fork()
if leader == 0:
    while os.getppid() == parent:
        time.sleep(0.1)
    os._exit(1)
os.setpgid(leader, leader)
listed, stat_of, asked, looks = _proc.children_finder(), _proc.stat_of, {}, 0

def finder():
    global looks
    looks += 1
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        asked[pid] = 0
    return listed

def counting(pid):
    if pid in asked:
        asked[pid] += 1
    return stat_of(pid)

_proc.children_finder, _proc.stat_of = finder, counting
_tree.SubreaperTree(leader, None, lambda _status: None).signal(signal.SIGTERM)
os.kill(leader, signal.SIGKILL)
print(looks > 2, len(asked) == 20 * looks, set(asked.values()))
"""


def test_who_has_ended_is_looked_at_once_for_a_signal() -> None:
    """Else each look at a job that forks for ever takes longer than the one before, and its dead fill the machine."""
    room = str(Path(lastword.__file__).resolve().parent / "supervisor")
    done = subprocess.run(
        [sys.executable, "-IS", "-c", COMING_AND_GOING, room], capture_output=True, text=True, check=False, timeout=200
    )
    assert (done.stdout, done.returncode) == ("True True {1}\n", 0), done.stderr
