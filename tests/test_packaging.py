"""The root is the package: four lists name its parts, and every file is loaded under one name."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import lastword

ROOT = Path(lastword.__file__).resolve().parent
NOT_PACKAGED = {"tests", "examples", "bench", "docs", "requirements", "dist"}


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def _wheel_list() -> set[str]:
    return set(_project()["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"])


@pytest.mark.checkout
def test_the_wheel_list_names_every_module_and_package_of_the_root() -> None:
    modules = {path.name for path in ROOT.glob("*.py")}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - NOT_PACKAGED
    assert _wheel_list() == modules | packages | {"py.typed"}


@pytest.mark.checkout
def test_the_sdist_holds_the_wheel_and_all_that_builds_and_proves_it() -> None:
    sdist = set(_project()["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"])
    assert sdist - _wheel_list() == {
        "tests",
        "examples",
        "bench",
        "docs",
        "Makefile",
        ".ci",
        "requirements",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
    }
    assert _wheel_list() <= sdist
    assert all((ROOT / name).exists() for name in sdist)


@pytest.mark.checkout
def test_the_type_checker_sees_the_wheel_and_what_uses_it() -> None:
    include = set(_project()["tool"]["pyright"]["include"])
    assert include == _wheel_list() - {"py.typed"} | {"tests", "examples", "bench"}


@pytest.mark.checkout
def test_the_editable_links_are_the_wheel_list() -> None:
    folder = ROOT / ".import" / "lastword"
    links = {path.name: path for path in folder.iterdir() if path.name != "__pycache__"}  # Python's, where it may write
    assert set(links) == _wheel_list()
    assert all(path.is_symlink() and path.resolve() == ROOT / name for name, path in links.items())


@pytest.mark.checkout
def test_no_requirement_file_names_a_registry_host() -> None:
    for path in (ROOT / "requirements").iterdir():
        assert "://" not in path.read_text(), path.name


EVERY_MODULE = """
import importlib, pkgutil, lastword
for module in pkgutil.walk_packages(lastword.__path__, "lastword."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        print(module.name)
"""


def test_every_module_is_there_and_can_be_imported() -> None:
    """A part that the wheel lacks would fail for its users alone."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EVERY_MODULE], capture_output=True, text=True, timeout=100, check=True
    )
    assert {
        f"lastword.{name}" for name in ("session", "adapters.cli", "adapters.mcp", "supervisor.shim._zygote")
    } <= set(done.stdout.split())


def test_every_library_file_is_loaded_under_one_name() -> None:
    library = set(ROOT.glob("*.py"))
    for folder in ("adapters", "notifier", "session", "supervisor"):
        library.update((ROOT / folder).rglob("*.py"))
    names: dict[Path, list[str]] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name != "__main__" and (path := Path(file).resolve()) in library:
            names.setdefault(path, []).append(name)
    assert names
    for path, loaded_as in names.items():
        assert len(loaded_as) == 1, (path, loaded_as)
        assert loaded_as[0].split(".")[0] == "lastword"
