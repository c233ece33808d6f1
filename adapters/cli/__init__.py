"""The `lastword` command.  Importing this costs nothing: click and the core are loaded when the command runs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (None: of this process) and exit with its code; never a traceback.

    Exits with 2, and one line on stderr, where the extra is not installed.
    """
    hear = _deaf_interrupts()
    try:
        from ._boundary import run_to_exit
    except ModuleNotFoundError as error:
        hear()
        if error.name not in {"click", "rich"}:
            raise
        print("lastword: the command needs an extra: pip install 'lastword[cli]'", file=sys.stderr)  # noqa: T201 -- a command
        raise SystemExit(2) from None
    run_to_exit(arguments, hear)


def _deaf_interrupts() -> Callable[[], object]:
    """Until what is returned is called a Ctrl-C ends this program at once: in the middle of an import Python would show
    a traceback.  What it is started to ignore, or somebody else hears, stays so.
    """
    import signal

    with contextlib.suppress(ValueError):  # not the main thread, which is told nothing
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            return partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    return lambda: None
