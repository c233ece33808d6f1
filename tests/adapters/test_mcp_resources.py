"""Processes as resources, for clients that show or attach them."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from mcp import Client, MCPError
from mcp_ground import GENERATIONS, background, beside, call, ended
from mcp_types import TextResourceContents

import lastword


async def contents(client: Client, uri: str) -> list[TextResourceContents]:
    """What reading it gives."""
    read = await client.read_resource(uri)
    for part in read.contents:
        assert isinstance(part, TextResourceContents)
    return read.contents  # type: ignore[return-value]  # each was looked at


async def refused(client: Client, uri: str) -> tuple[int, str, Any]:
    """How reading it is refused."""
    with pytest.raises(MCPError) as caught:
        await client.read_resource(uri)
    return caught.value.error.code, caught.value.error.message, caught.value.error.data


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_a_process_is_listed_and_read_with_its_record_and_its_output(generation: str) -> None:
    async with beside(None, generation) as (client, _):
        assert (await client.list_resources()).resources == []
        one = (await call(client, "Bash", command="echo ready; exit 3"))["process_id"]
        two = await background(client, "exec sleep 300")
        listed = (await client.list_resources()).resources
        assert [(each.uri, each.description) for each in listed] == [
            (f"process://{one}", "exited 3"),
            (f"process://{two}", "running"),
        ]
        record, output = await contents(client, listed[0].uri)
        assert (record.uri, record.mime_type) == (f"process://{one}", "application/json")
        shown = json.loads(record.text)
        assert (shown["process_id"], shown["status"], shown["exit_code"]) == (one, "exited", 3)
        assert (output.uri, output.mime_type, output.text) == (f"process://{one}/output", "text/plain", "ready\n")
        assert await contents(client, output.uri) == [output]


async def test_the_templates_make_the_addresses() -> None:
    async with beside(None) as (client, _):
        handle = (await call(client, "Bash", command="echo x"))["process_id"]
        templates = (await client.list_resource_templates()).resource_templates
        uris = [each.uri_template.replace("{process_id}", handle) for each in templates]
        assert [len(await contents(client, uri)) for uri in uris] == [2, 1]


async def test_of_much_output_the_end_is_shown() -> None:
    async with beside(None, limits=lastword.Limits(inline_bytes=1024)) as (client, _):
        handle = await background(client, "seq 1 10000")
        await ended(client, handle)
        record, output = await contents(client, f"process://{handle}")
        assert output.text.endswith("\n9999\n10000\n")
        assert len(output.text) <= 1024
        shown = json.loads(record.text)
        assert shown["next_cursor"] == shown["total_bytes"] == len("".join(f"{n}\n" for n in range(1, 10001)))


async def test_somebody_elses_process_is_refused_exactly_like_one_that_never_was() -> None:
    async with beside(None) as (client, runtime):
        process = await runtime.start("true", owner=runtime.session.open_loop(uuid4()))
        never = "A" * len(process.handle)
        theirs = await refused(client, f"process://{process.handle}")
        assert theirs == await refused(client, f"process://{never}")
        assert theirs == await refused(client, f"process://{process.handle}/output")
        assert (await client.list_resources()).resources == []


@pytest.mark.parametrize(
    "uri", ["process:", "process://", "file:///etc/passwd", "process://a/b/c", "x", "process://%00"]
)
async def test_what_is_no_address_is_refused(uri: str) -> None:
    async with beside(None) as (client, _):
        code, message, _data = await refused(client, uri)
        assert code == -32602
        assert message.startswith("the uri ")
