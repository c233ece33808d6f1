"""Who holds the state directory, and the end of that."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from ._errors import CommandFailedError

_LOOK_SECONDS: Final = 0.02

END_SECONDS: Final = 30.0
"""Longer than a server takes to close: its runtime's grace and ten seconds, and its turn."""


def wait_until_gone(state: Path, server: int | None, patience: float) -> None:
    """Return when that process has let go of the directory; who holds it next is nobody to wait for.

    A server answers before it closes, and nobody tells when it has let go: what follows in a script wants the
    directory.  Raises `CommandFailedError` where it has not after `patience` seconds.
    """
    until = time.monotonic() + patience
    while server is not None and holder(state) == server:
        if time.monotonic() >= until:
            raise CommandFailedError(
                "the server has not ended, though it was told to: it is stopped, or stuck; its serve.log may say why, "
                "and killing it ends its jobs, too"
            )
        time.sleep(_LOOK_SECONDS)


def holder(state: Path) -> int | None:
    """Who holds the directory: a process's number, which is shown to nobody; None for nobody."""
    from ...supervisor._directory import holder_of

    return holder_of(state) if state.exists() else None
