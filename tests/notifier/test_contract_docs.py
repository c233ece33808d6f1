"""What the docs show of the contract is what the code goes by."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lastword.notifier import TRANSITIONS, ProcessState

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = pytest.mark.checkout  # the docs and their scripts are not in an installed wheel


def script(name: str) -> Any:
    """A script of docs/, as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_state_diagram_is_drawn_from_the_table() -> None:
    """The committed one equals what the table gives now."""
    diagram = script("state_diagram")
    assert diagram.TARGET.read_text(encoding="utf-8") == diagram.draw(), "run: python docs/state_diagram.py"


def test_the_state_diagram_shows_every_state_and_every_step() -> None:
    """As many boxes as states, as many lines as steps, and no line through a box that it does not end at."""
    diagram = script("state_diagram")
    drawn = ElementTree.fromstring(diagram.draw())
    svg = "{http://www.w3.org/2000/svg}"
    assert {state.name.lower() for state in ProcessState} == {text.text for text in drawn.iter(f"{svg}text")}
    lines = [path.attrib["d"] for path in drawn.findall(f"{svg}path")]
    assert sum(map(len, TRANSITIONS.values())) == len(lines)
    assert len(set(lines)) == len(lines)
    boxes = [{key: int(rect.attrib[key]) for key in ("x", "y", "width", "height")} for rect in drawn.iter(f"{svg}rect")]
    for line in lines:
        level = re.search(r" (\d+) (\d+) L(\d+) (\d+)$", line)
        if level:
            begin, height, end, _ = map(int, level.groups())
            for box in boxes:
                passes = begin < box["x"] + box["width"] and box["x"] < end
                assert not (passes and box["y"] <= height <= box["y"] + box["height"])


def test_the_tables_are_printed_from_the_code() -> None:
    """The committed ones equal what the code gives now."""
    for path, text in script("contract_tables").files().items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/contract_tables.py"


def test_every_name_that_the_page_shows_as_code_is_there() -> None:
    """Names of classes and functions; fields are tested by the rules' own tests."""
    import lastword.notifier

    page = (DOCS / "contract.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)", page)) | set(
        re.findall(r"`((?:encode|decode|validate|build)_\w+|advance|[A-Z]+_?[A-Z]{3,})\b", page)
    )
    assert len(names) > 25
    missing = {name for name in names - {"UUID"} if not hasattr(lastword.notifier, name)}
    assert missing == set()
