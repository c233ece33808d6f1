"""Whether control groups can be made here: read from text as many systems show it, and tried out for real."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from own_cgroups import give, need_root, own_cgroup, run_inside
from strangers import STRANGER

from lastword.supervisor.launch import _delegation as delegation

V2 = "25 30 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate"
REST = """
22 29 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:2 - sysfs sysfs rw
29 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro
"""
HYBRID = """
34 23 0:29 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755
35 34 0:30 / /sys/fs/cgroup/unified rw,nosuid,nodev,noexec,relatime shared:10 - cgroup2 cgroup2 rw
36 34 0:31 / /sys/fs/cgroup/systemd rw,nosuid,nodev,noexec,relatime shared:11 - cgroup cgroup rw,xattr,name=systemd
40 34 0:35 / /sys/fs/cgroup/memory rw,nosuid,nodev,noexec,relatime shared:16 - cgroup cgroup rw,memory
"""
V1_ONLY = "\n".join(line for line in HYBRID.split("\n") if "cgroup2" not in line)
HYBRID_OWN = """12:memory:/user.slice/user-1000.slice
1:name=systemd:/user.slice/user-1000.slice/session-3.scope
0::/user.slice/user-1000.slice/session-3.scope
"""
USER_OWN = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-6d2a.scope\n"
DOCKER_HOST_NAMESPACE = (
    "1542 1541 0:26 /system.slice/docker-5f3a.scope /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw"
)
KUBERNETES = "2131 2125 0:27 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,memory_recursiveprot"


@pytest.mark.parametrize(
    ("mountinfo", "cgroup", "directory"),
    [
        (REST + V2, USER_OWN, "/sys/fs/cgroup" + USER_OWN[3:-1]),
        (REST + V2, "0::/\n", "/sys/fs/cgroup"),
        (HYBRID, HYBRID_OWN, "/sys/fs/cgroup/unified/user.slice/user-1000.slice/session-3.scope"),
        (KUBERNETES, "0::/\n", "/sys/fs/cgroup"),
        (DOCKER_HOST_NAMESPACE, "0::/system.slice/docker-5f3a.scope\n", "/sys/fs/cgroup"),
        (DOCKER_HOST_NAMESPACE, "0::/system.slice/docker-5f3a.scope/init\n", "/sys/fs/cgroup/init"),
        (DOCKER_HOST_NAMESPACE, "0::/system.slice/docker-5f3a.scope2\n", None),
        (DOCKER_HOST_NAMESPACE, "0::/system.slice\n", None),
        # unshare -C, and the hierarchy still mounted by whoever is outside: what our root is called there is unknown.
        ("25 30 0:26 /../../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "0::/\n", None),
        # We are outside of the namespace that shows us the hierarchy.
        (V2, "0::/../sibling\n", None),
        ("25 30 0:26 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "0::/../sibling\n", None),
        (
            r"25 30 0:26 /a\040b /mnt/my\040groups\134x\011y rw - cgroup2 none rw",
            "0::/a b/c d\n",
            "/mnt/my groups\\x\ty/c d",
        ),
        (
            r"25 30 0:26 / /mnt/one\0402 rw master:1 propagate_from:2 - cgroup2 none rw",
            "0::/é\\040\n",
            "/mnt/one 2/é\\040",
        ),
    ],
    ids=[
        "a desktop's terminal",
        "the root group",
        "hybrid",
        "Kubernetes",
        "Docker, the host's namespace",
        "a group below a container's",
        "a name that only begins alike",
        "above what is mounted",
        "mounted outside of our namespace",
        "outside of our namespace",
        "beside our namespace",
        "escapes",
        "escapes are of mountinfo only",
    ],
)
def test_our_groups_directory_is_found_by_the_text_alone(mountinfo: str, cgroup: str, directory: str | None) -> None:
    own = delegation.own_cgroup(cgroup)
    assert own is not None
    (mount,) = delegation.cgroup2_mounts(mountinfo)
    assert delegation.directory_of(own, mount) == (None if directory is None else Path(directory))


@pytest.mark.parametrize(
    "mountinfo",
    [
        "",
        REST,
        V1_ONLY,
        "25 30 0:26 / /sys/fs/cgroup rw shared:4",
        "25 30 0:26 / - cgroup2 cgroup2 rw",
        "25 30 0x26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
        "25 30 0:26 / /home/cgroup2 rw - fuse.cgroup2fs cgroup2 rw",
        " - cgroup2 ",
    ],
    ids=["empty", "none", "version 1", "cut", "few fields", "no device", "another file system", "nothing else"],
)
def test_what_is_no_mount_of_version_2_is_passed_over(mountinfo: str) -> None:
    assert delegation.cgroup2_mounts(mountinfo) == []
    assert delegation.cgroup2_mounts(f"{mountinfo}\n{V2}\n") == [
        delegation.Mount(root="/", point="/sys/fs/cgroup", device=os.makedev(0, 26))
    ]


@pytest.mark.parametrize(
    ("cgroup", "own"),
    [
        ("", None),
        ("1:name=systemd:/\n", None),
        ("0::\n", None),
        ("10::/not/this\n", None),
        ("0::/a:b::c\n", "/a:b::c"),
        ("0::/was/here (deleted)\n", None),
        ("4:cpu:/x\n0::/y z\n", "/y z"),
    ],
)
def test_our_group_is_what_the_line_of_version_2_says(cgroup: str, own: str | None) -> None:
    assert delegation.own_cgroup(cgroup) == own


# --- tried out --------------------------------------------------------------------------------------------------------

FIND = """
import os, sys
from lastword.supervisor.launch import _delegation as delegation
user = int(sys.argv[1]) if len(sys.argv) > 1 else 0
if user:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
found = delegation.find_delegation()
print(found.path if isinstance(found, delegation.Delegation) else found.code.value)
"""

# What was found is used as a supervisor uses it.
USE = (
    FIND
    + """
from lastword.supervisor.shim._cgroup import JobCgroup, remove_tree
own = os.path.join(found.path, "lastword-x")
os.mkdir(own)
job = JobCgroup(os.path.join(own, "job"))
job.create()
pid = os.fork()
if not pid:
    job.join()
    os.execv("/bin/sleep", ["sleep", "1000"])
while not job.populated():
    pass
job.kill()
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
while job.populated():
    pass
print(job.remove(), remove_tree(own), [name for name in os.listdir(found.path) if "lastword" in name])
"""
)


@pytest.fixture
def ground() -> Generator[Path]:
    need_root("another user's or namespace's control group")
    with own_cgroup() as path:
        yield path


def _point(group: Path) -> str:
    """Where the hierarchy is mounted that `group` is in."""
    return str(next(folder for folder in group.parents if folder.is_mount()))


def test_a_delegated_group_that_we_are_inside_is_found_and_holds_jobs(ground: Path) -> None:
    give(ground)
    assert run_inside(ground, USE, str(STRANGER)).split("\n") == [str(ground), "-9", "True True []"]


def test_the_privileged_have_theirs_where_nobody_manages_groups(ground: Path) -> None:
    assert run_inside(ground, USE).split("\n") == [str(ground), "-9", "True True []"]


def test_a_group_of_another_user_is_not_delegated(ground: Path) -> None:
    assert run_inside(ground, FIND, str(STRANGER)) == "cgroup_not_delegated"


@pytest.mark.parametrize("files", [(), ("cgroup.threads",)])
def test_a_directory_of_ours_alone_is_not_delegated(ground: Path, files: tuple[str, ...]) -> None:
    """A group can be made there, but nobody may be moved from the one into the other."""
    give(ground, files=files)
    assert run_inside(ground, FIND, str(STRANGER)) == "cgroup_not_delegated"


def test_a_delegated_group_that_we_are_not_inside_is_of_no_use(ground: Path) -> None:
    (ground / "delegated").mkdir()
    (ground / "outside").mkdir()
    give(ground / "delegated")
    assert run_inside(ground / "outside", FIND, str(STRANGER)) == "cgroup_not_delegated"


def test_a_namespace_of_its_own_with_its_own_mount_holds_jobs(ground: Path) -> None:
    point = _point(ground)
    mount = f'umount "{point}" && mount -t cgroup2 none "{point}" && exec "$@"'
    assert run_inside(ground, USE, via=("unshare", "-Cm", "sh", "-c", mount, "sh")).split("\n") == [
        point,
        "-9",
        "True True []",
    ]


def test_a_namespace_whose_hierarchy_is_mounted_from_outside_shows_no_group_of_ours(ground: Path) -> None:
    assert run_inside(ground, FIND, via=("unshare", "-C")) == "cgroup_not_visible"


@pytest.mark.parametrize(
    ("act", "code"),
    [
        ('mount -o remount,bind,ro "{point}"', "cgroup_read_only"),
        ('mount -t tmpfs none "{point}" && mkdir -p "{group}" && touch "{group}/cgroup.procs"', "cgroup_not_visible"),
        ('umount "{point}"', "no_cgroup2"),
        ("mount -t tmpfs none /proc", "no_proc"),
    ],
    ids=["read-only", "covered", "not mounted", "no /proc"],
)
def test_what_is_wrong_with_the_mounts_is_told_apart(ground: Path, act: str, code: str) -> None:
    act = act.format(point=_point(ground), group=ground)
    assert run_inside(ground, FIND, via=("unshare", "-m", "sh", "-c", f'{act} && exec "$@"', "sh")) == code


def test_below_a_threaded_group_no_process_can_be_moved(ground: Path) -> None:
    (ground / "threads").mkdir()
    (ground / "threads" / "cgroup.type").write_text("threaded")
    assert run_inside(ground, FIND) == "cgroup_threaded"


@pytest.mark.parametrize("limit", ["descendants", "depth"])
def test_the_limit_of_groups_is_told(ground: Path, limit: str) -> None:
    (ground / f"cgroup.max.{limit}").write_text("0")
    assert run_inside(ground, FIND) == "cgroup_limit"


@pytest.mark.parametrize(
    ("marks", "found"),
    [
        ({}, False),
        ({"own": ("user.delegate", b"1")}, True),
        ({"own": ("trusted.delegate", b"1")}, True),
        ({"above": ("user.delegate", b"1")}, True),
        ({"own": ("user.delegate", b"0")}, False),
        ({"beside": ("user.delegate", b"1")}, False),
        ({"own": ("user.other", b"1")}, False),
    ],
    ids=["no mark", "for all", "for root", "above", "not delegated", "beside", "another mark"],
)
def test_where_systemd_manages_the_groups_root_has_what_was_delegated(
    ground: Path, marks: dict[str, tuple[str, bytes]], found: bool
) -> None:
    folders = {"above": ground, "own": ground / "own", "beside": ground / "beside"}
    for name in ("own", "beside"):
        folders[name].mkdir()
    for name, (mark, value) in marks.items():
        os.setxattr(folders[name], mark, value)
    act = 'mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec "$@"'
    answer = run_inside(ground / "own", FIND, via=("unshare", "-m", "sh", "-c", act, "sh"))
    assert answer == (str(ground / "own") if found else "cgroup_managed")


def test_where_systemd_manages_the_groups_a_user_has_what_may_be_written(ground: Path) -> None:
    give(ground)
    act = 'mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec "$@"'
    answer = run_inside(ground, FIND, str(STRANGER), via=("unshare", "-m", "sh", "-c", act, "sh"))
    assert answer == str(ground)


def test_looking_leaves_nothing_behind(ground: Path) -> None:
    program = (
        FIND
        + """
def seen():
    return sorted(os.listdir("/proc/self/fd")), sorted(os.listdir(found.path)), open("/proc/self/cgroup").read()
before = seen()
delegation.find_delegation()
print(before == seen())
"""
    )
    assert run_inside(ground, program).split("\n") == [str(ground), "True"]
