"""The table of README.md says which tiers each case is run by; the tests say the same."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent

WORDS = {"every_tier": "all", "contained": "contained", "group_tier": "group"}


def _tests() -> dict[str, set[str]]:
    """What the decorators of each case's tests say."""
    said: dict[str, set[str]] = {}
    for path in HERE.glob("test_*.py"):
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if (case := re.match(r"test_c(\d+)_", node.name)) is not None:
                names = {decorator.id for decorator in node.decorator_list if isinstance(decorator, ast.Name)}
                tiers = {WORDS[name] for name in names & WORDS.keys()} or {"strongest"}
                said.setdefault(f"C{case[1]}", set()).update(tiers)
    return said


def _rows() -> dict[str, set[str]]:
    """What the table says."""
    found = re.findall(r"^\| (C\d+) \| ([a-z, ]+) \|", (HERE / "README.md").read_text(), re.MULTILINE)
    assert len(found) == len(dict(found))
    return {case: set(tiers.split(", ")) for case, tiers in found}


def test_every_case_is_run_by_the_tiers_that_the_table_names() -> None:
    assert _rows() == _tests()
