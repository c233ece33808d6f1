"""The client is told of every end until it has said that it knows: by the cursor, and by nothing else."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.shared.message import SessionMessage
from mcp_ground import GENERATIONS, background, beside, call, connected, ended, told
from session_ground import FaultyJournal
from supervising import HANG_SECONDS, until

import lastword
from lastword.adapters._desk import Desk
from lastword.adapters.mcp import _server, _tools
from lastword.adapters.mcp._arrivals import Arrivals
from lastword.adapters.mcp._opening import Replayed
from lastword.adapters.mcp._server import serve
from lastword.notifier import JournalFencedError
from lastword.session.journal import SqliteJournal


async def unsettled(runtime: lastword.Runtime) -> list[str]:
    """Whose last words nobody has acknowledged, by the journal's word."""
    await runtime.supervisor.outbox.wait_empty()
    return [each.process_handle for each in await runtime.pending()]


async def test_a_result_that_tells_an_end_carries_its_notice(tmp_path: Path) -> None:
    async with beside(tmp_path / "state") as (client, _):
        result = await call(client, "Bash", command="exit 3")
        assert (result["status"], result["exit_code"]) == ("exited", 3)
        assert result["notices"] == [
            {"process_id": result["process_id"], "status": "exited", "reason": "exited", "exit_code": 3}
        ]


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_a_notice_is_on_every_result_until_its_cursor_comes_back(tmp_path: Path, generation: str) -> None:
    async with beside(tmp_path / "state", generation) as (client, runtime):
        handle = await background(client, "exit 1")
        first = await ended(client, handle)
        again = await call(client, "ProcessList")
        wrong = await call(client, "Bash", nonsense=True)
        assert told(first) == told(again) == told(wrong) == [handle]
        assert wrong["error"] == "invalid_arguments"
        assert await unsettled(runtime) == [handle]
        result = await call(client, "ProcessList", notices_cursor=wrong["notices_cursor"])
        assert told(result) == []
        assert "error" not in result
        assert await unsettled(runtime) == []


async def test_a_process_that_is_forgotten_is_no_longer_known_as_seen() -> None:
    """A client that stays for months is not paid for by its every job."""
    async with lastword.open_runtime(None, limits=lastword.Limits(retained_completed=2)) as runtime:
        desk = Desk(runtime, runtime.loop)
        arrivals = Arrivals(runtime, desk)
        handles: list[str] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(arrivals.run, handles.append)
            with anyio.fail_after(HANG_SECONDS):
                for _ in range(12):
                    process = await runtime.start("true", background=True)
                    await process.wait()
                    await arrivals.wait_seen({process.handle})
                    await desk.acknowledge(desk.tell())
            tasks.cancel_scope.cancel()
        assert arrivals.seen(handles[-1])
        assert not any(map(arrivals.seen, handles[:6]))


async def test_a_cursor_settles_what_came_with_it_and_no_more(tmp_path: Path) -> None:
    async with beside(tmp_path / "state") as (client, runtime):
        one = await background(client, "exit 1")
        two = await background(client, "exit 2")
        await ended(client, one)
        knows_both = await ended(client, two)
        assert sorted(told(knows_both)) == sorted([one, two])
        three = await background(client, "exit 3")
        await ended(client, three)
        result = await call(client, "ProcessList", notices_cursor=knows_both["notices_cursor"])
        assert told(result) == [three]
        assert await unsettled(runtime) == [three]


async def test_the_cursor_of_a_wrong_call_is_taken_all_the_same(tmp_path: Path) -> None:
    async with beside(tmp_path / "state") as (client, _):
        cursor = (await call(client, "Bash", command="true"))["notices_cursor"]
        assert told(await call(client, "NoSuchTool", notices_cursor=cursor)) == []


async def test_a_cursor_that_was_never_given_out_settles_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with beside(tmp_path / "state") as (client, runtime):
        result = await call(client, "Bash", command="true")
        cursor: str = result["notices_cursor"]
        number, life, tag = cursor.split("-")
        other = f"{tag[:-1]}{'0' if tag[-1] != '0' else '1'}"
        made_up = [
            "",
            number,
            f"{number}-",
            f"{number}-{life}",
            f"{number}-{life}-",
            f"{number}-{life}-{other}",
            tag,
            "--",
            f"{number}-{life}-{tag}-",
            f"{int(number) + 1}-{life}-{tag}",
            f"{'9' * 5000}-{life}-{tag}",
            "9-ffff-ffffffffff",
        ]
        for guess in made_up:
            assert told(await call(client, "ProcessList", notices_cursor=guess)) == [result["process_id"]], guess
        assert [record for record in caplog.records if record.name.startswith("lastword")] == []
        assert await unsettled(runtime) == [result["process_id"]]


async def test_a_cursor_may_come_twice_and_at_once(tmp_path: Path) -> None:
    async with beside(tmp_path / "state") as (client, runtime):
        cursor = (await call(client, "Bash", command="true"))["notices_cursor"]
        results: list[list[str]] = []

        async def confirm() -> None:
            results.append(told(await call(client, "ProcessList", notices_cursor=cursor)))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(confirm)
        assert results == [[]] * 5
        assert await unsettled(runtime) == []


async def test_what_was_not_confirmed_comes_again_in_the_next_life_and_by_its_old_cursor_never_more(
    tmp_path: Path,
) -> None:
    async with beside(tmp_path / "state") as (client, _):
        first = await call(client, "Bash", command="exit 5")
    async with beside(tmp_path / "state") as (client, _):
        again = await call(client, "ProcessList")
        assert again["notices"] == first["notices"]
        assert told(await call(client, "ProcessList", notices_cursor=first["notices_cursor"])) == []
    async with beside(tmp_path / "state") as (client, _):
        assert told(await call(client, "ProcessList")) == []


async def test_jobs_of_an_ended_life_are_told_by_the_first_result_of_the_next(tmp_path: Path) -> None:
    async with beside(tmp_path / "state") as (client, _):
        handle = await background(client, "exec sleep 300")
    async with beside(tmp_path / "state") as (client, _):
        (notice,) = (await call(client, "NoSuchTool"))["notices"]
        assert (notice["process_id"], notice["reason"]) == (handle, "runner_shutdown")


async def test_the_first_result_waits_for_what_is_on_its_way_to_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_server, "_CATCH_UP_SECONDS", HANG_SECONDS)
    journal = FaultyJournal(SqliteJournal(tmp_path / "journal.db"))
    with anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(tmp_path / "state", journal=journal) as runtime:
            journal.gate = threading.Event()
            process = await runtime.start("true")
            await process.wait()
            results: list[list[str]] = []

            async def ask() -> None:
                async with Client(connected(runtime)) as client:
                    results.append(told(await call(client, "ProcessList")))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await until(journal.at_gate.is_set)
                await anyio.wait_all_tasks_blocked()
                assert results == []
                journal.gate.set()
            assert results == [[process.handle]]


async def test_where_the_journal_cannot_take_it_a_notice_is_told_again(tmp_path: Path) -> None:
    journal = FaultyJournal(SqliteJournal(tmp_path / "journal.db"))
    async with beside(tmp_path / "state", journal=journal) as (client, runtime):
        one = await call(client, "Bash", command="true")
        two = await call(client, "Bash", command="true")
        journal.down = True
        result = await call(client, "ProcessList", notices_cursor=two["notices_cursor"])
        assert told(result) == [one["process_id"], two["process_id"]]
        journal.down = False
        assert told(await call(client, "ProcessList", notices_cursor=result["notices_cursor"])) == []
        assert await unsettled(runtime) == []


async def test_a_journal_that_cannot_be_read_at_first_is_no_end(tmp_path: Path) -> None:
    journal = FaultyJournal(SqliteJournal(tmp_path / "journal.db"))
    with anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(tmp_path / "state", journal=journal) as runtime:
            journal.down = True
            async with Client(connected(runtime)) as client:
                assert told(await call(client, "ProcessList")) == []
                journal.down = False
                one = await call(client, "Bash", command="true")
                assert told(one) == [one["process_id"]]


async def test_where_somebody_else_has_taken_the_session_the_server_ends_and_says_so(tmp_path: Path) -> None:
    raised: list[BaseException] = []
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage]()
    with to_server, incoming, outgoing, from_server, anyio.fail_after(HANG_SECONDS):
        async with lastword.open_runtime(tmp_path / "state") as runtime:

            async def keep() -> None:
                try:
                    await serve(runtime, Replayed((), incoming), outgoing)
                except BaseException as error:
                    raised.append(error)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(keep)
                await anyio.wait_all_tasks_blocked()
                other = SqliteJournal(tmp_path / "state" / "journal.db")
                other.open(runtime.session.session_id)
                other.close()
                await runtime.start("true")
            assert [type(error) for error in raised] == [JournalFencedError]


async def test_a_client_that_never_confirms_is_told_of_the_oldest_and_that_more_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_tools, "_NOTICE_SECONDS", 1e6)  # for what cannot come, nothing waits
    limits = lastword.Limits(running_per_loop=100, running_per_session=100, spool_bytes=1 << 20)
    async with beside(tmp_path / "state", limits=limits) as (client, runtime):
        count = runtime.loop.capacity + 3

        async def run() -> None:
            await (await runtime.start("true")).wait()

        async with anyio.create_task_group() as tasks:
            for _ in range(count):
                tasks.start_soon(run)
        await runtime.supervisor.outbox.wait_empty()
        handles = [each.process_handle for each in await runtime.pending()]
        oldest = await call(client, "ProcessList")
        assert told(oldest) == handles[:-3]
        assert oldest["notices_waiting"] == 3
        rest = await call(client, "ProcessList", notices_cursor=oldest["notices_cursor"])
        while len(told(rest)) < 3:  # they move up one after the other
            rest = await call(client, "ProcessList")
        assert told(rest) == handles[-3:]
        assert "notices_waiting" not in rest
