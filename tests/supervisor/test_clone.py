"""A child that is born in a control group, by the kernel's own lists; and what holds where that cannot be."""

from __future__ import annotations

from pathlib import Path

from own_cgroups import own_cgroup, run_inside

from lastword.supervisor.shim._cgroup import JobCgroup

# The child tells where it is and ends, as one that has lost its way must not: it is a copy of an interpreter.
_FORK = """
import os, sys
from lastword.supervisor.shim._cgroup import JobCgroup
reading, writing = os.pipe()
pid = JobCgroup(sys.argv[1]).fork()
if pid == 0:
    with open("/proc/self/cgroup", "rb") as file:
        os.write(writing, file.read())
    os._exit(7)
os.close(writing)
said = b""
while piece := os.read(reading, 4096):
    said += piece
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
print(next(line[3:] for line in said.decode().splitlines() if line.startswith("0::")))
"""


def test_the_child_is_there_from_its_first_instruction_and_its_parent_is_not() -> None:
    """The parent may be anywhere that may write to both."""
    with own_cgroup() as group:
        there = group / "job"
        there.mkdir()
        here = run_inside(group, _FORK, str(there))
        assert here.endswith(f"{group.name}/job")


def test_where_there_is_no_such_group_nothing_is_forked(tmp_path: Path) -> None:
    """No group, or a folder that is none: then the caller's own fork and move tell what is wrong."""
    assert JobCgroup(str(tmp_path / "gone")).fork() is None
    assert JobCgroup(str(tmp_path)).fork() is None
