"""The control group of one job, with real groups and real processes: joining, killing, the proof, removal."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from own_cgroups import give, need_root, own_cgroup, pids
from strangers import STRANGER

import lastword
from lastword.supervisor.shim._cgroup import JobCgroup, remove_tree

# As the shim and the zygote load it: the room by itself, and nothing but the standard library.
ROOM = str(Path(lastword.__file__).resolve().parent / "supervisor")

ALONE = (sys.executable, "-I", "-S", "-c")

JOIN = """
import os, sys
sys.path.insert(0, sys.argv[1])
from shim._cgroup import JobCgroup
JobCgroup(sys.argv[2]).join()
os.environ["GROUP"] = sys.argv[2]
os.execv(sys.argv[3], sys.argv[3:])
"""

# The first thread ends, another one goes on: to everybody else it looks like a zombie.
HEADLESS = """
import ctypes, os, sys, threading
if len(sys.argv) > 1:
    os.mkdir(sys.argv[1])
    with open(sys.argv[1] + "/cgroup.procs", "w") as procs:
        procs.write("0")
first = threading.main_thread().native_id
def go_on():
    while "Z" not in open(f"/proc/self/task/{first}/stat").read().rpartition(")")[2]:
        pass
    print("ready", flush=True)
    threading.Event().wait()
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall(60, 0)  # exit, of this thread alone
"""

# Forks, leaves its session and its parent, and ends, for ever: a list of processes is old before it is read.
COMET = """
import os
print("ready", flush=True)
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
"""

JOBS: dict[str, tuple[str, ...]] = {
    "one process": ("/bin/sh", "-c", "echo ready; exec sleep 1000"),
    "another session": ("/bin/sh", "-c", "setsid sh -c 'echo ready; exec sleep 1000' & wait"),
    "a daemon": ("/bin/sh", "-c", "(setsid sh -c '(echo ready; exec sleep 1000) &' &) ; exit 0"),
    "without an environment": ("/bin/sh", "-c", "exec env -i sh -c 'echo ready; exec sleep 1000'"),
    "deaf to SIGTERM": ("/bin/sh", "-c", "trap '' TERM INT HUP; echo ready; sleep 1000"),
    "stopped": ("/bin/sh", "-c", "echo ready; kill -STOP $$; exec sleep 1000"),
    "frozen": ("/bin/sh", "-c", 'echo ready; echo 1 > "$GROUP/cgroup.freeze"; exec sleep 1000'),
    "a comet": (*ALONE, COMET),
    "headless": (*ALONE, HEADLESS),
    "in a group below": (
        "/bin/sh",
        "-c",
        'mkdir -p "$GROUP/a/b" "$GROUP/c"; echo $$ > "$GROUP/a/b/cgroup.procs"; echo ready; exec sleep 1000',
    ),
    "in a threaded group below": (
        "/bin/sh",
        "-c",
        'mkdir "$GROUP/t"; echo threaded > "$GROUP/t/cgroup.type"; echo $$ > "$GROUP/t/cgroup.threads"; '
        "echo ready; exec sleep 1000",
    ),
}


@pytest.fixture
def ground() -> Generator[Path]:
    """Where a supervisor would keep the groups of its jobs."""
    with own_cgroup() as path:
        yield path


@pytest.fixture
def job(ground: Path) -> Generator[JobCgroup]:
    group = JobCgroup(str(ground / "job"))
    group.create()
    yield group
    group.close()


@contextmanager
def member(ground: Path, *argv: str) -> Generator[subprocess.Popen[bytes]]:
    """A program that joins the job's group and is ready; whatever becomes of it, it ends with its group."""
    child = subprocess.Popen([*ALONE, JOIN, ROOM, str(ground / "job"), *argv], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        try:
            assert child.stdout.readline() == b"ready\n"
            yield child
        finally:
            with contextlib.suppress(FileNotFoundError):
                (ground / "job" / "cgroup.kill").write_text("1")
            child.kill()  # as a whole process, should its first thread have ended
            child.wait(60)


def descriptors_now() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


# Whom one kill may miss: a first thread that ends at that very moment, and, before Linux 6.14, a fork at that moment.
ELUSIVE = {JOBS["a comet"], JOBS["headless"]}


def wait_empty(job: JobCgroup, *, again: bool = False) -> None:
    """As a shim waits: look, then poll; `again`: and then kill again."""
    descriptor = job.fileno()
    assert descriptor is not None
    changes = select.poll()
    changes.register(descriptor, select.POLLPRI)
    end = time.monotonic() + 60
    while job.populated():
        if not changes.poll(20 if again else 60_000):
            assert time.monotonic() < end, "the kernel told nothing"
            job.kill()


def test_nothing_is_done_before_it_is_created(ground: Path) -> None:
    job = JobCgroup(str(ground / "job"))
    assert job.fileno() is None
    job.close()
    assert not (ground / "job").exists()


def test_who_joins_is_in_it_with_all_that_it_starts_and_nobody_else(ground: Path, job: JobCgroup) -> None:
    assert not job.populated()
    own = Path("/proc/self/cgroup").read_text()
    with member(ground, "/bin/sh", "-c", "sleep 1000 & echo ready; wait") as child:
        assert job.populated()
        assert child.pid in pids(ground / "job")
        assert len(pids(ground / "job")) == 2
        assert Path("/proc/self/cgroup").read_text() == own


@pytest.mark.parametrize("argv", JOBS.values(), ids=JOBS)
def test_one_kill_ends_all_of_it_and_the_kernel_says_so(ground: Path, job: JobCgroup, argv: tuple[str, ...]) -> None:
    with member(ground, *argv):
        assert job.populated()
        assert not job.remove()
        job.kill()
        wait_empty(job, again=argv in ELUSIVE)
        assert job.remove()
        assert not (ground / "job").exists()


@pytest.mark.parametrize("argv", JOBS.values(), ids=JOBS)
def test_whoever_sweeps_after_a_dead_shim_knows_the_path_only(
    ground: Path, job: JobCgroup, argv: tuple[str, ...]
) -> None:
    with member(ground, *argv):
        sweeper = JobCgroup(str(ground / "job"))
        assert sweeper.populated()
        sweeper.kill()
        wait_empty(job, again=argv in ELUSIVE)
        assert not sweeper.populated()
        assert sweeper.remove()
        assert sweeper.fileno() is None


def test_a_headless_process_in_a_group_below_is_killed_too(ground: Path, job: JobCgroup) -> None:
    with member(ground, *ALONE, HEADLESS, str(ground / "job" / "below")):
        job.kill()
        wait_empty(job, again=True)
        assert job.remove()


def test_the_end_of_the_last_process_is_told_by_poll(ground: Path, job: JobCgroup) -> None:
    descriptor = job.fileno()
    assert descriptor is not None
    changes = select.poll()
    changes.register(descriptor, select.POLLPRI)
    assert changes.poll(0) == []  # nothing has changed since it was made
    with member(ground, "/bin/sh", "-c", "echo ready; exec sleep 1000") as child:
        assert changes.poll(60_000)
        assert job.populated()
        assert changes.poll(0) == []  # asked: only what changes from here on is told
        child.kill()
        assert changes.poll(60_000)
        assert not job.populated()


def test_it_is_populated_no_more_when_its_last_zombie_is_there(ground: Path, job: JobCgroup) -> None:
    with member(ground, "/bin/sh", "-c", "echo ready; exec sleep 1000") as child:
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        wait_empty(job)
        assert job.remove()


def test_a_group_with_a_process_in_it_stays_and_nothing_of_it_is_killed(ground: Path, job: JobCgroup) -> None:
    (ground / "job" / "empty").mkdir()
    with member(ground, "/bin/sh", "-c", "echo ready; exec sleep 1000") as child:
        assert not job.remove()
        assert child.poll() is None
        assert not (ground / "job" / "empty").exists()
        assert job.populated()


def test_groups_below_may_be_deeper_than_paths_are_long_and_many(ground: Path, job: JobCgroup) -> None:
    here = os.open(ground / "job", os.O_RDONLY)
    for number in range(40):
        os.mkdir(f"sibling-{number}", dir_fd=here)
        os.mkdir("x" * 200, dir_fd=here)
        there = os.open("x" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = there
    os.close(here)
    descriptors = descriptors_now()
    assert job.remove()
    assert not (ground / "job").exists()
    assert descriptors_now() <= descriptors


def test_groups_that_the_job_has_closed_to_its_own_user_are_removed(ground: Path) -> None:
    need_root("being somebody else")
    give(ground)
    program = f"""
import os, sys
sys.path.insert(0, {ROOM!r})
from shim._cgroup import JobCgroup
os.setgroups([])
os.setresgid(*[{STRANGER}] * 3)
os.setresuid(*[{STRANGER}] * 3)
job = JobCgroup({str(ground / "job")!r})
job.create()
os.makedirs({str(ground / "job" / "closed" / "below" / "deepest")!r})
os.chmod({str(ground / "job" / "closed" / "below")!r}, 0)
os.chmod({str(ground / "job" / "closed")!r}, 0o500)
os.chmod({str(ground / "job")!r}, 0)
print(job.populated(), job.remove(), job.populated())
"""
    done = subprocess.run([*ALONE, program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]
    assert not (ground / "job").exists()


def test_a_group_that_somebody_else_has_removed_is_gone_and_quiet(ground: Path, job: JobCgroup) -> None:
    (ground / "job").rmdir()
    for named in (job, JobCgroup(str(ground / "job"))):
        named.kill()
        assert not named.populated()
        assert named.remove()
    with pytest.raises(FileNotFoundError):
        job.join()


def test_a_new_group_of_the_same_name_is_not_the_old_one(ground: Path, job: JobCgroup) -> None:
    (ground / "job").rmdir()
    other = JobCgroup(str(ground / "job"))
    other.create()
    with member(ground, "/bin/sh", "-c", "echo ready; exec sleep 1000"):
        assert not job.populated()
        assert other.populated()
    other.close()


def test_what_cannot_be_created_leaves_nothing(ground: Path, tmp_path: Path) -> None:
    descriptors = descriptors_now()
    with pytest.raises(FileNotFoundError):
        JobCgroup(str(ground / "missing" / "job")).create()
    with pytest.raises(FileNotFoundError):
        JobCgroup(str(tmp_path / "no-group")).create()  # as on a kernel without cgroup.kill
    assert list(tmp_path.iterdir()) == []
    (ground / "cgroup.max.descendants").write_text("0")
    with pytest.raises(OSError) as caught:  # noqa: PT011 -- the number says which
        JobCgroup(str(ground / "job")).create()
    assert caught.value.errno == errno.EAGAIN
    assert not (ground / "job").exists()
    assert descriptors_now() <= descriptors


def test_a_group_is_not_half_made_where_descriptors_run_out(ground: Path) -> None:
    program = f"""
import os, resource, sys
sys.path.insert(0, {ROOM!r})
from shim._cgroup import JobCgroup
free = os.dup(0)
os.close(free)
resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, free + 1))
try:
    JobCgroup({str(ground / "job")!r}).create()
except OSError as error:
    print(error.errno, os.dup(0) == free)
"""
    done = subprocess.run([*ALONE, program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(errno.EMFILE), "True"]
    assert not (ground / "job").exists()


def test_a_name_that_is_taken_stays_with_whoever_has_it(ground: Path, job: JobCgroup) -> None:
    with pytest.raises(FileExistsError):
        JobCgroup(str(ground / "job")).create()
    assert (ground / "job").is_dir()
    assert not job.populated()


def test_closing_lets_go_of_the_descriptors_and_leaves_the_group(ground: Path) -> None:
    descriptors = descriptors_now()
    job = JobCgroup(str(ground / "job"))
    job.create()
    for descriptor in descriptors_now() - descriptors:
        with contextlib.suppress(OSError):  # that of the listing itself
            assert not os.get_inheritable(int(descriptor))
    job.close()
    job.close()
    assert descriptors_now() <= descriptors
    assert (ground / "job").is_dir()
    assert not job.populated()
    assert job.remove()


def test_a_job_is_killed_and_proven_gone_where_no_descriptor_is_left(ground: Path) -> None:
    program = f"""
import os, resource, sys, time
sys.path.insert(0, {ROOM!r})
from shim._cgroup import JobCgroup
job = JobCgroup({str(ground / "job")!r})
job.create()
pid = os.fork()
if not pid:
    job.join()
    time.sleep(1000)
while not job.populated():
    pass
resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
stranger = JobCgroup({str(ground / "job")!r})
try:
    stranger.kill()
except OSError as error:
    print(error.errno, stranger.populated())
job.kill()
os.waitpid(pid, 0)
while job.populated():
    pass
print(job.populated(), stranger.populated(), job.remove())
"""
    done = subprocess.run([*ALONE, program], capture_output=True, text=True, check=True, timeout=200)
    # Who could not ask does not say that nobody is there.
    assert done.stdout.split() == [str(errno.EMFILE), "True", "False", "True", "True"]


def test_a_supervisors_own_group_goes_with_all_that_is_empty_in_it(ground: Path, job: JobCgroup) -> None:
    root = ground / "supervisor"
    for name in ("a", "b/below", "c"):
        (root / name).mkdir(parents=True)
    assert remove_tree(str(root))
    assert remove_tree(str(root))
    with member(ground, "/bin/sh", "-c", "echo ready; exec sleep 1000"):
        (ground / "other").mkdir()
        assert not remove_tree(str(ground))
        assert not (ground / "other").exists()
        assert job.populated()


def test_files_are_never_removed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("mine")
    assert not remove_tree(str(tmp_path))
    assert not remove_tree(str(tmp_path / "folder" / "file"))
    assert (tmp_path / "folder" / "file").read_text() == "mine"


def test_it_needs_nothing_but_a_few_modules_of_the_standard_library() -> None:
    program = (
        f"import sys; before = set(sys.modules); sys.path.insert(0, {ROOM!r}); import shim._cgroup; "
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([*ALONE, program], capture_output=True, text=True, check=True).stdout.split()
    assert "shim._cgroup" in loaded
    assert not {"attr", "anyio", "ctypes", "logging", "pathlib", "subprocess", "typing"} & set(loaded)
