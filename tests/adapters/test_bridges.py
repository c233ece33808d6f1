"""The bridges where their SDKs are not installed; `make bridges` runs them against the real ones."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from lastword.adapters.bridges.anthropic import anthropic_results, anthropic_tools
from lastword.adapters.bridges.langchain import langchain_tools, notices_middleware
from lastword.adapters.bridges.openai_agents import function_tools, shell_executor, status_of
from lastword.adapters.bridges.pydantic_ai import pydantic_ai_toolset
from lastword.adapters.tools import ToolSpec

SDKS = ("agents", "openai", "langchain", "langchain_core", "pydantic_ai", "anthropic", "mcp")


async def echo(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"error": "none", "said": arguments}


SPEC = ToolSpec(name="Echo", description="Says it again.", input_schema={"type": "object"}, handler=echo)


def test_importing_tools_and_bridges_imports_no_sdk() -> None:
    names = ["tools", *(f"bridges.{name}" for name in ("anthropic", "langchain", "openai_agents", "pydantic_ai"))]
    program = (
        f"import sys, importlib\nfor name in {names!r}: importlib.import_module('lastword.adapters.' + name)\n"
        f"print([name for name in {SDKS!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("make", "distribution"),
    [
        (lambda: langchain_tools([SPEC]), "langchain-core"),
        (lambda: notices_middleware(None), "langchain"),  # type: ignore[arg-type]  # it does not come so far
        (lambda: function_tools([SPEC]), "openai-agents"),
        (lambda: pydantic_ai_toolset([SPEC]), "pydantic-ai-slim"),
    ],
)
def test_without_its_sdk_a_bridge_says_what_to_install(make: Any, distribution: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"pip install {distribution}$"):
        make()


def test_a_shell_needs_the_tool_that_runs_it() -> None:
    with pytest.raises(ValueError, match="native profile"):
        shell_executor([SPEC])


async def test_anthropic_needs_no_sdk() -> None:
    assert anthropic_tools([SPEC]) == [
        {"name": "Echo", "description": "Says it again.", "input_schema": {"type": "object"}}
    ]
    block = {"type": "tool_use", "id": "a", "name": "Echo", "input": {"x": "é"}}
    assert await anthropic_results([SPEC], [{"type": "text", "text": "so"}, block, block | {"name": "Other"}]) == [
        {
            "type": "tool_result",
            "tool_use_id": "a",
            "content": '{"error": "none", "said": {"x": "é"}}',
            "is_error": True,
        }
    ]


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ({"exit_code": 0}, 0),
        ({"exit_code": 3}, 3),
        ({"exit_code": None, "signal": "SIGTERM"}, 143),
        ({"exit_code": None, "signal": "signal 77"}, 125),
        ({"exit_code": None, "status": "timed_out", "signal": "SIGKILL"}, 124),
        ({"error": "spawn_failed", "kind": "not_found"}, 127),
        ({"error": "invalid_arguments"}, 125),
    ],
)
def test_every_result_has_a_code_for_those_who_need_one(result: dict[str, Any], code: int) -> None:
    assert status_of(result) == code
