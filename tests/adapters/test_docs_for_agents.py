"""What docs/tools.md and docs/mcp.md print is so: programs run, tables name what there is, samples are real."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from crash_hosts import support_environment
from tool_ground import OUTPUT_KEYS, STATE_KEYS, agent
from tool_values import FORMS

from lastword.adapters.mcp import explained
from lastword.adapters.mcp._tools import CURSOR
from lastword.supervisor import DirectoryInUseError

pytestmark = pytest.mark.checkout

DOCS = Path(__file__).parents[2] / "docs"


@functools.cache
def page(name: str) -> str:
    """Its text."""
    return (DOCS / name).read_text()


def blocks(text: str, language: str) -> list[str]:
    """What is printed in that language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def names(text: str) -> set[str]:
    """What is printed as code."""
    return set(re.findall(r"`(\w+)`", text))


def test_the_first_program_runs_as_it_is_printed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", blocks(page("tools.md"), "python")[0]],
        cwd=tmp_path,
        env=support_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert "'output': 'hello\\n'" in done.stdout
    assert (tmp_path / "jobs").is_dir()


def test_the_native_table_names_every_tool_and_argument() -> None:
    rows = [line.split("|") for line in page("tools.md").splitlines() if line.startswith("| ")]
    table = {row[1].strip(): names(row[2]) for row in rows if row[1].strip() in FORMS["native"]}
    assert table == {name: set(form.schema["properties"]) for name, form in FORMS["native"].items()}


@pytest.mark.parametrize("profile", ["claude", "codex"])
def test_the_other_profiles_are_named_with_every_tool_and_argument(profile: str) -> None:
    (row,) = [line for line in page("tools.md").splitlines() if line.startswith(f"| {profile} |")]
    table = {tool: names(arguments) for tool, arguments in re.findall(r"(\w+) \((.*?)\)", row.split("|")[2])}
    assert table == {name: set(form.schema["properties"]) for name, form in FORMS[profile].items()}


async def test_the_samples_are_what_the_tools_give() -> None:
    result, error = [json.loads(block) for block in blocks(page("tools.md"), "json")]
    assert set(result) == STATE_KEYS | OUTPUT_KEYS
    async with agent() as one:
        assert await one.call("Bash", command="true", timeout=0) == error
        ended = await one.call("Bash", command="echo hello; exit 3")
    volatile = {"process_id": "", "started_at": "", "finished_at": ""}
    assert ended | volatile == result | volatile


def test_clients_are_configured_by_what_is_printed() -> None:
    first, second, sample = [json.loads(block) for block in blocks(page("mcp.md"), "json")]
    (third,) = [tomllib.loads(block) for block in blocks(page("mcp.md"), "toml")]
    command = {"command": "lastword", "args": ["mcp"]}
    assert first == {"mcpServers": {"lastword": command}}
    assert second == {"servers": {"lastword": {"type": "stdio", **command}}}
    assert third == {"mcp_servers": {"lastword": command}}
    assert set(sample["notices"][0]) == {"process_id", "status", "reason", "exit_code"}
    assert re.fullmatch(r"\d+-[0-9a-f]{4}-[0-9a-f]{10}", sample[CURSOR])


def test_what_a_second_server_is_told_is_printed() -> None:
    assert f"    lastword: {explained(DirectoryInUseError('another process'))}\n" in page("mcp.md")
