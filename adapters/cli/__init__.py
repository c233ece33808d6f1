"""The `lastword` command.  Importing this costs nothing: click and the core are loaded when the command runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (None: of this process) and exit with its code; never a traceback.

    Exits with 2, and one line on stderr, where the extra is not installed.
    """
    try:
        from ._boundary import run_to_exit
    except ModuleNotFoundError as error:
        if error.name not in {"click", "rich"}:
            raise
        print("lastword: the command needs an extra: pip install 'lastword[cli]'", file=sys.stderr)  # noqa: T201 -- a command
        raise SystemExit(2) from None
    run_to_exit(arguments)
