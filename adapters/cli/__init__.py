"""The `lastword` command.  Importing this costs nothing: click and the core are loaded when the command runs."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its code; 2 with one line on stderr where the extra is not installed."""
    try:
        from ._app import app
    except ModuleNotFoundError as error:
        if error.name not in {"click", "rich"}:
            raise
        print("lastword: the command needs an extra: pip install 'lastword[cli]'", file=sys.stderr)  # noqa: T201 -- a command
        raise SystemExit(2) from None
    app(prog_name="lastword")
