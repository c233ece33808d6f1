"""The parts of the MCP server that decide and do nothing: lines, names, addresses, directories."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCResponse

from lastword.adapters.cli._app import app
from lastword.adapters.cli._mcp import mcp, wanted_state
from lastword.adapters.mcp import client_directory
from lastword.adapters.mcp._lines import LineSplitter
from lastword.adapters.mcp._opening import client_name
from lastword.adapters.mcp._transport import encoded
from lastword.adapters.mcp._uris import output_uri, parse_uri, process_uri


def test_what_cannot_be_written_as_json_is_an_error_for_whoever_asked(caplog: pytest.LogCaptureFixture) -> None:
    answer = JSONRPCResponse(jsonrpc="2.0", id=7, result={"output": "\ud800"})
    written = json.loads(encoded(answer))
    assert (written["id"], written["error"]["code"]) == (7, -32603)
    assert "cannot be written" in caplog.text


def test_without_the_extra_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['mcp'] = None\nfrom lastword.adapters.mcp import take_wire, serve_client\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: the MCP server needs an extra: pip install 'lastword[mcp]'"
    )


HOME = {"XDG_STATE_HOME": "/home/anna/.state"}


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(min_value=0, max_value=200)))
def test_lines_are_the_same_however_the_bytes_come(lines: list[bytes], cuts: list[int]) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    whole = b"\n".join(lines)
    splitter, found = LineSplitter(limit=8), list[bytes | None]()
    at = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    for start, end in pairwise(at):
        found += splitter.feed(whole[start:end])
    found += splitter.finish()
    assert found == [line if len(line) <= 8 else None for line in lines if line]


def test_of_a_line_that_is_too_long_nothing_is_kept() -> None:
    splitter = LineSplitter(limit=1000)
    for _ in range(1000):
        assert splitter.feed(b"x" * 999) == []
        assert len(splitter._begun) <= 1000  # pyright: ignore[reportPrivateUsage]  # the point
    assert splitter.feed(b"\nnext\n") == [None, b"next"]


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("initialize", {"clientInfo": {"name": "Claude Code", "version": "2"}}, "Claude Code"),
        ("server/discover", {"_meta": {"io.modelcontextprotocol/clientInfo": {"name": "cursor"}}}, "cursor"),
        ("tools/call", {"_meta": {"io.modelcontextprotocol/clientInfo": {"name": "x"}}, "name": "Bash"}, "x"),
        ("initialize", {"_meta": {"io.modelcontextprotocol/clientInfo": {"name": "liar"}}}, "client"),
        ("server/discover", {"_meta": {}}, "client"),
        ("ping", None, "client"),
        ("initialize", {"clientInfo": "nobody"}, "client"),
        ("initialize", {"clientInfo": {"name": ["x"]}}, "client"),
        ("initialize", {"clientInfo": {"name": ""}}, "client"),
        ("server/discover", {"_meta": 7}, "client"),
    ],
)
def test_a_client_has_the_name_by_which_it_introduces_itself(
    method: str, params: dict[str, Any] | None, name: str
) -> None:
    assert client_name(method, params) == name


def test_each_client_has_its_own_directory_in_each_folder_and_always_the_same() -> None:
    directory = client_directory("Claude Code", "/src/shop", HOME)
    assert directory.parent == Path("/home/anna/.state/lastword-mcp")
    assert directory.name.startswith("claude-code-")
    assert client_directory("Claude Code", "/src/shop", HOME) == directory
    others = [("Claude Code", "/src/shop2"), ("claude code", "/src/shop"), ("Cursor", "/src/shop")]
    assert len({directory, *(client_directory(name, folder, HOME) for name, folder in others)}) == 4
    assert client_directory("ab", "c", HOME).name[-16:] != client_directory("a", "bc", HOME).name[-16:]


@pytest.mark.parametrize("name", ["../../etc", "", "/", "名前", "a" * 300, "\0", "\ud800", "x\n"])
def test_whatever_a_client_calls_itself_its_directory_is_one_plain_name(name: str) -> None:
    directory = client_directory(name, "/src", HOME)
    assert directory.parent == Path("/home/anna/.state/lastword-mcp")
    assert directory.name.isascii()
    assert directory.name.replace("-", "").isalnum()
    assert len(directory.name) <= 64


def test_without_an_absolute_xdg_state_home_it_is_in_the_home_directory() -> None:
    for base in ({}, {"XDG_STATE_HOME": ""}, {"XDG_STATE_HOME": "relative"}):
        assert client_directory("x", "/", {"HOME": "/home/bert"} | base).is_relative_to(
            "/home/bert/.local/state/lastword-mcp"
        )


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (["mcp"], None),
        (["--state", "there", "mcp"], "there"),
        (["mcp", "--state", "here"], "here"),
        (["--state", "there", "mcp", "--state", "here"], "here"),
    ],
)
def test_a_directory_is_the_one_that_the_line_names_and_never_one_that_is_inherited(
    monkeypatch: pytest.MonkeyPatch, line: list[str], wanted: str | None
) -> None:
    monkeypatch.setenv("LASTWORD_STATE", "everybodys")
    with (
        app.make_context("lastword", line) as root,
        mcp.make_context("mcp", line[line.index("mcp") + 1 :], root) as own,
    ):
        assert wanted_state(own, own.params["state"]) == wanted


@pytest.mark.parametrize("state", ["", "a\0b"])
def test_a_directory_that_has_no_name_is_refused(state: str) -> None:
    with (
        app.make_context("lastword", ["mcp"]) as root,
        mcp.make_context("mcp", [], root) as own,
        pytest.raises(click.UsageError, match="name is empty"),
    ):
        wanted_state(own, state)


@given(st.text("ABCabc012-_", min_size=1, max_size=22))
def test_an_address_names_its_process_and_the_part_of_it(handle: str) -> None:
    assert parse_uri(process_uri(handle)) == (handle, "all")
    assert parse_uri(output_uri(handle)) == (handle, "output")


@given(st.text())
def test_any_text_can_be_parsed(text: str) -> None:
    found = parse_uri(text)
    assert (found is None) == (not text.startswith("process://"))
