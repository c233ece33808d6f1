"""A terminal for a job: what it is to the program, and its size."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path

import anyio
import pytest
import supervising as support
from supervising import OWNER, output_of, supervising, told, wait_for_output
from terminal_ground import run_on_terminal, written_by

from lastword.notifier import ProcessState
from lastword.supervisor import (
    Containment,
    ErrorCode,
    InvalidCommandError,
    ResourceLimits,
    SpawnFailedError,
    SupervisorError,
    TerminalSize,
)
from lastword.supervisor.launch import _job_spec

S = ProcessState


# --- what it is to the program


async def test_it_is_the_controlling_terminal_and_all_three_streams(each_tier: Containment) -> None:
    """One terminal, of the size that was asked for before anything ran, in the foreground; and no other descriptor."""
    script = (
        "test -t 0 && test -t 1 && test -t 2 && echo three; stty size; echo devtty >/dev/tty; ls -1 /proc/$$/fd; "
        "tty; readlink /proc/$$/fd/1; readlink /proc/$$/fd/2; cut -d' ' -f1,5,6,8 /proc/$$/stat"
    )
    async with supervising() as supervisor:
        process = await supervisor.start(script, owner=OWNER, pty=TerminalSize(rows=40, cols=120))
        assert (await process.wait()).exit_code == 0
        *lines, numbers = (await output_of(process)).decode().split("\r\n")[:-1]
        assert lines[:6] == ["three", "40 120", "devtty", "0", "1", "2"]
        assert len(set(lines[6:])) == 1
        assert lines[6].startswith("/dev/pts/")
        pid, group, session, foreground = numbers.split()
        assert pid == group == session == foreground
        assert await run_on_terminal(supervisor, "stty size") == b"24 80\r\n"
        assert await run_on_terminal(supervisor, "test -t 0 || exit 3; exit 4", 4) == b""


async def test_without_it_there_is_none(each_tier: Containment) -> None:
    """A pipe is no terminal, and the host's own is not there."""
    async with supervising() as supervisor:
        process = await supervisor.start("test -t 0 || test -t 1 || : </dev/tty", owner=OWNER, stdin="pipe")
        assert (await process.wait()).exit_code != 0


async def test_it_is_a_job_like_any_other(tmp_path: Path, each_tier: Containment) -> None:
    """Environment, folder, umask and signals are what they are without."""
    (tmp_path / "here").mkdir()
    async with supervising() as supervisor:
        process = await supervisor.start(
            "pwd; umask; echo $MINE; grep -E 'Sig(Blk|Ign)' /proc/self/status | cut -f2; env | wc -l",
            owner=OWNER,
            pty=True,
            cwd=tmp_path / "here",
            env={"MINE": "1"},
            env_policy="none",
            resources=ResourceLimits(umask=0o027),
        )
        assert (await process.wait()).exit_code == 0
        lines = (await output_of(process)).decode().split("\r\n")
        assert lines[:3] == [str(tmp_path / "here"), "0027", "1"]
        # But for 32 and 33, which are the C library's own, and ignored in all that `make` runs.
        assert [int(line, 16) & ~(0b11 << 31) for line in lines[3:5]] == [0, 0]
        assert int(lines[5]) <= 4  # its own variable, and what the shell sets itself


async def test_starts_that_fail_are_told_apart(tmp_path: Path, each_tier: Containment) -> None:
    """As without a terminal: by the step, with its errno; and none is left (`supervising` counts descriptors)."""
    (tmp_path / "text").write_text("nothing to run")
    async with supervising() as supervisor:
        for command, options, kind in (
            (["/no/such/program"], {}, "not_found"),
            ([str(tmp_path / "text")], {}, "not_executable"),
            (["true"], {"cwd": tmp_path / "missing"}, "cwd"),
            (["true", "a" * 131_072], {}, "too_large"),
        ):
            with pytest.raises(SpawnFailedError) as caught:
                await supervisor.start(command, owner=OWNER, pty=True, **options)  # type: ignore[arg-type]
            assert caught.value.kind == kind
        told(supervisor.outbox)
        assert await run_on_terminal(supervisor, "echo fine") == b"fine\r\n"


async def test_no_interpreter_to_spawn_it_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no shim does it, one is needed; that is said, and the program is not blamed."""
    monkeypatch.setattr(support, "tier", Containment.PROCESS_GROUP)
    async with supervising() as supervisor:
        for other in ("/no/such/python", *filter(None, (shutil.which("true"), shutil.which("false")))):
            with monkeypatch.context() as patch:
                patch.setattr(sys, "executable", other)
                with pytest.raises(SpawnFailedError, match=r"sys\.executable") as caught:
                    await supervisor.start("true", owner=OWNER, pty=True)
            assert caught.value.kind == "other"
        assert await run_on_terminal(supervisor, "echo fine") == b"fine\r\n"


async def test_a_start_that_fails_where_a_zombie_may_not_be_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS: what failed is told, and not that."""
    monkeypatch.setattr(support, "tier", Containment.PROCESS_GROUP)
    asked: list[int] = []

    def killpg(group: int, _number: int) -> None:
        asked.append(group)
        os.waitid(os.P_PID, group, os.WEXITED | os.WNOWAIT)
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    async with supervising() as supervisor:
        with monkeypatch.context() as patch:
            patch.setattr(os, "killpg", killpg)
            with pytest.raises(SpawnFailedError) as caught:
                await supervisor.start(["/no/such/program"], owner=OWNER, pty=True)
        assert (caught.value.kind, len(asked)) == ("not_found", 1)


async def test_where_the_system_does_not_tell_the_umask(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without /proc, and on macOS: the job has the host's all the same, or its own."""
    monkeypatch.setattr(support, "tier", Containment.PROCESS_GROUP)
    monkeypatch.setattr(_job_spec, "umask_of_self", _untold)
    before = os.umask(0o026)
    try:
        async with supervising() as supervisor:
            assert await run_on_terminal(supervisor, "umask") == b"0026\r\n"
            own = await supervisor.start("umask", owner=OWNER, pty=True, resources=ResourceLimits(umask=0o007))
            assert await output_of(own) == b"0007\r\n"
    finally:
        os.umask(before)


def _untold() -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


async def test_bytes_and_a_terminal_are_one_too_many() -> None:
    """Which of them is to be read?  Refused by the field; a pipe is nothing else than what is typed."""
    async with supervising() as supervisor:
        with pytest.raises(InvalidCommandError, match="send_input") as caught:
            await supervisor.start("cat", owner=OWNER, stdin=b"", pty=True)
        assert caught.value.field == "stdin"
        assert supervisor.list(OWNER) == []
        process = await supervisor.start("read x; echo got $x", owner=OWNER, stdin="pipe", pty=True)
        await process.send_input(b"it\n")
        await process.wait()
        assert await output_of(process) == b"it\r\ngot it\r\n"


# --- its size


async def test_a_new_size_is_told_by_sigwinch(each_tier: Containment) -> None:
    """To the foreground processes."""
    script = "trap 'stty size' WINCH; echo up; while :; do sleep 0.01; done"
    async with supervising() as supervisor:
        process = await supervisor.start(script, owner=OWNER, pty=True)
        await wait_for_output(process, b"up\r\n")
        for rows, cols in ((50, 100), (1, 1), (65535, 65535)):
            await process.resize(rows, cols)
            await wait_for_output(process, b"%d %d\r\n" % (rows, cols))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await process.resize(9, 9)
        await process.resize(7, 7)
        await wait_for_output(process, b"7 7\r\n")
        assert b"9 9\r\n" not in await written_by(process)


async def test_a_size_that_cannot_be_is_refused() -> None:
    """By the argument; without a terminal, or after its end, by that."""
    async with supervising() as supervisor:
        process = await supervisor.start("sleep 60", owner=OWNER, pty=True)
        for rows, cols in ((0, 80), (24, 0), (-1, 80), (65536, 80), (24, 65536), (True, 80), ("24", 80), (2.5, 80)):
            with pytest.raises(SupervisorError) as caught:
                await process.resize(rows, cols)  # type: ignore[arg-type]  # what it is about
            assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
        await process.stop()
        piped = await supervisor.start("sleep 60", owner=OWNER, stdin="pipe")
        for each, word in ((process, "ended"), (piped, "without a terminal")):
            with pytest.raises(SupervisorError, match=word) as caught:
                await each.resize(24, 80)
            assert caught.value.code is ErrorCode.PTY_UNAVAILABLE
