"""A fresh interpreter that runs the room of the shims: a zygote, or one that becomes a job with a terminal.

Isolated, without site: that room is the only thing that it imports beside the standard library.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

_ROOM: Final = str(Path(__file__).parents[1])

# Where the interpreter itself may need it to find its own library.
_KEPT_VARIABLES: Final = ("LD_LIBRARY_PATH",)


def bootstrap(module: str, function: str) -> str:
    """Python text that calls `function` of `module` (of the room) with the numbers on its command line."""
    return (
        f"import sys; sys.path.insert(0, sys.argv[1]); from shim.{module} import {function}; "
        f"del sys.path[0]; {function}(*map(int, sys.argv[2:]))"
    )


def interpreter_command(program: str, *numbers: int) -> list[str]:
    """What to execute for it to run `program`, a `bootstrap`, with these numbers."""
    return [sys.executable or "", "-I", "-S", "-c", program, _ROOM, *map(str, numbers)]


def interpreter_environment() -> dict[str, str]:
    """All that it is given of the host's variables."""
    return {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
