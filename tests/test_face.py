"""The face: lazy, complete, and the same to people, programs and type checkers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lastword


def test_every_name_of_the_face_resolves_to_its_home() -> None:
    for name in lastword.__all__:
        value = getattr(lastword, name)
        assert value.__name__ == name
        assert value.__module__.startswith("lastword.")


def test_the_lazy_table_names_what_the_type_checker_sees() -> None:
    tree = ast.parse(Path(lastword.__file__).read_text())
    seen = {
        alias.asname
        for block in tree.body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == set(lastword.__all__)
    assert set(lastword.__all__) <= set(dir(lastword))
    assert lastword.__all__ == sorted(lastword.__all__)


def test_a_name_that_does_not_exist_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'opne_runtime'"):
        lastword.opne_runtime  # noqa: B018 -- the misspelling is the test


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import lastword", ("anyio", "attrs", "sqlite3", "lastword.session")),
        ("import lastword; lastword.open_runtime", ("trio", "click", "rich", "pytest")),
    ],
    ids=["the face alone", "the core"],
)
def test_what_an_import_does_not_load(statement: str, absent: tuple[str, ...]) -> None:
    program = f"import sys; {statement}; print(*(name for name in {absent!r} if name in sys.modules))"
    # -S -s -E would hide the installed package; a fresh interpreter is enough, with the same path.
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []
