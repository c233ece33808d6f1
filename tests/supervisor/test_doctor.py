"""What this machine can prove: asked on this machine as it is, and made odd in real ways."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from crash_tools import need
from own_cgroups import give, need_root, own_cgroup, run_inside
from strangers import STRANGER
from supervising import no_descriptor_left

import lastword
from lastword.supervisor import Containment, LackCode, doctor
from lastword.supervisor.launch import strongest
from lastword.supervisor.launch._machine import limit_of

ASK = """
from lastword.supervisor import doctor
found = doctor()
codes = [tier.code.value if tier.code else "yes" for tier in found.tiers]
print(found.strongest.name, *codes)
for name in ("child_lists", "adopts_orphans", "ignores_sigchld"):
    print(name, getattr(found.facts, name))
print(found)
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only process_group is there")


def ask(*via: str, first: str = "") -> list[str]:
    """What a fresh program is told, started by the command `via`, that does `first` before it asks."""
    done = subprocess.run(
        [*via, sys.executable, "-c", first + ASK], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def without_tiers(code: str) -> str:
    """The first line where both of Linux's tiers are missing for one reason."""
    return f"PROCESS_GROUP {code} {code} yes"


def test_it_tells_of_every_tier_strongest_first_and_what_it_proves() -> None:
    found = doctor()
    assert [tier.containment for tier in found.tiers] == sorted(Containment, reverse=True)
    assert [tier.available for tier in found.tiers] == [tier.code is None for tier in found.tiers]
    assert [tier.why is None for tier in found.tiers] == [tier.available for tier in found.tiers]
    assert found.tiers[-1].available
    assert found.strongest == max(tier.containment for tier in found.tiers if tier.available)
    assert strongest() == found.strongest


@linux
def test_an_ordinary_linux_has_at_least_the_subreaper() -> None:
    found = doctor()
    assert found.strongest >= Containment.SUBREAPER
    assert found.facts.interpreter
    assert found.facts.proc
    assert found.facts.pidfd
    assert found.facts.subreaper
    assert found.facts.system == f"Linux {platform.release()}"


def test_people_are_told_the_same() -> None:
    found = doctor()
    text = str(found)
    assert text == found.render()
    assert f"{found.facts.system}: jobs are held by {found.strongest.name.lower()}" in text
    for tier in found.tiers:
        assert tier.proof in text
        assert tier.code is None or f"{tier.code}: {tier.why}" in text


@linux
def test_it_starts_no_process_and_sets_nothing() -> None:
    first = """
import os, sys
events = []
def ear(event, arguments):
    if event in ("os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "subprocess.Popen", "os.kill", "os.chmod",
                 "os.chown", "os.putenv", "os.chdir", "os.rename", "os.link", "os.symlink", "os.truncate",
                 "resource.setrlimit", "os.mkdir", "os.rmdir", "os.remove", "os.setxattr", "_thread.start_new_thread"):
        events.append((event, str(arguments[0])))
from lastword.supervisor import doctor
import ctypes
doctor()  # what is imported on the way is imported by now
descriptors = os.listdir("/proc/self/fd")
sys.addaudithook(ear)
doctor()
assert os.listdir("/proc/self/fd") == descriptors
assert {event for event, _ in events} <= {"os.mkdir", "os.rmdir"}, events
assert len({path for _, path in events}) <= 1 and all("lastword-probe-" in path for _, path in events), events
flag = ctypes.c_int()
assert ctypes.CDLL(None).prctl(37, ctypes.byref(flag), 0, 0, 0) == 0 and flag.value == 0
"""
    ask(first=first)


def test_nothing_of_the_host_is_shown() -> None:
    found = doctor()
    for text in (str(found), repr(found)):
        assert sys.executable not in text
        assert "/sys/" not in text
        assert str(os.getpid()) not in text.replace(found.facts.system, "")


def test_the_limits_are_those_of_now() -> None:
    first = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (77, 77));"
    assert "open files: 77; " in "\n".join(ask(first=first))
    facts = doctor().facts
    assert facts.open_files == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    # One of them is unlimited nearly everywhere.
    for which in (resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU, resource.RLIMIT_AS):
        soft, _ = resource.getrlimit(which)
        assert limit_of(which) == (None if soft == resource.RLIM_INFINITY else soft)
    assert facts.processes == limit_of(resource.RLIMIT_NPROC)


def test_where_no_terminal_can_be_had_that_is_told() -> None:
    assert doctor().facts.terminals
    assert "pty=" not in str(doctor())
    with no_descriptor_left():
        found = doctor()
    assert not found.facts.terminals
    assert "pty= is refused" in str(found)


def test_no_limit_is_told_as_such() -> None:
    found = doctor()
    free = attrs.evolve(found, facts=attrs.evolve(found.facts, processes=None))
    assert "processes: no limit" in str(free)


@linux
def test_the_cgroup_tier_takes_a_delegated_group() -> None:
    need_root("another user's control group")
    # The interpreter of the tests may lie where that user may not go.
    program = f"""
import os, sys, ctypes, lastword.supervisor
sys.executable = "/bin/sh"
os.setgroups([])
os.setresgid(*[{STRANGER}] * 3)
os.setresuid(*[{STRANGER}] * 3)
{ASK}
"""
    with own_cgroup() as group:
        assert run_inside(group, program).split("\n")[0] == "SUBREAPER cgroup_not_delegated yes yes"
        give(group)
        answer = run_inside(group, program)
        assert answer.split("\n")[0] == "CGROUP yes yes yes"
        assert group.name not in answer


@linux
@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("pidfd_open:error=ENOSYS", LackCode.NO_PIDFD),
        ("waitid:error=EINVAL", LackCode.NO_PIDFD),
        ("prctl:error=EPERM", LackCode.NO_SUBREAPER),
    ],
    ids=["before Linux 5.3", "before Linux 5.4", "a sandbox"],
)
def test_a_call_that_the_system_does_not_have_is_missed(fault: str, code: LackCode) -> None:
    trace = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={fault}")
    need("strace", *trace, "true")
    assert ask(*trace)[0] == without_tiers(code)


@linux
@pytest.mark.parametrize(
    ("first", "code"),
    [
        ("import sys; sys.executable = ''", LackCode.NO_INTERPRETER),
        ("import sys; sys.executable = None", LackCode.NO_INTERPRETER),
        ("import sys; sys.executable = '/nowhere/python'", LackCode.NO_INTERPRETER),
        ("import sys; sys.executable = '/etc/passwd'", LackCode.NO_INTERPRETER),
        ("import sys; sys.executable = '/'", LackCode.NO_INTERPRETER),
        ("import sys; sys.frozen = True", LackCode.NO_INTERPRETER),
        ("import sys; sys.modules['_ctypes'] = None", LackCode.NO_SUBREAPER),
    ],
    ids=["embedded", "unknown", "gone", "not executable", "a folder", "frozen", "built without ctypes"],
)
def test_a_python_that_cannot_keep_jobs_is_told(first: str, code: LackCode) -> None:
    assert ask(first=first + "\n")[0] == without_tiers(code)


@linux
def test_an_interpreter_that_this_user_may_not_reach_raises_nothing(tmp_path: Path) -> None:
    need_root("another user")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    first = f"""
import os, sys, ctypes
from lastword.supervisor import doctor
sys.executable = {str(closed / "python")!r}
os.setresuid(*[{STRANGER}] * 3)
"""
    assert ask(first=first)[0] == without_tiers(LackCode.NO_INTERPRETER)


@linux
def test_without_proc_the_rest_is_unknown_and_told_so() -> None:
    need_root("a mount namespace")
    act = 'mount -t tmpfs none /proc && exec "$@"'
    answer = ask("unshare", "-m", "sh", "-c", act, "sh", first=f"import sys\nsys.executable = {sys.executable!r}\n")
    assert answer[0] == without_tiers(LackCode.NO_PROC)
    assert "child_lists None" in answer
    assert "note: unknown here: child_lists" in answer


@linux
def test_a_proc_of_other_processes_is_none() -> None:
    need_root("a pid namespace")
    assert ask("unshare", "-pf")[0] == without_tiers(LackCode.NO_PROC)


@linux
def test_the_init_of_a_container_and_a_subreaper_adopt_orphans() -> None:
    assert "adopts_orphans False" in ask()
    subreaper = "import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
    assert "adopts_orphans True" in ask(first=subreaper)
    need_root("a pid namespace")
    answer = ask("unshare", "-pf", "--mount-proc")
    assert "adopts_orphans True" in answer
    assert any(line.startswith("note: this process adopts orphans") for line in answer)


def test_an_ignored_sigchld_is_told_also_where_it_was_inherited() -> None:
    assert "ignores_sigchld False" in ask()
    for answer in (
        ask("env", "--ignore-signal=CHLD"),
        ask(first="import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"),
        # By a library, past Python: SIG_IGN is 1.
        ask(first="import ctypes, signal; ctypes.CDLL(None).signal(int(signal.SIGCHLD), ctypes.c_void_p(1))\n"),
    ):
        assert "ignores_sigchld True" in answer
        assert any(line.startswith("note: this process ignores SIGCHLD") for line in answer)


@linux
def test_the_lists_of_children_are_there_or_stopping_is_slower() -> None:
    answer = ask()
    there = Path(f"/proc/self/task/{os.getpid()}/children").exists()
    assert f"child_lists {there}" in answer
    assert there is not any("has no lists of children" in line for line in answer)


@pytest.mark.checkout
def test_the_page_tells_of_every_code_and_shows_what_people_see() -> None:
    page = (Path(lastword.__file__).resolve().parent / "docs" / "containment.md").read_text()
    told = [line.split("`")[1] for line in page.split("\n") if line.startswith("| `")]
    assert sorted(told) == sorted([*LackCode, *(tier.name.lower() for tier in Containment)])
    for tier in doctor().tiers:
        assert f"    proof: {tier.proof}" in page
