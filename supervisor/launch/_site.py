"""Where a launcher works: what it waits by, and the folder whose jobs it keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, final

import attrs

from .._reactor import Reactor
from .._timers import Timers

if TYPE_CHECKING:
    from ._launcher import Launcher

GROUP_PREFIX: Final = "lastword-"
"""How the name of a supervisor's own control group begins; 16 hexadecimal digits follow."""

KEEPERS_LOCK: Final = "shims.lock"
"""The file in a supervisor's folder that shims hold for as long as they live; in it, ended by NUL, their groups."""


@final
@attrs.frozen(kw_only=True)
class LaunchSite:
    """A supervisor's reactor, timers and folder; `temporary`: the folder is to be gone when the supervisor is."""

    reactor: Reactor
    timers: Timers
    folder: Path
    temporary: bool


LauncherFactory: TypeAlias = "Callable[[LaunchSite], Launcher]"
"""Makes a launcher for one supervisor."""
