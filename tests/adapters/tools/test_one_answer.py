"""Several results in one answer, and a turn that is thrown away: what got nowhere is told again, and nobody asks."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from supervising import until
from tool_ground import Agent, agent

from lastword.adapters.bridges.anthropic import anthropic_results
from lastword.adapters.tools import one_answer


def uses(*commands: dict[str, Any]) -> list[dict[str, Any]]:
    """What a message of the model asks for."""
    return [{"type": "tool_use", "id": str(at), "name": "Bash", "input": each} for at, each in enumerate(commands)]


async def unsettled(one: Agent) -> set[str]:
    return {pending.process_handle for pending in await one.runtime.pending() if pending.status == "unacknowledged"}


async def test_a_message_with_calls_that_is_cancelled_between_them_has_told_nothing() -> None:
    async with agent() as one:
        sleep = "exec sleep 300"
        content = uses({"command": "exit 3"}, {"command": sleep, "background": True}, {"command": sleep})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anthropic_results, list(one.specs.values()), content)
            # The last one's call waits; a start that is cancelled would be taken back.
            known = one.runtime.supervisor.list
            await until(lambda: [each.state.name for each in known(one.runtime.loop)[2:]] == ["RUNNING"])
            # It may run before it is known that it does, and a call that is cancelled then has started nothing.
            await until(lambda: all(each.started_at for each in one.runtime.supervisor.list(one.runtime.loop)))
            tasks.cancel_scope.cancel()
        ended, *running = one.runtime.supervisor.list(one.runtime.loop)
        await one.told_home(ended.handle)
        bulletin = await one.notices.collect()
        assert bulletin.lines[0] == f"Process {ended.handle} has ended: exited 3."
        assert {line.partition(": ")[2] for line in bulletin.lines[1:]} == {
            f"process {each.handle} is running." for each in running
        }
        await bulletin.ack()
        assert await unsettled(one) == set()


async def test_a_message_with_calls_that_is_answered_has_told_all_of_them() -> None:
    async with agent() as one:
        await anthropic_results(list(one.specs.values()), uses({"command": "exit 3"}, {"command": "exit 4"}))
        for process in one.runtime.supervisor.list(one.runtime.loop):
            await one.told_home(process.handle)
        bulletin = await one.notices.collect()
        assert bulletin.lines == []
        await bulletin.ack()
        assert await unsettled(one) == set()


@pytest.mark.parametrize("inner_fails", [False, True])
async def test_answers_in_an_answer_count_with_the_outer_one(*, inner_fails: bool) -> None:
    async with agent() as one:
        with pytest.raises(ZeroDivisionError), one_answer():
            with one_answer():
                await one.call("Bash", command="exit 3")
                if inner_fails:
                    raise ZeroDivisionError
            raise ZeroDivisionError
        (process,) = one.runtime.supervisor.list(one.runtime.loop)
        handle = process.handle
        await one.told_home(handle)
        assert (await one.notices.collect()).lines == [f"Process {handle} has ended: exited 3."]


async def test_what_other_tasks_are_told_meanwhile_is_theirs() -> None:
    async with agent() as one:
        handles: list[str] = []

        async def call() -> None:
            handles.append((await one.call("Bash", command="exit 4"))["process_id"])

        async with anyio.create_task_group() as tasks:
            began = anyio.Event()
            go_on = anyio.Event()

            async def fail() -> None:
                with pytest.raises(ZeroDivisionError), one_answer():
                    handles.append((await one.call("Bash", command="exit 3"))["process_id"])
                    began.set()
                    await go_on.wait()
                    raise ZeroDivisionError

            tasks.start_soon(fail)
            await began.wait()
            await call()
            go_on.set()
        for handle in handles:
            await one.told_home(handle)
        assert (await one.notices.collect()).lines == [f"Process {handles[0]} has ended: exited 3."]


async def test_a_turn_that_is_left_is_settled_and_its_results_with_the_next_one() -> None:
    async with agent() as one:
        first = (await one.call("Bash", command="exit 3", background=True))["process_id"]
        await one.told_home(first)
        async with one.notices.turn() as bulletin:
            assert bulletin.lines == [f"Process {first} has ended: exited 3."]
            second = (await one.call("Bash", command="exit 4"))["process_id"]
            await one.told_home(second)
        assert await unsettled(one) == {second}
        async with one.notices.turn() as bulletin:
            assert bulletin.lines == []
        assert await unsettled(one) == set()


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_turn_that_fails_or_is_cancelled_is_told_again_with_what_its_results_have_told(
    *, cancelled: bool
) -> None:
    async with agent() as one:
        first = (await one.call("Bash", command="exit 3", background=True))["process_id"]
        await one.told_home(first)
        second = ""
        with anyio.CancelScope() as scope:
            try:
                async with one.notices.turn():
                    second = (await one.call("Bash", command="exit 4"))["process_id"]
                    await one.told_home(second)
                    if cancelled:
                        scope.cancel()
                        await anyio.sleep_forever()
                    raise ZeroDivisionError
            except ZeroDivisionError:
                assert not cancelled
        assert await unsettled(one) == {first, second}
        lines = (await one.notices.collect()).lines
        assert [line.removesuffix(" (You may have been told before.)") for line in lines] == [
            f"Process {first} has ended: exited 3.",
            f"Process {second} has ended: exited 4.",
        ]
