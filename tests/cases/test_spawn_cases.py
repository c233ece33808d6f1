"""Starts that fail are told apart, and starts of any kind and number leave nothing (spawn-error, fd, fork)."""

from __future__ import annotations

import errno
import gc
import os
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from cases_ground import (
    every_tier,
    host,
    pids_of,
    running_in,
    sizes,
    story_of,
    together,
    told_once,
    within,
    words,
)
from supervising import OWNER, output_of, pids_without_spares, supervising, told, until

from lastword.notifier import ProcessState
from lastword.supervisor import Containment, InvalidCommandError, Limits, SpawnFailedError, Supervisor

S = ProcessState


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- a count


def _threads() -> set[str]:
    """Their names, but for those of trio's own pool, which grows and shrinks as it likes."""
    return {thread.name for thread in threading.enumerate() if not thread.name.startswith("Trio thread")}


@every_tier
async def test_c63_one_argument_of_128_kib(state: Path | None) -> None:
    """The largest that fits runs; one byte more is refused at once, says the limit, starts and leaks nothing."""
    async with running_in(state) as runtime:
        fits = await runtime.start(["true", "a" * 131_071])
        assert (await fits.wait()).exit_code == 0
        before = _descriptors()
        refused: list[str] = []
        for command, options in (
            (["true", "a" * 131_072], {}),
            ("true " + "a" * 131_072, {}),
            (["true"], {"env": {"A": "x" * 131_072}}),
            (["true", *["a" * 100_000] * 40], {}),
        ):
            with pytest.raises(SpawnFailedError, match="131072") as caught:
                await runtime.start(command, **options)  # type: ignore[arg-type]  # each is a valid call
            assert (caught.value.kind, caught.value.errno) == ("too_large", errno.E2BIG)
            assert "will not help" in str(caught.value)  # so that nobody tries again
            refused.append(caught.value.handle)
        assert _descriptors() <= before
        told = await told_once(runtime, 5)
        assert {told[handle].state for handle in refused} == {S.FAILED}
        story = await story_of(runtime)
        assert {tuple(words(story[handle])) for handle in refused} == {("ProcessCompleted",)}


@every_tier
async def test_c65_nul_in_a_command() -> None:
    """The field is named and nothing recorded, the next start works, and NUL in stdin is fine."""
    wrong: list[tuple[str | Sequence[str], dict[str, Any], str]] = [
        (["echo", "a\0b"], {}, "argv[1]"),
        (["ec\0ho"], {}, "argv[0]"),
        ("echo \0", {}, "command"),
        ("true", {"env": {"A": "x\0y"}}, "env[A]"),
        ("true", {"env": {"A\0SECRET": "x"}}, "env[A]"),
        ("true", {"cwd": "/t\0mp"}, "cwd"),
        ("true", {"cwd": Path("/t\0mp")}, "cwd"),
    ]
    async with supervising() as supervisor:
        for command, options, field in wrong:
            with pytest.raises(InvalidCommandError) as caught:
                await supervisor.start(command, owner=OWNER, **options)
            assert caught.value.field == field
            assert "\0" not in str(caught.value)
            assert (await (await supervisor.start("true", owner=OWNER)).wait()).exit_code == 0
        assert len(supervisor.list(OWNER)) == len(wrong)
        process = await supervisor.start(["cat"], owner=OWNER, stdin=b"a\0b")
        assert await output_of(process) == b"a\0b"


@every_tier
async def test_c66_what_is_missing_is_what_is_blamed(state: Path | None, tmp_path: Path) -> None:
    """A directory, a program, a permission or an interpreter: each by its kind, in an exception and in the record."""
    (tmp_path / "nx").write_text("#!/bin/sh\n")
    (tmp_path / "nx").chmod(0o644)
    for name, text in (("bi", "#!/nope/sh\n"), ("garbage", "\x7fnothing that can be executed")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "folder").mkdir()
    wanted: list[tuple[list[str], str | Path, str, int]] = [
        (["true"], "/nope", "cwd", errno.ENOENT),
        (["true"], tmp_path / "nx", "cwd", errno.ENOTDIR),
        (["./nx"], tmp_path, "not_executable", errno.EACCES),
        (["./bi"], tmp_path, "interpreter_missing", errno.ENOENT),
        (["./garbage"], tmp_path, "not_executable", errno.ENOEXEC),
        (["./folder"], tmp_path, "not_executable", errno.EACCES),
        (["./missing"], tmp_path, "not_found", errno.ENOENT),
        (["no-such-program-at-all"], tmp_path, "not_found", errno.ENOENT),
    ]
    async with running_in(state) as runtime:
        for command, cwd, kind, number in wanted:
            with pytest.raises(SpawnFailedError) as caught:
                await runtime.start(command, cwd=cwd)
            assert (caught.value.kind, caught.value.errno) == (kind, number), command
            assert str(tmp_path) not in str(caught.value)
            process = runtime.supervisor.get(caught.value.handle, runtime.loop)
            assert process.outcome is not None
            assert process.outcome.diagnostic == f"spawn_failed:{kind}:{errno.errorcode[number]}"
        assert {told.state for told in (await told_once(runtime, len(wanted))).values()} == {S.FAILED}
        for by_shell, code in (("no-such-program-at-all", 127), ("./nx", 126), ("./missing", 127)):
            outcome = await (await runtime.start(by_shell, cwd=tmp_path)).wait()
            assert (outcome.state, outcome.exit_code) == (S.EXITED, code)


@every_tier
@sizes(84, 5000)
async def test_c68_many_starts_leak_nothing(count: int, tmp_path: Path) -> None:
    """As many failing ones as good ones, several at once: descriptors, threads, children are as they were.

    A tenth of them under `make test` is what the six runs do together.
    """
    async with supervising(limits=Limits(retained_completed=5, running_per_loop=8, spool_bytes=4096)) as supervisor:
        await (await supervisor.start(["true"], owner=OWNER)).wait()  # the first one brings what serves them all
        before, threads = _descriptors(), _threads()
        children = pids_without_spares()

        async def some(number: int) -> None:
            for index in range(number):
                with pytest.raises(SpawnFailedError):
                    await supervisor.start(
                        (["/no/such/program"], ["true", "a" * 131_072], [str(tmp_path)])[index % 3], owner=OWNER
                    )
                assert (await (await supervisor.start(["true"], owner=OWNER)).wait()).exit_code == 0
                if index % 50 == 0:
                    told(supervisor.outbox)

        await together(partial(some, count // 4) for _ in range(4))
        told(supervisor.outbox)
        with within(2):
            # A keeper leaves a moment after its job.
            await until(lambda: pids_without_spares() <= children)
        assert _descriptors() <= before + 2
        assert _threads() <= threads


@every_tier
async def test_c68_nearly_no_descriptor_is_left(tier: Containment, anyio_backend_name: str) -> None:
    """Refused by the number, or done; and recovered when there are some again."""
    with host("is_short_of_descriptors", tier, anyio_backend_name) as it:
        assert it.line() == "refused and recovered"
        it.succeed()


@every_tier
@sizes(25, 500)
async def test_c75_starts_beside_threads(count: int, recwarn: pytest.WarningsRecorder) -> None:
    """Without a terminal: sixteen threads allocate and log, nothing warns, hangs or forks this process."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.001):
            assert len([bytearray(512) for _ in range(200)]) == 200

    gc.collect()  # what others have forgotten is no matter of this one
    recwarn.clear()
    forks: list[int] = []
    os.register_at_fork(before=lambda: forks.append(os.getpid()) if not over.is_set() else None)
    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    try:
        async with supervising(limits=Limits(retained_completed=5, spool_bytes=4096)) as supervisor:

            async def some(number: int) -> None:
                for _ in range(number):
                    assert (await (await supervisor.start(["true"], owner=OWNER)).wait()).exit_code == 0

            await together(partial(some, count // 5) for _ in range(5))
            told(supervisor.outbox)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert forks == []
    assert [str(warning.message) for warning in recwarn] == []


@every_tier
async def test_c77_a_job_holds_its_own_three_descriptors_only(mark: str) -> None:
    """Without a pipe for input: no sibling has an end of another's, however many are started at once."""
    async with supervising(limits=Limits(running_per_loop=32, spool_bytes=4096)) as supervisor:
        await together(partial(_sleeper, supervisor, mark) for _ in range(25))
        for descriptor in os.pipe():
            os.set_inheritable(descriptor, True)
            late = await supervisor.start(f"echo $$; sleep {mark}", owner=OWNER, stdin=b"x" * 100_000)
            (pid,) = await pids_of(late)
            os.close(descriptor)
            for number in (pid, *(child.pid for child in psutil.Process(pid).children())):
                await _has_three(number)
        short = await supervisor.start("echo x", owner=OWNER)
        with within(0.5):
            assert await output_of(short) == b"x\n"  # nobody else holds its end
            outcome = await short.wait()
        assert (outcome.exit_code, outcome.output_open) == (0, False)


async def _sleeper(supervisor: Supervisor, mark: str) -> None:
    process = await supervisor.start(f"echo $$; exec sleep {mark}", owner=OWNER)
    (pid,) = await pids_of(process)
    await _has_three(pid)


async def _has_three(pid: int) -> None:
    """It has three descriptors and no other; while it is being executed its loader may have one more for an instant."""
    with within(1):
        await until(lambda: sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2"])  # noqa: PTH208 -- names
