"""Notices: nothing that a model should know is told to nobody, and nothing is told by a result and by a line both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from session_ground import FaultyJournal
from supervising import HANG_SECONDS, until
from tool_ground import Agent, agent

import lastword
from lastword.adapters.tools import Notices, tool_specs
from lastword.notifier import InvalidArgumentError, JournalUnavailableError, new_uuid7
from lastword.session import Notice
from lastword.session.journal import SqliteJournal


async def background(one: Agent, command: str) -> str:
    """Start a command in the background that ends by itself, wait until the loop has its notice; the handle."""
    handle: str = (await one.call("Bash", command=command, background=True))["process_id"]
    await one.told_home(handle)
    return handle


async def lines(one: Agent) -> list[str]:
    return (await one.notices.collect()).lines


async def unsettled(runtime: lastword.Runtime) -> list[str]:
    return [pending.process_handle for pending in await runtime.pending() if pending.status == "unacknowledged"]


async def test_a_line_is_told_until_its_bulletin_is_acknowledged_and_never_after() -> None:
    async with agent() as one:
        first, second = [await background(one, command) for command in ("exit 3", "kill -9 $$")]
        expected = [
            f"Process {first} has ended: exited 3.",
            f"Process {second} has ended: exited by SIGKILL.",
        ]
        assert await lines(one) == expected
        bulletin = await one.notices.collect()
        assert bulletin.lines == expected
        await bulletin.ack()
        assert await lines(one) == []
        assert await unsettled(one.runtime) == []
        await bulletin.ack()


async def test_what_comes_after_a_bulletin_is_not_settled_by_it() -> None:
    async with agent() as one:
        await background(one, "true")
        bulletin = await one.notices.collect()
        later = await background(one, "false")
        assert len(await lines(one)) == 2
        await bulletin.ack()
        assert await lines(one) == [f"Process {later} has ended: exited 1."]
        assert await unsettled(one.runtime) == [later]


async def test_what_an_earlier_bulletin_has_can_be_left_out_and_is_settled_all_the_same() -> None:
    async with agent() as one:
        first = await background(one, "true")
        bulletin = await one.notices.collect()
        assert (await one.notices.collect(since=bulletin.cursor)).lines == []
        second = await background(one, "false")
        news = await one.notices.collect(since=bulletin.cursor)
        assert news.lines == [f"Process {second} has ended: exited 1."]
        assert len((await one.notices.collect(since="of an earlier life")).lines) == 2
        assert await unsettled(one.runtime) == [first, second]
        await news.ack()
        assert await unsettled(one.runtime) == []


async def test_what_a_result_has_told_is_no_line_and_is_settled_with_the_turn() -> None:
    async with agent() as one:
        ran = await one.call("Bash", command="exit 3")
        watched = await one.call("Bash", command="exec sleep 60", background=True)
        await one.call("ProcessStop", process_id=watched["process_id"])
        read = await background(one, "true")
        await one.call("ProcessOutput", process_ids=[read, watched["process_id"]])
        for result in (ran, watched):
            await one.told_home(result["process_id"])
        assert len(await unsettled(one.runtime)) == 3
        bulletin = await one.notices.collect()
        assert bulletin.lines == []
        assert len(await unsettled(one.runtime)) == 3
        await bulletin.ack()
        assert await unsettled(one.runtime) == []


async def test_a_command_that_never_ran_is_told_by_its_result(tmp_path: Path) -> None:
    async with agent() as one:
        result = await one.call("Bash", command="true", workdir=str(tmp_path / "missing"))
        await one.told_home(result["process_id"])
        bulletin = await one.notices.collect()
        assert bulletin.lines == []
        await bulletin.ack()
        assert await unsettled(one.runtime) == []


async def test_a_result_settles_its_notice_even_before_that_has_come() -> None:
    """The journal takes the consumption first; the notification never becomes pending."""
    async with agent() as one:
        result = await one.call("Bash", command="true")
        await (await one.notices.collect()).ack()
        await one.told_home(result["process_id"])
        assert await lines(one) == []
        assert await unsettled(one.runtime) == []


async def test_a_result_that_comes_after_the_bulletin_is_settled_by_the_next_one_only() -> None:
    """It is not in the transcript that was saved."""
    async with agent() as one:
        bulletin = await one.notices.collect()
        result = await one.call("Bash", command="true")
        await one.told_home(result["process_id"])
        await bulletin.ack()
        assert await unsettled(one.runtime) == [result["process_id"]]
        bulletin = await one.notices.collect()
        assert bulletin.lines == []
        await bulletin.ack()
        assert await unsettled(one.runtime) == []


async def test_looking_at_the_list_tells_nobody_the_last_word() -> None:
    async with agent() as one:
        handle = await background(one, "true")
        await one.call("ProcessList")
        assert await lines(one) == [f"Process {handle} has ended: exited 0."]


async def test_a_call_that_was_cancelled_has_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of its answer was made by then."""
    async with agent() as one:
        handles = [await background(one, command) for command in ("exit 3", "exit 4")]
        read = lastword.Process.read_output
        reads: list[str] = []

        async def read_one_and_hang(process: lastword.Process, *arguments: Any) -> Any:
            reads.append(process.handle)
            if len(reads) == 2:
                await anyio.sleep_forever()
            return await read(process, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(lastword.Process, "read_output", read_one_and_hang)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: one.call("ProcessOutput", process_ids=handles))
                await until(lambda: len(reads) == 2)
                tasks.cancel_scope.cancel()
        assert await lines(one) == [
            f"Process {handle} has ended: exited {code}." for handle, code in zip(handles, (3, 4), strict=True)
        ]


async def test_the_model_learns_of_a_command_whose_call_was_cancelled(tmp_path: Path) -> None:
    """At once that it goes on, and later that it has ended: settling the one does not settle the other."""
    async with agent() as one:
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                await one.call("Bash", command=f"echo > {tmp_path}/begun; read line < {tmp_path}/gate; exit 3")

            os.mkfifo(tmp_path / "gate")
            tasks.start_soon(call)
            await until((tmp_path / "begun").exists)
            await until(lambda: bool(one.runtime.supervisor.list(one.runtime.loop)[0].started_at))
            tasks.cancel_scope.cancel()
        (process,) = one.runtime.supervisor.list(one.runtime.loop)
        goes_on = await one.notices.collect()
        assert goes_on.lines == [f"A call gave no result and its command goes on: process {process.handle} is running."]
        (tmp_path / "gate").write_text("go\n")
        await one.told_home(process.handle)
        assert await lines(one) == [f"Process {process.handle} has ended: exited 3."]
        await goes_on.ack()
        bulletin = await one.notices.collect()
        assert bulletin.lines == [f"Process {process.handle} has ended: exited 3."]
        await bulletin.ack()
        assert await lines(one) == []


async def test_a_cursor_that_fits_nothing_settles_nothing() -> None:
    async with agent() as one:
        handle = await background(one, "true")
        bulletin = await one.notices.collect()
        number, life, tag = bulletin.cursor.split("-")
        other = f"{tag[:-1]}{'0' if tag[-1] != '0' else '1'}"
        for cursor in ("", number, "-", "--", life, tag, f"{life}-", f"²-{life}-{other}", f"{number}-{life}-{other}"):
            await one.notices.ack(cursor)
        await one.notices.ack(f"9-ffff-{other}")  # of an earlier life, and settled by now
        await one.notices.ack("\ud800")
        assert await unsettled(one.runtime) == [handle]
        await one.notices.ack(bulletin.cursor)
        await one.notices.ack(bulletin.cursor)
        assert await unsettled(one.runtime) == []


async def test_a_cursor_beyond_the_last_bulletin_is_refused_and_settles_nothing() -> None:
    """Also where there is something by then that the next bulletin will have."""
    async with agent() as one:
        handle = await background(one, "true")
        number, life, tag = (await one.notices.collect()).cursor.split("-")
        await one.call("Bash", command="true")
        for beyond in (int(number) + 1, int(number) + 2, 10**17):
            cursor = f"{beyond}-{life}-{tag}"
            for _ in range(2):
                with pytest.raises(InvalidArgumentError, match="cursor: is beyond the last bulletin"):
                    await one.notices.ack(cursor)
            with pytest.raises(InvalidArgumentError, match="cursor: is beyond the last bulletin"):
                await one.notices.collect(since=cursor)
        assert handle in await unsettled(one.runtime)
        assert len(await lines(one)) == 1


async def test_a_cursor_settles_what_it_names_in_the_next_life_too(tmp_path: Path) -> None:
    """For an end that the journal has, that is, once this life has it at hand; and nothing that came after it."""
    async with agent(tmp_path / "state") as one:
        await background(one, "exit 3")
        saved = await one.notices.collect()
        second = await background(one, "exit 4")
    async with agent(tmp_path / "state") as one:
        await one.notices.ack(saved.cursor)
        assert len(await lines(one)) == 2
        await one.notices.ack(saved.cursor)
        assert await unsettled(one.runtime) == [second]


async def test_a_cursor_of_an_earlier_life_settles_nothing_that_this_one_has_told(tmp_path: Path) -> None:
    """By a result, before this life has at hand what the cursor names."""
    async with agent(tmp_path / "state") as one:
        await background(one, "exit 3")
        saved = await one.notices.collect()
    async with agent(tmp_path / "state") as one:
        handle = (await one.call("Bash", command="exit 4"))["process_id"]
        await one.told_home(handle)
        await one.notices.ack(saved.cursor)
        assert len(await lines(one)) == 1
        await one.notices.ack(saved.cursor)
        assert await unsettled(one.runtime) == [handle]
        await (await one.notices.collect()).ack()
        assert await unsettled(one.runtime) == []


async def test_what_the_journal_does_not_have_yet_is_named_for_this_life_alone(tmp_path: Path) -> None:
    """Its place in the journal can be behind something that no bulletin has told."""
    journal = FaultyJournal(SqliteJournal(tmp_path / "journal.db"))
    async with agent(tmp_path / "state", journal=journal) as one:
        journal.down = True
        handle = (await one.call("Bash", command="exit 3"))["process_id"]
        saved = await one.notices.collect()
        assert saved.cursor.startswith("1-")
        journal.down = False
        await one.told_home(handle)
    async with agent(tmp_path / "state", journal=SqliteJournal(tmp_path / "journal.db")) as one:
        assert len(await lines(one)) == 1
        await one.notices.ack(saved.cursor)
        assert await unsettled(one.runtime) == [handle]


async def test_what_an_ack_could_not_settle_is_settled_by_the_same_cursor_later(tmp_path: Path) -> None:
    journal = FaultyJournal(SqliteJournal(tmp_path / "journal.db"))
    async with agent(tmp_path / "state", journal=journal) as one:
        handles = [await background(one, f"exit {code}") for code in (3, 4)]
        bulletin = await one.notices.collect()
        journal.down = True
        with pytest.raises(JournalUnavailableError):
            await bulletin.ack()
        assert len(await lines(one)) == 2
        journal.down = False
        assert await unsettled(one.runtime) == handles
        await bulletin.ack()
        assert await unsettled(one.runtime) == []


async def test_what_alone_an_ack_could_not_settle_is_settled_by_the_same_cursor_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though what the cursor names was settled the first time."""
    async with agent() as one:
        handles = [await background(one, f"exit {code}") for code in (3, 4, 5)]
        bulletin = await one.notices.collect()
        ack = Notice.ack

        async def fail_one(notice: Notice) -> None:
            if notice.notification.process_handle == handles[1]:
                raise JournalUnavailableError("the disk is full")
            await ack(notice)

        with monkeypatch.context() as patch:
            patch.setattr(Notice, "ack", fail_one)
            with pytest.raises(JournalUnavailableError):
                await bulletin.ack()
        assert await unsettled(one.runtime) == [handles[1]]
        await bulletin.ack()
        assert await unsettled(one.runtime) == []
        assert await lines(one) == []


async def test_an_evicted_process_is_still_told_by_what_its_notice_says() -> None:
    async with agent(limits=lastword.Limits(retained_completed=1)) as one:
        first = await background(one, "exit 3")
        await background(one, "true")
        assert (await lines(one))[0] == f"Process {first} has ended: exited."


async def test_another_loops_processes_are_neither_told_nor_found() -> None:
    async with agent() as one, one.runtime.session.open_loop(new_uuid7()) as other:
        theirs = Agent(one.runtime, tool_specs(one.runtime, other), Notices(one.runtime, other))
        handle = (await theirs.call("Bash", command="true"))["process_id"]
        await one.told_home(handle)
        assert (await theirs.call("ProcessOutput", process_id=handle))["status"] == "exited"
        assert [each["process_id"] for each in (await theirs.call("ProcessList"))["processes"]] == [handle]
        assert await lines(one) == []
        for call in (
            one.call("ProcessOutput", process_id=handle),
            one.call("ProcessStop", process_id=handle),
            one.call("ProcessOutput", process_id="A" * 22),
        ):
            assert (await call)["error"] == "not_found"
        assert (await one.call("ProcessList"))["processes"] == []
        assert (await theirs.notices.collect()).lines == [f"Process {handle} has ended: exited 0."]


async def test_notices_of_another_loop_or_profile_are_refused() -> None:
    """They would tell an agent of what it does not have, or by names that it does not know."""
    async with agent() as one, one.runtime.session.open_loop(new_uuid7()) as other:
        with pytest.raises(lastword.SupervisorError, match="another loop or profile"):
            tool_specs(one.runtime, other, notices=one.notices)
        with pytest.raises(lastword.SupervisorError, match="another loop or profile"):
            tool_specs(one.runtime, profile="codex", notices=one.notices)


async def test_released_notices_are_offered_again_to_whoever_receives() -> None:
    async with agent() as one:
        handle = await background(one, "true")
        assert len(await lines(one)) == 1
        with pytest.raises(anyio.WouldBlock):
            one.runtime.loop.receive_nowait()
        one.notices.release()
        notice = one.runtime.loop.receive_nowait()
        assert notice.notification.process_handle == handle
        assert notice.redelivered


async def test_what_the_results_of_a_released_turn_have_told_is_told_again_by_lines() -> None:
    """The turn was thrown away, before its bulletin or after it."""
    async with agent() as one:
        results = [await one.call("Bash", command=f"exit {code}") for code in (3, 4)]
        for each in results:
            await one.told_home(each["process_id"])
        assert await lines(one) == []
        one.notices.release()
        bulletin = await one.notices.collect()
        assert [line.partition(" has ended: ")[0] for line in bulletin.lines] == [
            f"Process {each['process_id']}" for each in results
        ]
        await bulletin.ack()
        assert await lines(one) == []


async def test_unsaved_turns_are_told_again_at_the_next_opening(tmp_path: Path) -> None:
    """By a line or by a result: neither was acknowledged."""
    async with agent(tmp_path / "state") as one:
        lined = await background(one, "exit 3")
        resulted = (await one.call("Bash", command="exit 4"))["process_id"]
        assert await lines(one) == [f"Process {lined} has ended: exited 3."]
    async with agent(tmp_path / "state") as one:
        bulletin = await one.notices.collect()
        assert bulletin.lines == [
            f"Process {lined} has ended: exited 3. (You may have been told before.)",
            f"Process {resulted} has ended: exited 4. (You may have been told before.)",
        ]
        await bulletin.ack()
    async with agent(tmp_path / "state") as one:
        assert await lines(one) == []


async def test_the_first_bulletin_waits_for_what_is_on_its_way_to_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that lives for one turn alone is told in it what its last life has left."""
    monkeypatch.setattr("lastword.adapters.tools._notices._CATCH_UP_SECONDS", HANG_SECONDS)
    journal = FaultyJournal(SqliteJournal(tmp_path / "journal.db"))
    async with agent(tmp_path / "state", journal=journal) as one:
        journal.down = True
        process = await one.runtime.start("exit 3")
        await process.wait()
        told: list[list[str]] = []

        async def ask() -> None:
            told.append(await lines(one))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            assert told == []
            journal.down = False
        assert told == [[f"Process {process.handle} has ended: exited 3."]]


async def test_a_first_bulletin_that_the_journal_holds_up_is_given_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lastword.adapters.tools._notices._CATCH_UP_SECONDS", 0.05)
    journal = FaultyJournal(SqliteJournal(tmp_path / "journal.db"))
    async with agent(tmp_path / "state", journal=journal) as one:
        journal.down = True
        process = await one.runtime.start("exit 3")
        await process.wait()
        assert await lines(one) == []
        journal.down = False
        await one.told_home(process.handle)
        assert await lines(one) == [f"Process {process.handle} has ended: exited 3."]


HOST = """
import sys
import anyio
import lastword
from lastword.adapters.tools import Notices, tool_specs

async def main():
    async with lastword.open_runtime(sys.argv[1]) as runtime:
        notices = Notices(runtime)
        bash = tool_specs(runtime, notices=notices)[0].handler
        saved = await bash({"command": "exit 3"})
        turn = await notices.collect()
        await turn.ack()
        unsaved = await bash({"command": "exit 4"})
        running = await bash({"command": "exec sleep 60", "yield_time_ms": 0})
        turn = await notices.collect()
        await runtime.supervisor.outbox.wait_empty()
        print(saved["process_id"], unsaved["process_id"], running["process_id"], flush=True)
        await anyio.sleep_forever()

anyio.run(main, backend=sys.argv[2])
"""


async def test_a_host_that_is_killed_before_the_turn_is_saved_is_told_again(
    tmp_path: Path, anyio_backend_name: str
) -> None:
    state = tmp_path / "state"
    with subprocess.Popen(
        [sys.executable, "-c", HOST, str(state), anyio_backend_name], stdout=subprocess.PIPE, text=True
    ) as host:
        assert host.stdout is not None
        saved, unsaved, running = host.stdout.readline().split()
        host.send_signal(signal.SIGKILL)
    async with agent(state) as one:
        await one.told_home(running)
        told = await lines(one)
        assert told == [
            f"Process {unsaved} has ended: exited 4. (You may have been told before.)",
            f"Process {running} has ended: lost with its host.",
        ]
        assert saved not in str(told)


async def test_a_line_shows_nothing_of_the_command_or_its_output() -> None:
    async with agent() as one:
        await background(one, "echo SECRET1; echo SECRET2 >&2; exit 3")
        assert "SECRET" not in str(await lines(one))


async def test_without_notices_no_tool_ever_settles_anything() -> None:
    async with agent() as one:
        bash = tool_specs(one.runtime)[0].handler
        handle = (await bash({"command": "true"}))["process_id"]
        await one.told_home(handle)
        notice = await one.runtime.loop.receive()
        assert notice.notification.process_handle == handle
