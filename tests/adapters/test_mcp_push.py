"""A client that listens is told of an end at once, in both generations of the protocol; and of new processes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent
from mcp_ground import GENERATIONS, background, beside, call, ended
from mcp_types import ResourceListChangedNotification, ResourceUpdatedNotification

pytestmark = pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed as of 2026-07-28")
"""The older generation is what is tested, and the SDK's client warns of it."""


class Ear:
    """What a client of either generation has heard."""

    def __init__(self, generation: str) -> None:
        self.generation = generation
        self._heard, self.heard = anyio.create_memory_object_stream[ServerEvent](100)

    async def on_message(self, message: object) -> None:
        """The older generation's: everything that the server sends by itself."""
        if isinstance(message, ResourceUpdatedNotification):
            await self._heard.send(ResourceUpdated(uri=message.params.uri))
        elif isinstance(message, ResourceListChangedNotification):
            await self._heard.send(ResourcesListChanged())

    @asynccontextmanager
    async def listening(self, client: Client, *uris: str, lists: bool = False) -> AsyncGenerator[Any]:
        """Listen to these, as the generation does it; the stream of what is heard."""
        if self.generation == "legacy":
            for uri in uris:
                await client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated]  # see above
            if lists:
                await client.list_resources()
            yield self.heard
            for uri in uris:
                await client.unsubscribe_resource(uri)  # pyright: ignore[reportDeprecated]  # see above
        else:
            listen = client.listen(resource_subscriptions=uris, resources_list_changed=lists)
            async with listen as subscription:
                yield subscription

    def close(self) -> None:
        self._heard.close()
        self.heard.close()


@asynccontextmanager
async def hearing(state: Path | None, generation: str) -> AsyncGenerator[tuple[Client, Ear]]:
    """A client with an ear."""
    ear = Ear(generation)
    try:
        async with beside(state, generation, message_handler=ear.on_message) as (client, _):
            yield client, ear
    finally:
        ear.close()


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_an_end_is_pushed_and_the_resource_tells_it_then(tmp_path: Path, generation: str) -> None:
    gate = tmp_path / "gate"
    async with hearing(None, generation) as (client, ear):
        handle = await background(client, f"until [ -e '{gate}' ]; do sleep 0.01; done; exit 4")
        async with ear.listening(client, f"process://{handle}") as events:
            gate.touch()
            assert await anext(events) == ResourceUpdated(uri=f"process://{handle}")
            (resource,) = (await client.list_resources()).resources
            assert resource.description == "exited 4"


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_what_had_ended_before_is_pushed_at_once(generation: str) -> None:
    async with hearing(None, generation) as (client, ear):
        handle = await background(client, "true")
        await ended(client, handle)
        async with ear.listening(client, f"process://{handle}") as events:
            assert await anext(events) == ResourceUpdated(uri=f"process://{handle}")


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_who_listens_to_the_output_alone_is_told_as_well(tmp_path: Path, generation: str) -> None:
    gate = tmp_path / "gate"
    async with hearing(None, generation) as (client, ear):
        handle = await background(client, f"until [ -e '{gate}' ]; do sleep 0.01; done")
        async with ear.listening(client, f"process://{handle}/output") as events:
            gate.touch()
            assert await anext(events) == ResourceUpdated(uri=f"process://{handle}/output")


@pytest.mark.parametrize("uri", ["process://" + "A" * 22, "process://", "file:///etc/passwd", "x" * 100_000])
async def test_nobody_subscribes_to_what_is_no_process_of_theirs(uri: str) -> None:
    """It would be waited for in vain, and kept for ever."""
    async with hearing(None, "legacy") as (client, _):
        with pytest.raises(MCPError, match="the uri "):
            await client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated]  # see above


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_what_was_left_by_an_earlier_life_is_pushed_to_who_listens(tmp_path: Path, generation: str) -> None:
    async with hearing(tmp_path / "state", generation) as (client, _):
        handle = await background(client, "exec sleep 300")
    async with (
        hearing(tmp_path / "state", generation) as (client, ear),
        ear.listening(client, f"process://{handle}") as events,
    ):
        assert await anext(events) == ResourceUpdated(uri=f"process://{handle}")


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_only_what_was_asked_for_is_pushed(tmp_path: Path, generation: str) -> None:
    async with hearing(None, generation) as (client, ear):
        handle = await background(client, f"until [ -e '{tmp_path}/gate' ]; do sleep 0.01; done")
        async with ear.listening(client, f"process://{handle}") as events:
            await ended(client, await background(client, "true"))
            Path(tmp_path, "gate").touch()
            assert await anext(events) == ResourceUpdated(uri=f"process://{handle}")


async def test_a_client_of_the_older_protocol_that_unsubscribes_hears_no_more(tmp_path: Path) -> None:
    async with hearing(None, "legacy") as (client, ear):
        command = "until [ -e '{}' ]; do sleep 0.01; done"
        quiet = await background(client, command.format(tmp_path / "quiet"))
        handle = await background(client, command.format(tmp_path / "loud"))
        async with ear.listening(client, f"process://{handle}"):
            async with ear.listening(client, f"process://{quiet}"):
                pass
            (tmp_path / "quiet").touch()
            await ended(client, quiet)
            (tmp_path / "loud").touch()
            assert await anext(ear.heard) == ResourceUpdated(uri=f"process://{handle}")


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_a_new_process_is_pushed_as_a_change_of_the_list(generation: str) -> None:
    async with hearing(None, generation) as (client, ear), ear.listening(client, lists=True) as events:
        handle = (await call(client, "Bash", command="true"))["process_id"]
        assert await anext(events) == ResourcesListChanged()
        assert [each.uri for each in (await client.list_resources()).resources] == [f"process://{handle}"]
