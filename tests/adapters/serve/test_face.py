"""The room's face: lazy, complete, and a client that needs little of the core."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lastword.adapters.serve as face


def test_the_lazy_table_names_what_the_type_checker_sees() -> None:
    tree = ast.parse(Path(face.__file__).read_text())
    seen = {
        alias.asname
        for block in tree.body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == set(face.__all__) == set(dir(face))
    for name in face.__all__:
        assert getattr(face, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        face.conect  # noqa: B018 -- the misspelling is the test


def test_a_client_needs_neither_supervisor_nor_session() -> None:
    program = "import sys, lastword.adapters.serve as s; s.connect, s.resolve, s.RequestError; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "lastword.adapters.serve._client" in loaded
    assert not {"lastword.supervisor", "lastword.session", "lastword._runtime", "sqlite3"} & set(loaded)
