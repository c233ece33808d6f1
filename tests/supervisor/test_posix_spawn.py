"""Jobs that are spawned at once, without a fork: which, that they are the same, and who tells what was refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import supervising as support
from shim_ground import Stations, pids_of, shim_of
from supervising import OWNER, output_of, supervising

from lastword.supervisor import Containment, ResourceLimits, SpawnFailedError, Supervisor
from lastword.supervisor.shim._exec import Spec
from lastword.supervisor.shim._posix_spawn import spawn_at_once

# In a fork the program is never executed, and the job ends with 9.
_NO_FORK = "from shim import _exec; _exec._become = lambda *_: os._exit(9)"

_NOT_USABLE = "from shim import _posix_spawn; _posix_spawn.usable = False"


@pytest.fixture(autouse=True)
def _subreaper(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tier whose jobs need no group to be born in."""
    monkeypatch.setattr(support, "tier", Containment.SUBREAPER)


async def _code(supervisor: Supervisor, command: str | list[str] = "exit 3", **options: Any) -> int | None:
    return (await (await supervisor.start(command, owner=OWNER, **options)).wait()).exit_code


async def test_a_job_is_forked_only_where_it_must_be(stations: Stations, tmp_path: Path) -> None:
    """For limits, a niceness or a terminal; and where its program is looked for in a folder of its own."""
    stations.build(_NO_FORK)
    (tmp_path / "program").symlink_to("/bin/true")
    async with supervising() as supervisor:
        at_once: list[Mapping[str, Any]] = [
            {},
            {"cwd": tmp_path},
            {"env": {"A": "=1=", "B": "", "C": "x" * 100_000}},
            {"env_policy": "none"},
            {"stdin": b"x"},
            {"split_streams": True},
            {"survivors": "keep"},
        ]
        for options in at_once:
            assert await _code(supervisor, **options) == 3, options
        assert await _code(supervisor, ["./program"], cwd=tmp_path) == 0
        assert await _code(supervisor, ["true"], env={"PATH": f"{tmp_path}:/nowhere:/bin/sh:/bin"}) == 0
        forked: list[Mapping[str, Any]] = [
            {"resources": ResourceLimits(core=0)},
            {"resources": ResourceLimits(nice=1)},
            {"pty": True},
        ]
        for options in forked:
            assert await _code(supervisor, **options) == 9, options
        assert await _code(supervisor, ["program"], cwd=tmp_path, env={"PATH": ""}) == 9


async def test_a_library_that_lacks_something_is_done_without(stations: Stations) -> None:
    stations.build(_NOT_USABLE)
    async with supervising() as supervisor:
        assert await _code(supervisor) == 3


async def test_every_signal_is_at_its_default() -> None:
    """Also the two that the C library keeps for itself, which it would leave ignored."""
    async with supervising() as supervisor:
        process = await supervisor.start(["cat", "/proc/self/status"], owner=OWNER)
        await process.wait()
        lines = [line.split(b":") for line in (await output_of(process)).splitlines()]
        masks = {name: int(mask, 16) for name, mask in lines if name in (b"SigPnd", b"SigBlk", b"SigIgn", b"SigCgt")}
        assert set(masks.values()) == {0}
        assert len(masks) == 4


async def test_the_shim_keeps_its_own_umask_and_folder(tmp_path: Path) -> None:
    """They were the job's for a moment, or never its own."""
    async with supervising() as supervisor:
        umask = os.umask(0o002)
        try:
            process = await supervisor.start("umask; pwd; echo $$; exec sleep 300", owner=OWNER, cwd=tmp_path)
        finally:
            os.umask(umask)
        while (chunk := await process.read_output()).data.count(b"\n") < 3:
            await process.wait_output(chunk.total)
        said = chunk.data.split(b"\n")
        assert said[:2] == [b"0002", os.fsencode(tmp_path)]
        shim = shim_of(int(said[2]))
        assert "Umask:\t0077" in Path(f"/proc/{shim}/status").read_text()
        assert Path(f"/proc/{shim}/cwd").readlink() == Path("/")


async def test_nothing_of_the_first_try_is_left_where_a_fork_tells_why(tmp_path: Path) -> None:
    """The program is there and cannot be executed: said by the fork; the shim has no child, and goes."""
    (tmp_path / "odd").write_text("no program\n")
    (tmp_path / "odd").chmod(0o700)
    async with supervising() as supervisor:
        for program in (str(tmp_path / "odd"), str(tmp_path)):
            with pytest.raises(SpawnFailedError) as caught:
                await supervisor.start([program], owner=OWNER)
            assert caught.value.errno is not None
        with pytest.raises(SpawnFailedError):
            await supervisor.start("true", owner=OWNER, cwd=tmp_path / "none")
        process = await supervisor.start("echo $$; exec sleep 300", owner=OWNER)
        await pids_of(process)


@pytest.mark.parametrize(
    ("argv", "env"),
    [
        ((b"/bin/true", b"a\0b"), ()),
        ((b"/bin/true",), ((b"A\0", b""),)),
        ((b"/bin/true",), ((b"A", b"\0"),)),
        ((b"/bin/true",), ((b"A=B", b""),)),
        ((b"/bin/true",), ((b"", b"x"),)),
        ((b"/bin\0/true",), ()),
        ((b"tr\0ue",), ()),
    ],
)
def test_what_no_program_can_be_given_is_not_cut(argv: tuple[bytes, ...], env: tuple[tuple[bytes, bytes], ...]) -> None:
    """It is the fork's to refuse."""
    spec = Spec(argv, env, None, None, (), None, False, "", 0, True, None)
    null, root = os.open("/dev/null", os.O_RDWR), os.open("/", os.O_RDONLY)
    try:
        assert spawn_at_once(spec, root, (null, null, null)) is None
    finally:
        os.close(null)
        os.close(root)
