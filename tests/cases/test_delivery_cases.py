"""The cases of delivery: told once, to its owner, until it is acknowledged; over closed loops, restarts and faults."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID, uuid4

import anyio
import pytest
from cases_ground import nothing_more
from runtime_scenes import BrittleJournal, HastyClock

import lastword
from lastword.notifier import ProcessEvent, ProcessState, TerminalReason
from lastword.supervisor import ProcessNotFoundError

STOPPED = {(ProcessState.TERMINATED, TerminalReason.RUNNER_SHUTDOWN)}


async def test_c79_a_hundred_that_end_together_are_a_hundred_notices(tmp_path: Path) -> None:
    """Exactly one distinct notice each, and for each job Started before Completed."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    held = os.open(gate, os.O_RDWR)
    limits = lastword.Limits(running_per_loop=100, running_per_session=100, spool_bytes=4096)
    with anyio.fail_after(100):
        async with lastword.open_runtime(tmp_path / "state", limits=limits) as runtime:
            processes = [await runtime.start("exec 3<gate; echo; exec cat <&3", cwd=tmp_path) for _ in range(100)]
            for process in processes:
                await process.wait_output(0)
            os.close(held)
            told: list[UUID] = []
            for _ in processes:
                notice = await runtime.loop.receive()
                told.append(notice.notification.command_id)
                await notice.ack()
            assert sorted(told) == sorted(process.command_id for process in processes)
            await nothing_more(runtime.loop)
            story: dict[str, list[str]] = {}
            async for delivery in runtime.session.replay():
                assert isinstance(delivery.event, ProcessEvent)
                story.setdefault(delivery.event.process.process_handle, []).append(type(delivery.event).__name__)
    assert story == {process.handle: ["ProcessStarted", "ProcessCompleted"] for process in processes}


async def test_c81_an_idle_agent_is_woken_and_the_end_is_never_seen_before_its_notice_is_durable() -> None:
    async with lastword.open_runtime() as runtime:
        told = anyio.Event()

        async def agent() -> None:
            await runtime.loop.receive()
            told.set()

        with anyio.fail_after(90):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent)
                await anyio.wait_all_tasks_blocked()
                process = await runtime.start("exec sleep 0.2")
                await process.wait()
                pending = {record.record_id for record in await runtime.pending()}
                assert process.command_id in pending
                await told.wait()


async def test_c82_only_the_owner_is_told_and_only_it_sees_the_job() -> None:
    async with lastword.open_runtime() as runtime:
        mine, other = runtime.session.open_loop(uuid4()), runtime.session.open_loop(uuid4())
        process = await runtime.start("true", owner=mine)
        with anyio.fail_after(90):
            notice = await mine.receive()
        assert notice.notification.process_handle == process.handle
        assert notice.notification.loop_id == mine.loop_id
        for stranger in (other, runtime.loop):
            await nothing_more(stranger)
            assert runtime.supervisor.list(stranger) == []
            with pytest.raises(ProcessNotFoundError):
                runtime.supervisor.get(process.handle, stranger)
        assert runtime.supervisor.list(mine) == [process]


async def test_c84_waiting_and_reading_never_consume_a_notice(tmp_path: Path) -> None:
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        process = await runtime.start("echo x")
        await process.wait()
        await process.read_output()
        await process.stop()
        assert runtime.supervisor.list(runtime.loop) == [process]
        with anyio.fail_after(90):
            notice = await runtime.loop.receive()
        assert notice.notification.command_id == process.command_id
        await notice.ack()


async def test_c84_what_is_acknowledged_first_is_not_told_also_not_after_a_restart(tmp_path: Path) -> None:
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        process = await runtime.start("read line", stdin=b"")
        await runtime.session.acknowledge(process.command_id)
        await process.wait()
        await nothing_more(runtime.loop)
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        await nothing_more(runtime.loop)
        assert await runtime.pending() == []


async def test_c85_an_owner_that_was_not_listening_is_told_when_it_is_back(tmp_path: Path) -> None:
    """In the same process, and in the next; meanwhile it is pending, and can be seen to be."""
    loop_id = uuid4()
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        loop = runtime.session.open_loop(loop_id)
        process = await runtime.start("true", owner=loop)
        await loop.aclose()
        await process.wait()
        with anyio.fail_after(90):
            await runtime.supervisor.outbox.wait_empty()
        (pending,) = await runtime.pending()
        assert (pending.record_id, pending.status) == (process.command_id, "unacknowledged")
        with anyio.fail_after(90):
            notice = await runtime.session.open_loop(loop_id).receive()
        assert notice.notification.command_id == process.command_id
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        assert [record.record_id for record in await runtime.pending()] == [process.command_id]
        with anyio.fail_after(90):
            notice = await runtime.session.open_loop(loop_id).receive()
        assert notice.notification.command_id == process.command_id


async def test_c86_an_acknowledgement_outlives_the_process_and_nothing_less_does(tmp_path: Path) -> None:
    """Kills around it are in tests/crash; here both sides of the line."""
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        acked, held = await runtime.start("true"), await runtime.start("true")
        with anyio.fail_after(90):
            notices = {n.notification.command_id: n for n in [await runtime.loop.receive() for _ in range(2)]}
        await notices[acked.command_id].ack()
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        with anyio.fail_after(90):
            notice = await runtime.loop.receive()
        assert notice.notification.command_id == held.command_id
        await nothing_more(runtime.loop)


async def test_c87_delivery_is_tried_until_it_is_taken_and_is_listed_meanwhile() -> None:
    journal = BrittleJournal()
    async with lastword.open_runtime(journal=journal, clock=HastyClock()) as runtime:
        journal.failures = 6  # each try of the courier is two of the journal's: the second on a new handle
        process = await runtime.start("exit 7")
        await process.wait()
        assert process.command_id in {record.record_id for record in await runtime.pending()}
        with anyio.fail_after(90):
            notice = await runtime.loop.receive()
        assert journal.failures == 0
        assert notice.notification.command_id == process.command_id
        assert process.command_id in {record.record_id for record in await runtime.pending()}


async def test_c88_what_we_stopped_ourselves_is_never_told_as_failed(tmp_path: Path) -> None:
    """The reason says who stopped it, so that a policy can be silent about it."""
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        processes = [await runtime.start("exec sleep 60") for _ in range(3)]
        asked = await runtime.start("exec sleep 60")
        outcome = await asked.stop()
        assert outcome is not None
        assert (outcome.state, outcome.reason) == (ProcessState.TERMINATED, TerminalReason.TERMINATED)
        with anyio.fail_after(90):
            notice = await runtime.loop.receive()
        assert notice.notification.reason is TerminalReason.TERMINATED
        await notice.ack()
    async with lastword.open_runtime(tmp_path / "state") as runtime:
        with anyio.fail_after(90):
            told = [(await runtime.loop.receive()).notification for _ in processes]
        await nothing_more(runtime.loop)
    assert {(one.state, one.reason) for one in told} == STOPPED
    assert {one.process_handle for one in told} == {process.handle for process in processes}
