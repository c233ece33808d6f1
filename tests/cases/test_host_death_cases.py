"""A host that dies takes its jobs with it, and the next one says what became of them (host-death, restart, pid)."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
from collections.abc import Generator, Iterable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import cast
from uuid import UUID

import psutil
import pytest
from cases_ground import (
    Host,
    contained,
    end_marked,
    every_tier,
    gone,
    group_tier,
    host,
    nothing_more,
    running,
    running_in,
    sizes,
    story_of,
    told_once,
    within,
    words,
)
from supervising import until

import lastword
from lastword.notifier import ProcessState, TerminalReason
from lastword.supervisor import Containment

S, R = ProcessState, TerminalReason


async def _nobody(family: Iterable[psutil.Process], mark: str) -> None:
    """Until nobody of the host's family, its helpers included, nor anybody marked, is alive."""
    await gone(mark)
    await until(lambda: not any(map(_lives, family)))


def _lives(one: psutil.Process) -> bool:
    try:
        return one.is_running() and one.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it has gone between the two
        return False


def _handles(it: Host, last: str) -> set[str]:
    """Of the jobs whose lines come before the line `last`."""
    return set(iter(lambda: it.line().split()[0], last))


@contained
async def test_c21_a_host_that_is_killed_takes_every_tree_with_it(
    tier: Containment, state: Path | None, mark: str, anyio_backend_name: str
) -> None:
    """Twenty jobs of sessions, daemons, deaf ones and orphans: nobody is alive; the next host tells each as lost."""
    place = "headless" if state is None else str(state)
    with host("dies", tier, anyio_backend_name, place, mark, "20", "wait") as it:
        handles = _handles(it, "all")
        family = it.family()
        assert len(handles) == 20
        with within(1):
            await until(lambda: len(running(mark)) == 1 + 20 * 9)  # the host, and some may just be about to be forked
        it.end(signal.SIGKILL)
        with within(1):
            await _nobody(family, mark)
    if state is not None:
        await _all_lost(tier, state, handles)


async def _all_lost(tier: Containment, state: Path, handles: set[str]) -> None:
    """Told once each, as lost, to their owner; and never again."""
    async with running_in(state, retained_completed=1000) as runtime:
        listed = {process.handle: process for process in runtime.supervisor.list(runtime.loop)}
        assert set(listed) >= handles
        for process in listed.values():
            assert process.outcome is not None
            assert (process.outcome.state, process.outcome.reason) == (S.LOST_ON_RESTORE, R.LOST_ON_RESTORE)
            # Of what was ended by its keeper there is a proof.
            assert process.outcome.proven is tier.proven or process.started_at is None
            assert await process.stop() is process.outcome
        told = await told_once(runtime, len(listed))
        assert {notification.state for notification in told.values()} == {S.LOST_ON_RESTORE}
        story = await story_of(runtime)
        assert {words(events)[-1] for events in story.values()} == {"ProcessLost"}
    async with running_in(state) as runtime:
        await nothing_more(runtime.loop)
        assert await runtime.pending() == []


@contained
@pytest.mark.prove
async def test_c21_other_ends_of_a_host(tier: Containment, mark: str, anyio_backend_name: str, tmp_path: Path) -> None:
    """Aborted, ended by a signal that it does not handle, gone by os._exit: the same, and nothing of it is left."""
    ends = (("exit", 0), ("abort", 0), ("wait", signal.SIGTERM), ("wait", signal.SIGHUP))
    with ExitStack() as stack:
        hosts = [
            stack.enter_context(
                host("dies", tier, anyio_backend_name, "headless", mark, "1", then, env={"TMPDIR": str(tmp_path)})
            )
            for then, _ in ends
        ]
        for it, (_, number) in zip(hosts, ends, strict=True):
            _handles(it, "all")
            if number:
                it.end(number)
        for it in hosts:
            assert it.popen.wait() in (0, -signal.SIGABRT, -signal.SIGTERM, -signal.SIGHUP)
        with within(1):
            await gone(mark)
            await until(lambda: not list(tmp_path.glob("lastword-*")))  # its zygote removes it


@contained
@sizes(1, 20)
async def test_c21_a_host_that_is_killed_while_it_starts_jobs(
    count: int, tier: Containment, mark: str, anyio_backend_name: str, tmp_path: Path
) -> None:
    """At other moments: whatever was on its way is nowhere, and every handle that it was given is told."""
    for number in range(count):
        own, state = f"{mark}{number:02}", tmp_path / str(number)
        with host("dies_starting", tier, anyio_backend_name, state, own, str(1 + 7 * number)) as it:
            handles = _handles(it, "now")
            family = it.family()
            it.end(signal.SIGKILL)
            with within(1):
                await _nobody(family, own)
        await _all_lost(tier, state, handles)


@contained
async def test_c21_a_host_that_is_killed_while_it_stops_a_job(
    tier: Containment, mark: str, anyio_backend_name: str, tmp_path: Path
) -> None:
    """The grace of a stop is not what its tree gets from a host that is dead."""
    with host("dies_stopping", tier, anyio_backend_name, tmp_path / "state", mark) as it:
        handles = _handles(it, "now")
        family = it.family()
        it.end(signal.SIGKILL)
        with within(1):
            await _nobody(family, mark)
    await _all_lost(tier, tmp_path / "state", handles)


@group_tier
async def test_c21_a_group_outlives_its_host_and_that_is_told(
    tier: Containment, mark: str, anyio_backend_name: str, tmp_path: Path
) -> None:
    """Nobody ends it then; the next host says that it is lost, and not proven to have ended."""
    with host("dies", tier, anyio_backend_name, tmp_path / "state", mark, "2", "wait") as it:
        handles = _handles(it, "all")
        it.end(signal.SIGKILL)
    assert running(mark)
    await _all_lost(tier, tmp_path / "state", handles)
    assert end_marked(mark)


def _killed(it: Host) -> tuple[str, UUID, int]:
    """What it says of its one job; it is killed at once."""
    handle, command_id, pid = it.line().split()
    it.end(signal.SIGKILL)
    return handle, UUID(command_id), int(pid)


async def _over(tier: Containment, mark: str) -> None:
    """The job of the killed host has ended: by its keeper, or for want of one by us."""
    if tier.proven:
        with within(1):
            await gone(mark)
    else:
        end_marked(mark)


@every_tier
async def test_c83_a_host_that_is_killed_after_the_start_is_followed_by_one_notice(
    tier: Containment, tmp_path: Path, anyio_backend_name: str, mark: str
) -> None:
    """At once, and when the job is long gone: what is known of it was durable before its handle was."""
    for late in (False, True):
        state = tmp_path / f"{late}"
        with host("one_job", tier, anyio_backend_name, state, mark) as it:
            handle, command_id, _ = _killed(it)
        if late:
            await _over(tier, mark)
        async with running_in(state) as runtime:
            told = (await told_once(runtime, 1))[handle]
            assert (told.command_id, told.state) == (command_id, S.LOST_ON_RESTORE)
            story = (await story_of(runtime))[handle]
            assert words(story) == ["ProcessBackgrounded", "ProcessLost"]
            assert story[-1].process.exit_code is None
        end_marked(mark)


@every_tier
async def test_c94_a_lost_job_stays_lost_and_is_told_once(
    tier: Containment, tmp_path: Path, anyio_backend_name: str, mark: str
) -> None:
    """After a second restart, and a second crash, too: the record is kept, and nobody is told again."""
    state = tmp_path / "state"
    with host("one_job", tier, anyio_backend_name, state, mark) as it:
        handle, _, _ = _killed(it)
    await _over(tier, mark)
    with within(1):
        async with lastword.open_runtime(state) as runtime:
            assert runtime.supervisor.get(handle, runtime.loop).state is S.LOST_ON_RESTORE
            assert {record.process_handle for record in await runtime.pending()} == {handle}
    with host("one_job", tier, anyio_backend_name, state, mark) as it:  # not acknowledged, and killed again
        second, _, _ = _killed(it)
    await _over(tier, mark)
    async with running_in(state) as runtime:
        assert set(await told_once(runtime, 2)) == {handle, second}
    async with running_in(state) as runtime:
        listed = {process.handle: process.state for process in runtime.supervisor.list(runtime.loop)}
        assert listed == {handle: S.LOST_ON_RESTORE, second: S.LOST_ON_RESTORE}
        assert await runtime.pending() == []
        await nothing_more(runtime.loop)


def _values(path: Path) -> Generator[object]:
    """Whatever is stored in a database: each value of each row, and each one in it where it is JSON."""
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for table in tables:
            for row in connection.execute(f"SELECT * FROM {table}"):
                for value in row:
                    yield value
                    with suppress(ValueError, TypeError):
                        yield from _parts(json.loads(value))


def _parts(value: object) -> Generator[object]:
    if isinstance(value, dict):
        value = [*cast("dict[str, object]", value).values()]
    if not isinstance(value, list):
        yield value
        return
    for part in cast("list[object]", value):
        yield from _parts(part)


@every_tier
async def test_c28_a_restart_signals_nobody(
    tier: Containment, tmp_path: Path, anyio_backend_name: str, mark: str
) -> None:
    """Nothing that a record says of a dead host's job is ever signalled; strangers under its number are in
    tests/hostile/test_identity.py."""
    with host("one_job", tier, anyio_backend_name, tmp_path / "state", mark) as it:
        _, _, pid = _killed(it)
    await _over(tier, mark)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    values = [value for path in (tmp_path / "copy").glob("*.db") for value in _values(path)]
    assert len(values) > 20
    assert pid < 100 or not {pid, str(pid)}.intersection(values)  # none is recorded; a small one is many things
    with host("looks_only", tier, anyio_backend_name, tmp_path / "state") as it:
        assert it.line() == "1 []"
        it.succeed()
