"""What a job is given before its program begins, as it sees that itself; and what is told where it cannot be given."""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path

import pytest
from shim_ground import shim_of
from supervising import OWNER, output_of, supervising

from lastword.notifier import ProcessState
from lastword.supervisor import ResourceLimits, SpawnFailedError, Supervisor

pytestmark = pytest.mark.usefixtures("each_contained_tier")

S = ProcessState
PYTHON = sys.executable


async def _said(supervisor: Supervisor, command: str | list[str], **options: object) -> bytes:
    """All that it writes; it must exit with 0."""
    process = await supervisor.start(command, owner=OWNER, **options)  # type: ignore[arg-type]
    outcome = await process.wait()
    said = await output_of(process)
    assert (outcome.exit_code, outcome.proven) == (0, True), said
    return said


async def _refused(supervisor: Supervisor, command: str | list[str], **options: object) -> SpawnFailedError:
    """The typed error; it has a failed record, and the next start works."""
    with pytest.raises(SpawnFailedError) as caught:
        await supervisor.start(command, owner=OWNER, **options)  # type: ignore[arg-type]
    error = caught.value
    outcome = supervisor.get(error.handle, OWNER).outcome
    assert outcome is not None
    assert (outcome.state, outcome.started_at, outcome.total_bytes) == (S.FAILED, None, 0)
    name = "" if error.errno is None else ":" + errno.errorcode[error.errno]
    assert outcome.diagnostic == f"spawn_failed:{error.kind}{name}"
    assert await _said(supervisor, ["echo", "next"]) == b"next\n"
    return error


# --- what it has


async def test_it_has_three_descriptors_and_no_other_jobs() -> None:
    """Not the pipes, sockets, locks and groups of its shim and the zygote, with many jobs beside it."""
    async with supervising() as supervisor:
        others = [await supervisor.start("exec sleep 300", owner=OWNER, stdin=b"x" * 100_000) for _ in range(3)]
        program = "import os; print(*os.listdir('/proc/self/fd'))"
        for stdin in (None, b"input"):
            said = await _said(supervisor, [PYTHON, "-ISc", program], stdin=stdin)
            assert set(map(int, said.split())) == {0, 1, 2, 3}  # by the last it has listed them
        for other in others:
            assert other.outcome is None


async def test_a_shim_holds_no_other_jobs_descriptors() -> None:
    """A pipe's end in another's shim would keep output open, and a socket's would hide a death."""
    async with supervising() as supervisor:
        first = await supervisor.start("echo $$; exec sleep 300", owner=OWNER, stdin=b"of the first")
        second = await supervisor.start("echo $$; exec sleep 300", owner=OWNER, stdin=b"of the second")
        held: list[set[str]] = []
        for process in (first, second):
            await process.wait_output(0)
            shim = shim_of(int((await process.read_output()).data))
            links = [str(entry.readlink()) for entry in Path(f"/proc/{shim}/fd").iterdir()]
            assert not any("memfd" in link for link in links), links
            held.append({link for link in links if link.startswith(("pipe:", "socket:"))})
        assert not held[0] & held[1]


async def test_signals_are_at_their_defaults() -> None:
    """Whatever the host ignores, blocks and catches, the zygote and the shim ignore."""
    catch = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    ignore = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGTERM])
    try:
        async with supervising() as supervisor:
            said = await _said(supervisor, ["cat", "/proc/self/status"])
            lines = [line.split(b":") for line in said.splitlines() if line.startswith(b"Sig") and b"/" not in line]
            # The C library keeps 32 and 33 for itself, and nobody can reset them: ignored where `make` runs the tests.
            own = 0b11 << 31
            assert {name: int(mask, 16) & ~own for name, mask in lines} == {
                b"SigPnd": 0,
                b"SigBlk": 0,
                b"SigIgn": 0,
                b"SigCgt": 0,
            }
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2, signal.SIGTERM])
        signal.signal(signal.SIGUSR1, catch)
        signal.signal(signal.SIGCHLD, ignore)


async def test_a_pipeline_ends_by_sigpipe() -> None:
    """As in a shell: `yes` does not complain."""
    async with supervising() as supervisor:
        assert await _said(supervisor, "yes | head -n1") == b"y\n"
        said = await _said(supervisor, ["bash", "-c", "yes | head -n1 >/dev/null; echo ${PIPESTATUS[0]}"])
        assert said == f"{128 + signal.SIGPIPE}\n".encode()


async def test_it_leads_a_session_without_a_terminal() -> None:
    """Its own, so that no Ctrl-C of the host's terminal reaches it, and nothing can be asked there."""
    program = (
        "import os\n"
        "assert os.getpid() == os.getpgid(0) == os.getsid(0)\n"
        "try: os.open('/dev/tty', os.O_RDWR)\n"
        "except OSError as error: print(error.errno)"
    )
    async with supervising() as supervisor:
        assert await _said(supervisor, [PYTHON, "-ISc", program]) == f"{errno.ENXIO}\n".encode()


async def test_its_environment_is_the_one_that_was_ordered() -> None:
    """To the last byte: nothing of the zygote's, nothing of Python's own (LC_CTYPE)."""
    async with supervising() as supervisor:
        said = await _said(
            supervisor, ["/usr/bin/env", "-0"], env={"A": "1", "UMLAUT": "ä\n", "BYTE": "\udcff"}, env_policy="none"
        )
        assert sorted(said.split(b"\0")[:-1]) == [b"A=1", b"BYTE=\xff", "UMLAUT=ä\n".encode()]
        assert await _said(supervisor, ["/usr/bin/env", "-0"], env_policy="none") == b""


async def test_bytes_that_are_no_text_arrive_as_they_are(tmp_path: Path) -> None:
    """In arguments, the environment, the folder and the program's own name."""
    folder = tmp_path / os.fsdecode(b"f\xff\xfe")
    folder.mkdir()
    program = folder / os.fsdecode(b"p\x80")
    program.write_text('#!/bin/sh\nprintf "%s|%s|%s" "$1" "$VALUE" "$(pwd)"\n')
    program.chmod(0o700)
    async with supervising() as supervisor:
        said = await _said(supervisor, [str(program), "\udc81x"], env={"VALUE": "\udcfe"}, cwd=folder)
        assert said == b"\x81x|\xfe|" + os.fsencode(folder)
        said = await _said(supervisor, [program.name, ""], env={"PATH": str(folder)}, env_policy="none", cwd="/usr")
        assert said == b"||/usr"


# --- where it works


async def test_its_folder_is_counted_from_the_hosts_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is when it starts, wherever the host was when it started the zygote."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    async with supervising() as supervisor:
        monkeypatch.chdir(tmp_path / "a")
        assert await _said(supervisor, ["/bin/pwd"]) == f"{tmp_path}/a\n".encode()
        assert await _said(supervisor, ["/bin/pwd"], cwd="b") == f"{tmp_path}/a/b\n".encode()
        monkeypatch.chdir(tmp_path / "c")
        assert await _said(supervisor, ["/bin/pwd"], cwd="../a") == f"{tmp_path}/a\n".encode()
        assert (await _refused(supervisor, ["/bin/pwd"], cwd="b")).kind == "cwd"


async def test_a_folder_may_be_named_by_a_descriptor(tmp_path: Path) -> None:
    """Of the host's: /proc/self would be the job's own, so it is named by the host's number."""
    descriptor = os.open(tmp_path, os.O_PATH)
    try:
        async with supervising() as supervisor:
            folder = f"/proc/{os.getpid()}/fd/{descriptor}"
            assert await _said(supervisor, ["/bin/pwd"], cwd=folder) == f"{tmp_path}\n".encode()
            tmp_path.rmdir()
            assert await _said(supervisor, ["echo", "here"], cwd=folder) == b"here\n"
    finally:
        os.close(descriptor)
        tmp_path.mkdir()


async def test_the_hosts_folder_may_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the job is there, too, or where it was told to be; a relative one is not found."""
    folder = tmp_path / "deleted"
    folder.mkdir()
    async with supervising() as supervisor:
        monkeypatch.chdir(folder)
        folder.rmdir()
        assert await _said(supervisor, ["/bin/readlink", "/proc/self/cwd"]) == f"{folder} (deleted)\n".encode()
        assert await _said(supervisor, ["/bin/pwd"], cwd="/usr") == b"/usr\n"
        assert (await _refused(supervisor, "true", cwd="b")).kind == "cwd"


async def test_a_folder_that_is_none(tmp_path: Path) -> None:
    """It is the folder that is blamed, and not the program."""
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "deleted by a link").symlink_to("nowhere")
    numbers = {
        "missing": errno.ENOENT,
        "file": errno.ENOTDIR,
        "loop": errno.ELOOP,
        "x" * 300: errno.ENAMETOOLONG,
        "deleted by a link": errno.ENOENT,
    }
    async with supervising() as supervisor:
        for name, number in numbers.items():
            error = await _refused(supervisor, ["true"], cwd=tmp_path / name)
            assert (error.kind, error.errno) == ("cwd", number)


async def test_the_shim_stays_in_no_folder(tmp_path: Path) -> None:
    """It would keep it from being unmounted."""
    async with supervising() as supervisor:
        process = await supervisor.start("echo $$; exec sleep 300", owner=OWNER, cwd=tmp_path)
        await process.wait_output(0)
        shim = shim_of(int((await process.read_output()).data))
        assert Path(f"/proc/{shim}/cwd").readlink() == Path("/")


# --- which program


async def test_its_own_path_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its own folder, and not the host's PATH."""
    for place, says in (("tools", "tools"), (".", "here"), ("host", "the host's")):
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / "tool").write_text(f'#!/bin/sh\necho "{says}"\n')
        (tmp_path / place / "tool").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}/host:{os.environ['PATH']}")
    async with supervising() as supervisor:
        for path, answer in (("tools", b"tools"), ("a:tools", b"tools"), (":tools", b"here"), ("a::tools", b"here")):
            said = await _said(supervisor, ["tool"], env={"PATH": path}, env_policy="none", cwd=tmp_path)
            assert said == answer + b"\n"
        assert (await _refused(supervisor, ["tool"], env={"PATH": "/nowhere"}, cwd=tmp_path)).kind == "not_found"


def _make(place: Path, how: str) -> str:
    program = place / "program"
    match how:
        case "missing":
            pass
        case "folder":
            program.mkdir()
        case "loop":
            program.symlink_to("program")
        case "long":
            return str(place / ("x" * 300))
        case "below a file":
            program.touch()
            return str(program / "x")
        case "no format":
            program.write_text("echo no\n")
        case "empty":
            program.touch()
        case "closed":
            program.write_text("#!/bin/sh\n")
            program.chmod(0o600)
            return str(program)
        case "no interpreter":
            program.write_text("#!/nowhere/sh\n")
        case "interpreter is a folder":
            program.write_text("#!/usr\n")
        case "broken":
            program.write_bytes(b"\x7fELF" + b"\0" * 100)
        case _:
            raise AssertionError(how)
    if how not in ("missing", "folder", "loop"):
        program.chmod(0o700)
    return str(program)


_NO_PROGRAMS = (
    ("missing", "not_found", errno.ENOENT),
    ("folder", "not_executable", errno.EACCES),
    ("loop", "other", errno.ELOOP),
    ("long", "other", errno.ENAMETOOLONG),
    ("no format", "not_executable", errno.ENOEXEC),
    ("empty", "not_executable", errno.ENOEXEC),
    ("closed", "not_executable", errno.EACCES),
    ("no interpreter", "interpreter_missing", errno.ENOENT),
    ("interpreter is a folder", "not_executable", errno.EACCES),
    ("broken", "not_executable", errno.ENOEXEC),
)


@pytest.mark.parametrize("searched", ["absolute", "relative", "in PATH"])
async def test_a_program_that_is_none(searched: str, tmp_path: Path) -> None:
    """Each errno in its own words, however the program was looked for."""
    async with supervising() as supervisor:
        for how, kind, number in _NO_PROGRAMS:
            place = tmp_path / how
            place.mkdir()
            program = _make(place, how)
            word, options = program, dict[str, object]()
            if searched == "relative":
                word, options = f"./{Path(program).name}", {"cwd": place}
            elif searched == "in PATH":
                word, options = Path(program).name, {"env": {"PATH": str(place)}}
            error = await _refused(supervisor, [word], **options)
            assert (how, error.kind, error.errno) == (how, kind, number)
            assert str(tmp_path) not in str(error)


# --- how much


async def test_what_is_too_large_for_one_message_arrives() -> None:
    """1.5 MiB of arguments and environment; and what the system does not take is told as too large."""
    async with supervising() as supervisor:
        arguments = [f"{number:0100000d}" for number in range(10)]
        environment = {f"NAME{number}": "v" * 100_000 for number in range(5)}
        program = (
            "import os, sys; print([word.lstrip('0') for word in sys.argv[1:]], "
            "sum(map(len, sys.argv[1:])), sum(map(len, map(os.environ.get, map('NAME%d'.__mod__, range(5))))))"
        )
        said = await _said(supervisor, [PYTHON, "-ISc", program, *arguments], env=environment, env_policy="none")
        assert said == f"{['', *'123456789']} 1000000 500000\n".encode()
        assert (await _refused(supervisor, ["true", *["x" * 100_000] * 25])).kind == "too_large"
        assert (await _refused(supervisor, ["true", "x" * 131_072])).kind == "too_large"
        assert (await _refused(supervisor, ["true"], env={"A": "x" * 131_070})).kind == "too_large"


async def test_umask() -> None:
    """The one given, or the host's at that moment; and never the keeper's own."""
    before = os.umask(0o013)
    try:
        async with supervising() as supervisor:
            for umask in (None, 0, 0o027, 0o777):
                said = await _said(supervisor, "umask", resources=ResourceLimits(umask=umask))
                assert int(said, 8) == (0o013 if umask is None else umask)
            os.umask(0o031)
            assert int(await _said(supervisor, "umask"), 8) == 0o031
            assert os.umask(0o031) == 0o031
    finally:
        os.umask(before)


async def test_limits_as_the_job_sees_them() -> None:
    """Soft and hard alike, so that it cannot raise them; each other limit is the host's."""
    given = ResourceLimits(open_files=77, cpu_seconds=1000, address_space=1 << 32, core=4096, nice=5)
    async with supervising() as supervisor:
        said = (await _said(supervisor, ["cat", "/proc/self/limits"], resources=given)).decode()
        limits = {line[:26].strip(): line[26:].split()[:2] for line in said.splitlines()[1:]}
        own = Path("/proc/self/limits").read_text()
        expected = {line[:26].strip(): line[26:].split()[:2] for line in own.splitlines()[1:]}
        cpu_hard = "1005" if expected["Max cpu time"][1] == "unlimited" else expected["Max cpu time"][1]
        expected |= {
            "Max open files": ["77", "77"],
            "Max cpu time": ["1000", cpu_hard],
            "Max address space": [str(1 << 32)] * 2,
            "Max core file size": ["4096"] * 2,
        }
        assert limits == expected
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        assert int(await _said(supervisor, ["nice"], resources=given)) == nice + 5
        assert int(await _said(supervisor, ["nice"])) == nice
        untouched = (await _said(supervisor, ["cat", "/proc/self/limits"])).decode()
        assert untouched == own


async def test_processor_time_ends_it() -> None:
    """By SIGXCPU, which it may catch, to tidy up."""
    async with supervising() as supervisor:
        process = await supervisor.start(
            "while :; do :; done", owner=OWNER, resources=ResourceLimits(cpu_seconds=1, core=0)
        )
        outcome = await process.wait()
        assert (outcome.state, outcome.signal, outcome.shell_code) == (S.EXITED, signal.SIGXCPU, 128 + signal.SIGXCPU)


async def test_an_address_space_too_small_to_begin() -> None:
    """Whatever the size: a typed error, or a death by the kernel's hand; never an exit that was made up."""
    async with supervising() as supervisor:
        for size in (1, 4096, 1 << 16, 1 << 18, 1 << 20, 1 << 21, 1 << 22, 1 << 23):
            try:
                process = await supervisor.start(
                    ["/bin/echo", "here"], owner=OWNER, resources=ResourceLimits(address_space=size)
                )
            except SpawnFailedError as error:
                assert (error.kind, error.errno) == ("resources", errno.ENOMEM)  # noqa: PT017
            else:
                outcome = await process.wait()
                said = await output_of(process)
                fine = outcome.exit_code == 0 and said == b"here\n"
                by_loader = outcome.exit_code == 127 and b"error while loading" in said
                killed = outcome.signal in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT)
                assert fine or by_loader or killed, (size, outcome, said)
        assert await _said(supervisor, ["echo", "next"]) == b"next\n"
