"""The room of the shims stands alone: what a zygote imports is the standard library, and little of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lastword.supervisor.shim

_ROOM = Path(lastword.supervisor.shim.__file__).parent

# Each costs the first start of every supervisor milliseconds, and every shim memory.
_HEAVY = {"typing", "pathlib", "dataclasses", "subprocess", "asyncio", "logging", "attr", "anyio", "lastword"}


def test_a_zygote_imports_nothing_but_the_standard_library_and_nothing_heavy() -> None:
    """As it is started: isolated, without site, with the room's parent on the path for as long as it imports."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from shim._zygote import main; "
        "del sys.path[0]; print(*sys.modules)"
    )
    command = [sys.executable, "-I", "-S", "-c", program, str(_ROOM.parent)]
    imported = set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=200).stdout.split())
    needed = {f"shim.{file.stem}" for file in _ROOM.glob("_*.py")} - {"shim.__init__", "shim._ports"}  # types alone
    assert needed <= imported
    ours = {name for name in imported if name.split(".")[0] == "shim"}
    assert {name.split(".")[0] for name in imported - ours} <= sys.stdlib_module_names | {"__main__"}
    assert imported & _HEAVY == set()
